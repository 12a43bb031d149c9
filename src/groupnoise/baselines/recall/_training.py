"""One training loop for the neural recommenders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from groupnoise._typing import ProgressCallback
from groupnoise.exceptions import TrainingError


def train(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], Iterable[Tensor]],
    *,
    max_epochs: int,
    patience: int,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
) -> list[dict[str, Any]]:
    """Minimise a loss epoch by epoch; leave the network at its best epoch, in evaluation mode.

    Parameters
    ----------
    network : nn.Module
        What is trained, in place.
    optimizer : Optimizer
        Over the parameters of the network.
    losses : callable
        Called once per epoch; yields the mean loss of each batch.
    max_epochs : int
        The most epochs to train.
    patience : int
        Epochs without a better validation before stopping.
    validate : callable, optional
        Returns a figure to maximise. Without it the last epoch counts as the best.
    on_epoch : callable, optional
        Called with the record of each epoch.

    Returns
    -------
    list of dict
        One record per epoch: epoch, loss, seconds, and validation if there is one.
    """
    history: list[dict[str, Any]] = []
    best, best_epoch = -float("inf"), 0
    best_state: dict[str, Tensor] | None = None
    for epoch in range(1, max_epochs + 1):
        started = time.perf_counter()
        loss = _run_epoch(network, optimizer, losses(), epoch)
        record: dict[str, Any] = {"epoch": epoch, "loss": loss}
        if validate is not None:
            record["validation"] = validate()
            if record["validation"] > best:
                best, best_epoch = record["validation"], epoch
                best_state = {name: value.clone() for name, value in network.state_dict().items()}
        record["seconds"] = time.perf_counter() - started
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)
        if validate is not None and epoch - best_epoch >= patience:
            break
    if best_state is not None:
        network.load_state_dict(best_state)
    network.eval()
    return history


def _run_epoch(
    network: nn.Module, optimizer: torch.optim.Optimizer, losses: Iterable[Tensor], epoch: int
) -> float:
    network.train()
    total, n_batches = 0.0, 0
    for loss in losses:
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item()
        n_batches += 1
    mean = total / n_batches
    if not mean < float("inf"):
        raise TrainingError(
            f"the loss is {mean} in epoch {epoch}; lower learning_rate and fit again."
        )
    return mean

"""The one torch loop of the neural baselines: Adam, mini-batches, the best epoch kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from groupnoise._checks import check_count, check_positive
from groupnoise._typing import ProgressCallback
from groupnoise.exceptions import TrainingError


@contextmanager
def seeded(generator: np.random.Generator) -> Iterator[None]:
    """Let torch draw from a seed of `generator` inside the block, and as before after it.

    Dropout reads torch's global generator and takes no other, so the global state is set aside
    rather than seeded.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator.integers(2**62)))
        yield


def train(
    network: nn.Module,
    batch_loss: Callable[[Tensor], Tensor],
    n_rows: int,
    *,
    max_epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
) -> list[dict[str, Any]]:
    """Minimise a loss over random batches of rows, in place.

    Parameters
    ----------
    network : Module
        What is trained.
    batch_loss : callable
        From the row numbers of a batch to its mean loss, a scalar that leads back to `network`.
    n_rows : int
        How many rows there are.
    max_epochs, batch_size, learning_rate, weight_decay : number
        Adam's; weight decay is added to the gradient.
    validate : callable, optional
        Scores the network, in evaluation mode, after each epoch; the state of the epoch that
        scored best (the earliest of several) is restored at the end.
    on_epoch : callable, optional
        Called with one record per epoch.

    Returns
    -------
    history : list of dict
        The records: epoch, loss, and validation if it was scored.
    """
    check_count("max_epochs", max_epochs)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    check_positive("weight_decay", weight_decay, allow_zero=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    history: list[dict[str, Any]] = []
    best_score, best_state = -np.inf, None
    for epoch in range(1, max_epochs + 1):
        network.train()
        total = 0.0
        for rows in _random_batches(n_rows, batch_size):
            loss = batch_loss(rows)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        if not np.isfinite(total):
            raise TrainingError(
                f"the loss is no longer finite in epoch {epoch}; scale the features or lower "
                "learning_rate."
            )
        network.eval()
        history.append({"epoch": epoch, "loss": total / n_rows})
        if validate is not None:
            history[-1]["validation"] = score = validate()
            if score > best_score:
                best_score, best_state = score, copy.deepcopy(network.state_dict())
        if on_epoch is not None:
            on_epoch(history[-1])
    if best_state is not None:
        network.load_state_dict(best_state)
    return history


def _random_batches(n_rows: int, batch_size: int) -> list[Tensor]:
    """Cut random row numbers into batches; a last row alone joins the batch before.

    Batch normalisation cannot learn from a single row.
    """
    batches = list(torch.randperm(n_rows).split(int(batch_size)))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches

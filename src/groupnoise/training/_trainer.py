"""The training loop: batches in, trained weights out."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from groupnoise._random import torch_generator
from groupnoise._typing import ProgressCallback
from groupnoise.exceptions import TrainingError
from groupnoise.groups import Groups, batch_rows, collate
from groupnoise.matching import MatchingModel
from groupnoise.objectives import GroupObjective, PairMatching
from groupnoise.training._history import History
from groupnoise.training._optimizer import RowAdam, make_optimizers
from groupnoise.training._plan import TrainingPlan


def train(
    model: MatchingModel,
    groups: Groups,
    *,
    pair: PairMatching,
    objective: GroupObjective,
    plan: TrainingPlan,
    generator: np.random.Generator,
    allowed: Tensor | None = None,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
) -> History:
    """Train a model in place and leave it with its best or its last weights.

    Parameters
    ----------
    model : MatchingModel
        What is trained.
    groups : Groups
        Training groups; targets are ids.
    pair, objective : PairMatching, GroupObjective
        The loss.
    plan : TrainingPlan
        Epochs, batch size, learning rate and when to stop.
    generator : numpy Generator
        Decides the order of the groups and every sampled candidate.
    allowed : bool Tensor of shape (n_groups, n_targets), optional
        Targets each group may have, for the absent-class term.
    validate : callable, optional
        Called after each epoch; larger is better. The weights of the best epoch are restored,
        unless the plan keeps the last.
    on_epoch : callable, optional
        Called with the record of each epoch.

    Returns
    -------
    History
        One record per epoch: loss, seconds, learning rate and the validation value.
    """
    draw = torch_generator(generator)
    optimizers = make_optimizers(
        model, learning_rate=plan.learning_rate, weight_decay=plan.weight_decay
    )
    n_steps = plan.max_epochs * math.ceil(len(groups) / plan.batch_size)
    history, best = History(), _Best()
    step = 0
    for epoch in range(1, plan.max_epochs + 1):
        started, summed = time.perf_counter(), 0.0
        model.train()
        for rows in batch_rows(groups.sizes, plan.batch_size, generator):
            progress = step / max(1, n_steps - 1)
            rate = _set_rate(optimizers, plan.rate_at(progress))
            batch = collate(groups, rows)
            output = objective(
                pair(model, batch, draw),
                allowed=None if allowed is None else allowed[batch.rows],
                progress=progress,
            )
            loss = output.per_group.mean()
            value = loss.item()
            if not math.isfinite(value):
                raise TrainingError(
                    f"the loss became {value} in epoch {epoch}, step {step + 1}, in the batch that "
                    f"holds group {rows[0]}. Lower learning_rate ({plan.learning_rate}) or look "
                    "for extreme features in these groups."
                )
            _descend(optimizers, loss)
            summed += value * len(rows)
            step += 1
        _catch_up(optimizers)
        model.eval()
        record = {
            "epoch": epoch,
            "n_epochs": plan.max_epochs,
            "loss": summed / len(groups),
            "learning_rate": rate,
            "seconds": time.perf_counter() - started,
        }
        if validate is not None:
            with torch.no_grad():
                record["validation"] = float(validate())
            best.offer(record["validation"], epoch, model)
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)
        if plan.patience is not None and best.epochs_since(epoch) >= plan.patience:
            break
    if plan.keep == "best":
        best.restore(model)
    history.best_epoch = best.epoch
    return history


class _Best:
    """The weights of the epoch with the best validation value; the first wins ties."""

    def __init__(self) -> None:
        self.value = -math.inf
        self.epoch: int | None = None
        self.state: dict[str, Tensor] | None = None

    def offer(self, value: float, epoch: int, model: MatchingModel) -> None:
        if value > self.value:
            self.value, self.epoch = value, epoch
            self.state = copy.deepcopy(model.state_dict())

    def epochs_since(self, epoch: int) -> int:
        return 0 if self.epoch is None else epoch - self.epoch

    def restore(self, model: MatchingModel) -> None:
        if self.state is not None:
            model.load_state_dict(self.state)


def _set_rate(optimizers: list[Optimizer], rate: float) -> float:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
    return rate


def _descend(optimizers: list[Optimizer], loss: Tensor) -> None:
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()


def _catch_up(optimizers: list[Optimizer]) -> None:
    for optimizer in optimizers:
        if isinstance(optimizer, RowAdam):
            optimizer.catch_up()

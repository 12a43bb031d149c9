"""Steps of a training whose forward and backward pass are written down, without autograd."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from groupnoise.core.batching import GroupBatch
from groupnoise.core.compiled import kernels_for
from groupnoise.core.label_objective import LabelObjective
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import Matcher
from groupnoise.core.table_objective import TableObjective
from groupnoise.training.optimizer import RowAdam


def find_quick_step(
    model: MatchingModel,
    pair: Matcher,
    objective: GroupObjective,
    optimizers: Sequence[Optimizer],
    *,
    n_steps: int = 0,
) -> QuickStep | None:
    """Return the step of a training, None where its parts need autograd.

    `n_steps`: steps of the training; loops are compiled for a long one.
    """
    if len(optimizers) != 1:
        return None
    (optimizer,) = optimizers
    if isinstance(optimizer, RowAdam):
        tables = TableObjective.of(model, pair, objective)
        if tables is None:
            return None
        tables.kernels = kernels_for(n_steps)  # compiled only where they are used
        return TableStep(tables, optimizer)
    labels = LabelObjective.of(model, pair, objective)
    return None if labels is None else LabelStep(labels, optimizer)


class QuickStep(ABC):
    """A step in two halves: the loss of a batch, and the way down."""

    def __init__(self, objective: TableObjective | LabelObjective) -> None:
        self._asked = objective
        self._upstream: Tensor | None = None

    def loss(
        self,
        batch: GroupBatch,
        generator: torch.Generator,
        *,
        weights: Tensor | None = None,
        progress: float = 1.0,
    ) -> float | None:
        """Return the mean loss of a batch, None where it is too large to be taken at once."""
        if not self._asked.takes(batch):
            return None
        losses = self._asked.losses(batch, generator, progress)
        upstream = torch.ones_like(losses) if weights is None else weights.to(losses)
        self._upstream = upstream / len(losses)
        return float(losses @ self._upstream)

    def descend(self) -> None:
        """Move what the batch of the last loss has to do with."""
        assert self._upstream is not None
        upstream, self._upstream = self._upstream, None
        self._move(upstream)

    @abstractmethod
    def _move(self, upstream: Tensor) -> None:
        """Move parameters, given what each loss counts."""


class TableStep(QuickStep):
    """Steps of a recommender of windows: only the rows that were looked up are moved."""

    def __init__(self, objective: TableObjective, optimizer: RowAdam) -> None:
        super().__init__(objective)
        self._objective, self._optimizer = objective, optimizer

    def _move(self, upstream: Tensor) -> None:
        for found in self._objective.gradients(upstream):
            self._optimizer.move_rows(found, self._objective.kernels)


class LabelStep(QuickStep):
    """Steps of a classifier of rows with candidate labels."""

    def __init__(self, objective: LabelObjective, optimizer: Optimizer) -> None:
        super().__init__(objective)
        self._objective, self._optimizer = objective, optimizer

    def _move(self, upstream: Tensor) -> None:
        self._objective.find_gradients(upstream)
        self._optimizer.step()

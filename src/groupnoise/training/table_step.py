"""A training step on tables whose rows are moved by RowAdam, without autograd in between."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from groupnoise.core.batching import GroupBatch
from groupnoise.core.compiled import kernels_for
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import Matcher
from groupnoise.core.table_objective import TableObjective
from groupnoise.training.optimizer import RowAdam


class TableStep:
    """Steps of a recommender of windows; what does not fit is left to autograd.

    `objective`: the loss, and its gradient by rows.
    `optimizer`: moves the rows.
    """

    def __init__(self, objective: TableObjective, optimizer: RowAdam) -> None:
        self._objective, self._optimizer = objective, optimizer
        self._upstream: Tensor | None = None

    @classmethod
    def of(
        cls,
        model: MatchingModel,
        pair: Matcher,
        objective: GroupObjective,
        optimizers: Sequence[Optimizer],
        *,
        n_steps: int = 0,
    ) -> TableStep | None:
        """Return the step of a training, None where its parts need autograd.

        `n_steps`: steps of the training; loops are compiled for a long one.
        """
        if len(optimizers) != 1 or type(optimizers[0]) is not RowAdam:
            return None
        found = TableObjective.of(model, pair, objective)
        if found is None:
            return None
        found.kernels = kernels_for(n_steps)  # compiled only where they are used
        return cls(found, optimizers[0])

    def loss(
        self,
        batch: GroupBatch,
        generator: torch.Generator,
        *,
        weights: Tensor | None = None,
        progress: float = 1.0,
    ) -> float | None:
        """Return the mean loss of a batch, None where it is too large to be taken at once.

        `generator`: decides what is sampled. `weights`: multiply the losses of the groups.
        `progress`: how much of the training is done, for schedules.
        """
        if not self._objective.takes(batch):
            return None
        losses = self._objective.losses(batch, generator, progress)
        upstream = torch.ones_like(losses) if weights is None else weights.to(losses)
        self._upstream = upstream / len(losses)
        return float(losses @ self._upstream)

    def descend(self) -> None:
        """Move the rows that the batch of the last loss has looked up."""
        assert self._upstream is not None
        upstream, self._upstream = self._upstream, None
        for found in self._objective.gradients(upstream):
            self._optimizer.move_rows(found, self._objective.kernels)

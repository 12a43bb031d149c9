"""What the training loop asks of the processes that share one training.

Every worker holds the same plan, draws the same order of groups and the same candidates from the
same generators, and takes its part of each batch; together they make the steps one would make.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from groupnoise.core.arrays import IntArray
from groupnoise.core.model import MatchingModel, item_model


class Workers(Protocol):
    """The processes of one training, as seen from one of them.

    `rank`: which of the workers this one is; the first, 0, calls `on_epoch` and decides when to
        save.
    `count`: how many there are.
    """

    @property
    def rank(self) -> int:
        """Which of the workers this one is."""
        ...

    @property
    def count(self) -> int:
        """How many workers there are."""
        ...

    def rows(self, batch_rows: IntArray) -> IntArray:
        """Return the rows of a batch that this worker matches; never none."""
        ...

    def loss(self, per_group: Tensor, batch_rows: IntArray) -> Tensor:
        """Return this worker's part of the batch's mean loss, a scalar with a gradient.

        `per_group`: the losses of the groups that :meth:`rows` returned. `batch_rows`: the rows of
        the whole batch.
        """
        ...

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return each value summed over all workers, the same on every one."""
        ...

    def sync(self, model: MatchingModel) -> None:
        """Sum the gradients of parameters that every worker holds; before each step."""
        ...

    def wait(self) -> None:
        """Return once every worker has come here."""
        ...

    def logsumexp(self, log_normalizers: Tensor) -> Tensor:
        """Return the log-sum-exp over workers of each entry, with its gradient."""
        ...

    def item_model(
        self,
        n_items: int,
        dim: int,
        *,
        shared: bool,
        has_bias: bool,
        std: float,
        generator: torch.Generator,
    ) -> MatchingModel:
        """Return a model of items whose large tables the workers may split among them.

        The parameters are those of :func:`groupnoise.core.model.item_model`.
        """
        ...

    def gather(self, model: MatchingModel) -> MatchingModel:
        """Return the model that answers alone, on the first worker; the others keep their part."""
        ...


class OneWorker:
    """A training in this process alone."""

    rank = 0
    count = 1

    def rows(self, batch_rows: IntArray) -> IntArray:
        """Return the whole batch."""
        return batch_rows

    def loss(self, per_group: Tensor, batch_rows: IntArray) -> Tensor:
        """Return the mean."""
        return per_group.mean()

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return the values themselves."""
        return values

    def sync(self, model: MatchingModel) -> None:
        """Do nothing: all gradients are here."""

    def wait(self) -> None:
        """Do nothing: nobody is behind."""

    def logsumexp(self, log_normalizers: Tensor) -> Tensor:
        """Return them as they are: one worker has all objects."""
        return log_normalizers

    def item_model(
        self,
        n_items: int,
        dim: int,
        *,
        shared: bool,
        has_bias: bool,
        std: float,
        generator: torch.Generator,
    ) -> MatchingModel:
        """Return a model that holds its tables whole."""
        return item_model(
            n_items, dim, shared=shared, has_bias=has_bias, std=std, generator=generator
        )

    def gather(self, model: MatchingModel) -> MatchingModel:
        """Return the model itself."""
        return model

"""What the training loop asks of the processes that share one training.

Every worker holds the same plan, draws the same order of groups and the same candidates from the
same generators, and takes its part of each batch; together they make the steps one would make.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from groupnoise.core.arrays import IntArray
from groupnoise.core.model import MatchingModel, item_model


class Workers:
    """The processes of one training, as seen from one of them; of this class the only one.

    `rank`: which of the workers this one is; the first, 0, calls `on_epoch` and decides when to
        save.
    `count`: how many there are.
    """

    @property
    def rank(self) -> int:
        """Which of the workers this one is."""
        return 0

    @property
    def count(self) -> int:
        """How many workers there are."""
        return 1

    def rows(self, batch_rows: IntArray) -> IntArray:
        """Return the rows of a batch that this worker matches; never none."""
        return batch_rows

    def loss(self, per_group: Tensor, batch_rows: IntArray) -> Tensor:
        """Return this worker's part of the batch's mean loss, a scalar with a gradient.

        `per_group`: the losses of the groups that :meth:`rows` returned. `batch_rows`: the rows of
        the whole batch.
        """
        return per_group.mean()

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return each value summed over all workers, the same on every one."""
        return values

    def sync(self, model: MatchingModel) -> None:
        """Sum the gradients of parameters that every worker holds; before each step."""

    def wait(self) -> None:
        """Return once every worker has come here."""

    def logsumexp(self, log_normalizers: Tensor) -> Tensor:
        """Return the log-sum-exp over workers of each entry, with its gradient."""
        return log_normalizers

    def item_model(self, n_items: int, dim: int, **options: Any) -> MatchingModel:
        """Return a model of items whose large tables the workers may split among them.

        The parameters are those of :func:`groupnoise.core.model.item_model`.
        """
        return item_model(n_items, dim, **options)

    def gather(self, model: MatchingModel) -> MatchingModel:
        """Return the model that answers alone, on the first worker; the others keep their part."""
        return model

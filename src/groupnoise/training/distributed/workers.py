"""TorchWorkers: a torch.distributed group as the training loop sees it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from groupnoise.core.arrays import IntArray
from groupnoise.core.model import MatchingModel
from groupnoise.training.distributed.sharded import ShardedItemModel
from groupnoise.training.workers import Workers


def logsumexp_over_workers(log_normalizers: Tensor, *, counts: bool = True) -> Tensor:
    """Return the log-sum-exp over workers of each entry.

    The same on every worker. Its gradient is that of the sum of all workers' losses.
    `log_normalizers`: this worker's log-sum-exp; the same shape on every worker. `counts`: whether
    this worker's objects count; one that was lent a row calls without adding to it.
    """
    return _LogSumExp.apply(log_normalizers, counts)  # type: ignore[no-untyped-call]


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_normalizers: Tensor, counts: bool) -> Tensor:
        if not counts:
            log_normalizers = torch.full_like(log_normalizers, -torch.inf)
        largest = log_normalizers.clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        total = (log_normalizers - largest).exp()
        dist.all_reduce(total)
        result = total.log_().add_(largest)
        ctx.save_for_backward(log_normalizers, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        log_normalizers, result = ctx.saved_tensors
        everyones = upstream.clone()
        dist.all_reduce(everyones)
        return everyones * (log_normalizers - result).exp(), None


class TorchWorkers(Workers):
    """The processes of the default group; make it inside :func:`process_group`.

    Gradients of parameters that every worker holds are summed in one all-reduce per kind of
    number after the backward pass. `DistributedDataParallel` would average over workers, which is
    the mean over groups only while all parts are equally large, and hides the sum in hooks that
    know nothing of sparse shards; the parts of the loss here add up to the exact mean.
    """

    def __init__(self) -> None:
        self._has_part = True

    @property
    def rank(self) -> int:
        """Which of the workers this one is."""
        return dist.get_rank()

    @property
    def count(self) -> int:
        """How many workers there are."""
        return dist.get_world_size()

    def rows(self, batch_rows: IntArray) -> IntArray:
        """Return every count-th row of the batch.

        Neighbours in a batch are alike in size, so the parts cost about the same. A batch too
        short to give everyone a row lends its first one out: all must take part in the lookups.

        Parameters
        ----------
        batch_rows : int64 ndarray of shape (groups,)
            The rows of the whole batch.

        Returns
        -------
        int64 ndarray
            This worker's rows; never none.
        """
        own = batch_rows[self.rank :: self.count]
        self._has_part = len(own) > 0
        return own if self._has_part else batch_rows[:1]

    def loss(self, per_group: Tensor, batch_rows: IntArray) -> Tensor:
        """Return this worker's part of the mean over the whole batch; 0 for a lent row.

        Parameters
        ----------
        per_group : Tensor of shape (own groups,)
            The losses of the groups that :meth:`rows` returned.
        batch_rows : int64 ndarray of shape (groups,)
            The rows of the whole batch.

        Returns
        -------
        Tensor of shape ()
            Adds up to the mean over all workers.
        """
        return per_group.sum() * (self._has_part / len(batch_rows))

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return each value summed over all workers, the same on every one.

        Parameters
        ----------
        *values : float
            One number per quantity.

        Returns
        -------
        tuple of float
            The sums.
        """
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return tuple(total.tolist())

    def logsumexp(self, log_normalizers: Tensor) -> Tensor:
        """Return the log-sum-exp over workers of each entry, with its gradient.

        Parameters
        ----------
        log_normalizers : Tensor of any shape
            The log-sum-exps over this worker's objects.

        Returns
        -------
        Tensor of the same shape
            The log-sum-exps over the objects of all workers.
        """
        return logsumexp_over_workers(log_normalizers, counts=self._has_part)

    def sync(self, model: MatchingModel) -> None:
        """Sum the gradients of parameters that every worker holds; shards have theirs already.

        Parameters
        ----------
        model : MatchingModel
            The model under training, its gradients computed.
        """
        if isinstance(model, ShardedItemModel):
            return
        parameters = [each for each in model.parameters() if each.grad is not None]
        sparse = [each for each in parameters if each.grad.is_sparse]  # type: ignore[union-attr]
        for parameter in sparse:
            dist.all_reduce(parameter.grad)
        dense = [each for each in parameters if not each.grad.is_sparse]  # type: ignore[union-attr]
        for _, alike in groupby(sorted(dense, key=_dtype_name), key=_dtype_name):
            _sum_gradients(list(alike))

    def wait(self) -> None:
        """Return once every worker has come here."""
        dist.barrier()

    def item_model(self, n_items: int, dim: int, **options: Any) -> MatchingModel:
        """Return a model of items whose tables are split by rows among the workers.

        Parameters
        ----------
        n_items : int
            Size of the catalogue.
        dim : int
            Number of dimensions of the vectors.
        **options : Any
            As in :func:`groupnoise.core.model.item_model`.

        Returns
        -------
        MatchingModel
            This worker's part of it.
        """
        return ShardedItemModel(n_items, dim, **options)

    def gather(self, model: MatchingModel) -> MatchingModel:
        """Return the model that answers alone: gathered on the first worker, as it is elsewhere.

        Parameters
        ----------
        model : MatchingModel
            What was trained.

        Returns
        -------
        MatchingModel
            With all rows on the first worker.
        """
        if not isinstance(model, ShardedItemModel):
            return model
        return model.gather() or model


def _dtype_name(parameter: nn.Parameter) -> str:
    return str(parameter.dtype)


def _sum_gradients(parameters: list[nn.Parameter]) -> None:
    gradients = [each.grad for each in parameters if each.grad is not None]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(together)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, total in zip(gradients, together.split(sizes), strict=True):
        gradient.copy_(total.view_as(gradient))

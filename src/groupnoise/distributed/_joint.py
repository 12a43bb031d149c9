"""Sums that run over the objects of all workers, with their gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def logsumexp_over_workers(levels: Tensor, *, counts: bool = True) -> Tensor:
    """Return the log-sum-exp over workers of each entry.

    Parameters
    ----------
    levels : Tensor of any shape
        This worker's log-sum-exp; the same shape on every worker.
    counts : bool
        Whether this worker's objects count; one that was lent a row calls without adding to it.

    Returns
    -------
    Tensor of the same shape
        The same on every worker. Its gradient is that of the sum of all workers' losses.
    """
    result: Tensor = _LogSumExp.apply(levels, counts)  # type: ignore[no-untyped-call]
    return result


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, levels: Tensor, counts: bool) -> Tensor:
        if not counts:
            levels = torch.full_like(levels, -torch.inf)
        largest = levels.clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        total = (levels - largest).exp()
        dist.all_reduce(total)
        result = total.log_().add_(largest)
        ctx.save_for_backward(levels, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        levels, result = ctx.saved_tensors
        everyones = upstream.clone()
        dist.all_reduce(everyones)
        return everyones * (levels - result).exp(), None

"""Rows of a table by id, with a sparse gradient that names every row once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows of a table; its gradient is sparse and holds each row once, in order.

    torch's own sparse embedding leaves repeated rows in the gradient, for the optimiser to sort
    and to add up. Adding them up here costs less, since the ids are at hand.

    Parameters
    ----------
    table : Tensor of shape (n_rows, dim)
        Usually a parameter.
    ids : int64 Tensor of any shape
        Rows to take, repeated or not.

    Returns
    -------
    Tensor of shape (*ids.shape, dim)

    Examples
    --------
    >>> table = torch.ones(5, 2, requires_grad=True)
    >>> look_up(table, torch.tensor([3, 1, 3])).sum().backward()
    >>> table.grad._indices().tolist(), table.grad._values().tolist()
    ([[1, 3]], [[1.0, 1.0], [2.0, 2.0]])
    """
    rows: Tensor = _LookUp.apply(table, ids.flatten())  # type: ignore[no-untyped-call]
    return rows.view(*ids.shape, table.shape[1])


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return table.index_select(0, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        rows, place = torch.unique(ids, return_inverse=True)
        values = upstream.new_zeros(len(rows), upstream.shape[1]).index_add_(0, place, upstream)
        gradient = torch.sparse_coo_tensor(
            rows.unsqueeze(0), values, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return gradient, None

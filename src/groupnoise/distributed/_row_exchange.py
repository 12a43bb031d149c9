"""Rows of a table that lies in parts with several workers: ask for them, send gradients back.

Worker r of n owns the ids r, r + n, r + 2n, ...: neighbours in a catalogue, which are often alike
in popularity, spread evenly over the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def n_own_rows(n_ids: int, rank: int, count: int) -> int:
    """Return how many of `n_ids` rows the worker `rank` of `count` owns."""
    return (n_ids - rank + count - 1) // count


@dataclass(frozen=True)
class RowExchange:
    """Who asks whom for which rows in one lookup.

    Attributes
    ----------
    place : int64 Tensor of shape (n,)
        Which received row each id asked for is; distinct ids travel once.
    asked : list of int
        How many rows this worker gets from each worker.
    wanted : list of int
        How many rows each worker gets from this one.
    wanted_rows : int64 Tensor of shape (sum of wanted,)
        Which rows of its own shard they are.
    """

    place: Tensor
    asked: list[int]
    wanted: list[int]
    wanted_rows: Tensor

    @classmethod
    def agree(cls, ids: Tensor, n_ids: int) -> RowExchange:
        """Tell every owner which rows this worker needs; all workers call this together.

        Parameters
        ----------
        ids : int64 Tensor of shape (n,)
            What this worker looks up.
        n_ids : int
            Rows of the whole table.
        """
        count = dist.get_world_size()
        stride = n_own_rows(n_ids, 0, count)  # no worker owns more
        # Sorting by owner first, by row second, makes distinct ids and message order one step.
        keys, place = torch.unique((ids % count) * stride + ids // count, return_inverse=True)
        asked = torch.bincount(keys // stride, minlength=count)
        wanted = torch.empty_like(asked)
        dist.all_to_all_single(wanted, asked)
        sends, receives = asked.tolist(), wanted.tolist()
        rows = _swap(keys % stride, receives, sends)
        return cls(place, sends, receives, rows)

    def to_askers(self, rows: Tensor) -> Tensor:
        """Send the wanted rows (sum of wanted, width) out; return those asked for."""
        return _swap(rows, self.asked, self.wanted)

    def to_owners(self, rows: Tensor) -> Tensor:
        """Send rows (sum of asked, width) to their owners; return those of the own shard."""
        return _swap(rows, self.wanted, self.asked)


def look_up(exchange: RowExchange, *shards: Tensor) -> tuple[Tensor, ...]:
    """Return the rows asked for from each table, shape (n, width) each, in one message.

    Parameters
    ----------
    exchange : RowExchange
        What the workers agreed on.
    *shards : Parameters of shape (n_own_rows, width)
        This worker's rows of tables over the same ids. Their gradients are sparse: all that any
        worker sent back for the rows it looked up.
    """
    received = _LookUp.apply(exchange, *shards)  # type: ignore[no-untyped-call]
    return tuple(rows.index_select(0, exchange.place) for rows in received)


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exchange: RowExchange, *shards: Tensor) -> tuple[Tensor, ...]:
        ctx.exchange, ctx.shapes = exchange, [shard.shape for shard in shards]
        rows = [shard.index_select(0, exchange.wanted_rows) for shard in shards]
        received = exchange.to_askers(_side_by_side(rows))
        return tuple(part.contiguous() for part in received.split(_widths(ctx.shapes), dim=1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        exchange: RowExchange = ctx.exchange
        returned = exchange.to_owners(_side_by_side(list(upstream)))
        index = exchange.wanted_rows.unsqueeze(0)
        gradients = [
            torch.sparse_coo_tensor(index, part, shape, check_invariants=False)
            for part, shape in zip(
                returned.split(_widths(ctx.shapes), dim=1), ctx.shapes, strict=True
            )
        ]
        return None, *gradients


def _swap(rows: Tensor, receives: list[int], sends: list[int]) -> Tensor:
    received = rows.new_empty(sum(receives), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), receives, sends)
    return received


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _widths(shapes: list[torch.Size]) -> list[int]:
    return [shape[1] for shape in shapes]

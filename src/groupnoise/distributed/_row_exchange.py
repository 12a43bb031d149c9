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
    wanted_as_target : bool Tensor of shape (sum of wanted,)
        Which of them are looked up as targets, so that their bias is read too.
    """

    place: Tensor
    asked: list[int]
    wanted: list[int]
    wanted_rows: Tensor
    wanted_as_target: Tensor

    @classmethod
    def agree(cls, ids: Tensor, n_ids: int, n_objects: int | None = None) -> RowExchange:
        """Tell every owner which rows this worker needs; all workers call this together.

        Parameters
        ----------
        ids : int64 Tensor of shape (n,)
            What this worker looks up.
        n_ids : int
            Rows of the whole table.
        n_objects : int, optional
            How many ids at the front are objects; those after them are targets. None of them is
            a target by default.
        """
        count = dist.get_world_size()
        stride = n_own_rows(n_ids, 0, count)  # no worker owns more
        # Sorting by owner first, by row second, makes distinct ids and message order one step.
        keys, place = torch.unique((ids % count) * stride + ids // count, return_inverse=True)
        asked = torch.bincount(keys // stride, minlength=count)
        as_target = torch.zeros_like(keys)
        as_target[place[len(ids) if n_objects is None else n_objects :]] = 1
        wanted = torch.empty_like(asked)
        dist.all_to_all_single(wanted, asked)
        sends, receives = asked.tolist(), wanted.tolist()
        questions = _swap(2 * (keys % stride) + as_target, receives, sends)
        return cls(place, sends, receives, questions // 2, questions % 2 == 1)

    def send(self, rows: Tensor) -> Tensor:
        """Send each wanted row to who asked for it, and gradients back the same way.

        Parameters
        ----------
        rows : Tensor of shape (sum of wanted, width)
            What the others, and this worker itself, asked for.

        Returns
        -------
        Tensor of shape (n, width)
            The row of each id that this worker asked for.
        """
        received: Tensor = _Send.apply(rows, self)  # type: ignore[no-untyped-call]
        return received.index_select(0, self.place)


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: RowExchange) -> Tensor:
        ctx.exchange = exchange
        return _swap(rows, exchange.asked, exchange.wanted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return _swap(upstream, ctx.exchange.wanted, ctx.exchange.asked), None


def _swap(rows: Tensor, receives: list[int], sends: list[int]) -> Tensor:
    received = rows.new_empty(sum(receives), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), receives, sends)
    return received

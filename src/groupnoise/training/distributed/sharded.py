"""Item tables whose rows are split among workers, and the exchange of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from groupnoise.core.encoders import EmbeddingEncoder, look_up
from groupnoise.core.model import MatchingModel

BLOCK_ROWS = 1 << 16
"""Rows drawn or gathered at a time. A multiple of 16 rows draws the numbers one draw would."""


def n_own_rows(n_ids: int, rank: int, count: int) -> int:
    """Return how many of `n_ids` rows the worker `rank` of `count` owns."""
    return (n_ids - rank + count - 1) // count


@dataclass(frozen=True)
class RowExchange:
    """Who asks whom for which rows in one lookup.

    `position`: which received row each id is; distinct ids travel once.
    `requested`: how many rows this worker gets from each worker.
    `served`: how many rows each worker gets from this one.
    `served_rows`: which rows of its own shard they are.
    `served_as_target`: which of them are looked up as targets, so that their bias is read too.
    """

    position: Tensor
    requested: list[int]
    served: list[int]
    served_rows: Tensor
    served_as_target: Tensor

    @classmethod
    def agree(cls, ids: Tensor, n_ids: int, n_objects: int | None = None) -> RowExchange:
        """Tell every owner which rows this worker needs; all workers call this together.

        `ids`: what this worker looks up. `n_ids`: rows of the whole table. `n_objects`: how many
        ids at the front are objects; those after them are targets. None of them is a target by
        default.
        """
        count = dist.get_world_size()
        stride = n_own_rows(n_ids, 0, count)  # no worker owns more
        # Sorting by owner first, by row second, makes distinct ids and message order one step.
        keys, position = torch.unique((ids % count) * stride + ids // count, return_inverse=True)
        requested = torch.bincount(keys // stride, minlength=count)
        as_target = torch.zeros_like(keys)
        as_target[position[len(ids) if n_objects is None else n_objects :]] = 1
        served = torch.empty_like(requested)
        dist.all_to_all_single(served, requested)
        sends, receives = requested.tolist(), served.tolist()
        questions = _swap(2 * (keys % stride) + as_target, receives, sends)
        return cls(position, sends, receives, questions // 2, questions % 2 == 1)

    def send(self, rows: Tensor) -> Tensor:
        """Send each row to the worker that requested it, and gradients back the same way.

        Of shape (n, width): the row of each id that this worker requested. `rows` (sum of served,
        width): what the others, and this worker itself, requested.
        """
        received: Tensor = _Send.apply(rows, self)  # type: ignore[no-untyped-call]
        return received.index_select(0, self.position)


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: RowExchange) -> Tensor:
        ctx.exchange = exchange
        return _swap(rows, exchange.requested, exchange.served)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return _swap(upstream, ctx.exchange.served, ctx.exchange.requested), None


def _swap(rows: Tensor, receives: list[int], sends: list[int]) -> Tensor:
    received = rows.new_empty(sum(receives), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), receives, sends)
    return received


class ShardedEmbedding(EmbeddingEncoder):
    """One learned vector per id, each held by one worker alone.

    It takes part in collective calls: every worker must look up whenever one does. The initial
    values are those of the whole table of `EmbeddingEncoder`, drawn block by block, so that no
    worker ever holds more than its part. `generator` is the same on every worker.
    """

    def __init__(
        self, n_ids: int, dim: int, *, std: float = 0.1, generator: torch.Generator
    ) -> None:
        nn.Module.__init__(self)  # the parent would draw the whole table
        self.n_ids = n_ids
        self.weight = nn.Parameter(_own_normal_rows(n_ids, dim, std, generator))
        self.sparse = True

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (n,) to vectors (n, dim), wherever they lie."""
        exchange = RowExchange.agree(ids, self.n_ids)
        return exchange.send(look_up(self.weight, exchange.served_rows))


class ShardedItemModel(MatchingModel):
    """f and g of items as row-sharded tables, with a row-sharded bias."""

    object_encoder: ShardedEmbedding
    target_encoder: ShardedEmbedding

    def __init__(
        self,
        n_items: int,
        dim: int,
        *,
        shared: bool,
        has_bias: bool,
        std: float,
        generator: torch.Generator,
    ) -> None:
        objects = ShardedEmbedding(n_items, dim, std=std, generator=generator)
        targets = (
            objects if shared else ShardedEmbedding(n_items, dim, std=std, generator=generator)
        )
        super().__init__(objects, targets, n_targets=n_items, sparse=True)
        if has_bias:
            self.bias = nn.Parameter(torch.zeros(len(objects.weight), 1))
        self._fetched: tuple[Tensor, Tensor] | None = None

    @property
    def own_ids(self) -> slice:
        """The ids whose rows lie with this worker."""
        return slice(dist.get_rank(), None, dist.get_world_size())

    def encode(self, objects: Tensor, target_ids: Tensor) -> Tensor:
        """Return f of objects and then g of targets, shape (n_objects + n_targets, dim).

        One message brings all that lies in one table, and the biases of the targets with it.
        """
        if self.target_encoder is not self.object_encoder and len(objects):
            return torch.cat([self.encode_objects(objects), self.encode_targets(target_ids)])
        ids = torch.cat([objects, target_ids])
        exchange = RowExchange.agree(ids, self.n_targets, n_objects=len(objects))
        rows = look_up(self.target_encoder.weight, exchange.served_rows)
        if self.bias is None:
            return exchange.send(rows)
        # A bias that was not requested must not get a gradient, not even one of zeros: the
        # optimiser moves every row that has one.
        as_target = exchange.served_as_target.unsqueeze(-1)
        biases = look_up(self.bias, exchange.served_rows[exchange.served_as_target])
        column = rows.new_zeros(len(rows), 1).masked_scatter(as_target, biases)
        received = exchange.send(torch.cat([rows, column], dim=1))
        vectors: Tensor
        vectors, offsets = received.split([rows.shape[1], 1], dim=1)
        self._fetched = (target_ids, offsets[len(objects) :, 0])
        return vectors

    def encode_targets(self, ids: Tensor) -> Tensor:
        """Return g(y) of targets known by id, shape (n, dim)."""
        return self.encode(ids.new_empty(0), ids)

    def target_bias(self, ids: Tensor) -> Tensor | None:
        """Return the bias of each target, shape (n,), or None."""
        if self.bias is None:
            return None
        fetched, self._fetched = self._fetched, None
        if fetched is not None and fetched[0] is ids:
            return fetched[1]
        exchange = RowExchange.agree(ids, self.n_targets)
        return exchange.send(look_up(self.bias, exchange.served_rows)).squeeze(-1)

    @torch.no_grad()
    def gather(self) -> MatchingModel | None:
        """Return the model with whole tables on the first worker, None on the others."""
        objects = _gather(self.object_encoder.weight, self.n_targets)
        shared = self.target_encoder is self.object_encoder
        targets = objects if shared else _gather(self.target_encoder.weight, self.n_targets)
        bias = None if self.bias is None else _gather(self.bias, self.n_targets)
        if objects is None or targets is None:
            return None
        encoder = _encoder_of(objects)
        whole = MatchingModel(
            encoder,
            encoder if shared else _encoder_of(targets),
            n_targets=self.n_targets,
            sparse=True,
        )
        whole.bias = None if bias is None else nn.Parameter(bias)
        return whole.train(self.training)


def _own_normal_rows(n_ids: int, dim: int, std: float, generator: torch.Generator) -> Tensor:
    """Return this worker's rows of a normal table, without ever holding the whole of it."""
    rank, count = dist.get_rank(), dist.get_world_size()
    own = torch.empty(n_own_rows(n_ids, rank, count), dim)
    filled = 0
    for start, stop in _blocks(n_ids):
        block = torch.empty(stop - start, dim).normal_(0.0, std, generator=generator)
        part = block[(rank - start) % count :: count]
        own[filled : filled + len(part)] = part
        filled += len(part)
    return own


def _blocks(n_rows: int) -> list[tuple[int, int]]:
    """Cut rows into blocks; the last takes the rest, as a short draw uses numbers differently."""
    starts = list(range(0, max(n_rows - BLOCK_ROWS + 1, 1), BLOCK_ROWS))
    return list(zip(starts, [*starts[1:], n_rows], strict=True))


def _gather(shard: Tensor, n_rows: int) -> Tensor | None:
    """Return the whole table on the first worker, block by block, None on the others."""
    rank, count = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        for start, stop in _blocks(len(shard)):
            dist.send(shard[start:stop].contiguous(), 0)
        return None
    whole = shard.new_empty(n_rows, shard.shape[1])
    whole[::count] = shard
    for source in range(1, count):
        theirs = whole[source::count]
        for start, stop in _blocks(len(theirs)):
            block = shard.new_empty(stop - start, shard.shape[1])
            dist.recv(block, source)
            theirs[start:stop] = block
    return whole


def _encoder_of(table: Tensor) -> EmbeddingEncoder:
    encoder = EmbeddingEncoder(0, table.shape[1], sparse=True, generator=torch.Generator())
    encoder.weight = nn.Parameter(table)
    return encoder

"""GroupBatch: how rows of Groups become padded batches, and batches vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from groupnoise.core.arrays import IntArray
from groupnoise.core.candidates import Candidates
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.exceptions import DataError

BATCHES_SORTED_TOGETHER = 16
MAX_BLOCK_GROUPS = 256
"""Neighbouring groups read together: a page or more of a disk even if each is a few clicks."""
MIN_POOL_BLOCKS = 64
"""The fewest blocks that are mixed, so that a small pool is a mixture too."""
PRODUCT_ELEMENTS = 1 << 22
"""Products held at a time; groups that have more are worked on block by block."""


@dataclass(frozen=True)
class GroupBatch:
    """Groups padded to one size.

    `objects` (groups, size, ...): feature rows or ids; what stands at padding has no meaning.
    `mask` (groups, size): True where an object is real.
    `targets` (groups, ...): ids or feature rows.
    `rows`: which rows of the collection the groups came from.
    `shared_targets` (all groups, ...): of the whole batch, where this is one worker's part of it.
    """

    objects: Tensor
    mask: Tensor
    targets: Tensor
    rows: Tensor
    shared_targets: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def all_targets(self) -> Tensor:
        """Targets of the whole batch, whether or not this worker has all its groups."""
        return self.targets if self.shared_targets is None else self.shared_targets

    def to(self, device: torch.device | str) -> GroupBatch:
        """Return the same groups with all tensors on another device."""
        tensors = {name: each for name, each in vars(self).items() if each is not None}
        return replace(self, **{name: each.to(device) for name, each in tensors.items()})


def collate(
    groups: Groups,
    rows: NDArray[np.integer[Any]],
    batch_rows: NDArray[np.integer[Any]] | None = None,
) -> GroupBatch:
    """Pad the groups at `rows` to the size of the largest of them.

    Padding repeats an object of the same group: a valid id or a finite feature row, so that
    encoders never meet a value that could not occur; the mask alone says what is real.

    Parameters
    ----------
    groups : Groups
        The collection, with targets.
    rows : int ndarray of shape (groups,)
        Which of its groups to take.
    batch_rows : int ndarray of shape (all groups,), optional
        The whole batch, if `rows` are one worker's part of it.

    Returns
    -------
    GroupBatch
        Tensors that share no memory with the collection.

    Raises
    ------
    DataError
        If the groups have no targets, or targets that are neither ids nor feature rows.
    """
    if groups.targets is None:
        raise DataError("these groups have no targets; a batch for training needs them.")
    if groups.targets.dtype.kind not in "fiub":
        raise DataError(
            f"targets must be integer ids or feature rows; got dtype {groups.targets.dtype}."
        )
    sizes = groups.offsets[rows + 1] - groups.offsets[rows]
    return GroupBatch(
        objects=torch.from_numpy(groups.padded(rows)),
        mask=torch.from_numpy(np.arange(sizes.max()) < sizes[:, None]),
        targets=torch.from_numpy(np.ascontiguousarray(groups.targets[rows])),
        rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        shared_targets=(
            None
            if batch_rows is None or batch_rows is rows
            else torch.from_numpy(np.ascontiguousarray(groups.targets[batch_rows]))
        ),
    )


def batch_rows(
    sizes: IntArray, batch_size: int, generator: np.random.Generator | None
) -> Iterator[IntArray]:
    """Yield the rows of each batch, groups of similar size together.

    Rows are shuffled, cut into pools of 16 batches, sorted by size inside a pool, and the batches
    come in random order: padding stays small while every epoch mixes anew. Without a generator
    rows come in their own order (evaluation).

    Parameters
    ----------
    sizes : int64 ndarray of shape (n_groups,)
        The number of objects of each group.
    batch_size : int
        Groups per batch; only the last of the shuffled order may be smaller.
    generator : numpy.random.Generator or None
        Decides the order; None keeps the order of the rows.

    Yields
    ------
    int64 ndarray of shape (at most batch_size,)
        The rows of one batch.
    """
    n_groups = len(sizes)
    if generator is None:
        for start in range(0, n_groups, batch_size):
            yield np.arange(start, min(start + batch_size, n_groups))
        return
    order = generator.permutation(n_groups)
    yield from _batches_of_similar_sizes(order, sizes[order], batch_size, generator)


def split_batch(rows: IntArray, sizes: IntArray, max_objects: int) -> Iterator[IntArray]:
    """Cut a batch into parts that hold no more than so many objects, padding included.

    Result: rows of one part, in their order. `max_objects`: groups of a part times the size of its
    largest; a larger group is a part of its own.

    >>> parts = split_batch(np.arange(4), np.array([3, 3, 3, 50]), max_objects=9)
    >>> [part.tolist() for part in parts]
    [[0, 1, 2], [3]]
    """
    first, largest = 0, 0
    for position, size in enumerate(sizes.tolist()):
        largest = max(largest, size)
        if position > first and (position + 1 - first) * largest > max_objects:
            yield rows[first:position]
            first, largest = position, size
    yield rows[first:]


def pooled_batch_rows(
    offsets: IntArray, batch_size: int, generator: np.random.Generator, pool_size: int
) -> Iterator[IntArray]:
    """Yield the rows of each batch so that neighbours on disk are read at about the same time.

    Blocks of neighbouring groups come in random order; as many as make a pool are mixed at a time,
    and the mixture is cut as in :func:`batch_rows`. Memory grows with the pool, 40 bytes for each
    of its groups, and a disk reads blocks instead of single groups. `offsets` may be mapped.
    """
    n_groups = len(offsets) - 1
    block_size = max(1, min(MAX_BLOCK_GROUPS, pool_size // MIN_POOL_BLOCKS))
    n_mixed = max(1, pool_size // block_size)
    starts = generator.permutation(np.arange(0, n_groups, block_size))
    left = np.zeros(0, dtype=np.int64)
    for first in range(0, len(starts), n_mixed):
        mixed = starts[first : first + n_mixed, None] + np.arange(block_size)
        rows = generator.permutation(np.concatenate([left, mixed[mixed < n_groups]]))
        is_last = first + n_mixed >= len(starts)
        n_whole = len(rows) if is_last else len(rows) // batch_size * batch_size
        rows, left = rows[:n_whole], rows[n_whole:]
        yield from _batches_of_similar_sizes(
            rows, offsets[rows + 1] - offsets[rows], batch_size, generator
        )


def _batches_of_similar_sizes(
    order: IntArray, sizes: IntArray, batch_size: int, generator: np.random.Generator
) -> Iterator[IntArray]:
    """Yield batches of shuffled rows, of sizes `sizes`, in random order."""
    if len(sizes) and sizes.min() != sizes.max():
        pool = BATCHES_SORTED_TOGETHER * batch_size
        order = np.concatenate(
            [
                order[start : start + pool][np.argsort(sizes[start : start + pool], kind="stable")]
                for start in range(0, len(order), pool)
            ]
        )
    for start in generator.permutation(np.arange(0, len(order), batch_size)):
        yield order[start : start + batch_size]


def fits_products(n_groups: int, size: int) -> bool:
    """Return whether the (groups, size, size) products of a batch may be held at once."""
    return n_groups * size * size <= PRODUCT_ELEMENTS


def inner_products(members: Tensor) -> Tensor:
    """Return the products of the members of each group with each other, (groups, size, size).

    Differentiable once, with one product in the backward pass where torch has two.
    """
    return _InnerProducts.apply(members)  # type: ignore[no-untyped-call]


def member_products(members: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the products of objects with their group's target, and with each other.

    Returns `with_target` of shape (groups, size) and `among_objects` of shape (groups, size, size).
    `members` (groups, size + 1, dim): objects of each group, and its target as the last member.
    """
    if not fits_products(*members.shape[:2]):
        return torch.bmm(members[:, :-1], members[:, -1:].transpose(1, 2)).squeeze(-1), None
    products = inner_products(members)
    return products[:, :-1, -1], products[:, :-1, :-1]


class _InnerProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, members: Tensor) -> Tensor:
        ctx.save_for_backward(members)
        return torch.bmm(members, members.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (members,) = ctx.saved_tensors
        return torch.bmm(upstream + upstream.transpose(1, 2), members)


class DistinctObjects(NamedTuple):
    """The real objects of a batch without repetition.

    `inputs` (n_distinct, ...): distinct ids; feature rows stay as given.
    `slot` (groups, size): which of them stands at each position; at padding, any.
    """

    inputs: Tensor
    slot: Tensor

    @classmethod
    def of(cls, batch: GroupBatch) -> DistinctObjects:
        """Find the distinct objects of a batch; padding adds none."""
        objects, mask = batch.objects, batch.mask
        if objects.is_floating_point() or objects.dim() > 2:
            slot = mask.flatten().cumsum(0).sub_(1).clamp_min_(0)
            return cls(objects[mask], slot.view(mask.shape))
        real = objects.flatten()[mask.flatten().to(torch.uint8).argmax()]
        return cls(*torch.unique(torch.where(mask, objects, real), return_inverse=True))

    def at_positions(self, values: Tensor) -> Tensor:
        """Lay values (n_distinct, ...) of the objects out as (groups, size, ...)."""
        return values.index_select(0, self.slot.flatten()).view(*self.slot.shape, *values.shape[1:])


class EncodedBatch(NamedTuple):
    """What pair matching over targets reads.

    `vectors` (n_distinct, dim): f of the distinct objects.
    `members` (groups, size + 1, dim): f of the object at each position, and g of the group's target
        as the last member.
    `target_offset`: added to the logits of the group's target.
    `candidates` (n_candidates, dim): g of the set that is normalized over.
    `offset`: added to the logits of the candidates.
    """

    vectors: Tensor
    members: Tensor
    target_offset: Tensor
    candidates: Tensor
    offset: Tensor


def encode_batch(
    model: MatchingModel, objects: DistinctObjects, targets: Tensor, drawn: Candidates
) -> EncodedBatch:
    """Encode the objects of a batch, its targets (groups,) and the candidates drawn for it."""
    n_objects = len(objects.inputs)
    if drawn.is_everything:
        vectors, target_vectors, candidates = model.encode_with_all_targets(objects.inputs, targets)
        column = torch.arange(len(targets), device=targets.device)
        members = _members(torch.cat([vectors, target_vectors]), objects.slot, n_objects + column)
        offset = _offsets(model, drawn, drawn.ids, candidates)
        return EncodedBatch(vectors, members, offset.index_select(0, targets), candidates, offset)
    if drawn.holds_targets:
        added = targets[:0]
        column = torch.searchsorted(drawn.ids, targets)
    else:
        added, column = torch.unique(targets, return_inverse=True)
    ids = torch.cat([added, drawn.ids])
    encoded = model.encode(objects.inputs, ids)
    members = _members(encoded, objects.slot, n_objects + column)
    vectors, _, candidates = encoded.split([n_objects, len(added), len(drawn.ids)])
    offset = _offsets(model, drawn, ids, encoded)
    return EncodedBatch(
        vectors, members, offset.index_select(0, column), candidates, offset[len(added) :]
    )


def _members(encoded: Tensor, slot: Tensor, target_slot: Tensor) -> Tensor:
    positions = torch.cat([slot, target_slot.unsqueeze(-1)], 1)  # (groups, size + 1)
    return encoded.index_select(0, positions.flatten()).view(*positions.shape, -1)


def _offsets(model: MatchingModel, drawn: Candidates, ids: Tensor, like: Tensor) -> Tensor:
    """Return what is added to the logits of targets, those drawn being the last of them."""
    offset = model.target_bias(ids)
    if offset is None:
        offset = like.new_zeros(len(ids))
    if drawn.log_expected_count is None:
        return offset
    # Only what was sampled is corrected; an added target is there for certain.
    certain = like.new_zeros(len(ids) - len(drawn.ids))
    return offset - torch.cat([certain, drawn.log_expected_count.to(like)])

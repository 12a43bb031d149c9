"""GroupBatch, and how rows of Groups become padded batches in a decided order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.core.arrays import IntArray
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError


@dataclass(frozen=True)
class GroupBatch:
    """Groups padded to one size.

    Attributes
    ----------
    objects : Tensor of shape (groups, size, ...)
        Feature rows or ids; what stands at padded positions has no meaning.
    mask : bool Tensor of shape (groups, size)
        True where an object is real.
    targets : Tensor of shape (groups, ...)
        Ids or feature rows.
    rows : int64 Tensor of shape (groups,)
        Which rows of the collection the groups came from.
    shared_targets : Tensor of shape (all groups, ...), optional
        Targets of the whole batch, where this is one worker's part of it.
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
        """Return the batch on another device.

        Parameters
        ----------
        device : torch.device or str
            Where the tensors go.

        Returns
        -------
        GroupBatch
            The same groups with all tensors on that device.
        """
        return replace(
            self,
            objects=self.objects.to(device),
            mask=self.mask.to(device),
            targets=self.targets.to(device),
            rows=self.rows.to(device),
            shared_targets=self.shared_targets.to(device)
            if self.shared_targets is not None
            else None,
        )


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


BATCHES_SORTED_TOGETHER = 16
LARGEST_BLOCK = 256
"""Neighbouring groups read together: a page or more of a disk even if each is a few clicks."""
BLOCKS_IN_A_POOL = 64
"""The fewest blocks that are mixed, so that a small pool is a mixture too."""


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
    yield from _cut(order, sizes[order], batch_size, generator)


def parts_of_batch(rows: IntArray, sizes: IntArray, max_objects: int) -> Iterator[IntArray]:
    """Cut a batch into parts that hold no more than so many objects, padding included.

    Result: rows of one part, in their order. `max_objects`: groups of a part times the size of its
    largest; a larger group is a part of its own.

    Examples
    --------
    >>> parts = parts_of_batch(np.arange(4), np.array([3, 3, 3, 50]), max_objects=9)
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

    Blocks of neighbouring groups come in random order; as many as make a pool are mixed at a
    time, and the mixture is cut as in :func:`batch_rows`. Memory grows with the pool, not with the
    number of groups, and a disk reads blocks instead of single groups.

    `offsets`: where each group begins; may be memory mapped. `batch_size`: groups per batch; only
    the last batch of all may be smaller. `pool_size`: groups mixed at a time; about 40 bytes of
    memory each.
    """
    n_groups = len(offsets) - 1
    block_size = max(1, min(LARGEST_BLOCK, pool_size // BLOCKS_IN_A_POOL))
    n_mixed = max(1, pool_size // block_size)
    starts = generator.permutation(np.arange(0, n_groups, block_size))
    left = np.zeros(0, dtype=np.int64)
    for first in range(0, len(starts), n_mixed):
        mixed = starts[first : first + n_mixed, None] + np.arange(block_size)
        rows = generator.permutation(np.concatenate([left, mixed[mixed < n_groups]]))
        is_last = first + n_mixed >= len(starts)
        n_whole = len(rows) if is_last else len(rows) // batch_size * batch_size
        rows, left = rows[:n_whole], rows[n_whole:]
        yield from _cut(rows, offsets[rows + 1] - offsets[rows], batch_size, generator)


def _cut(
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

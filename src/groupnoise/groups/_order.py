"""Which groups go together in a batch, and in which order the batches come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from groupnoise._typing import IntArray

BATCHES_SORTED_TOGETHER = 16
BLOCKS_MIXED_TOGETHER = 64


def batch_rows(
    sizes: IntArray, batch_size: int, generator: np.random.Generator | None
) -> Iterator[IntArray]:
    """Yield the rows of each batch, groups of similar size together.

    Rows are shuffled, cut into pools of 16 batches, sorted by size inside a pool, and the batches
    come in random order: padding stays small while every epoch mixes anew. Without a generator
    rows come in their own order (evaluation).
    """
    n_groups = len(sizes)
    if generator is None:
        for start in range(0, n_groups, batch_size):
            yield np.arange(start, min(start + batch_size, n_groups))
        return
    order = generator.permutation(n_groups)
    yield from _cut(order, sizes[order], batch_size, generator)


def block_batch_rows(
    offsets: IntArray, batch_size: int, generator: np.random.Generator, block_size: int
) -> Iterator[IntArray]:
    """Yield the rows of each batch so that neighbours on disk are read at about the same time.

    Blocks of neighbouring groups come in random order, 64 of them are mixed at a time, and the
    mixture is cut as in :func:`batch_rows`. Memory grows with the block, not with the number of
    groups, and a disk reads whole blocks instead of single groups.

    Parameters
    ----------
    offsets : int64 ndarray of shape (n_groups + 1,)
        Where each group begins; may be memory mapped.
    batch_size : int
        Groups per batch; only the last batch of all may be smaller.
    generator : numpy Generator
        Decides the order.
    block_size : int
        Groups per block. One block in place of all is a full shuffle.
    """
    n_groups = len(offsets) - 1
    starts = generator.permutation(np.arange(0, n_groups, block_size))
    left = np.zeros(0, dtype=np.int64)
    for first in range(0, len(starts), BLOCKS_MIXED_TOGETHER):
        mixed = starts[first : first + BLOCKS_MIXED_TOGETHER]
        blocks = [np.arange(start, min(start + block_size, n_groups)) for start in mixed]
        rows = generator.permutation(np.concatenate([left, *blocks]))
        is_last = first + BLOCKS_MIXED_TOGETHER >= len(starts)
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

"""Which groups go together in a batch, and in which order the batches come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from groupnoise._typing import IntArray

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
    """
    n_groups = len(sizes)
    if generator is None:
        for start in range(0, n_groups, batch_size):
            yield np.arange(start, min(start + batch_size, n_groups))
        return
    order = generator.permutation(n_groups)
    yield from _cut(order, sizes[order], batch_size, generator)


def pooled_batch_rows(
    offsets: IntArray, batch_size: int, generator: np.random.Generator, pool_size: int
) -> Iterator[IntArray]:
    """Yield the rows of each batch so that neighbours on disk are read at about the same time.

    Blocks of neighbouring groups come in random order; as many as make a pool are mixed at a
    time, and the mixture is cut as in :func:`batch_rows`. Memory grows with the pool, not with the
    number of groups, and a disk reads blocks instead of single groups.

    Parameters
    ----------
    offsets : int64 ndarray of shape (n_groups + 1,)
        Where each group begins; may be memory mapped.
    batch_size : int
        Groups per batch; only the last batch of all may be smaller.
    generator : numpy Generator
        Decides the order.
    pool_size : int
        Groups mixed at a time; about 40 bytes of memory each.
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

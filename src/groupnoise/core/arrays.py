"""Array types, block-wise iteration, folds, row hashes, and seeded generators."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    import torch

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]
"""A table: its columns by name, all of one length."""

ProgressCallback = Callable[[dict[str, Any]], None]
"""Called with one record per epoch; the library itself never prints."""

BLOCK_BYTES = 1 << 24
HASHED_VALUES = 1 << 20
MIN_DISTINCT = 40
"""Distinct rows from which equal rows count as copies, which are held out together."""
Value = TypeVar("Value")


def blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of blocks of about 16 MB, as views of the array.

    Pages of a memory-mapped array are released after each block, so that files may be larger than
    memory.

    >>> [(first, len(rows)) for first, rows in blocks(np.zeros((3_000_000, 1)))]
    [(0, 2097152), (2097152, 902848)]
    """
    row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:]))
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for first in range(0, len(array), step):
        yield first, array[first : first + step]
        release_pages(array)


def release_pages(array: NDArray[Any]) -> None:
    """Release the pages of a memory-mapped array; they are read again when needed."""
    mapped: Any = getattr(array, "_mmap", None)
    # Writes to a private mapping would be lost.
    if hasattr(mapped, "madvise") and getattr(array, "mode", "c") != "c":
        mapped.madvise(mmap.MADV_DONTNEED)


def count_ids(ids: NDArray[Any], n_ids: int) -> NDArray[np.float64]:
    """Return how often each of the ids 0 .. n_ids - 1 occurs, shape (n_ids,)."""
    counts = np.zeros(n_ids)
    for _, part in blocks(ids):
        counts += np.bincount(part, minlength=n_ids)
    return counts


RandomState = int | np.random.Generator | np.random.RandomState | None


def generator_from(random_state: RandomState) -> np.random.Generator:
    """Return a numpy generator for an integer, a generator, a RandomState or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    is_seed = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if random_state is None or (is_seed and random_state >= 0):
        return np.random.default_rng(random_state)
    raise ParameterError(
        f"random_state must be None, a non-negative integer or a numpy generator; "
        f"got {random_state!r}."
    )


def torch_generator(generator: np.random.Generator) -> torch.Generator:
    """Return a torch generator seeded from, and so decided by, a numpy generator."""
    import torch

    return torch.Generator().manual_seed(int(generator.integers(2**62)))


def strip_prefix(prefix: str, named: Mapping[str, Value]) -> dict[str, Value]:
    """Return the items whose name begins with a prefix, by the rest of the name.

    >>> strip_prefix("best.", {"best.bias": 1, "model.bias": 2})
    {'bias': 1}
    """
    return {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}


def offsets_from_sizes(sizes: ArrayLike) -> IntArray:
    """Return where each run begins, and where the last one ends.

    >>> offsets_from_sizes([2, 3]).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def stratified_folds(
    strata: NDArray[Any],
    n_folds: int,
    generator: np.random.Generator,
    clusters: NDArray[Any] | None = None,
) -> IntArray:
    """Return the fold of each row, stratified.

    `clusters`: rows of a cluster, such as the bags of a patient, share a fold and are stratified by
    their first row; a single cluster is divided.
    """
    if clusters is not None:
        _, first, codes = np.unique(clusters, return_index=True, return_inverse=True)
        if len(first) > 1:
            return stratified_folds(strata[first], n_folds, generator)[codes]
    order = generator.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    folds: IntArray = np.empty(len(strata), dtype=np.int64)
    folds[order] = np.arange(len(strata)) % n_folds
    return folds


def ragged_rows(starts: ArrayLike, sizes: ArrayLike) -> IntArray:
    """Return the concatenation of `range(start, start + size)` over all pairs.

    >>> ragged_rows([5, 0], [2, 3]).tolist()
    [5, 6, 0, 1, 2]
    """
    first, lengths = np.asarray(starts, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))


def first_equal_rows(rows: NDArray[Any]) -> IntArray | None:
    """Return for each row the first row with equal features, a cluster for hold-outs.

    None if no row repeats, or if there are so few distinct rows that they are equal by chance.
    """
    _, first, code = np.unique(row_hashes(rows), return_index=True, return_inverse=True)
    return first[code] if MIN_DISTINCT <= len(first) < len(rows) else None


def row_hashes(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row."""
    wide = rows.reshape(len(rows), -1)
    generator = np.random.default_rng(0)
    factors = generator.integers(0, 2**63, wide.shape[1], dtype=np.uint64) * 2 + 1
    found = np.empty(len(wide), dtype=np.uint64)
    step = max(1, HASHED_VALUES // max(1, wide.shape[1]))
    for begin in range(0, len(wide), step):
        # Zero has two signs.
        words = (wide[begin : begin + step].astype(np.float64) + 0.0).view(np.uint64)
        mixed = ((words ^ (words >> 32)) * factors).sum(axis=1)
        mixed ^= mixed >> 29
        mixed *= factors[0]
        found[begin : begin + step] = mixed ^ (mixed >> 32)
        release_pages(rows)
    return found

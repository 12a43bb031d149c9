"""Going through large arrays block by block, so that work on memory maps needs little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 24


def blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of blocks of about 16 MB, as views of the array.

    Examples
    --------
    >>> [(first, len(rows)) for first, rows in blocks(np.zeros((3_000_000, 1)))]
    [(0, 2097152), (2097152, 902848)]
    """
    row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:]))
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for first in range(0, len(array), step):
        yield first, array[first : first + step]


def count_ids(ids: NDArray[Any], n_ids: int) -> NDArray[np.float64]:
    """Return how often each of the ids 0 .. n_ids - 1 occurs, shape (n_ids,)."""
    counts = np.zeros(n_ids)
    for _, part in blocks(ids):
        counts += np.bincount(part, minlength=n_ids)
    return counts

"""The softmax of a row and its gradient in one loop, compiled by numba where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from groupnoise.core.compiled import compiled_loops

HALF, ONE, ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
LOG2_E = np.float32(np.log2(np.e))
MAX_POWER = np.float32(126.0)
C1, C2, C3, C4, C5, C6 = (
    np.float32(np.log(2.0) ** n / np.prod(np.arange(1.0, n + 1))) for n in range(1, 7)
)
"""Of the series of 2 ** x, exact up to a half but for the last digit of single precision."""

LANES = 64
"""Logits of which the largest are looked for side by side."""

SlopeLoop = Callable[..., None]


@cache
def slope_loop() -> SlopeLoop | None:
    """Return :func:`slopes` compiled, None without numba (`pip install groupnoise[fast]`)."""
    found = compiled_loops((slopes,), helpers=(power_of_two,))
    return None if found is None else found[0]


def power_of_two(exponent: Any) -> Any:
    """Return 2 ** exponent, in single precision and in steps that a processor takes side by side.

    Examples
    --------
    >>> float(power_of_two(np.float32(3.0)))
    8.0
    """
    exponent = min(max(exponent, -MAX_POWER), MAX_POWER)
    whole = np.floor(exponent + HALF)
    x = exponent - whole
    series = ONE + x * (C1 + x * (C2 + x * (C3 + x * (C4 + x * (C5 + x * C6)))))
    return series * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


def slopes(
    logits: Any, offset: Any, positive: Any, weight: Any, losses: Any, total: Any, lanes: Any
) -> None:
    """Write the gradient of the cross-entropy in place of the logits.

    `logits` (n, n_candidates): before the offset of each candidate is added. `positive`: which of
    them is right in each row. `weight`: of a row in the sum. `losses`: of each row, not weighted.
    `total` (n_candidates): the gradient by the offset, is added to. `lanes`: space; its length is
    that of pieces in which the largest logit is searched for.
    """
    n, n_candidates = logits.shape
    width = len(lanes)
    end = n_candidates - n_candidates % width
    for row in range(n):
        own = logits[row]
        lanes[:] = own[0] + offset[0]
        for start in range(0, end, width):
            piece, more = own[start : start + width], offset[start : start + width]
            for k in range(width):
                value = piece[k] + more[k]
                piece[k] = value
                lanes[k] = value if value > lanes[k] else lanes[k]
        largest = lanes[0]
        for k in range(1, width):
            largest = max(largest, lanes[k])
        for k in range(end, n_candidates):
            own[k] += offset[k]
            largest = max(largest, own[k])
        right = own[positive[row]]
        sum_ = ZERO
        for k in range(n_candidates):
            value = power_of_two(LOG2_E * (own[k] - largest))
            own[k] = value
            sum_ += value
        losses[row] = largest - right + np.log(sum_)
        scale = weight / sum_
        for k in range(n_candidates):
            own[k] *= scale
        own[positive[row]] -= weight
        for k in range(n_candidates):
            total[k] += own[k]

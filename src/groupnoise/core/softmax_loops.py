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


def slopes(logits: Any, positive: Any, weight: Any, losses: Any) -> None:
    """Write the gradient of the cross-entropy in place of the logits.

    `logits` (n, n_candidates). `positive`: which of them is right in each row. `weight`: of a row
    in the sum. `losses`: of each row, not weighted.
    """
    n, n_candidates = logits.shape
    for row in range(n):
        own = logits[row]
        largest = own[0]
        for k in range(1, n_candidates):
            largest = max(largest, own[k])
        right = own[positive[row]]
        total = ZERO
        for k in range(n_candidates):
            value = power_of_two(LOG2_E * (own[k] - largest))
            own[k] = value
            total += value
        losses[row] = largest - right + np.log(total)
        scale = weight / total
        for k in range(n_candidates):
            own[k] *= scale
        own[positive[row]] -= weight

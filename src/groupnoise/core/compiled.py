"""Loops compiled by numba, for long trainings and if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

MIN_STEPS = 1000
"""Training steps from which compilation pays off."""

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract"},
}
"""Allow vectorization: sums in any order, no checks for division by zero."""

Kernel = Callable[..., None]
HALF, ONE, ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)
LOG2_E = np.float32(np.log2(np.e))
MAX_POWER = np.float32(126.0)
C1, C2, C3, C4, C5, C6 = (
    np.float32(np.log(2.0) ** n / np.prod(np.arange(1.0, n + 1))) for n in range(1, 7)
)
"""Taylor coefficients of 2 ** x, accurate to single precision for |x| <= 0.5."""
LANES = 64
"""Width of the vectorized search for the maximum."""
CLEAR_LOSS = np.float32(4.0)
"""Nats up to which a loss that levels off is the cross-entropy itself."""


class Kernels(NamedTuple):
    """Compiled versions of the functions of these names."""

    products: Kernel
    add_products: Kernel
    move_rows: Kernel


def training_kernels(n_steps: int) -> Kernels | None:
    """Return compiled loops for a training of `n_steps`, None if torch should be used.

    That is for short trainings, and without numba (`pip install groupnoise[fast]`).
    """
    return None if n_steps < MIN_STEPS else _compiled()


@cache
def _compiled() -> Kernels | None:
    found = compile_kernels((products, add_products, move_rows))
    return None if found is None else Kernels(*found)


def compile_kernels(
    loops: Sequence[Kernel], helpers: Sequence[Callable[..., Any]] = ()
) -> list[Kernel] | None:
    """Return functions that numba compiles on first call, None without numba."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        numba = importlib.import_module("numba")
    except ImportError:  # it is there for another version of numpy
        return None
    for helper in helpers:
        _register_helper(helper)

    def compiled(function: Kernel) -> Kernel:
        try:
            kernel: Kernel = numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder that the compiled code could be kept in
            kernel = numba.njit(**OPTIONS)(function)
        return kernel

    return [compiled(each) for each in loops]


@cache
def _register_helper(helper: Callable[..., Any]) -> None:
    """Register a function that compiled loops call."""
    importlib.import_module("numba.extending").register_jitable(**OPTIONS)(helper)


def products(vectors: Any, members: Any, result: Any) -> None:
    """Write the inner products of the members (groups, size) of each group with each other."""
    for group in range(members.shape[0]):
        for i in range(members.shape[1]):
            left = vectors[members[group, i]]
            for j in range(i + 1):
                right = vectors[members[group, j]]
                total = left[0] * right[0]
                for k in range(1, vectors.shape[1]):
                    total += left[k] * right[k]
                result[group, i, j] = total
                result[group, j, i] = total


def add_products(vectors: Any, members: Any, slopes: Any, gradient: Any) -> None:
    """Add the gradient of the vectors, given the slopes of all products, which are symmetric."""
    for group in range(members.shape[0]):
        for i in range(members.shape[1]):
            row = gradient[members[group, i]]
            for j in range(members.shape[1]):
                slope = slopes[group, i, j]
                if slope != 0:
                    other = vectors[members[group, j]]
                    for k in range(vectors.shape[1]):
                        row[k] += slope * other[k]


def move_rows(
    table: Any,
    first: Any,
    second: Any,
    decay_seen: Any,
    rows: Any,
    gradient: Any,
    decay: float,
    numbers: Any,
) -> None:
    """Take a step of Adam with the rows of a table, after the weight decay that they have missed.

    `first`, `second` (n_rows, dim): moments. `decay_seen`: up to where each row has decayed;
    `decay` is where it is to be. `rows`, `gradient` (n, dim): rows and their gradient. `numbers`: 1
    - beta_1, beta_2, 1 - beta_2, the step size over the correction of the first moment, the root of
    the correction of the second, and epsilon.
    """
    fresh, kept, fresh_square, rate, root, epsilon = numbers
    for place in range(rows.shape[0]):
        row = rows[place]
        left = numbers.dtype.type(np.exp(decay_seen[row] - decay))
        decay_seen[row] = decay
        values, means, squares, slopes = table[row], first[row], second[row], gradient[place]
        for k in range(table.shape[1]):
            slope = slopes[k]
            mean = means[k] + fresh * (slope - means[k])
            square = kept * squares[k] + fresh_square * slope * slope
            means[k], squares[k] = mean, square
            values[k] = left * values[k] - rate * mean / (np.sqrt(square) / root + epsilon)


@cache
def cross_entropy_kernel() -> Kernel | None:
    """Return :func:`slopes` compiled, None without numba (`pip install groupnoise[fast]`)."""
    found = compile_kernels((slopes,), helpers=(power_of_two,))
    return None if found is None else found[0]


def power_of_two(exponent: Any) -> Any:
    """Return 2 ** exponent in single precision, in operations that can be vectorized.

    >>> float(power_of_two(np.float32(3.0)))
    8.0
    """
    exponent = min(max(exponent, -MAX_POWER), MAX_POWER)
    whole = np.floor(exponent + HALF)
    x = exponent - whole
    series = ONE + x * (C1 + x * (C2 + x * (C3 + x * (C4 + x * (C5 + x * C6)))))
    return series * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


def slopes(
    logits: Any,
    offset: Any,
    positive: Any,
    weight: Any,
    levelling: Any,
    losses: Any,
    total: Any,
    lanes: Any,
) -> None:
    """Write the gradient of the cross-entropy, which may level off, in place of the logits.

    `logits` (n, n_candidates): before the offset of each candidate is added. `positive`: which of
    them is right in each row. `weight`: of a row in the sum. `levelling`: see
    :func:`groupnoise.core.chunked_softmax.levelled`. `losses`: of each row, not weighted. `total`
    (n_candidates): the gradient by the offset, is added to. `lanes`: space; its length is that of
    pieces in which the largest logit is searched for.
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
        loss = largest - right + np.log(sum_)
        share = ONE
        if levelling > ZERO and loss > CLEAR_LOSS:
            share = np.exp(levelling * (CLEAR_LOSS - loss))
            loss = CLEAR_LOSS + (ONE - share) / levelling
        losses[row] = loss
        slope = weight * share
        scale = slope / sum_
        for k in range(n_candidates):
            own[k] *= scale
        own[positive[row]] -= slope
        for k in range(n_candidates):
            total[k] += own[k]

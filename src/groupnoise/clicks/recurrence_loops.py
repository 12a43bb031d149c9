"""Loops over the rows of a recurrence in training, compiled by numba where that is installed.

Between two matrix products a step of training has some ten operations on single numbers. Torch
reads and writes whole arrays for each of them, these loops once for all. Rows are the clicks of all
sequences, without padding; what is dropped is told by bytes, as `random_bytes` draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from groupnoise.clicks.recurrence_layers import NORM_EPSILON
from groupnoise.core.compiled import compiled_loops
from groupnoise.core.softmax_loops import LOG2_E, ONE, ZERO, power_of_two

EPSILON = np.float32(NORM_EPSILON)


class RowLoops(NamedTuple):
    """Compiled loops; what each does is told by the function of its name below."""

    begin: Callable[..., None]
    add: Callable[..., None]
    remember: Callable[..., None]
    forget: Callable[..., None]
    subtract: Callable[..., None]
    end: Callable[..., None]
    rectify: Callable[..., None]


@cache
def row_loops() -> RowLoops | None:
    """Return the compiled loops, None without numba (`pip install groupnoise[fast]`)."""
    plain = (begin, add, remember, forget, subtract, end, rectify)
    found = compiled_loops(plain, helpers=(power_of_two, logistic, standardize))
    return None if found is None else RowLoops(*found)


def logistic(value: Any) -> Any:
    """Return 1 / (1 + exp(-value))."""
    return ONE / (ONE + power_of_two(-LOG2_E * value))


def standardize(values: Any, result: Any, spread: Any, row: int) -> None:
    """Write values less their mean over their standard deviation; keep one over that for a row."""
    hidden = len(values)
    mean = ZERO
    for k in range(hidden):
        mean += values[k]
    mean /= np.float32(hidden)
    variance = ZERO
    for k in range(hidden):
        centred = values[k] - mean
        variance += centred * centred
    scale = ONE / np.sqrt(variance / np.float32(hidden) + EPSILON)
    spread[row] = scale
    for k in range(hidden):
        result[k] = scale * (values[k] - mean)


def begin(
    values: Any,
    weight: Any,
    bias: Any,
    drawn: Any,
    kept: int,
    factor: Any,
    first: Any,
    first_spread: Any,
    states: Any,
    entry: Any,
    spread: Any,
) -> None:
    """Write standardized values, states made of them of which some is dropped, and their entry.

    `values`, `first`, `states`, `entry` (n, hidden): the second and the last have rows of zero mean
    and unit variance. `weight`, `bias`: of the states by dimension. `drawn` (n, hidden): a
    byte for each entry: below `kept` it is multiplied by `factor`, else dropped. `spread`,
    `first_spread` (n): one over the standard deviations of the rows.
    """
    n, hidden = values.shape
    for row in range(n):
        standardize(values[row], first[row], first_spread, row)
        bytes_of = drawn[row]
        for k in range(hidden):
            own = factor if bytes_of[k] < kept else ZERO
            states[row, k] = (first[row, k] * weight[k] + bias[k]) * own
        standardize(states[row], entry[row], spread, row)


def add(
    states: Any,
    more: Any,
    drawn: Any,
    kept: int,
    factor: Any,
    entry: Any,
    spread: Any,
) -> None:
    """Add to the states, some of it dropped, and write their entry.

    `states`, `more`, `entry` (n, hidden). The others as in :func:`begin`.
    """
    n, hidden = states.shape
    for row in range(n):
        bytes_of = drawn[row]
        for k in range(hidden):
            own = factor if bytes_of[k] < kept else ZERO
            states[row, k] += more[row, k] * own
        standardize(states[row], entry[row], spread, row)


def remember(gates: Any, rows: Any, memory: Any, shown: Any) -> None:
    """Write the memory after each click, and what is shown of it.

    `gates` (n, 3 * hidden): as `gated_recurrence` takes them. `rows` (size, n_sequences): of each
    step of each sequence, -1 after its end. `memory`, `shown` (n, hidden).
    """
    size, n_sequences = rows.shape
    hidden = memory.shape[1]
    for sequence in range(n_sequences):
        for step in range(size):
            row = rows[step, sequence]
            if row < 0:
                break
            own, state, out = gates[row], memory[row], shown[row]
            before = memory[rows[max(step - 1, 0), sequence]]
            for k in range(hidden):
                value, show = own[hidden + k], own[2 * hidden + k]
                last = before[k] if step else ZERO
                now = value + logistic(own[k]) * (last - value)
                state[k] = now
                out[k] = now * show * logistic(show)


def forget(gates: Any, rows: Any, memory: Any, upstream: Any, carried: Any, total: Any) -> None:
    """Write the gradient by the gates in their place, and add its sum over rows to the total.

    `upstream` (n, hidden): by what is shown. `carried` (hidden): space. `total` (3 * hidden). The
    others as in :func:`remember`.
    """
    size, n_sequences = rows.shape
    hidden = memory.shape[1]
    for sequence in range(n_sequences):
        carried[:] = ZERO
        for step in range(size - 1, -1, -1):
            row = rows[step, sequence]
            if row < 0:
                continue
            own, state, slope = gates[row], memory[row], upstream[row]
            before = memory[rows[max(step - 1, 0), sequence]]
            for k in range(hidden):
                value, show = own[hidden + k], own[2 * hidden + k]
                keep, open_ = logistic(own[k]), logistic(show)
                silu = show * open_
                of_state = carried[k] + slope[k] * silu
                of_value = of_state * (ONE - keep)
                last = before[k] if step else ZERO
                of_shown = slope[k] * state[k] * (open_ + silu * (ONE - open_))
                of_gate = of_value * keep * (last - value)
                own[k], own[hidden + k], own[2 * hidden + k] = of_gate, of_value, of_shown
                total[k] += of_gate
                total[hidden + k] += of_value
                total[2 * hidden + k] += of_shown
                carried[k] = of_state * keep


def subtract(
    upstream: Any,
    entry: Any,
    spread: Any,
    drawn: Any,
    kept: int,
    factor: Any,
    of_states: Any,
    total: Any,
) -> None:
    """Write the gradient by what :func:`add` added in place of that by the entry.

    `upstream` (n, hidden): by the entry. `of_states` (n, hidden): by the states, is added to.
    `total` (hidden): takes the sum of what is written. The others as in :func:`add`.
    """
    n, hidden = upstream.shape
    limit = np.uint8(min(kept, 255))  # compared as bytes, many at a time
    always = kept > 255
    total[:] = ZERO
    for row in range(n):
        own, standard, slopes, bytes_of = upstream[row], entry[row], of_states[row], drawn[row]
        mean, along = ZERO, ZERO
        for k in range(hidden):
            mean += own[k]
            along += own[k] * standard[k]
        mean /= np.float32(hidden)
        along /= np.float32(hidden)
        scale = spread[row]
        for k in range(hidden):
            slope = slopes[k] + scale * (own[k] - mean - along * standard[k])
            slopes[k] = slope
            own[k] = slope * (factor if always or bytes_of[k] < limit else ZERO)
        for k in range(hidden):
            total[k] += own[k]


def end(upstream: Any, weight: Any, entry: Any, spread: Any, of_weight: Any, of_bias: Any) -> None:
    """Write the gradient by the values of :func:`begin` in place of that by what it kept.

    `upstream` (n, hidden): by states before any were dropped. `of_weight`, `of_bias` (hidden): are
    added to. The others as in :func:`begin`.
    """
    n, hidden = upstream.shape
    for row in range(n):
        mean, along = ZERO, ZERO
        for k in range(hidden):
            slope = upstream[row, k]
            of_bias[k] += slope
            of_weight[k] += slope * entry[row, k]
            slope *= weight[k]
            upstream[row, k] = slope
            mean += slope
            along += slope * entry[row, k]
        mean /= np.float32(hidden)
        along /= np.float32(hidden)
        scale = spread[row]
        for k in range(hidden):
            upstream[row, k] = scale * (upstream[row, k] - mean - along * entry[row, k])


def rectify(slopes: Any, values: Any, total: Any) -> None:
    """Leave slopes where values are above zero, and add their sums over rows to the total.

    `slopes`, `values` (n, width). `total` (width).
    """
    n, width = values.shape
    for row in range(n):
        for k in range(width):
            slope = slopes[row, k] if values[row, k] > ZERO else ZERO
            slopes[row, k] = slope
            total[k] += slope

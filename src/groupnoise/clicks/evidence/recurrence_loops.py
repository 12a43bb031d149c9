"""Loops over the rows of a recurrence in training, compiled by numba where that is installed.

Between two matrix products a step of training has some ten operations on single numbers. Torch
reads and writes whole arrays for each of them, these loops once for all. Rows are the clicks of all
sequences, without padding; dropout is given by bytes, as `random_bytes` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from groupnoise.clicks.evidence.recurrence import NORM_EPSILON
from groupnoise.core.arrays import IntArray
from groupnoise.core.compiled import LOG2_E, ONE, ZERO, compile_kernels, power_of_two
from groupnoise.core.encoders import BYTE_VALUES

EPSILON = np.float32(NORM_EPSILON)
N_OF_LAYER = 8
"""Matrices and offsets of a layer: of its gates, output, and perceptron."""


class RowLoops(NamedTuple):
    """The compiled loops; see the functions of the same names."""

    normalize_input: Callable[..., None]
    add_residual: Callable[..., None]
    run_recurrence: Callable[..., None]
    recurrence_gradient: Callable[..., None]
    residual_gradient: Callable[..., None]
    input_gradient: Callable[..., None]
    relu_gradient: Callable[..., None]


@cache
def row_loops() -> RowLoops | None:
    """Return the compiled loops, None without numba (`pip install groupnoise[fast]`)."""
    plain = (
        normalize_input,
        add_residual,
        run_recurrence,
        recurrence_gradient,
        residual_gradient,
        input_gradient,
        relu_gradient,
    )
    found = compile_kernels(plain, helpers=(power_of_two, logistic, standardize))
    return None if found is None else RowLoops(*found)


def logistic(value: Any) -> Any:
    """Return 1 / (1 + exp(-value))."""
    return ONE / (ONE + power_of_two(-LOG2_E * value))


def standardize(values: Any, result: Any, spread: Any, row: int) -> None:
    """Write standardized values, and the inverse standard deviation of the row to `spread`."""
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


def normalize_input(
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
    """Write standardized values, the states made of them under dropout, and standardized states.

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


def add_residual(
    states: Any,
    more: Any,
    drawn: Any,
    kept: int,
    factor: Any,
    entry: Any,
    spread: Any,
) -> None:
    """Add to the states under dropout, and write the standardized states to `entry`.

    `states`, `more`, `entry` (n, hidden). The others as in :func:`normalize_input`.
    """
    n, hidden = states.shape
    for row in range(n):
        bytes_of = drawn[row]
        for k in range(hidden):
            own = factor if bytes_of[k] < kept else ZERO
            states[row, k] += more[row, k] * own
        standardize(states[row], entry[row], spread, row)


def run_recurrence(gates: Any, rows: Any, memory: Any, shown: Any) -> None:
    """Write the memory after each click, and the output.

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


def recurrence_gradient(
    gates: Any, rows: Any, memory: Any, upstream: Any, carried: Any, total: Any
) -> None:
    """Replace the gates by their gradient, and add its sum over rows to `total`.

    `upstream` (n, hidden): by what is shown. `carried` (hidden): space. `total` (3 * hidden). The
    others as in :func:`run_recurrence`.
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


def residual_gradient(
    upstream: Any,
    entry: Any,
    spread: Any,
    drawn: Any,
    kept: int,
    factor: Any,
    of_states: Any,
    total: Any,
) -> None:
    """Write the gradient by what :func:`add_residual` added in place of that by the entry.

    `upstream` (n, hidden): by the entry. `of_states` (n, hidden): by the states, is added to.
    `total` (hidden): takes the sum of what is written. The others as in :func:`add_residual`.
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


def input_gradient(
    upstream: Any, weight: Any, entry: Any, spread: Any, of_weight: Any, of_bias: Any
) -> None:
    """Write the gradient by the values of :func:`normalize_input` in place of that by what it kept.

    `upstream` (n, hidden): by states before any were dropped. `of_weight`, `of_bias` (hidden): are
    added to. The others as in :func:`normalize_input`.
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


def relu_gradient(slopes: Any, values: Any, total: Any) -> None:
    """Zero slopes where values are not positive, and add their sums over rows to `total`.

    `slopes`, `values` (n, width). `total` (width).
    """
    n, width = values.shape
    for row in range(n):
        for k in range(width):
            slope = slopes[row, k] if values[row, k] > ZERO else ZERO
            slopes[row, k] = slope
            total[k] += slope


class Dropped(NamedTuple):
    """The dropout of the rows of some sequences.

    `drawn`: bytes (n, hidden) for each dropout.
    `kept`: bytes below it keep an entry, rescaled.
    """

    drawn: Sequence[NDArray[np.uint8]]
    kept: int


def encode_prefixes(
    vectors: Tensor, rows: IntArray, dropped: Dropped, weights: Sequence[Tensor], loops: RowLoops
) -> Tensor:
    """Return the encoding of every prefix of some sequences, without padding.

    Of shape (n, width), differentiable once. `vectors` (n, width): f of all clicks. `rows` (size,
    n_sequences): the row of each step of each sequence, -1 after its end. `weights`: of
    :meth:`groupnoise.clicks.evidence.recurrence_training.RecurrentEncoder.products`.
    """
    result: Tensor = _ReadRows.apply(vectors, rows, dropped, loops, *weights)  # type: ignore[no-untyped-call]
    return result


class _ReadRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        rows: IntArray,
        dropped: Dropped,
        loops: RowLoops,
        *weights: Tensor,
    ) -> Tensor:
        project, scale, shift, *of_layers, answer, answer_offset = weights
        n, hidden = len(vectors), len(project)
        drops = _drops(dropped)
        first, states, entry = vectors.new_empty(3, n, hidden)
        spreads = vectors.new_empty(2 + 2 * (len(of_layers) // N_OF_LAYER), n)
        loops.normalize_input(
            torch.mm(vectors, project.t()).numpy(),
            scale.numpy(),
            shift.numpy(),
            *next(drops),
            first.numpy(),
            spreads[0].numpy(),
            states.numpy(),
            entry.numpy(),
            spreads[1].numpy(),
        )
        kept = [first, entry]
        for layer, own in zip(_layers(of_layers), spreads[2:].split(2), strict=True):
            gates = torch.addmm(layer[1], entry, layer[0].t())
            memory, shown, after, entry = vectors.new_empty(4, n, hidden)
            loops.run_recurrence(gates.numpy(), rows, memory.numpy(), shown.numpy())
            more = torch.addmm(layer[3], shown, layer[2].t())
            loops.add_residual(
                states.numpy(), more.numpy(), *next(drops), after.numpy(), own[0].numpy()
            )
            wide = torch.addmm(layer[5], after, layer[4].t()).relu_()
            torch.addmm(layer[7], wide, layer[6].t(), out=more)
            loops.add_residual(
                states.numpy(), more.numpy(), *next(drops), entry.numpy(), own[1].numpy()
            )
            kept += [gates, memory, shown, after, wide, entry]
        ctx.save_for_backward(vectors, *weights)
        ctx.rows, ctx.dropped, ctx.loops = rows, dropped, loops
        ctx.kept, ctx.spreads = kept, spreads
        return torch.addmm(answer_offset, entry, answer.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        vectors, project, scale, shift, *of_layers, answer, _ = ctx.saved_tensors
        rows, loops, kept, spreads = ctx.rows, ctx.loops, ctx.kept, ctx.spreads
        ctx.kept = None  # overwritten below
        drops = list(_drops(ctx.dropped))
        entry = kept.pop()
        slopes = torch.mm(upstream, answer)
        of_states, carried = torch.zeros_like(slopes), np.empty(len(project), dtype=np.float32)
        found = [torch.mm(upstream.t(), entry), upstream.sum(0)]

        def through(entry: Tensor, number: int) -> Tensor:
            """Propagate slopes through a residual sum, and return their sum over rows."""
            total = torch.empty_like(shift)
            loops.residual_gradient(
                slopes.numpy(),
                entry.numpy(),
                spreads[number + 1].numpy(),
                *drops[number],
                of_states.numpy(),
                total.numpy(),
            )
            return total

        for number, layer in reversed(list(enumerate(_layers(of_layers)))):
            wide, after, shown, memory, gates = (kept.pop() for _ in range(5))
            total = through(entry, 2 + 2 * number)
            of_reduce = torch.mm(slopes.t(), wide), total
            of_wide, total = torch.mm(slopes, layer[6]), torch.zeros_like(layer[5])
            loops.relu_gradient(of_wide.numpy(), wide.numpy(), total.numpy())
            of_expand = torch.mm(of_wide.t(), after), total
            torch.mm(of_wide, layer[4], out=slopes)
            total = through(after, 1 + 2 * number)
            of_read = torch.mm(slopes.t(), shown), total
            of_shown, total = torch.mm(slopes, layer[2]), torch.zeros_like(layer[1])
            loops.recurrence_gradient(
                gates.numpy(), rows, memory.numpy(), of_shown.numpy(), carried, total.numpy()
            )
            entry = kept.pop()
            of_gates = torch.mm(gates.t(), entry), total
            torch.mm(gates, layer[0], out=slopes)
            found[:0] = [*of_gates, *of_read, *of_expand, *of_reduce]
        through(entry, 0)
        of_scale, of_shift = torch.zeros_like(scale), torch.zeros_like(shift)
        loops.input_gradient(
            slopes.numpy(),
            scale.numpy(),
            kept.pop().numpy(),
            spreads[0].numpy(),
            of_scale.numpy(),
            of_shift.numpy(),
        )
        of_project = torch.mm(slopes.t(), vectors)
        of_vectors = torch.mm(slopes, project)
        return of_vectors, None, None, None, of_project, of_scale, of_shift, *found


def _drops(dropped: Dropped) -> Iterator[tuple[Any, ...]]:
    factor = np.float32(BYTE_VALUES / dropped.kept)
    for drawn in dropped.drawn:
        yield drawn, dropped.kept, factor


def _layers(weights: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    for start in range(0, len(weights), N_OF_LAYER):
        yield weights[start : start + N_OF_LAYER]

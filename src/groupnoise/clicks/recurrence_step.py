"""A recurrence in training: compiled loops between matrix products, without autograd in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from groupnoise.clicks.recurrence_loops import RowLoops
from groupnoise.core.arrays import IntArray
from groupnoise.core.encoders import BYTE_VALUES

N_OF_LAYER = 8
"""Matrices and offsets of a layer: of its gates, of reading, expanding and reducing."""


class Dropped(NamedTuple):
    """What is dropped of the rows of some sequences.

    `drawn`: for every time that something is dropped, bytes (n, hidden).
    `kept`: bytes below it keep an entry, which is multiplied so that its mean stays.
    """

    drawn: Sequence[NDArray[np.uint8]]
    kept: int


def read_in_order(
    vectors: Tensor, rows: IntArray, dropped: Dropped, weights: Sequence[Tensor], loops: RowLoops
) -> Tensor:
    """Return what every beginning of some sequences is read as, without padding.

    Of shape (n, width), differentiable once. `vectors` (n, width): f of all clicks. `rows` (size,
    n_sequences): which of them each step of each sequence is, -1 after its end. `weights`: what
    :meth:`groupnoise.clicks.recurrence_training.RecurrentEncoder.products` returned.
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
        loops.begin(
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
            loops.remember(gates.numpy(), rows, memory.numpy(), shown.numpy())
            more = torch.addmm(layer[3], shown, layer[2].t())
            loops.add(states.numpy(), more.numpy(), *next(drops), after.numpy(), own[0].numpy())
            wide = torch.addmm(layer[5], after, layer[4].t()).relu_()
            torch.addmm(layer[7], wide, layer[6].t(), out=more)
            loops.add(states.numpy(), more.numpy(), *next(drops), entry.numpy(), own[1].numpy())
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
            """Take slopes by an entry to what was added before it, and return their sum."""
            total = torch.empty_like(shift)
            loops.subtract(
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
            loops.rectify(of_wide.numpy(), wide.numpy(), total.numpy())
            of_expand = torch.mm(of_wide.t(), after), total
            torch.mm(of_wide, layer[4], out=slopes)
            total = through(after, 1 + 2 * number)
            of_read = torch.mm(slopes.t(), shown), total
            of_shown, total = torch.mm(slopes, layer[2]), torch.zeros_like(layer[1])
            loops.forget(
                gates.numpy(), rows, memory.numpy(), of_shown.numpy(), carried, total.numpy()
            )
            entry = kept.pop()
            of_gates = torch.mm(gates.t(), entry), total
            torch.mm(gates, layer[0], out=slopes)
            found[:0] = [*of_gates, *of_read, *of_expand, *of_reduce]
        through(entry, 0)
        of_scale, of_shift = torch.zeros_like(scale), torch.zeros_like(shift)
        loops.end(
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

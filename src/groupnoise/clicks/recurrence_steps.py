"""Linear recurrences over the steps of sequences, with backward passes of their own.

A loop over T steps is T small operations, whose cost is that of starting them. Here the steps are
cut into about sqrt(2 T) chunks that go forward side by side, each from zero; what a chunk begins
with is added after, times the product of all that is kept up to each step. Sums are taken in
another order than a loop takes them, and agree with it up to rounding.
"""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

MIN_CHUNK = 4
"""Steps of a chunk below which a loop is as fast."""


def gated_recurrence(gates: Tensor) -> Tensor:
    """Return what a gated recurrence shows of its memory at each step.

    With (a, v, o) the thirds of the last axis, h_t = s(a_t) * h_{t-1} + (1 - s(a_t)) * v_t for
    s the logistic function, and h_t * o_t * s(o_t) is shown.

    Of shape (n_steps, n, hidden): differentiable once. `gates` (n_steps, n, 3 * hidden): before any
    logistic function.
    """
    result: Tensor = _GatedRecurrence.apply(gates)  # type: ignore[no-untyped-call]
    return result


class _GatedRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor) -> Tensor:
        gate, value, shown = gates.chunk(3, -1)
        kept, open_ = torch.sigmoid(gate), torch.sigmoid(shown)
        states = torch.addcmul(value, kept, value, value=-1).contiguous()
        _accumulate(kept, states)
        ctx.save_for_backward(gates, kept, open_, states)
        return (shown * open_).mul_(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        gates, kept, open_, states = ctx.saved_tensors
        _, value, shown = gates.chunk(3, -1)
        grad = torch.empty_like(gates)
        grad_gate, grad_value, grad_shown = grad.chunk(3, -1)
        silu = shown * open_
        # Of o s(o): s(o) + o s(o) (1 - s(o)).
        slope = torch.addcmul(silu, silu, open_, value=-1).add_(open_)
        torch.mul(slope.mul_(states), upstream, out=grad_shown)
        grad_states = silu.mul_(upstream).contiguous()
        _accumulate(kept, grad_states, backwards=True)
        torch.addcmul(grad_states, grad_states, kept, value=-1, out=grad_value)
        before = torch.neg(value).contiguous()
        before[1:] += states[:-1]
        torch.mul(before.mul_(kept), grad_value, out=grad_gate)
        return grad


def _accumulate(kept: Tensor, states: Tensor, *, backwards: bool = False) -> None:
    """Add to each state what it keeps of the one before it, in place.

    Backwards, to each what the one after it keeps of it: states[t] += kept[t + 1] * states[t + 1].
    """
    size = len(states)
    width = isqrt(size // 2)
    n_chunks = size // width if width >= MIN_CHUNK else 0
    rest = size - n_chunks * width
    if n_chunks:
        part = slice(rest, size) if backwards else slice(0, size - rest)
        factors = torch.empty_like(states[part])
        if backwards:
            factors[-1] = 0.0
            factors[:-1] = kept[rest + 1 :]
        else:
            factors.copy_(kept[part])
        shape = (n_chunks, width, *states.shape[1:])
        _accumulate_chunks(factors.view(shape), states[part].view(shape), backwards)
    # The rest, which goes on from the chunks.
    part = slice(0, rest + 1) if backwards else slice(max(size - rest - 1, 0), size)
    own, each = kept[part].unbind(0), states[part].unbind(0)
    if backwards:
        for step in range(len(each) - 2, -1, -1):
            each[step].addcmul_(own[step + 1], each[step + 1])
    else:
        for step in range(1, len(each)):
            each[step].addcmul_(own[step], each[step - 1])


def _accumulate_chunks(factors: Tensor, states: Tensor, backwards: bool) -> None:
    """Do so for (n_chunks, width, ...) steps, from none before; overwrites the factors."""
    by_step = list(zip(factors.unbind(1), states.unbind(1), strict=True))
    if backwards:
        by_step.reverse()
    for (factor_before, before), (factor, state) in pairwise(by_step):
        state.addcmul_(factor, before)
        factor.mul_(factor_before)
    last_factor, last = by_step[-1]
    chunks = list(zip(last_factor.unbind(0), last.unbind(0), strict=True))
    if backwards:
        chunks.reverse()
    for (_, before), (factor, state) in pairwise(chunks):
        state.addcmul_(factor, before)
    if backwards:
        states[:-1, 1:].addcmul_(factors[:-1, 1:], states[1:, :1])
    else:
        states[1:, :-1].addcmul_(factors[1:, :-1], states[:-1, -1:])

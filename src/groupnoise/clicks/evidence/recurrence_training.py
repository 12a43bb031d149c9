"""The gated linear recurrences of `recurrence.py` as a torch module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from groupnoise.clicks.evidence.recurrence import (
    EXPANSION,
    NORM_EPSILON,
    Recurrence,
    pack_weights,
    weight_shapes,
)
from groupnoise.core.encoders import byte_factors, random_bytes

MEMORIES = (1.3, 60.0)
"""Time constants, in clicks, of the shortest and the longest memory of an untrained recurrence."""
GATE_SCALE = 0.3
"""Scale of the initial weights of the forget gates, relative to the usual ones."""
ANSWER_STD = 0.02
"""Small, so that an untrained encoder hardly changes the query."""
DROPOUT = 0.4
MIN_CHUNK = 4
"""Steps of a chunk below which a loop is as fast."""


class RecurrentEncoder(nn.Module):
    """A sequence encoder of clicks; see :mod:`groupnoise.clicks.evidence.recurrence`.

    `width`: of inputs and outputs.
    `length`: the number of latest clicks read in answers; training reads whole sequences.
    `generator`: of the initial weights and of dropout.
    `dropout`: share of activations dropped in training.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        n_layers: int,
        length: int,
        *,
        generator: torch.Generator,
        dropout: float = DROPOUT,
    ) -> None:
        super().__init__()
        self.width, self.hidden, self.length = width, hidden, length
        self.dropout, self.generator = dropout, generator
        self.project = nn.Linear(width, hidden, bias=False)
        self.input_norm = nn.LayerNorm(hidden, eps=NORM_EPSILON)
        self.layers = nn.ModuleList(_Layer(hidden) for _ in range(n_layers))
        self.output_norm = nn.LayerNorm(hidden, eps=NORM_EPSILON)
        self.answer = nn.Linear(hidden, width, bias=False)
        for name, values in self.named_parameters():
            if name.endswith("weight") and values.ndim == 2:
                bound = values.shape[1] ** -0.5
                nn.init.uniform_(values, -bound, bound, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(values)
        nn.init.normal_(self.answer.weight, std=ANSWER_STD, generator=generator)
        memories = np.geomspace(MEMORIES[0], MEMORIES[1], hidden)
        for layer in self._layers():
            with torch.no_grad():
                layer.gates.bias[:hidden] = torch.from_numpy(np.log(memories - 1))
                layer.gates.weight[:hidden] *= GATE_SCALE

    def by_step(self, vectors: Tensor, drawn: Sequence[Tensor] | None = None) -> Tensor:
        """Return the encoding of every prefix of some sequences, shape (size, n, width).

        `vectors` (size, n, width): f of clicks, oldest first, followed by padding. `drawn`: the
        result of :meth:`draw`, which is called by default.
        """
        found = self.draw(vectors.shape[:2]) if drawn is None else iter(drawn)
        factors = (byte_factors(each, self.dropout).to(vectors) for each in found)
        states = self.input_norm(self.project(vectors))
        if self.drops:
            states = states * next(factors)
        for layer in self._layers():
            states = self._with(states, layer.remember(states), factors)
            states = self._with(states, layer.perceive(states), factors)
        return self.answer(self.output_norm(states))

    def products(self) -> list[Tensor]:
        """Return the matrices and offsets for :func:`.recurrence_loops.encode_prefixes`.

        Each normalization but the first is merged into the product that follows it:
        W (w * x + b) + c = (W w) x + (W b + c).
        """
        return [
            self.project.weight,
            self.input_norm.weight,
            self.input_norm.bias,
            *(
                each
                for layer in self._layers()
                for each in (
                    *_after_norm(layer.recurrence_norm, layer.gates),
                    layer.read.weight,
                    layer.read.bias,
                    *_after_norm(layer.perceptron_norm, layer.expand),
                    layer.reduce.weight,
                    layer.reduce.bias,
                )
            ),
            *_after_norm(self.output_norm, self.answer),
        ]

    def _layers(self) -> Iterator[_Layer]:
        return (layer for layer in self.layers if isinstance(layer, _Layer))

    @property
    def drops(self) -> bool:
        """Whether activations are dropped now."""
        return self.training and self.dropout > 0

    def draw(self, shape: Sequence[int]) -> Iterator[Tensor]:
        """Draw the dropout of a training step, in the order of use.

        Bytes (size, n, hidden) for the states, and for what each layer adds to them twice, as
        :func:`groupnoise.core.encoders.byte_factors` takes them; none where nothing is dropped.
        `shape`: (size, n).
        """
        for _ in range(1 + 2 * len(self.layers) if self.drops else 0):
            yield random_bytes((*shape, self.hidden), self.generator)

    def _with(self, states: Tensor, more: Tensor, factors: Iterator[Tensor]) -> Tensor:
        """Return states with `more` added, under dropout in training."""
        if not self.drops:
            return states + more
        return torch.addcmul(states, more, next(factors))

    @torch.no_grad()
    def as_arrays(self, scale: Tensor) -> Recurrence:
        """Return the encoder for inputs multiplied by `scale`, dimension by dimension.

        Its outputs are not scaled.
        """
        state = self.state_dict()
        state["project.weight"] = state["project.weight"] / scale
        shapes = weight_shapes(self.width, self.hidden, len(self.layers))
        return Recurrence(
            0,
            self.width,
            self.hidden,
            len(self.layers),
            self.length,
            pack_weights({name: state[name].numpy() for name in shapes}),
        )


class _Layer(nn.Module):
    """One recurrence, and the perceptron that follows it."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrence_norm = nn.LayerNorm(hidden, eps=NORM_EPSILON)
        self.gates = nn.Linear(hidden, 3 * hidden)
        self.read = nn.Linear(hidden, hidden)
        self.perceptron_norm = nn.LayerNorm(hidden, eps=NORM_EPSILON)
        self.expand = nn.Linear(hidden, EXPANSION * hidden)
        self.reduce = nn.Linear(EXPANSION * hidden, hidden)

    def remember(self, states: Tensor) -> Tensor:
        """Return what the recurrence adds to each state, shape (size, n, hidden)."""
        return self.read(gated_recurrence(self.gates(self.recurrence_norm(states))))

    def perceive(self, states: Tensor) -> Tensor:
        """Return what the perceptron adds to each state, shape (size, n, hidden)."""
        wide = F.relu(self.expand(self.perceptron_norm(states)), inplace=True)
        return self.reduce(wide)


def _after_norm(norm: nn.LayerNorm, product: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return matrix and offset of a product merged with the normalization before it."""
    matrix, offset = product.weight * norm.weight, product.weight @ norm.bias
    return matrix, offset if product.bias is None else offset + product.bias


def gated_recurrence(gates: Tensor) -> Tensor:
    """Return the output of a gated recurrence at each step.

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
    """Do so for chunks of (n_chunks, width, ...) steps; overwrites the factors."""
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

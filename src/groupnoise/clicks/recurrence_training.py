"""The gated linear recurrences of :mod:`groupnoise.clicks.recurrence` as a torch module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from groupnoise.clicks.recurrence import (
    EXPANSION,
    NORM_EPSILON,
    Recurrence,
    packed,
    weight_shapes,
)
from groupnoise.core.encoders import dropout_factors

MEMORIES = (1.3, 60.0)
"""Clicks that the shortest and the longest memory of an untrained recurrence last."""
GATE_SCALE = 0.3
"""How far the initial weights let a click move the memories, in units of the usual start."""
ANSWER_STD = 0.02
"""Small: an untrained encoder hardly changes the query that it is added to."""


def linear_recurrence(kept: Tensor, added: Tensor) -> Tensor:
    """Return h_t = kept_t * h_{t-1} + added_t for each step t, from h = 0.

    Parameters
    ----------
    kept, added : Tensor of shape (n_steps, ...)
        Both along the first axis.

    Returns
    -------
    Tensor of shape (n_steps, ...)
        Differentiable once; the backward pass is a recurrence too.
    """
    result: Tensor = _LinearRecurrence.apply(kept, added)  # type: ignore[no-untyped-call]
    return result


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kept: Tensor, added: Tensor) -> Tensor:
        states = added.clone()
        for step in range(1, len(states)):
            states[step].addcmul_(kept[step], states[step - 1])
        ctx.save_for_backward(kept, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        kept, states = ctx.saved_tensors
        grad_added = upstream.clone()
        for step in range(len(upstream) - 2, -1, -1):
            grad_added[step].addcmul_(kept[step + 1], grad_added[step + 1])
        grad_kept = torch.zeros_like(kept)
        torch.mul(grad_added[1:], states[:-1], out=grad_kept[1:])
        return grad_kept, grad_added


class RecurrentEncoder(nn.Module):
    """Reads the vectors of clicks in order; see :mod:`groupnoise.clicks.recurrence`.

    Parameters
    ----------
    width : int
        Of the vectors read and answered.
    hidden : int
        Width of the states.
    n_layers : int
        How many recurrences follow each other.
    length : int
        How many of the latest clicks are read in answers; training reads the sequence it is given.
    dropout : float
        Share of activations dropped in training.
    generator : torch.Generator
        Decides the initial weights and what is dropped.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        n_layers: int,
        length: int,
        *,
        dropout: float,
        generator: torch.Generator,
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

    def forward(self, vectors: Tensor) -> Tensor:
        """Return what every beginning of some sequences is read as.

        Parameters
        ----------
        vectors : Tensor of shape (n, size, width)
            f of clicks, oldest first; padding follows them.

        Returns
        -------
        Tensor of shape (n, size, width)
        """
        states = self._dropped(self.input_norm(self.project(vectors.transpose(0, 1))))
        for layer in self._layers():
            states = states + self._dropped(layer.remember(states))
            states = states + self._dropped(layer.perceive(states))
        answers: Tensor = self.answer(self.output_norm(states))
        return answers.transpose(0, 1)

    def _layers(self) -> Iterator[_Layer]:
        return (layer for layer in self.layers if isinstance(layer, _Layer))

    def _dropped(self, values: Tensor) -> Tensor:
        if not (self.training and self.dropout):
            return values
        return values * dropout_factors(values, self.dropout, self.generator)

    @torch.no_grad()
    def as_arrays(self, scale: Tensor) -> Recurrence:
        """Return the encoder of vectors that were multiplied by `scale`, dimension by dimension.

        Its answers are not multiplied: they are added to queries beside them.

        Parameters
        ----------
        scale : Tensor of shape (width,)
            Positive.

        Returns
        -------
        Recurrence
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
            packed({name: state[name].numpy() for name in shapes}),
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
        gate, value, shown = self.gates(self.recurrence_norm(states)).chunk(3, -1)
        kept = torch.sigmoid(gate)
        memory = linear_recurrence(kept, (1 - kept) * value)
        read: Tensor = self.read(memory * F.silu(shown))
        return read

    def perceive(self, states: Tensor) -> Tensor:
        """Return what the perceptron adds to each state, shape (size, n, hidden)."""
        wide = F.relu(self.expand(self.perceptron_norm(states)))
        perceived: Tensor = self.reduce(wide)
        return perceived

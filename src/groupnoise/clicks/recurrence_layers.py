"""The layers of a gated linear recurrence on numpy, for answers without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import below

NORM_EPSILON = 1e-5


class Gates(NamedTuple):
    """What some clicks do to a memory: how much of it they keep, add, and show."""

    kept: Float32Array
    added: Float32Array
    shown: Float32Array


class ReadingLayer:
    """The weights of one recurrence, each normalization taken into the product that follows it."""

    def __init__(self, weights: Mapping[str, Float32Array], number: int) -> None:
        own = below(f"layers.{number}.", weights)
        hidden = len(own["read.bias"])
        matrix, offset = _after_norm(own, "recurrence_norm", "gates")
        self._keep, self._value, self._show = (
            (np.ascontiguousarray(matrix[:, part]), offset[part])
            for part in (slice(first, first + hidden) for first in range(0, 3 * hidden, hidden))
        )
        self._read = own["read.weight"].T, own["read.bias"]
        self._expand = _after_norm(own, "perceptron_norm", "expand")
        self._reduce = own["reduce.weight"].T, own["reduce.bias"]
        self._answer = _after_norm(weights, "output_norm", "answer")

    def gates(self, entry: Float32Array) -> Gates:
        """Return all three gates of standardized states (n, hidden)."""
        return Gates(*self.memory(entry), self.shown(entry))

    def memory(self, entry: Float32Array) -> tuple[Float32Array, Float32Array]:
        """Return how much each click keeps, and what it adds."""
        kept, added = _sigmoid(_affine(entry, *self._keep)), _affine(entry, *self._value)
        added -= kept * added
        return kept, added

    def shown(self, entry: Float32Array) -> Float32Array:
        """Return how much of the memory each click shows."""
        gate = _affine(entry, *self._show)
        return gate * _sigmoid(gate.copy())

    def perceive(self, states: Float32Array, memory: Float32Array) -> Float32Array:
        """Return states after what they are shown of the memory, and after the perceptron."""
        states = states + _affine(memory, *self._read)
        wide = _affine(standardized(states), *self._expand)
        np.maximum(wide, 0.0, out=wide)
        states += _affine(wide, *self._reduce)
        return states

    def answers(self, states: Float32Array) -> Float32Array:
        """Return what histories are read as from their last states."""
        return _affine(standardized(states), *self._answer)


def _affine(values: Float32Array, matrix: Float32Array, offset: Float32Array) -> Float32Array:
    product: Float32Array = values @ matrix
    product += offset
    return product


def _after_norm(
    weights: Mapping[str, Float32Array], norm: str, name: str
) -> tuple[Float32Array, Float32Array]:
    """Return matrix (in, out) and offset of a product that follows a normalization."""
    matrix, scale = weights[f"{name}.weight"], weights[f"{norm}.weight"]
    offset = matrix @ weights[f"{norm}.bias"]
    if f"{name}.bias" in weights:
        offset = offset + weights[f"{name}.bias"]
    return np.ascontiguousarray((matrix * scale).T), offset


def standardized(values: Float32Array) -> Float32Array:
    """Return rows less their mean, over their standard deviation.

    Of shape (n, hidden). `values` (n, hidden): states.
    """
    mean = values @ np.full(values.shape[1], 1 / values.shape[1], dtype=values.dtype)
    centred: Float32Array = values - mean[:, None]
    variance = np.einsum("nd,nd->n", centred, centred) / np.float32(values.shape[1])
    centred *= (1.0 / np.sqrt(variance + np.float32(NORM_EPSILON)))[:, None]
    return centred


def _sigmoid(values: Float32Array) -> Float32Array:
    """Return the logistic function in place; of a tangent, which no value makes overflow."""
    values *= np.float32(0.5)
    np.tanh(values, out=values)
    values += np.float32(1.0)
    values *= np.float32(0.5)
    return values


def accumulate(memory: Float32Array, kept: Float32Array) -> None:
    """Add to each step what it keeps of the step before, in place.

    `memory`, `kept` (n_steps, n, hidden): what each step adds, and how much it keeps.
    """
    before = np.empty_like(memory[0])
    for step in range(1, len(memory)):
        np.multiply(kept[step], memory[step - 1], out=before)
        memory[step] += before

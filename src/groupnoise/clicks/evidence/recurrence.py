"""A sequence encoder of histories: gated linear recurrences, evaluated without torch.

With f(x_t) the vector of click t, u_t the state of a layer and * the product by entries,

    u_t = norm(W f(x_t)),
    h_t = a_t * h_{t-1} + (1 - a_t) * v_t,   a_t = sigmoid(A p_t + a), v_t = V p_t + v,
    u_t <- u_t + R (h_t * silu(O p_t + o)) + r,   p_t = norm(u_t),
    u_t <- u_t + F2 relu(F1 norm(u_t) + f1) + f2,

layer after layer, and a history is read as W' norm(u_t) of its last click: a vector that is added
to its query. How fast an earlier click fades (a_t) is up to the clicks that follow it, which no
sum over clicks can say. The cost is linear in the length of the history.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import IntArray, strip_prefix
from groupnoise.core.checks import check_count
from groupnoise.exceptions import ParameterError

EXPANSION = 2
"""Width of the perceptron relative to the state."""
STATES_AT_ONCE = 1 << 22
"""Entries of one array of states, which bounds memory."""
NEAR_STATES = 1 << 18
"""Entries of one array of states that fit the cache."""
MAX_WIDTH = 1 << 14
MAX_LAYERS = 64
RECORD = ("begin", "width", "hidden", "n_layers", "length")
NORM_EPSILON = 1e-5


def weight_shapes(width: int, hidden: int, n_layers: int) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every weight, in the order in which they are stored.

    `width`: of the vectors read and answered. `n_layers`: how many recurrences follow each other.
    """
    wide = EXPANSION * hidden
    layer = {
        "recurrence_norm.weight": (hidden,),
        "recurrence_norm.bias": (hidden,),
        "gates.weight": (3 * hidden, hidden),
        "gates.bias": (3 * hidden,),
        "read.weight": (hidden, hidden),
        "read.bias": (hidden,),
        "perceptron_norm.weight": (hidden,),
        "perceptron_norm.bias": (hidden,),
        "expand.weight": (wide, hidden),
        "expand.bias": (wide,),
        "reduce.weight": (hidden, wide),
        "reduce.bias": (hidden,),
    }
    return {
        "project.weight": (hidden, width),
        "input_norm.weight": (hidden,),
        "input_norm.bias": (hidden,),
        **{f"layers.{n}.{name}": layer[name] for n in range(n_layers) for name in layer},
        "output_norm.weight": (hidden,),
        "output_norm.bias": (hidden,),
        "answer.weight": (width, hidden),
    }


@dataclass(frozen=True, eq=False)
class Recurrence:
    """A sequence encoder of some dimensions of the vectors of a history.

    `begin`: the first dimension it reads, and adds to.
    `width`: how many dimensions.
    `hidden`: width of its states.
    `length`: how many of the latest clicks it reads.
    `weights`: all weights, one after the other as :func:`weight_shapes` names them.
    """

    begin: int
    width: int
    hidden: int
    n_layers: int
    length: int
    weights: Float32Array

    def __post_init__(self) -> None:
        for name in RECORD[1:]:
            check_count(name, getattr(self, name))
        if type(self.begin) is not int or self.begin < 0:
            raise ParameterError("the dimensions of an encoder begin at 0 or later.")
        if max(self.width, self.hidden) > MAX_WIDTH or self.n_layers > MAX_LAYERS:
            raise ParameterError(
                f"an encoder has at most {MAX_LAYERS} layers of {MAX_WIDTH} dimensions."
            )
        shapes = weight_shapes(self.width, self.hidden, self.n_layers).values()
        n_weights = sum(int(np.prod(shape)) for shape in shapes)
        if np.shape(self.weights) != (n_weights,):
            raise ParameterError(
                f"the encoder needs {n_weights} weights; got {np.size(self.weights)}."
            )
        if not np.isfinite(self.weights).all():
            raise ParameterError("a weight of the encoder is not a finite number.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Recurrence)
            and self.as_record() == other.as_record()
            and np.array_equal(self.weights, other.weights)
        )

    __hash__ = None  # type: ignore[assignment]

    def as_record(self) -> dict[str, int]:
        """Return everything but the weights, as JSON can hold it."""
        return {name: getattr(self, name) for name in RECORD}

    def named_weights(self) -> dict[str, Float32Array]:
        """Return the weights by name, as views."""
        return dict(self._named)

    @cached_property
    def _named(self) -> dict[str, Float32Array]:
        found, begin = {}, 0
        for name, shape in weight_shapes(self.width, self.hidden, self.n_layers).items():
            end = begin + math.prod(shape)
            found[name] = self.weights[begin:end].reshape(shape)
            begin = end
        return found

    def moved(self, n_dimensions: int) -> Recurrence:
        """Return this encoder for vectors with `n_dimensions` more in front."""
        return replace(self, begin=self.begin + n_dimensions)

    def scaled(self, weight: float) -> Recurrence:
        """Return the encoder with inputs and outputs multiplied by `weight`."""
        named = {name: values.copy() for name, values in self.named_weights().items()}
        named["project.weight"] /= np.float32(weight)
        named["answer.weight"] *= np.float32(weight)
        return replace(self, weights=pack_weights(named))

    def read(self, features: Float32Array, click_of: IntArray, offsets: IntArray) -> Float32Array:
        """Return the encoding of each history.

        Of shape (n_histories, width). `features` (n_distinct, dim): f of all items that occur.
        `click_of`: which of them each click is, one history after the other, oldest click first.
        `offsets`: where each history begins; none is empty.
        """
        weights, layers = self.named_weights(), self._layers
        own = features[:, self.begin : self.begin + self.width] @ weights["project.weight"].T
        own = standardized(own) * weights["input_norm.weight"] + weights["input_norm.bias"]
        # The gates of the first layer depend on the item alone.
        first = layers[0].gates(standardized(own))
        sizes = np.minimum(np.diff(offsets), self.length)
        last_states = np.empty((len(sizes), self.hidden), dtype=np.float32)
        order = np.argsort(sizes, kind="stable")  # histories of one size share their padding
        for rows in _blocks(order, sizes[order], NEAR_STATES // self.hidden):
            index = offsets[rows + 1] - sizes[rows] + np.arange(sizes[rows[-1]])[:, None]
            # Padding follows the clicks, and no state looks ahead.
            clicks = click_of[np.minimum(index, offsets[rows + 1] - 1)]  # (size, n)
            last_states[rows] = self._last_states(own, first, clicks, sizes[rows] - 1)
        return layers[-1].answers(last_states)

    @cached_property
    def _layers(self) -> list[RecurrenceLayer]:
        weights = self.named_weights()
        return [RecurrenceLayer(weights, number) for number in range(self.n_layers)]

    def _last_states(
        self, own: Float32Array, first: Gates, clicks: IntArray, last: IntArray
    ) -> Float32Array:
        """Return the state at click `last` of each history of clicks (size, n), as (n, hidden)."""
        size, n = clicks.shape
        flat = clicks.ravel()  # products of all clicks at once are faster than step by step
        at_last = last * n + np.arange(n)
        states = entry = own
        for number, layer in enumerate(self._layers):
            if number:
                entry = standardized(states)
                kept, memory = layer.memory(entry)
            else:
                kept, memory = first.kept[flat], first.added[flat]
            by_step = memory.reshape(size, n, -1), kept.reshape(size, n, -1)
            accumulate(*by_step)
            shown_at: IntArray | slice = slice(None)
            if number == self.n_layers - 1:  # only the last states are needed
                memory, shown_at = memory[at_last], at_last
            if number:
                states, shown = states[shown_at], layer.shown(entry[shown_at])
            else:
                read = flat[shown_at]
                states, shown = own[read], first.shown[read]
            memory *= shown
            states = layer.perceive(states, memory)
        return states

    def click_effects(
        self, features: Float32Array, click_of: IntArray, offsets: IntArray
    ) -> Float32Array:
        """Return the change of the encoding of a history by each of its clicks.

        Of shape (n_clicks, width): the encoding less that without the click; zero for clicks before
        the window, and the whole encoding for a single click.
        """
        lost = np.zeros((len(click_of), self.width), dtype=np.float32)
        whole = self.read(features, click_of, offsets)
        sizes = np.minimum(np.diff(offsets), self.length)
        first = offsets[1:] - sizes
        # Histories of one size together, in blocks of bounded memory.
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            if size == 1:
                lost[first[rows]] = whole[rows]
                continue
            rest = np.broadcast_to(np.arange(size), (size, size))[~np.eye(size, dtype=bool)]
            step = max(1, STATES_AT_ONCE // (size * size * self.hidden))
            for begin in range(0, len(rows), step):
                own = rows[begin : begin + step]
                clicks = click_of[first[own, None] + rest].ravel()
                without = self.read(features, clicks, np.arange(len(own) * size + 1) * (size - 1))
                kept = first[own, None] + np.arange(size)
                lost[kept.ravel()] = np.repeat(whole[own], size, axis=0) - without
        return lost


def pack_weights(named: Mapping[str, Any]) -> Float32Array:
    """Return weights by name as one array, in the order of :func:`weight_shapes`.

    `named`: in that order already.
    """
    parts = [np.asarray(values, dtype=np.float32).ravel() for values in named.values()]
    return np.concatenate(parts)


def load_recurrences(records: Any, weights: Any) -> tuple[Recurrence, ...]:
    """Return the encoders of a file, checked.

    `records`: of :meth:`Recurrence.as_record`, one per encoder. `weights`: of all, concatenated.
    Raises ParameterError if the records or the weights are invalid.
    """
    if not isinstance(records, (list, tuple)):
        raise ParameterError("encoders must be a list.")
    stored = np.zeros(0, dtype=np.float32) if weights is None else np.asarray(weights)
    if stored.ndim != 1 or stored.dtype != np.float32:
        raise ParameterError("the weights of encoders must be one row of single precision.")
    found, begin = [], 0
    for record in records:
        if not isinstance(record, Mapping) or set(record) != set(RECORD):
            raise ParameterError(f"an encoder is described by {', '.join(RECORD)}.")
        if not all(type(value) is int and 0 <= value <= MAX_WIDTH for value in record.values()):
            raise ParameterError(f"an encoder is described by whole numbers up to {MAX_WIDTH}.")
        if record["n_layers"] > MAX_LAYERS:
            raise ParameterError(f"an encoder has at most {MAX_LAYERS} layers.")
        shapes = weight_shapes(record["width"], record["hidden"], record["n_layers"]).values()
        end = begin + sum(int(np.prod(shape)) for shape in shapes)
        found.append(Recurrence(**record, weights=stored[begin:end]))
        begin = end
    if begin != len(stored):
        raise ParameterError(f"the encoders need {begin} weights; there are {len(stored)}.")
    return tuple(found)


def _blocks(order: IntArray, sizes: IntArray, n_states: int) -> Iterator[IntArray]:
    """Yield rows of rising sizes, together of about `n_states` clicks with their padding."""
    begin = 0
    while begin < len(order):
        end = begin + max(1, n_states // int(sizes[begin]))
        longest = int(sizes[min(end, len(order)) - 1])
        end = begin + max(1, n_states // longest)
        yield order[begin:end]
        begin = end


class Gates(NamedTuple):
    """The gates of some clicks: what they keep of the memory, add to it, and show of it."""

    kept: Float32Array
    added: Float32Array
    shown: Float32Array


class RecurrenceLayer:
    """The weights of one recurrence, each normalization merged into the product after it."""

    def __init__(self, weights: Mapping[str, Float32Array], number: int) -> None:
        own = strip_prefix(f"layers.{number}.", weights)
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
        """Return the forget gate of each click, and what it adds to the memory."""
        kept, added = _sigmoid(_affine(entry, *self._keep)), _affine(entry, *self._value)
        added -= kept * added
        return kept, added

    def shown(self, entry: Float32Array) -> Float32Array:
        """Return the output gate of each click."""
        gate = _affine(entry, *self._show)
        return gate * _sigmoid(gate.copy())

    def perceive(self, states: Float32Array, memory: Float32Array) -> Float32Array:
        """Return states after the output of the memory and the perceptron."""
        states = states + _affine(memory, *self._read)
        wide = _affine(standardized(states), *self._expand)
        np.maximum(wide, 0.0, out=wide)
        states += _affine(wide, *self._reduce)
        return states

    def answers(self, states: Float32Array) -> Float32Array:
        """Return the encodings of histories from their last states."""
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

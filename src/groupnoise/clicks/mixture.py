"""Histories as weighted queries: group weights (Eq. 6) on numpy, and what everything scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray, offsets_from_sizes, ragged_rows

Float32Array = NDArray[np.float32]
MAX_REPEATED = 16
"""Number of values up to which repeats are not looked for."""
N_NEGATIVES = 100


class ItemVectors(NamedTuple):
    """Vectors and biases of all items.

    `query` (n_items, dim): f of every item.
    `target` (n_items, dim): g of every item.
    `bias`: bias of every item as a target.
    """

    query: Float32Array
    target: Float32Array
    bias: Float32Array


class Mixture(NamedTuple):
    """Histories as weighted queries, one history after the other.

    `queries` (n_queries, dim): query vectors; of many terms each is held once.
    `items`: the item whose vector each query is; None where queries are no items.
    `query_of`: the query of each term of each history.
    `log_weight`: the log weight of each term.
    `offsets`: where the terms of each history begin; every history has at least one.
    """

    queries: Float32Array
    items: IntArray | None
    query_of: IntArray
    log_weight: Float32Array
    offsets: IntArray

    def by_size(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, for each number of terms that occurs, the histories and their terms (n, size)."""
        sizes = np.diff(self.offsets)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            yield rows, self.offsets[rows, None] + np.arange(size)

    def take(self, rows: IntArray) -> Mixture:
        """Return some of the histories, with the queries that these need."""
        sizes = np.diff(self.offsets)[rows]
        terms, offsets = ragged_rows(self.offsets[rows], sizes), offsets_from_sizes(sizes)
        distinct, query_of = unique_inverse(self.query_of[terms], len(self.queries))
        items = None if self.items is None else self.items[distinct]
        return Mixture(self.queries[distinct], items, query_of, self.log_weight[terms], offsets)


def recent_clicks(
    items: IntArray, offsets: IntArray, n_clicks: int | None
) -> tuple[IntArray, IntArray]:
    """Return the last `n_clicks` of each history, and where each begins among them.

    Examples
    --------
    >>> clicks, begins = recent_clicks(np.array([7, 8, 9, 4]), np.array([0, 3, 4]), 2)
    >>> clicks.tolist(), begins.tolist()
    ([8, 9, 4], [0, 2, 3])
    """
    sizes = np.diff(offsets)
    if n_clicks is None or not len(sizes) or sizes.max() <= n_clicks:
        return items[offsets[0] : offsets[-1]], offsets - offsets[0]
    taken = np.minimum(sizes, n_clicks)
    return items[ragged_rows(offsets[1:] - taken, taken)], offsets_from_sizes(taken)


def unique_inverse(values: IntArray, n_values: int | None = None) -> tuple[IntArray, IntArray]:
    """Return the distinct values in order, and the index of each value among them.

    A few values are returned as they are: finding the distinct ones costs more than it saves.
    """
    if len(values) <= MAX_REPEATED:
        return values, np.arange(len(values))
    if n_values is None:
        n_values = int(values.max()) + 1 if len(values) else 0
    is_used = np.zeros(n_values, dtype=bool)
    is_used[values] = True
    distinct = np.flatnonzero(is_used)
    index_of = np.empty(n_values, dtype=np.int64)
    index_of[distinct] = np.arange(len(distinct))
    return distinct, index_of[values]


def log_sum_exp(scores: NDArray[Any], *, axis: int) -> NDArray[Any]:
    """Return log(sum(exp(scores))) along an axis; `scores` is used as working space."""
    highest = scores.max(axis=axis, keepdims=True)
    np.subtract(scores, highest, out=scores)
    np.exp(scores, out=scores)
    return np.asarray(np.log(scores.sum(axis=axis)) + highest.squeeze(axis))


def popular_negatives(popularity: FloatArray, n: int = N_NEGATIVES) -> tuple[int, ...]:
    """Return items at even steps of all clicks, so that an item comes as often as it is clicked.

    In training the negatives of a click are clicks of other groups, distributed in the same way.

    Examples
    --------
    >>> popular_negatives(np.array([1.0, 0.0, 3.0]), 4)
    (0, 2, 2, 2)
    """
    clicks = np.cumsum(np.asarray(popularity, dtype=np.float64))
    steps = (np.arange(n) + 0.5) / n * clicks[-1]
    found = np.minimum(np.searchsorted(clicks, steps, side="right"), len(clicks) - 1)
    return tuple(found.tolist())


def _softmax(scores: Float32Array) -> Float32Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


_Between = Callable[[Float32Array, Float32Array], Float32Array]
_Context = Callable[[Float32Array, Float32Array, Float32Array], Float32Array]


def sigmoid_weight(
    features: Float32Array, between: _Between, context: _Context, scale: float
) -> Float32Array:
    """Return log P(click | history) of groups of one size, (n, size), in the paper's form.

    Log sigmoid of S(context of the other clicks, click). `features` (n, size, dim): f of the
    clicks. `between`, `context`: those of S, which `scale` multiplies; see `SIMILARITIES`.
    """
    size = features.shape[1]
    if size == 1:  # no context
        return np.zeros(features.shape[:2], dtype=features.dtype)
    likeness = scale * between(features, features)
    likeness.reshape(len(likeness), -1)[:, :: size + 1] = -np.inf  # the diagonals
    agreement = scale * context(_softmax(likeness), features, features)
    return np.asarray(-np.logaddexp(agreement.dtype.type(0), -agreement))


def contrastive_weight(
    features: Float32Array,
    negatives: Float32Array,
    between: _Between,
    context: _Context,
    scale: float,
) -> Float32Array:
    """Return log P(click | history) as the authors' code does: against negatives.

    All of them are compared with the context of the group, in whose attention an object's
    similarity to itself is zero. `negatives` (n_negatives, dim): those of every click. The rest as
    in `sigmoid_weight`.
    """
    size = features.shape[1]
    likeness = scale * between(features, features)
    likeness[:, np.arange(size), np.arange(size)] = 0.0
    own = scale * context(_softmax(likeness), features, features)
    queries = np.broadcast_to(negatives, (len(features), *negatives.shape))
    attention = _softmax(scale * between(queries, features))
    others = log_sum_exp(scale * context(attention, features, queries), axis=-1)
    return np.asarray(own - np.logaddexp(own, others[:, None]))


def _dot_between(left: Float32Array, right: Float32Array) -> Float32Array:
    return np.asarray(np.matmul(left, right.transpose(0, 2, 1)))


def _dot_context(
    attention: Float32Array, features: Float32Array, queries: Float32Array
) -> Float32Array:
    return np.asarray((np.matmul(attention, features) * queries).sum(axis=-1))


def _kl_between(left: Float32Array, right: Float32Array) -> Float32Array:
    probabilities = np.exp(left)
    negative_entropy = (probabilities * left).sum(axis=-1, keepdims=True)
    return np.asarray(np.matmul(probabilities, right.transpose(0, 2, 1)) - negative_entropy)


def _kl_context(
    attention: Float32Array, features: Float32Array, queries: Float32Array
) -> Float32Array:
    mixed = np.maximum(np.matmul(attention, np.exp(features)), np.finfo(np.float32).tiny)
    return np.asarray((mixed * (queries - np.log(mixed))).sum(axis=-1))


SIMILARITIES: dict[str, tuple[_Between, _Context]] = {
    "dot": (_dot_between, _dot_context),
    "neg_kl": (_kl_between, _kl_context),
}
"""For each S: S of every pair, and S of each query and the context it attends to."""

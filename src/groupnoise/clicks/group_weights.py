"""Group weights of clicks on numpy: log P(click | history), Eq. 6, as answers need them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from groupnoise.clicks.mixture import Float32Array, log_sum_exp
from groupnoise.core.arrays import FloatArray

N_NEGATIVES = 100


def log_group_weight(
    features: Float32Array,
    form: str,
    *,
    similarity: str = "dot",
    scale: float = 1.0,
    negatives: Float32Array | None = None,
) -> Float32Array:
    """Return log P(click | history) of groups of one size.

    Of shape (n, size). `features` (n, size, dim): f of the clicks. `form` (one of "sigmoid",
    "contrastive"): the paper's form, or that of the authors' code. `similarity` (one of "dot",
    "neg_kl"): s of Eq. 6. `scale`: multiplies S. `negatives` (n_negatives, dim): what "contrastive"
    holds every click against.
    """
    between, context = _SIMILARITIES[similarity]
    if form == "sigmoid":
        return _sigmoid_weight(features, between, context, scale)
    assert negatives is not None  # a rule names them
    return _contrastive_weight(features, negatives, between, context, scale)


def popular_negatives(popularity: FloatArray, n: int = N_NEGATIVES) -> tuple[int, ...]:
    """Return items at even steps of all clicks, so that an item comes as often as it is clicked.

    In training a click is held against clicks of other groups, which are drawn that way too.

    `n`: how many to return.

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


def _sigmoid_weight(
    features: Float32Array, between: _Between, context: _Context, scale: float
) -> Float32Array:
    """Return the paper's form: log sigmoid of S(context of the other clicks, click)."""
    size = features.shape[1]
    if size == 1:  # no context to agree with
        return np.zeros(features.shape[:2], dtype=features.dtype)
    likeness = scale * between(features, features)
    likeness.reshape(len(likeness), -1)[:, :: size + 1] = -np.inf  # the diagonals
    agreement = scale * context(_softmax(likeness), features, features)
    return np.asarray(-np.logaddexp(agreement.dtype.type(0), -agreement))


def _contrastive_weight(
    features: Float32Array,
    negatives: Float32Array,
    between: _Between,
    context: _Context,
    scale: float,
) -> Float32Array:
    """Return the authors' form: a click against negatives, each in the context of the group.

    As in their code an object's own similarity enters its attention as zero.
    """
    size = features.shape[1]
    likeness = scale * between(features, features)
    likeness[:, np.arange(size), np.arange(size)] = 0.0
    own = scale * context(_softmax(likeness), features, features)
    strange = np.broadcast_to(negatives, (len(features), *negatives.shape))
    attention = _softmax(scale * between(strange, features))
    others = log_sum_exp(scale * context(attention, features, strange), axis=-1)
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


_SIMILARITIES: dict[str, tuple[_Between, _Context]] = {
    "dot": (_dot_between, _dot_context),
    "neg_kl": (_kl_between, _kl_context),
}
"""For each S: S of every pair, and S of the context that queries attend to and the queries."""

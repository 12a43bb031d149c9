"""The two scores of the paper's recall stage, MM and MM+, in numpy.

MM scores a candidate by the last click alone; MM+ by the log-sum-exp over all clicks of
pair matching plus group weighting (Eq. 4 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray

Float32Array = NDArray[np.float32]

_BLOCK_ITEMS = 4096


@dataclass(frozen=True)
class MatchingVectors:
    """Item vectors and what it takes to score with them.

    Attributes
    ----------
    targets : float32 ndarray of shape (n_items, dimension + 1)
        g of every item; the last column is its bias, so that one product gives the score.
    queries : float32 ndarray of shape (n_items, dimension or dimension + 1)
        f of every item; may be `targets` itself, whose bias column is then passed over.
    log_normalizer : float32 ndarray of shape (n_items,)
        log of the sum of exponentiated scores over the whole catalogue, per clicked item.
    weighting_strength : float
        How much the group weight counts in MM+ (lambda); 1 is the paper.
    similarity_scale : float
        Multiplies the dot product inside the group weight.
    recency : float
        How much trust a click loses, on log scale, with each click that came after it.
    window_size : int, optional
        How many of the latest clicks MM+ looks at, as in training; None means all.
    """

    targets: Float32Array
    queries: Float32Array
    log_normalizer: Float32Array
    weighting_strength: float = 1.0
    similarity_scale: float = 1.0
    recency: float = 0.0
    window_size: int | None = None

    def group_of(self, history: IntArray) -> IntArray:
        """Return the clicks of a history that MM+ looks at."""
        return history if self.window_size is None else history[-self.window_size :]

    @property
    def dimension(self) -> int:
        """The length of a vector, the bias left out."""
        return int(self.targets.shape[1]) - 1

    def features(self, positions: IntArray) -> Float32Array:
        """Return f of the items at `positions`, shape (..., dimension)."""
        return self.queries[positions, : self.dimension]

    def query_rows(self, positions: IntArray) -> Float32Array:
        """Return rows whose product with `targets` is the score, shape (len, dimension + 1)."""
        rows = np.ones((len(positions), self.dimension + 1), dtype=np.float32)
        rows[:, :-1] = self.features(positions)
        return rows

    def log_group_weight(self, histories: IntArray) -> Float32Array:
        """Return log P(click | its history) for histories of one size, shape (n, size)."""
        return log_group_weight(self.features(histories), scale=self.similarity_scale)

    def click_offsets(self, histories: IntArray) -> Float32Array:
        """Return what MM+ adds to every score of a click, shape (n, size)."""
        log_weight = self.log_group_weight(histories)
        n_later = np.arange(histories.shape[1] - 1, -1, -1)
        trust = self.weighting_strength * log_weight - self.recency * n_later
        offsets = trust - self.log_normalizer[histories]
        return offsets.astype(np.float32)

    def contributions(self, history: IntArray, positions: IntArray) -> FloatArray:
        """Return what each click says for each candidate, shape (size, n_candidates)."""
        pairs = self.query_rows(history) @ self.targets[positions].T
        return np.asarray(pairs + self.click_offsets(history[None, :])[0][:, None])


def log_group_weight(features: Float32Array, *, scale: float = 1.0) -> Float32Array:
    """Return log P(object | group) under dot-product similarity (Eq. 5).

    Parameters
    ----------
    features : float32 ndarray of shape (n_groups, size, dimension)
        f of the objects, groups of one size.
    scale : float
        Multiplies the dot product.

    Returns
    -------
    float32 ndarray of shape (n_groups, size)
        Zero for a group of one, which has no context to agree with.

    Examples
    --------
    >>> import numpy as np
    >>> two_alike_one_opposite = np.array([[[2.0], [2.0], [-2.0]]], dtype=np.float32)
    >>> print(np.exp(log_group_weight(two_alike_one_opposite)).round(2))
    [[0.98 0.98 0.02]]
    """
    n_groups, size, _ = features.shape
    if size == 1:
        return np.zeros((n_groups, 1), dtype=np.float32)
    similarity = scale * (features @ features.transpose(0, 2, 1))  # (n_groups, size, size)
    itself = np.arange(size)
    similarity[:, itself, itself] = -np.inf
    attention = np.exp(similarity - similarity.max(axis=2, keepdims=True))
    attention /= attention.sum(axis=2, keepdims=True)
    context = attention @ features  # (n_groups, size, dimension)
    agreement = scale * (context * features).sum(axis=2)
    return np.asarray(-np.logaddexp(np.float32(0.0), -agreement), dtype=np.float32)


def log_normalisers(queries: Float32Array, targets: Float32Array) -> Float32Array:
    """Return the log-sum-exp of each query's scores over all targets, block by block.

    Parameters
    ----------
    queries : float32 ndarray of shape (n_queries, dimension + 1)
        Rows that end in a one.
    targets : float32 ndarray of shape (n_items, dimension + 1)
        Rows that end in the bias.
    """
    result = np.empty(len(queries), dtype=np.float32)
    for begin in range(0, len(queries), 256):
        rows = queries[begin : begin + 256]
        total = np.full(len(rows), -np.inf, dtype=np.float32)
        for first in range(0, len(targets), _BLOCK_ITEMS):
            scores = rows @ targets[first : first + _BLOCK_ITEMS].T
            total = np.logaddexp(total, log_sum_exp(scores, axis=1))
        result[begin : begin + len(rows)] = total
    return result


def log_sum_exp(scores: NDArray[Any], *, axis: int) -> NDArray[Any]:
    """Return log(sum(exp(scores))) along an axis; `scores` is used as working space."""
    highest = scores.max(axis=axis, keepdims=True)
    np.subtract(scores, highest, out=scores)
    np.exp(scores, out=scores)
    return np.asarray(np.log(scores.sum(axis=axis)) + highest.squeeze(axis))

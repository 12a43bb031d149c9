"""Fast search for a single history over a small catalogue.

Everything that depends on the model alone is precomputed, which leaves a product, an exponential
and a partial sort. The answers equal those of the general search.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.clicks.scoring import MIN_TOTAL, ScoringRule
from groupnoise.recall.vectors import MatchingVectors

MAX_ITEMS = 4096
"""Catalogue size above which a blocked search is faster."""
MAX_PAIRED_ITEMS = 1024
"""Catalogue size up to which the scores of all pairs are cached: four megabytes."""
MAX_LOOPED = 16
"""Clicks up to which a Python loop is faster than numpy."""
MAX_LENGTHS = 64
"""Lengths of histories whose position weights are cached."""
_MIN_PROBABILITY = 1e-30
_MIN_COLUMNS = 32

RowRanking = tuple[list[int], list[float]]
"""Positions and scores, best first."""


class _Pairs(NamedTuple):
    """Precomputed scores of all pairs of items.

    `likelihood` (n_items, n_items): of each target after each click, relative to the row maximum.
    `peaks`: the log of that maximum.
    `similarity`: s of each pair, for weights of the sigmoid form.
    """

    likelihood: Float32Array
    peaks: Float32Array
    similarity: memoryview | None


class OneHistorySearch:
    """Search for one history in a small catalogue, under the scope of its rule.

    `vectors`: the model; at most `MAX_ITEMS` items.
    """

    def __init__(self, vectors: MatchingVectors) -> None:
        self._vectors = vectors
        self._rule: ScoringRule = vectors.rule
        self._negatives = np.array(self._rule.negatives, dtype=np.int64)
        self._by_length: dict[int, Float32Array] = {}

    @cached_property
    def columns(self) -> Float32Array:
        """The targets, (dimension + 1, n_items)."""
        return np.ascontiguousarray(self._vectors.targets.T)

    @cached_property
    def _rows(self) -> Float32Array:
        """Every item as a query, with a trailing one for the bias."""
        rows = np.ones((len(self._vectors.targets), self._vectors.dimension + 1), dtype=np.float32)
        rows[:, :-1] = self._vectors.queries[:, : self._vectors.dimension]
        return rows

    @cached_property
    def _negative_features(self) -> Float32Array | None:
        return self._rows[self._negatives, :-1] if len(self._negatives) else None

    def search(self, clicks: list[int], n: int, excluded: list[int]) -> RowRanking | None:
        """Return the `n` best items that are not excluded.

        None if the general search is needed: if fewer than `n` items are left, or probabilities
        underflow. `clicks`: positions of the clicks, oldest first; at least one. `excluded`:
        positions that may not be returned.
        """
        rule = self._rule
        if n > len(self._rows):
            return None
        n_clicks = rule.n_clicks
        if n_clicks is not None and len(clicks) > n_clicks:
            clicks = clicks[-n_clicks:]
        if rule.normalization == "history":
            return self._search_by_evidence(clicks, n, excluded)
        log_weights = self._log_weights(clicks)
        if self._pairs is None:
            terms = self._rows.take(clicks, 0) @ self.columns
            terms += np.array(log_weights, dtype=np.float32)[:, None]
            highest = float(terms.max())
            terms -= highest
            total = np.exp(terms, out=terms).sum(axis=0)
        else:
            highest = max(log_weights)
            weights = [math.exp(weight - highest) for weight in log_weights]
            total = np.array(weights, dtype=np.float32).dot(self._pairs.likelihood.take(clicks, 0))
        total.put(excluded, 0.0)
        # Probabilities are ranked; the logarithm is taken of the best only.
        positions, best = _largest(total, n)
        # The last may be zero, underflow, or be NaN.
        if not _MIN_PROBABILITY < best[-1] <= best[0] < math.inf:
            return None
        return positions, [math.log(value) + highest for value in best]

    def _log_weights(self, clicks: list[int]) -> list[float]:
        """Return the log weight of each click, its log-normalizer subtracted."""
        rule, size = self._rule, len(clicks)
        found = list(map(self._offsets.__getitem__, clicks))
        if rule.recency:
            found = [value - rule.recency * (size - 1 - k) for k, value in enumerate(found)]
        if rule.weighting is None or not rule.weighting_strength:
            return found
        weights = None
        if self._pairs is not None and self._pairs.similarity is not None and size <= MAX_LOOPED:
            with suppress(ArithmeticError):
                weights = _log_agreements(self._pairs.similarity, len(self._rows), clicks)
        if weights is None:
            features = self._rows.take(clicks, 0)[None, :, :-1]
            weights = rule.log_group_weight(features, self._negative_features)[0].tolist()
        strength = rule.weighting_strength
        return [value + strength * weight for value, weight in zip(found, weights, strict=True)]

    @cached_property
    def _offsets(self) -> list[float]:
        """Minus the log-normalizer of each item as a click."""
        offsets = -self._vectors.log_normalizer
        found = offsets if self._pairs is None else offsets + self._pairs.peaks
        return list(found.tolist())

    @cached_property
    def _pairs(self) -> _Pairs | None:
        """Precomputed scores of all pairs; None for a large catalogue."""
        if len(self._rows) > MAX_PAIRED_ITEMS:
            return None
        scores = self._rows @ self.columns
        peaks = scores.max(axis=1)
        similarity = None
        if self._rule.weighting == "sigmoid" and self._rule.similarity == "dot":
            features = self._rows[:, :-1]
            similarity = memoryview((self._rule.similarity_scale * features @ features.T).ravel())
        return _Pairs(np.exp(scores - peaks[:, None]), peaks, similarity)

    def _search_by_evidence(
        self, clicks: list[int], n: int, excluded: list[int]
    ) -> RowRanking | None:
        """Rank by the added evidence of all clicks."""
        rows = self._rows.take(clicks, 0)
        query = np.add.reduce(rows * self._position_weights(len(clicks)), 0)
        for encoder in self._rule.encoders:
            block = slice(encoder.begin, encoder.begin + encoder.width)
            every, ends = np.arange(len(clicks)), np.array([0, len(clicks)])
            query[block] += encoder.read(rows[:, :-1], every, ends)[0]
        scores = query.dot(self.columns)
        highest = float(scores.max())
        log_normalizer = math.log(float(np.exp(scores - highest).sum())) + highest
        scores.put(excluded, -np.inf)
        positions, best = _largest(scores, n)
        if not -math.inf < best[-1] <= best[0] < math.inf:
            return None
        return positions, [value - log_normalizer for value in best]

    def _position_weights(self, n_clicks: int) -> Float32Array:
        """Return the weight of each click in each dimension, (n_clicks, dimension + 1).

        In the last dimension, which holds the ones, they sum to one.
        """
        weights = self._by_length.get(n_clicks)
        if weights is None:
            shape = (n_clicks, self._vectors.dimension + 1)
            weights = np.full(shape, 1 / n_clicks, dtype=np.float32)
            for block, of_position, exponent in self._rule.blocks(self._vectors.dimension):
                click_weights = of_position[:n_clicks][::-1]
                total = np.maximum(click_weights.sum(), np.float32(MIN_TOTAL))
                weights[:, block] = (click_weights * total**-exponent)[:, None]
            if len(self._by_length) >= MAX_LENGTHS:
                self._by_length.clear()
            self._by_length[n_clicks] = weights
        return weights


def _largest(values: Float32Array, n: int) -> tuple[list[int], list[float]]:
    """Return the indices of the `n` largest values and the values, ties by index."""
    width = max(2 * n, _MIN_COLUMNS)
    n_rows = len(values) // width
    chosen = None
    if n_rows > 1:
        # At least `n` values reach the n-th largest column maximum.
        highest = values[: n_rows * width].reshape(n_rows, width).max(axis=0).tolist()
        chosen = (values >= sorted(highest)[-n]).nonzero()[0]
    if chosen is None or len(chosen) < n:
        chosen = values.argpartition(len(values) - n)[len(values) - n :]
    found = sorted(zip((-values.take(chosen)).tolist(), chosen.tolist(), strict=True))
    negated, positions = zip(*found[:n], strict=True)
    return list(positions), [-value for value in negated]


def _log_agreements(similarity: memoryview, n_items: int, clicks: list[int]) -> list[float]:
    """Return log P(click | history) of each click, from the similarity of each pair of items.

    The context of a click is the softmax-weighted mean of the others, so its similarity to the
    click is the weighted mean of their similarities. For a few clicks a loop is faster than numpy.

    Raises ArithmeticError if an exponential overflows.
    """
    size = len(clicks)
    if size == 1:
        return [0.0]
    totals, sums = [0.0] * size, [0.0] * size
    for number, click in enumerate(clicks):
        begin = click * n_items
        for other in range(number + 1, size):
            value = similarity[begin + clicks[other]]
            attention = math.exp(value)
            part = attention * value
            totals[number] += attention
            totals[other] += attention
            sums[number] += part
            sums[other] += part
    means = [part / total for part, total in zip(sums, totals, strict=True)]
    return [-math.log1p(math.exp(-mean)) for mean in means]

"""Ways to rank items for histories: by matching scores, or by item-to-item neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.mixture import Float32Array
from groupnoise.clicks.scoring import SCOPES
from groupnoise.core.arrays import FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import check_count
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.recall.one_history import MAX_ITEMS, OneHistorySearch, RowRanking
from groupnoise.recall.options import representative_clicks
from groupnoise.recall.search import Eligible, ExactSearch, Ranking, empty_ranking
from groupnoise.recall.vectors import MatchingVectors

_BLOCK_SCORES = 1 << 22
MAX_INTEREST_CLICKS = 50
"""Of a longer history only the latest clicks are used."""


@dataclass(frozen=True)
class Explanation:
    """The contributions of clicks to the scores of items.

    `shares` (n_clicks, n_items): the part of each item's score due to each click; columns sum to
        one, or to zero where no click contributes.
    `weights`: p(click | history), the paper's group weight, NaN for clicks before the window; of a
        model that adds evidence before it normalises, which has no such weight, the mean share over
        the items. None where the ranker has neither.
    `is_judged`: whether the weights are group weights, by which noise is found.
    """

    shares: FloatArray
    weights: FloatArray | None
    is_judged: bool = True


class VectorRanker:
    """Ranks by matching scores under the scoring rule of the model."""

    is_exact = True

    def __init__(self, vectors: MatchingVectors) -> None:
        self.vectors = vectors
        self._exact = ExactSearch(vectors)
        self._one_history: dict[str | None, OneHistorySearch] = {}
        if self.is_exact and len(vectors.targets) <= MAX_ITEMS:
            self._one_history = {
                scope: OneHistorySearch(replace(vectors, rule=vectors.rule.with_scope(scope)))
                for scope in SCOPES
            }
            self._one_history[None] = self._one_history[vectors.rule.scope]

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        scope: str | None = None,
        eligible: Eligible | None = None,
    ) -> Ranking:
        """Return the `n` best eligible items per history, exactly."""
        eligible = eligible or Eligible()
        if len(histories) == 1 and eligible.candidates is None:
            excluded = eligible.excluded(0).tolist()
            found = self.rank_one(histories[0].tolist(), n, excluded, scope=scope)
            if found is not None:
                return np.array([found[0]]), np.array([found[1]], dtype=np.float32)
        return self._exact.search(self.vectors.mixture(histories, scope), n, eligible)

    def rank_one(
        self, clicks: list[int], n: int, excluded: list[int], *, scope: str | None = None
    ) -> RowRanking | None:
        """Return the `n` best items for one history; None where `rank` must be used."""
        return self._one_history[scope].search(clicks, n, excluded) if self._one_history else None

    def explain(
        self, history: IntArray, positions: IntArray, *, scope: str | None = None
    ) -> Explanation:
        """Return the posterior of each click for each item, and the clicks' group weights."""
        if self.vectors.rule.normalization == "history":
            contributions = np.maximum(self.vectors.click_evidence(history, positions, scope), 0.0)
            shares = np.zeros((len(history), len(positions)))
            total = contributions.sum(axis=0, keepdims=True)
            shares[-len(contributions) :] = np.divide(
                contributions, total, out=contributions, where=total > 0
            )
            weights = np.full(len(history), np.nan)
            if len(positions):
                weights[-len(contributions) :] = shares[-len(contributions) :].mean(axis=1)
            return Explanation(shares, weights, is_judged=False)
        contributions = self.vectors.contributions(
            self.vectors.mixture([history], scope), positions
        )
        contributions = np.exp(contributions - contributions.max(axis=0, keepdims=True))
        shares = np.zeros((len(history), len(positions)))
        shares[-len(contributions) :] = contributions / contributions.sum(axis=0, keepdims=True)
        group_weights = self.vectors.group_weights(history)
        weights = np.full(len(history), np.nan)
        weights[-len(group_weights) :] = group_weights
        return Explanation(shares=shares, weights=weights)

    def clicks_used(self, scope: str | None = None) -> str:
        """Describe the clicks that are used."""
        return self.vectors.rule.with_scope(scope).clicks_used

    def similarity(self, positions: IntArray) -> FloatArray:
        """Return the cosine similarity of target vectors, shape (n, n)."""
        return _cosines(self.vectors.targets[positions, : self.vectors.dimension])

    def interests(self, history: IntArray, n: int) -> IntArray:
        """Return the representative clicks of up to `n` interests, by group weight."""
        clicks = _last_distinct_clicks(history)
        weights = None
        if len(clicks) > 1 and self.vectors.rule.normalization == "click":
            weights = np.full(len(clicks), np.nan)
            group_weights = self.vectors.group_weights(clicks)
            weights[-len(group_weights) :] = group_weights
        return representative_clicks(clicks, weights, _cosines(self.vectors.features(clicks)), n)


class NeighbourRanker:
    """Ranks by summing the stored neighbours of the clicked items.

    `indptr`: where the neighbours of each item begin.
    `indices`: the neighbours' positions.
    `scores`: the weight of each neighbour.
    `popularity`: of equal sums the more popular item comes first.
    `scope` (one of "group", "last"): whether all clicks of a history are used, or the last alone,
        unless a request specifies it.
    """

    def __init__(
        self,
        indptr: IntArray,
        indices: IntArray,
        scores: Float32Array,
        popularity: Float32Array,
        scope: str = "group",
    ) -> None:
        self._indptr = indptr
        self._indices = indices
        self._scores = scores
        self._popularity = popularity
        self._scope = scope

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        scope: str | None = None,
        eligible: Eligible | None = None,
    ) -> Ranking:
        """Return up to `n` eligible neighbours per history, by the sum over its clicks."""
        eligible = eligible or Eligible()
        positions, scores = empty_ranking(len(histories), n)
        for row, history in enumerate(histories):
            found, total = self._sum_neighbours(history[-1:] if self._is_last(scope) else history)
            keep = ~np.isin(found, eligible.excluded(row), assume_unique=True)
            if eligible.candidates is not None:
                keep &= np.isin(found, eligible.candidates, assume_unique=True)
            found, total = found[keep], total[keep]
            order = np.lexsort((found, -self._popularity[found], -total))[:n]
            positions[row, : len(order)] = found[order]
            scores[row, : len(order)] = total[order]
        return positions, scores

    def explain(
        self, history: IntArray, positions: IntArray, *, scope: str | None = None
    ) -> Explanation:
        """Return the part of each item's sum due to each click."""
        shares = np.zeros((len(history), len(positions)))
        first = len(history) - 1 if self._is_last(scope) else 0
        for row in range(first, len(history)):
            found, total = self._sum_neighbours(history[row : row + 1])
            rank = np.minimum(np.searchsorted(found, positions), max(len(found) - 1, 0))
            if len(found):
                shares[row] = np.where(found[rank] == positions, total[rank], 0.0)
        total = shares.sum(axis=0, keepdims=True)
        return Explanation(np.divide(shares, total, out=shares, where=total > 0), weights=None)

    def clicks_used(self, scope: str | None = None) -> str:
        """Describe the clicks that are used."""
        return "the last click" if self._is_last(scope) else "all clicks"

    def similarity(self, positions: IntArray) -> FloatArray:
        """Refuse: an artifact of neighbours has no item vectors."""
        raise DataError("diversity needs a model of vectors; this artifact holds neighbours.")

    def interests(self, history: IntArray, n: int) -> IntArray:
        """Return the last `n` distinct clicks."""
        return representative_clicks(_last_distinct_clicks(history), None, None, n)

    def _is_last(self, scope: str | None) -> bool:
        return (self._scope if scope is None else scope) == "last"

    def _sum_neighbours(self, clicks: IntArray) -> tuple[IntArray, FloatArray]:
        spans = [slice(self._indptr[click], self._indptr[click + 1]) for click in clicks]
        indices = np.concatenate([self._indices[span] for span in spans])
        scores = np.concatenate([self._scores[span] for span in spans])
        found, where = np.unique(indices, return_inverse=True)
        # The neighbours of a memory-mapped artifact were not checked when it was opened.
        if len(found) and not 0 <= found[0] <= found[-1] < len(self._indptr) - 1:
            raise ModelFileError("the artifact names neighbours it has no item for.")
        sums = np.bincount(where, weights=scores, minlength=len(found)).astype(np.float64)
        return found.astype(np.int64), sums


Ranker = VectorRanker | NeighbourRanker
"""Ranks items for non-empty histories of item positions; the scope is the model's own if None."""


def _last_distinct_clicks(history: IntArray) -> IntArray:
    """Return the last `MAX_INTEREST_CLICKS` distinct clicks, each where it came last."""
    _, backwards = np.unique(history[::-1], return_index=True)
    return history[np.sort(len(history) - 1 - backwards)][-MAX_INTEREST_CLICKS:]


def _cosines(vectors: Float32Array) -> FloatArray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(length, np.finfo(np.float32).tiny)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def neighbours_from_scores(
    scores_of: Callable[[IntArray], NDArray[Any]], n_items: int, *, top: int = 200
) -> tuple[IntArray, NDArray[np.int32], Float32Array]:
    """Return the best next items of every item as compressed rows (indptr, indices, scores).

    `scores_of`: maps item positions, shape (n,), to the score of every item after each, (n,
    n_items). Scores of zero or less are dropped, unless that leaves an item without neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[0, 3, 1], [3, 0, 0], [1, 0, 0]])
    >>> indptr, indices, scores = neighbours_from_scores(lambda items: counts[items], 3, top=1)
    >>> indices.tolist(), scores.tolist()
    ([1, 0, 0], [3.0, 3.0, 1.0])
    """
    check_count("top", top)
    n_kept = min(top, n_items - 1)
    step = max(1, _BLOCK_SCORES // n_items)
    indices, strengths, sizes = [], [], []
    for begin in range(0, n_items, step):
        items = np.arange(begin, min(begin + step, n_items))
        scores = np.array(scores_of(items), dtype=np.float32)
        scores[np.arange(len(items)), items] = -np.inf  # nothing is its own neighbour
        best = np.argpartition(-scores, max(n_kept - 1, 0), axis=1)[:, :n_kept]
        values = np.take_along_axis(scores, best, axis=1)
        keep = np.isfinite(values) & ((values > 0) | ~(values > 0).any(axis=1, keepdims=True))
        indices.append(best[keep])
        strengths.append(values[keep])
        sizes.append(keep.sum(axis=1))
    indptr = offsets_from_sizes(np.concatenate(sizes))
    return indptr, np.concatenate(indices).astype(np.int32), np.concatenate(strengths)

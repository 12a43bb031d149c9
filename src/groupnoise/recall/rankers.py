"""What ranks items for a history: matching vectors, or stored neighbours of each item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_count
from groupnoise.exceptions import ModelFileError
from groupnoise.recall.exact import ExactSearch
from groupnoise.recall.scoring import Float32Array, MatchingVectors

Method = Literal["mm", "mm+"]
Ranking = tuple[IntArray, Float32Array]
"""(positions, scores), each of shape (n_histories, n), best first; -1 and -inf where none is."""


@dataclass(frozen=True)
class Explanation:
    """Why items were ranked as they were.

    Attributes
    ----------
    shares : float ndarray of shape (n_clicks, n_items)
        How much of each item's score came from each click; columns sum to one, or to zero where
        no click speaks for the item.
    weights : float ndarray of shape (n_clicks,), optional
        P(click | history), the paper's group weight, NaN for clicks too old to be looked at; None
        where the ranker has no such notion.
    """

    shares: FloatArray
    weights: FloatArray | None


class Ranker(Protocol):
    """Ranks items for non-empty histories of item positions."""

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        method: Method,
        candidates: IntArray | None = None,
    ) -> Ranking:
        """Return the `n` best items per history, among `candidates` (ascending) where given."""

    def explain(self, history: IntArray, positions: IntArray, *, method: Method) -> Explanation:
        """Return which clicks of one history speak for the items at `positions`."""


class VectorRanker:
    """Ranks by matching scores: MM from the last click, MM+ from all of them.

    Parameters
    ----------
    vectors : MatchingVectors
        The model.
    """

    def __init__(self, vectors: MatchingVectors) -> None:
        self.vectors = vectors
        self._exact = ExactSearch(vectors)

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        method: Method,
        candidates: IntArray | None = None,
    ) -> Ranking:
        """Return the `n` best items per history, exactly."""
        if method == "mm":
            clicks = np.array([history[-1] for history in histories], dtype=np.int64)
            return self._exact.by_last_click(clicks, n, candidates=candidates)
        positions = np.full((len(histories), n), -1, dtype=np.int64)
        scores = np.full((len(histories), n), -np.inf, dtype=np.float32)
        groups = [self.vectors.group_of(history) for history in histories]
        for rows, same_size in by_size(groups):
            positions[rows], scores[rows] = self._exact.by_all_clicks(
                same_size, n, candidates=candidates
            )
        return positions, scores

    def explain(self, history: IntArray, positions: IntArray, *, method: Method) -> Explanation:
        """Return the posterior of each click for each item, and the clicks' group weights."""
        group = self.vectors.group_of(history)
        weights = np.full(len(history), np.nan)
        weights[-len(group) :] = np.exp(self.vectors.log_group_weight(group[None, :])[0])
        shares = np.zeros((len(history), len(positions)))
        if method == "mm":
            shares[-1] = 1.0
            return Explanation(shares=shares, weights=weights)
        said = self.vectors.contributions(group, positions)
        said = np.exp(said - said.max(axis=0, keepdims=True))
        shares[-len(group) :] = said / said.sum(axis=0, keepdims=True)
        return Explanation(shares=shares, weights=weights)


class NeighbourRanker:
    """Ranks by summing the stored neighbours of the clicked items.

    Parameters
    ----------
    indptr : int64 ndarray of shape (n_items + 1,)
        Where the neighbours of each item begin.
    indices : int32 ndarray of shape (n_pairs,)
        The neighbours' positions.
    scores : float32 ndarray of shape (n_pairs,)
        How strongly the item leads to the neighbour.
    """

    def __init__(self, indptr: IntArray, indices: IntArray, scores: Float32Array) -> None:
        self._indptr = indptr
        self._indices = indices
        self._scores = scores

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        method: Method,
        candidates: IntArray | None = None,
    ) -> Ranking:
        """Return up to `n` neighbours per history, by the sum over its clicks."""
        positions = np.full((len(histories), n), -1, dtype=np.int64)
        scores = np.full((len(histories), n), -np.inf, dtype=np.float32)
        for row, history in enumerate(histories):
            clicks = history[-1:] if method == "mm" else history
            found, total = self._summed(clicks)
            if candidates is not None:
                is_candidate = np.isin(found, candidates, assume_unique=True)
                found, total = found[is_candidate], total[is_candidate]
            order = np.lexsort((found, -total))[:n]
            positions[row, : len(order)] = found[order]
            scores[row, : len(order)] = total[order]
        return positions, scores

    def explain(self, history: IntArray, positions: IntArray, *, method: Method) -> Explanation:
        """Return the part of each item's sum that each click brought."""
        shares = np.zeros((len(history), len(positions)))
        first = len(history) - 1 if method == "mm" else 0
        for row in range(first, len(history)):
            found, total = self._summed(history[row : row + 1])
            rank = np.minimum(np.searchsorted(found, positions), max(len(found) - 1, 0))
            if len(found):
                shares[row] = np.where(found[rank] == positions, total[rank], 0.0)
        whole = shares.sum(axis=0, keepdims=True)
        return Explanation(np.divide(shares, whole, out=shares, where=whole > 0), weights=None)

    def _summed(self, clicks: IntArray) -> tuple[IntArray, FloatArray]:
        spans = [slice(self._indptr[click], self._indptr[click + 1]) for click in clicks]
        indices = np.concatenate([self._indices[span] for span in spans])
        scores = np.concatenate([self._scores[span] for span in spans])
        found, where = np.unique(indices, return_inverse=True)
        # The neighbours of a mapped artifact were not looked at when it was opened.
        if len(found) and not 0 <= found[0] <= found[-1] < len(self._indptr) - 1:
            raise ModelFileError("the artifact names neighbours it has no item for.")
        sums = np.bincount(where, weights=scores, minlength=len(found)).astype(np.float64)
        return found.astype(np.int64), sums


def by_size(histories: Sequence[IntArray]) -> list[tuple[IntArray, IntArray]]:
    """Return, for each size that occurs, the rows of that size and their histories stacked.

    Examples
    --------
    >>> import numpy as np
    >>> for rows, stacked in by_size([np.array([7]), np.array([1, 2]), np.array([9])]):
    ...     print(rows, stacked.tolist())
    [0 2] [[7], [9]]
    [1] [[1, 2]]
    """
    sizes = np.array([len(history) for history in histories], dtype=np.int64)
    stacks = []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        stacks.append((rows, np.stack([histories[row] for row in rows.tolist()])))
    return stacks


_BLOCK_SCORES = 1 << 22


def neighbours_from_scores(
    scores_of: Callable[[IntArray], NDArray[Any]],
    n_items: int,
    *,
    top: int = 200,
    as_probabilities: bool = False,
) -> tuple[IntArray, NDArray[np.int32], Float32Array]:
    """Return the best next items of every item as compressed rows (indptr, indices, scores).

    Parameters
    ----------
    scores_of : callable
        Maps item positions, shape (n,), to the score of every item after each, (n, n_items).
    n_items : int
        Size of the catalogue.
    top : int
        How many neighbours to keep per item. Scores of zero or less are neighbours in name only
        and are dropped, unless that leaves an item without any.
    as_probabilities : bool
        Turn the scores of each item into a distribution (softmax) first, so that logits, which
        may be negative, can be summed over a history.

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
        if as_probabilities:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        best = np.argpartition(-scores, max(n_kept - 1, 0), axis=1)[:, :n_kept]
        values = np.take_along_axis(scores, best, axis=1)
        keep = np.isfinite(values) & ((values > 0) | ~(values > 0).any(axis=1, keepdims=True))
        indices.append(best[keep])
        strengths.append(values[keep])
        sizes.append(keep.sum(axis=1))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    return indptr, np.concatenate(indices).astype(np.int32), np.concatenate(strengths)

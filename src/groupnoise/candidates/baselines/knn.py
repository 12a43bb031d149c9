"""PL-kNN: neighbours vote for all their candidate labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_count
from groupnoise.core.docstrings import inherit_docstring


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class PLKNNClassifier(PartialLabelClassifier):
    r"""Partial-label k nearest neighbours.

    The neighbours :math:`r = 1..k` of a row, at distances :math:`d_r`, vote for each of their
    candidate labels:

    .. math:: score(y) = \sum_r \Big(1 - \frac{d_r}{\sum_s d_s}\Big) \mathbb{1}[y \in S_r]

    With a single neighbour, or if all distances are zero, the votes count one each.

    Parameters
    ----------
    n_neighbors : int, default=10
        How many neighbours vote; all training rows if there are fewer.
    metric : str, default="euclidean"
        Any metric of :class:`sklearn.neighbors.NearestNeighbors`.
    n_jobs : int, optional
        Threads of the neighbour search.

    References
    ----------
    E. Hüllermeier and J. Beringer, "Learning from ambiguously labeled examples", Intelligent
    Data Analysis 10(5), 2006.

    Examples
    --------
    >>> model = PLKNNClassifier(n_neighbors=2)
    >>> model = model.fit([[0.0], [0.1], [5.0], [5.1]], [{"a"}, {"a", "b"}, {"b"}, {"a", "b"}])
    >>> model.predict([[0.05], [5.05]]).tolist()
    ['a', 'b']
    """

    _fitted_arrays = ("rows_", "candidates_")

    n_neighbors: int = 10
    metric: str = "euclidean"
    n_jobs: int | None = None

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_count("n_neighbors", self.n_neighbors)
        self.rows_, self.candidates_ = rows, candidates
        self._build_index()

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._build_index()

    def _build_index(self) -> None:
        self.index_ = NearestNeighbors(
            n_neighbors=min(self.n_neighbors, len(self.rows_)),
            metric=self.metric,
            n_jobs=self.n_jobs,
        ).fit(self.rows_)

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        distances, neighbors = self.index_.kneighbors(rows)  # (n_rows, k) each
        n_rows, k = distances.shape
        votes = sparse.csr_array(
            (
                vote_weights(distances).ravel(),
                neighbors.ravel(),
                np.arange(0, n_rows * k + 1, k),
            ),
            shape=(n_rows, len(self.rows_)),
        )
        return np.asarray(votes @ self.candidates_.astype(np.float64))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def vote_weights(distances: FloatArray) -> FloatArray:
    """Return the weight of each neighbour's vote, same shape (n_rows, k) as the distances."""
    if distances.shape[1] == 1:
        return np.ones_like(distances)
    total = distances.sum(axis=1, keepdims=True)
    share = np.divide(distances, total, out=np.zeros_like(distances), where=total > 0)
    return np.asarray(1 - share)

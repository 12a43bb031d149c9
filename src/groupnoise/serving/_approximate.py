"""Approximate search with faiss: built on export, measured on the model's own vectors.

The index only nominates candidates; every one of them is scored exactly, so an approximate
ranking can miss an item but never misplace one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import check_choice, check_count, check_fraction, require
from groupnoise._typing import IntArray
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.serving._exact import ExactSearch
from groupnoise.serving._rankers import Explanation, Method, Ranking, VectorRanker
from groupnoise.serving._scoring import Float32Array, MatchingVectors, log_sum_exp

MEASURED_QUERIES = 1000
NOMINATIONS_PER_ITEM = 4
EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class IndexSpec:
    """Which faiss index to build, and how good it must be.

    Attributes
    ----------
    kind : {"ivf", "hnsw"}
        Inverted lists with packed codes, or a navigable graph.
    least_recall : float
        The share of the exact top `at` it must find; an index that cannot is refused.
    at : int
        Where recall is measured.
    """

    kind: str = "ivf"
    least_recall: float = 0.95
    at: int = 10

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("ivf", "hnsw"))
        check_fraction("least_recall", self.least_recall)
        check_count("at", self.at)


@dataclass(frozen=True)
class FaissIndex:
    """A loaded index and the effort (lists or graph nodes visited) it was measured at."""

    index: Any
    kind: str
    effort: int

    def nominate(self, rows: Float32Array, n: int) -> IntArray:
        """Return up to `n` likely positions per row, -1 where fewer were found."""
        faiss = require("faiss", extra="recall")
        if self.kind == "ivf":
            parameters = faiss.SearchParametersIVF(nprobe=self.effort)
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=max(self.effort, n))
        _, positions = self.index.search(np.ascontiguousarray(rows), n, params=parameters)
        return np.asarray(positions, dtype=np.int64)


class ApproximateRanker:
    """Ranks what a faiss index nominates; filtered requests go to exact search.

    Parameters
    ----------
    exact : VectorRanker
        Scores the nominees, answers filtered requests, and explains.
    index : FaissIndex
        Nominates.
    """

    def __init__(self, exact: VectorRanker, index: FaissIndex) -> None:
        self._exact = exact
        self._index = index

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        method: Method,
        candidates: IntArray | None = None,
    ) -> Ranking:
        """Return the `n` best nominees per history."""
        if candidates is not None:
            # An index cannot tell how many of its nominees a filter will leave.
            return self._exact.rank(histories, n, method=method, candidates=candidates)
        vectors = self._exact.vectors
        wanted = min(NOMINATIONS_PER_ITEM * n, len(vectors.targets))
        clicked = [history[-1:] if method == "mm" else history for history in histories]
        rows = vectors.query_rows(np.concatenate(clicked))
        nominees = self._index.nominate(rows, wanted)
        if method == "mm":
            return _rescored(vectors, np.concatenate(clicked), rows, nominees, n)
        positions = np.full((len(histories), n), -1, dtype=np.int64)
        scores = np.full((len(histories), n), -np.inf, dtype=np.float32)
        begin = 0
        for row, history in enumerate(histories):
            union = np.unique(nominees[begin : begin + len(history)])
            begin += len(history)
            union = union[union >= 0]
            total = log_sum_exp(vectors.contributions(history, union), axis=0)
            best = np.lexsort((union, -total))[:n]
            positions[row, : len(best)], scores[row, : len(best)] = union[best], total[best]
        return positions, scores

    def explain(self, history: IntArray, positions: IntArray, *, method: Method) -> Explanation:
        """Return the exact explanation."""
        return self._exact.explain(history, positions, method=method)


def build_index(
    vectors: MatchingVectors, spec: IndexSpec
) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """Build an index and find the least effort that reaches the recall asked for.

    Returns
    -------
    index : uint8 ndarray
        The serialised index.
    description : dict
        kind, effort, measured recall, where it was measured, and over how many queries.
    """
    faiss = require("faiss", extra="recall")
    n_items, width = vectors.targets.shape
    if spec.at >= n_items:
        raise DataError(
            f"recall at {spec.at} cannot be measured on {n_items} items; exact search is quicker "
            "for a catalogue this small."
        )
    targets = np.ascontiguousarray(vectors.targets)
    index = _empty_index(faiss, spec.kind, n_items, width)
    index.train(targets)
    index.add(targets)
    recall = 0.0
    for effort in EFFORTS:
        candidate = FaissIndex(index, spec.kind, effort)
        recall = _recall_at(vectors, candidate, spec.at)
        if recall >= spec.least_recall:
            description = {
                "kind": spec.kind,
                "effort": effort,
                "recall": round(recall, 4),
                "at": spec.at,
                "measured_queries": min(MEASURED_QUERIES, n_items),
            }
            return np.asarray(faiss.serialize_index(index)), description
    raise DataError(
        f"the {spec.kind} index finds {recall:.3f} of the exact top {spec.at} at its greatest "
        f"effort, below the {spec.least_recall} asked for; use exact search or ask for less."
    )


def load_index(
    data: NDArray[np.uint8], description: Mapping[str, Any], *, least_recall: float
) -> FaissIndex:
    """Return a stored index, refused where its recorded recall lies below `least_recall`."""
    faiss = require("faiss", extra="recall")
    recall = float(description["recall"])
    if recall < least_recall:
        raise ModelFileError(
            f"the index of this artifact has a recall of {recall} at {description['at']}, below "
            f"the {least_recall} required; export it with a better one or without."
        )
    try:
        index = faiss.deserialize_index(np.ascontiguousarray(data))
    except RuntimeError as error:
        raise ModelFileError(f"faiss cannot read the index of this artifact ({error}).") from None
    return FaissIndex(index, str(description["kind"]), int(description["effort"]))


def _empty_index(faiss: Any, kind: str, n_items: int, width: int) -> Any:
    if kind == "hnsw":
        return faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
    n_lists = int(max(1, min(4 * np.sqrt(n_items), n_items // 40)))
    return faiss.index_factory(width, f"IVF{n_lists},Flat", faiss.METRIC_INNER_PRODUCT)


def _recall_at(vectors: MatchingVectors, index: FaissIndex, at: int) -> float:
    """Return the share of the exact top `at` the index finds, over evenly spaced items."""
    n_items = len(vectors.targets)
    sample = np.linspace(0, n_items - 1, min(MEASURED_QUERIES, n_items)).astype(np.int64)
    exact, _ = ExactSearch(vectors).by_last_click(sample, at)
    rows = vectors.query_rows(sample)
    nominees = index.nominate(rows, NOMINATIONS_PER_ITEM * at)
    found, _ = _rescored(vectors, sample, rows, nominees, at)
    hits = [len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)]
    return float(np.mean(hits) / at)


def _rescored(
    vectors: MatchingVectors, clicks: IntArray, rows: Float32Array, nominees: IntArray, n: int
) -> Ranking:
    """Score nominees exactly, shape (n_rows, n_nominees), and return the `n` best of each row."""
    scores = np.einsum("rd,rnd->rn", rows, vectors.targets[nominees])
    scores[nominees < 0] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    positions = np.take_along_axis(nominees, order, axis=1)
    best = np.take_along_axis(scores, order, axis=1)
    return positions, best - vectors.log_normaliser[clicks, None]

"""Approximate search with faiss: built on export, measured on the model's own vectors.

The index stores uncompressed vectors, so scores are exact: an approximate ranking can miss items
but not misorder them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.mixture import Float32Array, Mixture, log_sum_exp
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_choice, check_count, check_fraction, require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.io.folders.array_folder import check_positions, require_array
from groupnoise.recall.rankers import VectorRanker
from groupnoise.recall.search import Eligible, ExactSearch, Ranking, empty_ranking
from groupnoise.recall.vectors import MatchingVectors

MEASURED_QUERIES = 1000
LISTS_PER_ROOT = 6.5
NOMINEES_PER_ITEM = 4
"""Candidates that each query of several retrieves per item of the answer."""
MAX_EXCLUDED = 256
"""A history that excludes more items is searched exactly."""
_FIRST_BYTES = {"ivf": b"IwFl", "hnsw": b"IHNf"}
"""First bytes of a serialized faiss index of each kind."""
_READING = threading.Lock()
"""Held while faiss reads: its limits are global."""
EFFORTS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 384, 512, 768, 1024)


@dataclass(frozen=True, kw_only=True)
class IndexSpec:
    """Which faiss index to build, and how good it must be.

    Attributes
    ----------
    kind : {"ivf", "hnsw"}, default="ivf"
        Inverted lists, or a navigable graph.
    least_recall : float, default=0.95
        The share of the exact top `at` it must find; below it the index is refused.
    at : int, default=10
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

    def search(self, rows: Float32Array, n: int) -> Ranking:
        """Return up to `n` items per row with their inner products, -1 where fewer were found."""
        faiss = require("faiss", extra="recall")
        if self.kind == "ivf":
            parameters = faiss.SearchParametersIVF(nprobe=self.effort)
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=max(self.effort, n))
        scores, positions = self.index.search(rows, n, params=parameters)
        scores[positions < 0] = -np.inf
        return positions, scores


class ApproximateRanker(VectorRanker):
    """Ranks what a faiss index finds; filtered requests go to exact search.

    `index`: the approximate search for nominees.
    """

    is_exact = False

    def __init__(self, vectors: MatchingVectors, index: FaissIndex) -> None:
        super().__init__(vectors)
        self._index = index

    def rank(
        self,
        histories: Sequence[IntArray],
        n: int,
        *,
        scope: str | None = None,
        eligible: Eligible | None = None,
    ) -> Ranking:
        """Return the best items found per history, ranked among the union over its queries."""
        eligible = eligible or Eligible()
        if eligible.candidates is not None:
            # It is not known how many of the items found a filter would leave.
            return super().rank(histories, n, scope=scope, eligible=eligible)
        excluded = [eligible.excluded(row) for row in range(len(histories))]
        positions, scores = empty_ranking(len(histories), n)
        is_long = np.array([len(out) > MAX_EXCLUDED for out in excluded])
        for rows, rank in (
            (np.flatnonzero(is_long), super().rank),
            (np.flatnonzero(~is_long), self._rank_nominees),
        ):
            if len(rows):
                positions[rows], scores[rows] = rank(
                    [histories[row] for row in rows.tolist()],
                    n,
                    scope=scope,
                    eligible=eligible.take(rows),
                )
        return positions, scores

    def _rank_nominees(
        self, histories: Sequence[IntArray], n: int, *, scope: str | None, eligible: Eligible
    ) -> Ranking:
        """Rank the items that the index finds for the queries of each history."""
        vectors = self.vectors
        mixture = vectors.mixture(histories, scope)
        excluded = [eligible.excluded(row) for row in range(len(histories))]
        n_out = max(len(out) for out in excluded)
        has_one = len(mixture.query_of) == len(histories)
        reach = min((n if has_one else NOMINEES_PER_ITEM * n) + n_out, len(vectors.targets))
        rows = vectors.query_rows(mixture)
        nominees, _ = self._index.search(rows, reach)
        # The log-normalizer of a single query does not change the order, and would need all items;
        # scores stay logits.
        is_bare = has_one and mixture.items is None
        offsets = mixture.log_weight if is_bare else vectors.term_offsets(mixture)
        positions, scores = empty_ranking(len(histories), n)
        for row, out in enumerate(excluded):
            terms = slice(mixture.offsets[row], mixture.offsets[row + 1])
            union = np.setdiff1d(nominees[mixture.query_of[terms]], out)
            union = union[union >= 0]
            scores_found = rows[mixture.query_of[terms]] @ vectors.targets[union].T
            total = log_sum_exp(scores_found + offsets[terms, None], axis=0)
            best = np.lexsort((union, -total))[:n]
            positions[row, : len(best)], scores[row, : len(best)] = union[best], total[best]
        return positions, scores


def build_index(
    vectors: MatchingVectors, spec: IndexSpec
) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """Build an index and find the least effort that reaches the required recall."""
    faiss = require("faiss", extra="recall")
    n_items, width = vectors.targets.shape
    if spec.at >= n_items:
        raise DataError(
            f"recall at {spec.at} cannot be measured on {counted(n_items, 'items')}; exact "
            "search is quicker for a catalogue this small."
        )
    targets = np.ascontiguousarray(vectors.targets)
    index = _empty_index(faiss, spec.kind, n_items, width)
    index.train(targets)
    index.add(targets)
    recall = 0.0
    measured = _single_clicks(vectors)
    rows = vectors.query_rows(measured)[measured.query_of]
    exact, _ = ExactSearch(vectors).search(measured, spec.at)
    for effort in EFFORTS:
        candidate = FaissIndex(index, spec.kind, effort)
        recall = _recall_at(candidate, rows, exact)
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
    data: NDArray[np.uint8],
    description: Mapping[str, Any],
    *,
    least_recall: float,
    shape: tuple[int, ...],
) -> FaissIndex:
    """Return a stored index, refused where its recorded recall lies below `least_recall`."""
    faiss = require("faiss", extra="recall")
    kind, effort, recall = description["kind"], description["effort"], description["recall"]
    check_choice("kind", kind, tuple(_FIRST_BYTES))
    check_count("effort", effort)
    check_fraction("recall", recall)
    if recall < least_recall:
        raise ModelFileError(
            f"the index of this artifact has a recall of {recall} at {description['at']}, below "
            f"the {least_recall} required; export it with a better one or without."
        )
    stored = np.ascontiguousarray(
        require_array({"index": data}, "index", types=("u1",), shape=(None,))
    )
    # faiss would read any kind of index that the bytes announce, some of them from other files.
    if bytes(stored[:4]) != _FIRST_BYTES[kind]:
        raise ModelFileError(f"the index of this artifact is no {kind} index of whole vectors.")
    try:
        with _bounded_reading(faiss, len(stored)):
            index = faiss.deserialize_index(stored)
    except (RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise ModelFileError(f"faiss cannot read the index of this artifact ({reason}).") from None
    if (index.ntotal, index.d) != shape or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ModelFileError("the index of this artifact was built on other vectors.")
    if kind == "ivf":
        _check_lists(faiss, index)
    return FaissIndex(index, kind, effort)


@contextmanager
def _bounded_reading(faiss: Any, n_bytes: int) -> Iterator[None]:
    """Limit what faiss allocates to the size of the stored index."""
    limits = ("deserialization_vector_byte_limit", "deserialization_loop_limit")
    known = [name for name in limits if hasattr(faiss, f"set_{name}")]  # not before faiss 1.13
    with _READING:
        before = {name: getattr(faiss, f"get_{name}")() for name in known}
        try:
            for name in known:
                getattr(faiss, f"set_{name}")(n_bytes)
            yield
        finally:
            for name, limit in before.items():
                getattr(faiss, f"set_{name}")(limit)


def _check_lists(faiss: Any, index: Any) -> None:
    """Refuse inverted lists with positions out of range."""
    lists = index.invlists
    for number in range(lists.nlist):
        size = lists.list_size(number)
        if size:
            positions = faiss.rev_swig_ptr(lists.get_ids(number), size)
            check_positions("index", positions, index.ntotal)


def _empty_index(faiss: Any, kind: str, n_items: int, width: int) -> Any:
    if kind == "hnsw":
        return faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
    # Many short lists and spherical centres give the best recall per inner product.
    n_lists = int(max(1, min(LISTS_PER_ROOT * np.sqrt(n_items), n_items // 20)))
    index = faiss.index_factory(width, f"IVF{n_lists},Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True
    index.cp.min_points_per_centroid = 1  # faiss would print a warning to standard error
    return index


def _single_clicks(vectors: MatchingVectors) -> Mixture:
    """Return evenly spaced items as histories of one click each."""
    n_items = len(vectors.targets)
    clicks = np.linspace(0, n_items - 1, min(MEASURED_QUERIES, n_items)).astype(np.int64)
    return vectors.mixture(list(clicks[:, None]), "last")


def _recall_at(index: FaissIndex, rows: Float32Array, exact: IntArray) -> float:
    """Return the share of the exact top the index finds."""
    found, _ = index.search(rows, exact.shape[1])
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2)
    return float(hits.mean())

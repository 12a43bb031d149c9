"""The vectors of a recall model, the scores that its rule gives with them, and their normalizers.

A log-normalizer of a query is summed over the whole catalogue: exactly, or by clusters of items
where that is long, since all pairs of a million items would take hours. There the scores of a
cluster are taken as if they were normal:

    sum_(t in C) exp(q . t) ~ |C| exp(q . m + q^2 . s / 2),   m, s: mean and variances of C.

That is right where they hardly vary. A cluster whose part of a query's sum, times the variance of
its scores, is noticeable is summed item by item. What that makes of some queries is held against
their exact sums, and what counts as noticeable is lowered until all of them agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from groupnoise.clicks.mixture import Float32Array, Mixture, log_sum_exp
from groupnoise.clicks.scoring import SCOPES, ScoringRule
from groupnoise.core.arrays import FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.threads import available_cores

MAX_EXACT_PAIRS = 1 << 32
"""Pairs of a query and an item that are all summed: about half a minute of one core."""
MAX_ERROR = 0.01
"""Of a log-normalizer that was checked against its exact value: a hundredth of the sum."""
_BLOCK_ITEMS, _BLOCK_QUERIES = 512, 256
"""Scores held at a time, half a megabyte, stay in the cache from the product to their sum."""
_MIN_BLOCKS_PER_THREAD = 8
_CLUSTERS_PER_ROOT = 4
_POINTS_PER_CLUSTER, _N_ROUNDS = 32, 4
_NOTICEABLE = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 0.0)
"""Thresholds on a cluster's share of a sum times its variance, above which it is summed exactly."""
_FAR, _FAR_PART = 4.0, 1e-2
"""Standard deviations above the mean of its cluster at which an item may stand, and the part of a
sum that it would have there for its cluster to be summed item by item."""
_CHECKED_QUERIES = 256
_QUERIES_TOGETHER, _PAIRS_TOGETHER = 1 << 15, 1 << 22
"""Queries whose noticeable clusters are summed together, so that products are large; of many such
clusters fewer, so that memory does not grow with them."""


def log_normalizers(queries: Float32Array, targets: Float32Array) -> Float32Array:
    """Return the log-sum-exp of each query's scores over all targets.

    `queries` (n_queries, dimension + 1): rows that end in a one. `targets` (n_items, dimension +
    1): rows that end in the bias.
    """
    if len(queries) * len(targets) <= MAX_EXACT_PAIRS:
        return exact_log_normalizers(queries, targets)
    checked = np.linspace(0, len(queries) - 1, _CHECKED_QUERIES).astype(np.int64)
    exact = exact_log_normalizers(queries[checked], targets)
    clusters = ItemClusters.of(targets)
    noticeable = next(
        part
        for part in _NOTICEABLE
        if not part or np.abs(clusters.log_sums(queries[checked], part) - exact).max() <= MAX_ERROR
    )
    return _in_threads(lambda rows: clusters.log_sums(rows, noticeable), queries, _QUERIES_TOGETHER)


def exact_log_normalizers(queries: Float32Array, targets: Float32Array) -> Float32Array:
    """Return the log-sum-exp of each query's scores over all targets, block by block."""
    return _in_threads(lambda rows: _log_sums(rows, targets), queries, _BLOCK_QUERIES)


@dataclass(frozen=True, eq=False)
class ItemClusters:
    """Targets by cluster, one cluster after the other.

    `targets` (n_items, dimension + 1): rows that end in the bias.
    `offsets`: where each cluster begins; none is empty.
    `means`, `variances` (n_clusters, dimension + 1): of the rows of each.
    """

    targets: Float32Array
    offsets: IntArray
    means: Float32Array
    variances: Float32Array

    @classmethod
    def of(cls, targets: Float32Array) -> ItemClusters:
        """Cluster targets by k-means on some of them."""
        generator = np.random.default_rng(0)
        n_clusters = max(1, round(_CLUSTERS_PER_ROOT * len(targets) ** 0.5))
        n_points = min(len(targets), _POINTS_PER_CLUSTER * n_clusters)
        points = targets[np.sort(generator.choice(len(targets), n_points, replace=False))]
        centres = points[generator.choice(n_points, min(n_clusters, n_points), replace=False)]
        for _ in range(_N_ROUNDS):
            centres = cls._sorted(points, _nearest(points, centres)).means
        return cls._sorted(targets, _nearest(targets, centres))

    @classmethod
    def _sorted(cls, targets: Float32Array, cluster_of: IntArray) -> ItemClusters:
        order = np.argsort(cluster_of, kind="stable")
        sizes = np.bincount(cluster_of)
        sizes = sizes[sizes > 0]
        offsets = offsets_from_sizes(sizes)
        rows = targets[order]
        means = np.add.reduceat(rows, offsets[:-1]) / sizes[:, None]
        squared = (rows - np.repeat(means, sizes, axis=0)) ** 2
        variances = np.add.reduceat(squared, offsets[:-1]) / sizes[:, None]
        return cls(rows, offsets, means.astype(np.float32), variances.astype(np.float32))

    def log_sums(self, queries: Float32Array, noticeable: float) -> Float32Array:
        """Return the log-sum-exp of each query, noticeable clusters item by item."""
        found: list[_ExactPairs] = []
        result = []
        for block in _blocks(len(queries), _BLOCK_QUERIES):
            found.append(self._split_clusters(queries[block], noticeable))
            # Where many clusters matter, a few thousand queries have millions of pairs.
            if sum(len(each.query) for each in found) > _PAIRS_TOGETHER:
                result.append(self._summed(found))
                found = []
        if found:
            result.append(self._summed(found))
        return np.concatenate(result)

    def _split_clusters(self, rows: Float32Array, noticeable: float) -> _ExactPairs:
        """Return the pairs of query and cluster to sum exactly, and the approximate rest."""
        centre = rows @ self.means.T
        variance = (rows * rows) @ self.variances.T
        scores = centre + 0.5 * variance + np.log(np.diff(self.offsets)).astype(np.float32)
        shift = scores.max(axis=1)
        part = np.exp(scores - shift[:, None])
        total = part.sum(axis=1, keepdims=True)
        # A single item far above a large cluster counts as well, which no variance tells.
        is_far = centre + _FAR * np.sqrt(variance) >= np.log(_FAR_PART * total) + shift[:, None]
        is_noticeable = (part * variance >= noticeable * total) | is_far
        query, cluster = (each.astype(np.int32) for each in np.nonzero(is_noticeable))
        part[is_noticeable] = 0.0
        return _ExactPairs(rows, query, cluster, shift, part.sum(axis=1))

    def _summed(self, found: list[_ExactPairs]) -> Float32Array:
        """Return the log-sum-exp of queries, summing pairs cluster by cluster."""
        starts = np.cumsum([0] + [len(each.rows) for each in found[:-1]], dtype=np.int32)
        queries = np.concatenate([each.rows for each in found])
        query = np.concatenate([each.query + at for each, at in zip(found, starts, strict=True)])
        cluster = np.concatenate([each.cluster for each in found])
        shifts = np.concatenate([each.shift for each in found])
        order = np.argsort(cluster, kind="stable")
        query, cluster = query[order], cluster[order]
        begins = np.searchsorted(cluster, np.arange(len(self.means) + 1))
        sums = np.empty(len(query), dtype=np.float32)
        for number in np.unique(cluster).tolist():
            pairs = slice(begins[number], begins[number + 1])
            rows = query[pairs]
            items = self.targets[self.offsets[number] : self.offsets[number + 1]]
            for block in _blocks(len(rows), _BLOCK_QUERIES):
                sums[pairs][block] = log_sum_exp(queries[rows[block]] @ items.T, axis=1)
        highest = shifts.copy()
        np.maximum.at(highest, query, sums)
        result = np.concatenate([each.rest for each in found]) * np.exp(shifts - highest)
        np.add.at(result, query, np.exp(sums - highest[query]))
        return np.asarray(np.log(result) + highest, dtype=np.float32)


class _ExactPairs(NamedTuple):
    """Pairs of a query and a cluster to be summed item by item.

    `rows` (n_queries, dimension + 1): the queries. `query`, `cluster`: the pairs.
    `rest`: the sum over all other clusters, after `shift` was taken from its logarithms.
    """

    rows: Float32Array
    query: NDArray[np.int32]
    cluster: NDArray[np.int32]
    shift: Float32Array
    rest: Float32Array


def _nearest(points: Float32Array, centres: Float32Array) -> IntArray:
    """Return the nearest centre of each point."""
    half_norms = 0.5 * (centres**2).sum(axis=1)
    nearest = np.empty(len(points), dtype=np.int64)
    for block in _blocks(len(points), _BLOCK_QUERIES):
        nearest[block] = (points[block] @ centres.T - half_norms).argmax(axis=1)
    return nearest


def _blocks(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(first, first + size) for first in range(0, n_rows, size))


def _in_threads(
    log_sums: Callable[[Float32Array], Float32Array], queries: Float32Array, size: int
) -> Float32Array:
    """Apply a function to blocks of queries, in threads if there are many."""
    blocks = [queries[block] for block in _blocks(len(queries), size)]
    if len(queries) < 2 * _MIN_BLOCKS_PER_THREAD * _BLOCK_QUERIES:
        return np.concatenate([log_sums(rows) for rows in blocks])
    # numpy lets other threads run while it computes, and exponentials take it most of the time.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(available_cores()) as threads:
        return np.concatenate(list(threads.map(log_sums, blocks)))


def _log_sums(rows: Float32Array, targets: Float32Array) -> Float32Array:
    """Return the log-sum-exp of a block of queries, shape (n_rows,)."""
    total = log_sum_exp(rows @ targets[:_BLOCK_ITEMS].T, axis=1)
    for first in range(_BLOCK_ITEMS, len(targets), _BLOCK_ITEMS):
        scores = rows @ targets[first : first + _BLOCK_ITEMS].T
        # Shifted by what is known so far, a block needs no largest score of its own.
        scores -= total[:, None]
        with np.errstate(over="ignore"):
            more = np.exp(scores, out=scores).sum(axis=1)
        if np.isfinite(more).all():
            total += np.log1p(more)
        else:  # all before is nothing beside this block
            scores = rows @ targets[first : first + _BLOCK_ITEMS].T
            total = np.logaddexp(total, log_sum_exp(scores, axis=1))
    return np.asarray(total, dtype=np.float32)


@dataclass(frozen=True)
class MatchingVectors:
    """Item vectors and the rule that scores with them.

    `targets` (n_items, dimension + 1): g of every item; the last column is its bias, so that one
        product gives the score.
    `queries` (n_items, dimension or dimension + 1): f of every item; may be `targets` itself, whose
        bias column is then passed over.
    `log_normalizer`: log of the sum of exponentiated scores over the whole catalogue, per clicked
        item.
    `rule`: how the clicks of a history become queries.
    """

    targets: Float32Array
    queries: Float32Array
    log_normalizer: Float32Array
    rule: ScoringRule

    @property
    def dimension(self) -> int:
        """The length of a vector, the bias left out."""
        return int(self.targets.shape[1]) - 1

    def features(self, positions: IntArray) -> Float32Array:
        """Return f of the items at `positions`, shape (..., dimension)."""
        return np.asarray(self.queries.take(positions, axis=0)[..., : self.dimension])

    def mixture(self, histories: Sequence[IntArray], scope: str | None = None) -> Mixture:
        """Return the weighted queries of histories, none of them empty."""
        offsets = offsets_from_sizes([len(history) for history in histories])
        return self._rules[scope].mixture(self.features, np.concatenate(histories), offsets)

    @cached_property
    def _rules(self) -> dict[str | None, ScoringRule]:
        """The rule under every scope, made once: each request needs one."""
        return {scope: self.rule.with_scope(scope) for scope in (None, *SCOPES)}

    def group_weights(self, history: IntArray) -> FloatArray:
        """Return P(click | history) of the clicks of the window."""
        group = history if self.rule.window_size is None else history[-self.rule.window_size :]
        negatives = np.array(self.rule.negatives, dtype=np.int64)
        log_weight = self.rule.log_group_weight(
            self.features(group)[None], self.features(negatives) if len(negatives) else None
        )
        return np.asarray(np.exp(log_weight[0].astype(np.float64)))

    def query_rows(self, mixture: Mixture) -> Float32Array:
        """Return rows whose product with `targets` is the score, shape (n_queries, dim + 1)."""
        rows = np.ones((len(mixture.queries), self.dimension + 1), dtype=np.float32)
        rows[:, :-1] = mixture.queries
        return rows

    def term_offsets(self, mixture: Mixture) -> Float32Array:
        """Return the log weight of each term less its log-normalizer, (n_terms,)."""
        if mixture.items is not None:
            normalizer = self.log_normalizer[mixture.items]
        else:
            normalizer = log_normalizers(self.query_rows(mixture), self.targets)
        return np.asarray(mixture.log_weight - normalizer[mixture.query_of], dtype=np.float32)

    def contributions(self, mixture: Mixture, positions: IntArray) -> FloatArray:
        """Return the log score of each item by each term, shape (n_terms, n_positions)."""
        pairs = self.query_rows(mixture)[mixture.query_of] @ self.targets[positions].T
        return np.asarray(pairs + self.term_offsets(mixture)[:, None])

    def click_evidence(
        self, history: IntArray, positions: IntArray, scope: str | None = None
    ) -> FloatArray:
        """Return the contribution of each click of the window to the score of each item.

        Of rules that normalise histories; shape (n_clicks, n_positions).
        """
        rule = self._rules[scope]
        added = rule.click_evidence(self.features(history[-(rule.n_clicks or 0) :]))
        return np.asarray(added @ self.targets[positions, : self.dimension].T, dtype=np.float64)

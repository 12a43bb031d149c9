"""What a recommender is worth on histories: where it ranks the clicks that came next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.clicks.history_split import Queries, about_counts, last_queries, order_counts
from groupnoise.clicks.ranking import rank_and_list, rank_by_popularity, rank_targets
from groupnoise.clicks.recall_metrics import (
    Interval,
    bootstrap_interval,
    bucket_names,
    coverage,
    debiased_mean,
    gini,
    novelty,
    popularity_parts,
)
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import gain_rows, hit_rows, reciprocal_rows
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.setting import Evaluation

N_NEGATIVES = 100
"""What `rank_targets` draws for each row under "sampled"."""
TOP = 10
RECALL_AT = (50, 100, 500)
"""What a recall stage hands on to the next."""
NEVER = 1 << 40
"""Items ahead of a target that cannot be answered: more than any list is long."""
ROW_FIGURES = {"HIT": hit_rows, "NDCG": gain_rows, "MRR": reciprocal_rows}


@dataclass(frozen=True)
class JudgedTargets:
    """Where one recommender ranks the targets of a log, in the whole catalogue.

    Attributes
    ----------
    users, positions : int64 ndarray of shape (n_targets,)
        The history each target belongs to, and where it stands there.
    items : int64 ndarray of shape (n_targets,)
        The target as an item index of the log.
    n_better, n_tied : int64 ndarray of shape (n_targets,)
        Unseen items ahead of, and level with, the target; a target that is unknown, or whose
        history holds nothing known, has more ahead of it than any list is long.
    n_context : int64 ndarray of shape (n_targets,)
        Clicks before the target.
    targets : int64 ndarray of shape (n_targets,)
        The target as an item index of the model, -1 if it is unknown.
    lists : int64 ndarray of shape (n_answered, top)
        What was recommended, as item indices of the model.
    catalogue_popularity : ndarray of shape (n_items,)
        Training clicks on every item of the model.
    counts : dict of str to int
        Targets, and those that could not be answered.
    """

    users: IntArray
    positions: IntArray
    items: IntArray
    n_better: IntArray
    n_tied: IntArray
    n_context: IntArray
    targets: IntArray
    lists: IntArray
    catalogue_popularity: FloatArray
    counts: dict[str, int]

    @property
    def n_items(self) -> int:
        """The size of the catalogue."""
        return len(self.catalogue_popularity)

    @property
    def popularity(self) -> FloatArray:
        """Training clicks on each target."""
        clicks: FloatArray = np.where(
            self.targets >= 0, self.catalogue_popularity[self.targets], 0.0
        )
        return clicks

    def rows(self, figure: str = "NDCG", k: int = TOP) -> FloatArray:
        """Return a figure of each target, in expectation over ties.

        Parameters
        ----------
        figure : {"HIT", "NDCG", "MRR"}, default="NDCG"
            Which.
        k : int, default=10
            Length of the list.

        Returns
        -------
        ndarray of shape (n_targets,)
        """
        return ROW_FIGURES[figure](self.n_better, self.n_tied, k)

    def figures(self, at: Sequence[int] = (TOP,)) -> dict[str, float]:
        """Return the means over all targets, by name.

        Parameters
        ----------
        at : sequence of int, default=(10,)
            Lengths of the list for HIT, NDCG and MRR.

        Returns
        -------
        dict of str to float
        """
        found = {
            f"full {name}@{k}": float(self.rows(name, k).mean()) for k in at for name in ROW_FIGURES
        }
        for k in RECALL_AT:
            if k < self.n_items and k not in at:
                found[f"full Recall@{k}"] = float(self.rows("HIT", k).mean())
        for name in ("HIT", "NDCG"):
            found[f"debiased {name}@{at[0]}"] = debiased_mean(
                self.rows(name, at[0]), self.popularity
            )
        if len(self.lists):
            top = self.lists.shape[1]
            found[f"coverage@{top}"] = coverage(self.lists, self.n_items)
            found[f"novelty@{top}"] = novelty(self.lists, self.catalogue_popularity)
            found[f"Gini@{top}"] = gini(self.lists, self.n_items)
        return found

    def intervals(self, at: Sequence[int] = (TOP,), seed: int = 0) -> dict[str, Interval]:
        """Return HIT and NDCG with their intervals over draws of users.

        Parameters
        ----------
        at : sequence of int, default=(10,)
            Lengths of the list.
        seed : int, default=0
            Decides the draws.

        Returns
        -------
        dict of str to Interval
        """
        return {
            f"full {name}@{k}": bootstrap_interval(
                self.rows(name, k), self.users, random_state=seed
            )
            for k in at
            for name in ("HIT", "NDCG")
        }

    def buckets(self, k: int = TOP) -> dict[str, dict[str, float]]:
        """Return targets, HIT and NDCG by popularity of the target and length of the history.

        Parameters
        ----------
        k : int, default=10
            Length of the list.

        Returns
        -------
        dict of str to dict
        """
        parts = popularity_parts(self.catalogue_popularity)
        part = np.where(self.targets >= 0, parts[self.targets], -1)
        hits, gains = self.rows("HIT", k), self.rows("NDCG", k)
        return {
            name: {
                "targets": len(rows),
                f"HIT@{k}": float(hits[rows].mean()),
                f"NDCG@{k}": float(gains[rows].mean()),
            }
            for name, rows in bucket_names(part, self.n_context).items()
        }

    def table(self, dataset: ClickDataset, at: Sequence[int] = (TOP,)) -> dict[str, list[Any]]:
        """Return one row per target, as columns of a table.

        Parameters
        ----------
        dataset : ClickDataset
            The log that the targets are from.
        at : sequence of int, default=(10,)
            Lengths of the list for HIT, NDCG and MRR.

        Returns
        -------
        dict of str to list
        """
        answered = self.n_better < NEVER
        columns: dict[str, list[Any]] = {
            "user": dataset.user_ids[self.users].tolist(),
            "item": dataset.item_ids[self.items].tolist(),
            "position": self.positions.tolist(),
            "clicks_before": self.n_context.tolist(),
            "target_clicks": self.popularity.tolist(),
            "answered": answered.tolist(),
            "n_better": np.where(answered, self.n_better, -1).tolist(),
            "n_tied": self.n_tied.tolist(),
        }
        for k in at:
            for name in ROW_FIGURES:
                columns[f"{name}@{k}"] = self.rows(name, k).tolist()
        return columns


def judge_targets(
    fitted: Any, dataset: ClickDataset, queries: Queries, *, top: int = TOP
) -> JudgedTargets:
    """Rank what came next in the whole catalogue of a model, less what was seen.

    Items are looked up in the catalogue by their ids. A target that the model does not know is a
    miss; so is one whose history holds nothing that the model knows.

    Parameters
    ----------
    fitted : recommender
        Ours or a baseline.
    dataset : ClickDataset
        The log that the queries are from.
    queries : Queries
        What is asked for.
    top : int, default=10
        Length of the recommended lists that coverage, novelty and Gini are read from.

    Returns
    -------
    JudgedTargets
    """
    return _judge(fitted, queries, _known_queries(fitted, dataset, queries), top)


def _judge(fitted: Any, queries: Queries, known: _KnownQueries, top: int) -> JudgedTargets:
    n_targets = len(queries)
    better, tied = np.full(n_targets, NEVER), np.zeros(n_targets, dtype=np.int64)
    lists = np.empty((0, top), dtype=np.int64)
    if known.groups is not None:
        ranks = rank_and_list(fitted, known.groups, fitted.n_items_, seen=known.seen, top=top)
        better[known.rows], tied[known.rows], lists = ranks
    return JudgedTargets(
        users=queries.users,
        positions=queries.positions,
        items=np.asarray(queries.groups.targets),
        n_better=better,
        n_tied=tied,
        n_context=queries.groups.sizes,
        targets=known.targets,
        lists=lists,
        catalogue_popularity=np.asarray(fitted.popularity_, dtype=np.float64),
        counts=known.counts,
    )


@dataclass(frozen=True)
class _KnownQueries:
    """Queries as item indices of a model: those it can answer, and the target of all, or -1."""

    groups: Groups | None
    seen: Groups | None
    rows: IntArray
    targets: IntArray
    counts: dict[str, int]


def _known_queries(fitted: Any, dataset: ClickDataset, queries: Queries) -> _KnownQueries:
    # Every item is looked up once, however often it was clicked.
    index_of = fitted.catalogue_.indices_of(fitted.catalogue_.as_read(dataset.item_ids))
    targets = index_of[np.asarray(queries.groups.targets)]
    sizes = _n_known(index_of, queries.groups)
    rows = np.flatnonzero((targets >= 0) & (sizes > 0))
    counts = {
        "groups": len(queries),
        "unknown_targets": int((targets < 0).sum()),
        "histories_without_known_click": int(((targets >= 0) & (sizes == 0)).sum()),
    }
    if not len(rows):
        return _KnownQueries(None, None, rows, targets, counts)
    groups = _only_known(index_of, queries.groups.subset(rows), targets[rows])
    is_whole = queries.seen is queries.groups
    seen = groups if is_whole else _only_known(index_of, queries.seen.subset(rows), None)
    return _KnownQueries(groups, seen, rows, targets, counts)


def _n_known(index_of: IntArray, groups: Groups) -> IntArray:
    known = index_of[np.asarray(groups.objects)] >= 0
    sizes: IntArray = np.add.reduceat(known, groups.offsets[:-1], dtype=np.int64)
    return sizes


def _only_known(index_of: IntArray, groups: Groups, targets: IntArray | None) -> Groups:
    items = index_of[np.asarray(groups.objects)]
    sizes = np.add.reduceat(items >= 0, groups.offsets[:-1], dtype=np.int64)
    return Groups(items[items >= 0], np.concatenate([[0], np.cumsum(sizes)]), targets)


def evaluate_histories(
    fitted: Any,
    dataset: ClickDataset,
    rows: IntArray | None = None,
    *,
    at: Sequence[int] = (TOP,),
    seed: int = 0,
) -> Evaluation:
    """Rank the last click of each history, by what was clicked before it, beside popularity.

    Parameters
    ----------
    fitted : recommender
        Ours or a baseline.
    dataset : ClickDataset
        Histories; those of one click have nothing before it and are passed over.
    rows : int64 ndarray, optional
        The histories to score; all by default.
    at : sequence of int, default=(10,)
        Lengths of the list.
    seed : int, default=0
        Decides the negatives of the sampled protocol.

    Returns
    -------
    Evaluation
    """
    queries = last_queries(dataset.histories, rows)
    if queries is None:
        raise DataError(
            f"no history of {dataset.name} has two clicks, one to go by and one to predict; "
            "nothing can be evaluated."
        )
    asked = len(dataset.histories) if rows is None else len(rows)
    counts = {"histories_of_one": asked - len(queries), **order_counts(dataset)}
    return evaluate_queries(fitted, dataset, queries, counts=counts, at=at, seed=seed)


def evaluate_queries(
    fitted: Any,
    dataset: ClickDataset,
    queries: Queries,
    *,
    counts: dict[str, int] | None = None,
    at: Sequence[int] = (TOP,),
    seed: int = 0,
) -> Evaluation:
    """Measure a recommender on queries: among samples and the whole catalogue.

    Parameters
    ----------
    fitted : recommender
        Ours or a baseline.
    dataset : ClickDataset
        The log that the queries are from.
    queries : Queries
        What is asked for.
    counts : dict of str to int, optional
        What was counted when the log was divided.
    at : sequence of int, default=(10,)
        Lengths of the list.
    seed : int, default=0
        Decides the negatives of the sampled protocol, and the draws of the intervals.

    Returns
    -------
    Evaluation
        With figures of popularity beside, buckets, intervals and one row per target.
    """
    known = _known_queries(fitted, dataset, queries)
    judged = _judge(fitted, queries, known, max(at))
    metrics: dict[str, float] = {}
    popular: dict[str, float] = {}
    if known.groups is not None and known.seen is not None:
        share = len(known.rows) / len(queries)
        popularity = _Popularity(judged.catalogue_popularity)
        if _leaves_negatives(known.seen, fitted.n_items_):
            for scorer, figures in ((fitted, metrics), (popularity, popular)):
                ranks = rank_targets(
                    scorer, known.groups, fitted.n_items_, seen=known.seen, random_state=seed
                )
                for k in at:
                    figures[f"sampled HIT@{k}"] = share * float(hit_rows(*ranks, k).mean())
                    figures[f"sampled NDCG@{k}"] = share * float(gain_rows(*ranks, k).mean())
        ranks = rank_by_popularity(judged.catalogue_popularity, known.groups, known.seen)
        for k in at:
            for name, rows_of in ROW_FIGURES.items():
                popular[f"full {name}@{k}"] = share * float(rows_of(*ranks, k).mean())
    else:
        popular = {f"full {name}@{k}": 0.0 for k in at for name in ROW_FIGURES}
    metrics |= judged.figures(at)
    told = {**{name: count for name, count in (counts or {}).items() if count}, **judged.counts}
    return Evaluation(
        metrics,
        told,
        popular,
        per_class=judged.buckets(at[0]),
        notes=about_counts(told),
        beside="popularity",
        parts="bucket",
        intervals={
            name: (found.low, found.high) for name, found in judged.intervals(at, seed).items()
        },
        rows=judged.table(dataset, at),
    )


def paired_differences(
    result: Evaluation, other: Evaluation, *, seed: int = 0
) -> dict[str, Interval]:
    """Return by how much one evaluation is ahead of another on the same targets.

    Parameters
    ----------
    result, other : Evaluation
        Of two recommenders on the same queries.
    seed : int, default=0
        Decides the draws of users.

    Returns
    -------
    dict of str to Interval
        HIT, NDCG and MRR of the first less those of the second, by the paired bootstrap.
    """
    for name in ("user", "position"):
        if result.rows[name] != other.rows[name]:
            raise DataError("two recommenders are compared on the same targets; these differ.")
    return {
        name: bootstrap_interval(
            np.subtract(values, other.rows[name]), result.rows["user"], random_state=seed
        )
        for name, values in result.rows.items()
        if name.partition("@")[0] in ROW_FIGURES
    }


class _Popularity:
    """Who gives every history the same items: those clicked most often in training."""

    def __init__(self, popularity: FloatArray) -> None:
        self.popularity = popularity

    def scores(self, histories: Groups, items: IntArray | None = None) -> FloatArray:
        """Return how often each item was clicked, whatever the history."""
        if items is not None:
            return self.popularity[items]
        return np.broadcast_to(self.popularity, (len(histories), len(self.popularity)))


def _leaves_negatives(seen: Groups, n_items: int) -> bool:
    """Whether a catalogue is large enough to draw negatives for the longest history."""
    return n_items - int(seen.sizes.max()) - 1 >= N_NEGATIVES

"""Ranks of test targets in the whole catalogue, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.history_split import Queries
from groupnoise.clicks.evaluation.ranking import rank_and_list
from groupnoise.clicks.evaluation.recall_metrics import (
    Interval,
    bootstrap_interval,
    bucket_names,
    coverage,
    debiased_mean,
    gini,
    novelty,
    popularity_parts,
)
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups, only_objects
from groupnoise.core.metrics import hit_per_row, ndcg_per_row, reciprocal_rank_per_row
from groupnoise.io.datasets import ClickDataset

TOP = 10
RECALL_AT = (50, 100, 500)
"""Numbers of candidates that a recall stage passes to the next."""
UNRANKED = 1 << 40
"""Rank of a target that cannot be ranked: beyond the length of any list."""
MIN_DRAWS, MAX_DRAWS, MAX_DRAWN_USERS = 200, 1000, 200_000_000
"""Draws of the intervals: 1000 of up to 200 000 users, fewer of more."""
NEW = "new-item"
"""Prefix of metrics over targets that their user had not clicked before."""
ROW_FIGURES = {"HIT": hit_per_row, "NDCG": ndcg_per_row, "MRR": reciprocal_rank_per_row}


@dataclass(frozen=True)
class JudgedTargets:
    """The ranks of the targets of a log in the whole catalogue of a recommender.

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
    is_repeat : bool ndarray of shape (n_targets,)
        Whether the target is among these clicks. Such a target is ranked among all items, seen or
        not; recommended lists never hold it.
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
    is_repeat: BoolArray
    targets: IntArray
    lists: IntArray
    catalogue_popularity: FloatArray
    counts: dict[str, int]

    @property
    def n_items(self) -> int:
        """The size of the catalogue."""
        return len(self.catalogue_popularity)

    @property
    def has_both(self) -> bool:
        """Whether some targets are repeats and others are new to their user."""
        return bool(self.is_repeat.any() and not self.is_repeat.all())

    @property
    def popularity(self) -> FloatArray:
        """Training clicks on each target."""
        return np.where(self.targets >= 0, self.catalogue_popularity[self.targets], 0.0)

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
        """Return the means over all targets, by name, and over new ones where some are repeats.

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
        if self.has_both:
            for k in at:
                for name in ROW_FIGURES:
                    found[f"{NEW} {name}@{k}"] = float(self.rows(name, k)[~self.is_repeat].mean())
        for k in RECALL_AT:
            if k < self.n_items and k not in at:
                found[f"full Recall@{k}"] = float(self.rows("HIT", k).mean())
        for name in ("HIT", "NDCG"):
            found[f"debiased {name}@{at[0]}"] = debiased_mean(
                self.rows(name, at[0]), self.popularity
            )
        if (self.lists >= 0).any():  # users who know the whole catalogue are shown nothing
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
        # More users make narrower intervals, for which fewer draws suffice.
        n_draws = int(np.clip(MAX_DRAWN_USERS // len(self.users), MIN_DRAWS, MAX_DRAWS))
        parts = {"full": np.ones(len(self.users), dtype=bool)}
        parts |= {NEW: ~self.is_repeat} if self.has_both else {}
        return {
            f"{part} {name}@{k}": bootstrap_interval(
                self.rows(name, k)[kept], self.users[kept], n_draws=n_draws, random_state=seed
            )
            for part, kept in parts.items()
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
            for name, rows in bucket_names(part, self.n_context, self.is_repeat).items()
        }

    def table(self, dataset: ClickDataset, at: Sequence[int] = (TOP,)) -> dict[str, NDArray[Any]]:
        """Return one row per target, as columns of a table.

        Parameters
        ----------
        dataset : ClickDataset
            The log that the targets are from.
        at : sequence of int, default=(10,)
            Lengths of the list for HIT, NDCG and MRR.

        Returns
        -------
        dict of str to ndarray of shape (n_targets,)
        """
        answered = self.n_better < UNRANKED
        columns: dict[str, NDArray[Any]] = {
            "user": dataset.user_ids[self.users],
            "item": dataset.item_ids[self.items],
            "position": self.positions,
            "clicks_before": self.n_context,
            "clicked_before": self.is_repeat,
            "target_clicks": self.popularity,
            "answered": answered,
            "n_better": np.where(answered, self.n_better, -1),
            "n_tied": self.n_tied,
        }
        for k in at:
            for name in ROW_FIGURES:
                columns[f"{name}@{k}"] = self.rows(name, k)
        return columns


def judge_targets(
    fitted: Any, dataset: ClickDataset, queries: Queries, *, top: int = TOP
) -> JudgedTargets:
    """Rank the targets of queries in the whole catalogue of a model, seen items left out.

    Items are looked up in the catalogue by their ids. A target that the model does not know is a
    miss; so is one whose history holds nothing that the model knows.

    Parameters
    ----------
    fitted : recommender
        Ours or a baseline.
    dataset : ClickDataset
        The log that the queries are from.
    queries : Queries
        The targets to rank.
    top : int, default=10
        Length of the recommended lists that coverage, novelty and Gini are read from.

    Returns
    -------
    JudgedTargets
    """
    return rank_known_queries(fitted, queries, known_queries(fitted, dataset, queries), top)


def rank_known_queries(
    fitted: Any, queries: Queries, known: KnownQueries, top: int
) -> JudgedTargets:
    """Return the ranks of queries as item indices of the model; see `judge_targets`."""
    n_targets = len(queries)
    better, tied = np.full(n_targets, UNRANKED), np.zeros(n_targets, dtype=np.int64)
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
        is_repeat=queries.is_repeat,
        targets=known.targets,
        lists=lists,
        catalogue_popularity=np.asarray(fitted.popularity_, dtype=np.float64),
        counts=known.counts,
    )


@dataclass(frozen=True)
class KnownQueries:
    """Queries as item indices of a model: those it can answer, and all targets, -1 if unknown."""

    groups: Groups | None
    seen: Groups | None
    rows: IntArray
    targets: IntArray
    counts: dict[str, int]


def known_queries(fitted: Any, dataset: ClickDataset, queries: Queries) -> KnownQueries:
    """Look the items of queries up in the catalogue of a model."""
    # Every item is looked up once, however often it was clicked.
    index_of = fitted.catalogue_.indices_of(fitted.catalogue_.convert_ids(dataset.item_ids))
    targets = index_of[np.asarray(queries.groups.targets)]
    is_known = index_of[np.asarray(queries.groups.objects)] >= 0
    sizes = np.add.reduceat(is_known, queries.groups.offsets[:-1], dtype=np.int64)
    rows = np.flatnonzero((targets >= 0) & (sizes > 0))
    counts = {
        "groups": len(queries),
        "unknown_targets": int((targets < 0).sum()),
        "histories_without_known_click": int(((targets >= 0) & (sizes == 0)).sum()),
    }
    if not len(rows):
        return KnownQueries(None, None, rows, targets, counts)
    groups = _only_known(index_of, queries.groups.subset(rows), targets[rows])
    is_whole = queries.seen is queries.groups
    seen = groups if is_whole else _only_known(index_of, queries.seen.subset(rows), None)
    return KnownQueries(groups, seen, rows, targets, counts)


def _only_known(index_of: IntArray, groups: Groups, targets: IntArray | None) -> Groups:
    items = index_of[np.asarray(groups.objects)]
    return only_objects(Groups(items, groups.offsets, targets), items >= 0)

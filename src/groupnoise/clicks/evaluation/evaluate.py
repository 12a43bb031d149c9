"""Evaluation of a recommender on histories, compared with popularity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from groupnoise.clicks.evaluation.history_split import (
    Queries,
    describe_counts,
    last_queries,
    order_counts,
)
from groupnoise.clicks.evaluation.judged import (
    NEW,
    ROW_FIGURES,
    TOP,
    JudgedTargets,
    known_queries,
    rank_known_queries,
)
from groupnoise.clicks.evaluation.ranking import TargetRanks, rank_by_popularity, rank_targets
from groupnoise.clicks.evaluation.recall_metrics import Interval, bootstrap_interval
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import hit_per_row, ndcg_per_row
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.setting import Evaluation

N_NEGATIVES = 100
"""What `rank_targets` draws for each row under "sampled"."""
BEHIND = "behind what is popular"
"""Prefix of the note on the model; all other notes are on the data."""


def evaluate_histories(
    fitted: Any,
    dataset: ClickDataset,
    rows: IntArray | None = None,
    *,
    at: Sequence[int] = (TOP,),
    seed: int = 0,
) -> Evaluation:
    """Rank the last click of each history given the clicks before it, compared with popularity."""
    queries = last_queries(dataset.histories, rows)
    if queries is None:
        raise DataError(
            f"no history of {dataset.name} has two clicks, one to go by and one to predict; "
            "nothing can be evaluated."
        )
    n_requested = len(dataset.histories) if rows is None else len(rows)
    counts = {"histories_of_one": n_requested - len(queries), **order_counts(dataset)}
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
    """Evaluate a recommender on queries, among sampled items and in the whole catalogue."""
    known = known_queries(fitted, dataset, queries)
    judged = rank_known_queries(fitted, queries, known, max(at))
    metrics: dict[str, float] = {}
    popular = {f"full {name}@{k}": 0.0 for k in at for name in ROW_FIGURES}
    notes: tuple[str, ...] = ()
    if known.groups is not None and known.seen is not None:
        n_left = _min_unseen_items(known.seen, fitted.n_items_)
        share, by_popularity = len(known.rows) / len(queries), dict[str, float]()
        if n_left < N_NEGATIVES:
            notes = (
                f"no figures among {N_NEGATIVES} sampled items: of the catalogue of "
                f"{counted(fitted.n_items_, 'items')} one history leaves only {n_left} unseen",
            )
        else:
            scorers = fitted, _Popularity(judged.catalogue_popularity)
            among_samples = (
                rank_targets(
                    each, known.groups, fitted.n_items_, seen=known.seen, random_state=seed
                )
                for each in scorers
            )
            metrics, by_popularity = (_sampled_metrics(ranks, share, at) for ranks in among_samples)
        ranks = rank_by_popularity(judged.catalogue_popularity, known.groups, known.seen)
        popular = {**by_popularity, **_popularity_metrics(judged, ranks, known.rows, share, at)}
    metrics |= judged.figures(at)
    notes = (*_popularity_warning(metrics, popular, at[0]), *notes)
    n_repeats = int(judged.is_repeat.sum())
    all_counts = {**(counts or {}), "targets_clicked_before": n_repeats}
    all_counts = {**{name: count for name, count in all_counts.items() if count}, **judged.counts}
    if n_repeats == len(queries):
        notes = (
            "no target is new to its user, so this does not measure `predict`, which leaves seen "
            "items out; if repeats are not real choices, merge them with --repeats",
            *notes,
        )
    return Evaluation(
        metrics,
        all_counts,
        popular,
        per_class=judged.buckets(at[0]),
        notes=(*describe_counts(all_counts), *notes),
        baseline_name="popularity",
        breakdown="bucket",
        intervals={
            name: (found.low, found.high) for name, found in judged.intervals(at, seed).items()
        },
        rows=judged.table(dataset, at),
    )


def _sampled_metrics(ranks: TargetRanks, share: float, at: Sequence[int]) -> dict[str, float]:
    """Return metrics among sampled items; `share`: of the targets that the model knows."""
    figures = {}
    for k in at:
        figures[f"sampled HIT@{k}"] = share * float(hit_per_row(*ranks, k).mean())
        figures[f"sampled NDCG@{k}"] = share * float(ndcg_per_row(*ranks, k).mean())
    return figures


def _popularity_metrics(
    judged: JudgedTargets, ranks: TargetRanks, rows: IntArray, share: float, at: Sequence[int]
) -> dict[str, float]:
    """Return the metrics of recommending by popularity; `rows`: the queries that have ranks."""
    figures, is_new = {}, ~judged.is_repeat
    for k in at:
        for name, rows_of in ROW_FIGURES.items():
            values = rows_of(*ranks, k)
            figures[f"full {name}@{k}"] = share * float(values.mean())
            if judged.has_both:
                gained = float(values[is_new[rows]].sum())
                figures[f"{NEW} {name}@{k}"] = gained / int(is_new.sum())
    return figures


def _popularity_warning(
    metrics: dict[str, float], popular: dict[str, float], k: int
) -> tuple[str, ...]:
    """Return a warning where popularity has the better metrics."""
    behind = [
        f"{name} {metrics[name]:.4f}, popularity {popular[name]:.4f}"
        for name in (f"full NDCG@{k}", f"{NEW} NDCG@{k}")
        if name in metrics and name in popular and metrics[name] < popular[name]
    ]
    if not behind:
        return ()
    return (
        f"{BEHIND} ({'; '.join(behind)}): items that all users get would answer "
        "better here; `groupnoise compare` shows what other methods reach on this log",
    )


def paired_differences(
    result: Evaluation, other: Evaluation, *, seed: int = 0
) -> dict[str, Interval]:
    """Return paired differences of two evaluations on the same targets."""
    for name in ("user", "position"):
        if not np.array_equal(result.rows[name], other.rows[name]):
            raise DataError("two recommenders are compared on the same targets; these differ.")
    return {
        name: bootstrap_interval(
            np.subtract(values, other.rows[name]), result.rows["user"], random_state=seed
        )
        for name, values in result.rows.items()
        if name.partition("@")[0] in ROW_FIGURES
    }


class _Popularity:
    """Scores items by their training clicks, whatever the history."""

    def __init__(self, popularity: FloatArray) -> None:
        self.popularity = popularity

    def scores(self, histories: Groups, items: IntArray | None = None) -> FloatArray:
        """Return how often each item was clicked, whatever the history."""
        if items is not None:
            return self.popularity[items]
        return np.broadcast_to(self.popularity, (len(histories), len(self.popularity)))


def _min_unseen_items(seen: Groups, n_items: int) -> int:
    """Return the least number of items that are neither seen nor the target."""
    longest = int(seen.sizes.max())
    if n_items - longest - 1 < N_NEGATIVES:  # unless clicks were repeated
        pairs = np.unique(seen.group_of_object * n_items + np.asarray(seen.objects))
        longest = int(np.bincount(pairs // n_items).max())
    return max(0, n_items - longest - 1)

"""What a recommender is worth on histories: where it ranks the click that came last."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupnoise.clicks.ranking import Scorer, rank_targets
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import hit_at_k, ndcg_at_k
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.setting import Evaluation

N_NEGATIVES = 100
"""What `rank_targets` draws for each row under "sampled"."""


def evaluate_histories(
    fitted: Any, dataset: ClickDataset, rows: IntArray | None = None, *, seed: int = 0
) -> Evaluation:
    """Rank the last click of each history, by what was clicked before it, beside popularity.

    The target is cut off before anything is looked up in the catalogue of the model. A target that
    the model does not know is a miss; so is one whose history holds nothing that the model knows.

    Parameters
    ----------
    fitted : recommender
        Ours or a baseline.
    dataset : ClickDataset
        Histories; those of one click have nothing before it and are passed over.
    rows : int64 ndarray, optional
        The histories to score; all by default.
    seed : int, default=0
        Decides the negatives of the sampled protocol.
    """
    histories = dataset.histories if rows is None else dataset.histories.subset(rows)
    long_enough = np.flatnonzero(histories.sizes > 1)
    if not len(long_enough):
        raise DataError(
            f"no history of {dataset.name} has two clicks, one to go by and one to predict; "
            "nothing can be evaluated."
        )
    cut = last_as_target(histories.subset(long_enough))
    item_ids = fitted.catalogue_.as_read(dataset.item_ids)
    targets = fitted.catalogue_.indices_of(item_ids[cut.targets])
    indexed = fitted.catalogue_.index([item_ids[history] for history in cut])
    has_context = np.diff(indexed.offsets) > 0
    scored = np.flatnonzero((targets >= 0) & has_context)
    counts = {
        "groups": len(cut),
        "unknown_targets": int((targets < 0).sum()),
        "histories_without_known_click": int(((targets >= 0) & ~has_context).sum()),
    }
    metrics: dict[str, float] = {}
    tests = None
    if len(scored):
        sizes = np.diff(indexed.offsets)
        kept = np.repeat(np.isin(np.arange(len(cut)), scored), sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes[scored])])
        tests = Groups(indexed.items[kept], offsets, targets[scored])
    protocols = ("full",) if tests is None else protocols_for(tests, fitted.n_items_)
    share = len(scored) / len(cut)
    popular: dict[str, float] = {}
    scorers: tuple[tuple[Scorer, dict[str, float]], ...]
    scorers = ((fitted, metrics), (_Popularity(fitted.popularity_), popular))
    for protocol in protocols:
        for scorer, figures in scorers:
            hit = ndcg = 0.0
            if tests is not None:
                ranks = rank_targets(scorer, tests, fitted.n_items_, protocol, random_state=seed)
                hit, ndcg = hit_at_k(*ranks), ndcg_at_k(*ranks)
            figures[f"{protocol} HIT@10"] = share * hit
            figures[f"{protocol} NDCG@10"] = share * ndcg
    return Evaluation(metrics, counts, popular, notes=_notes(counts), beside="popularity")


class _Popularity:
    """Who gives every history the same items: those clicked most often in training."""

    def __init__(self, popularity: FloatArray) -> None:
        self.popularity = popularity

    def scores(self, histories: Groups, items: IntArray | None = None) -> FloatArray:
        """Return how often each item was clicked, whatever the history."""
        if items is not None:
            return self.popularity[items]
        return np.broadcast_to(self.popularity, (len(histories), len(self.popularity)))


def _notes(counts: dict[str, int]) -> tuple[str, ...]:
    notes = []
    if counts["unknown_targets"]:
        notes.append(
            f"{counts['unknown_targets']} targets are unknown to the model and count as misses"
        )
    if counts["histories_without_known_click"]:
        notes.append(
            f"{counts['histories_without_known_click']} histories hold no click that the model "
            "knows and count as misses"
        )
    return tuple(notes)


def last_as_target(histories: Groups) -> Groups:
    """Return histories without their last click, which is what comes next."""
    last = histories.offsets[1:] - 1
    begins = histories.offsets - np.arange(len(histories) + 1)
    return Groups(np.delete(histories.objects, last), begins, histories.objects[last])


def protocols_for(groups: Groups, n_items: int) -> tuple[str, ...]:
    """Return the ranking protocols a catalogue is large enough for, the cheaper one first."""
    n_left = n_items - int(groups.sizes.max()) - 1
    return ("sampled", "full") if n_left >= N_NEGATIVES else ("full",)

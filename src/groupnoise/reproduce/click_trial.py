"""Windows of a click log under one seed: how to fit, how to choose, how to test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from groupnoise.clicks.ranking import rank_targets
from groupnoise.core.arrays import BoolArray
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import hit_at_k, ndcg_at_k
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset, Windows, WindowSplit
from groupnoise.reproduce.trials import Watched, fit_plain, fit_watched

TOP = 10
VALIDATION_WINDOWS = 3000
"""Windows looked at after every epoch; enough for a standard error below one point."""


@dataclass(frozen=True)
class ClickTrial:
    """Windows of a click log cut in three; chosen by NDCG@10 on validation windows.

    `full`: whether test figures over the whole catalogue are reported beside the sampled ones.
    `refits`: whether what was chosen is fitted anew on training and validation windows: all that
        comes before the test, as in the authors' code, which has no validation part.
    """

    dataset: str
    seed: int
    clicks: ClickDataset
    split: WindowSplit
    full: bool = False
    refits: bool = False
    setting: ClassVar[str] = "rs"
    criteria: ClassVar[tuple[str, ...]] = ("validation",)

    def fit(self, estimator: Any, *, supervised: bool = False, plain: bool = False) -> Watched:
        """Fit on windows, or on the clicks of each window that truly led to the next.

        A plain fit reads the histories themselves, as far as the windows go.
        """
        if plain:
            histories = self._histories_before(self.split.validation, self.split.test)
            return fit_plain(self, estimator, histories, item_ids=self.clicks.item_ids)
        return fit_watched(
            self,
            estimator,
            self._training_groups(self.split.train, supervised),
            None,
            item_ids=self.clicks.item_ids,
            validation=self._watched.groups,
        )

    def refit(self, estimator: Any, *, supervised: bool = False, plain: bool = False) -> None:
        """Fit on the training and validation windows, for as many epochs as the estimator says."""
        if plain:
            histories = self._histories_before(self.split.test)
            fit_plain(self, estimator, histories, item_ids=self.clicks.item_ids)
            return
        parts = (self.split.train, self.split.validation)
        training_groups = Groups.concat([self._training_groups(part, supervised) for part in parts])
        estimator.fit(training_groups, item_ids=self.clicks.item_ids)

    def _training_groups(self, windows: Windows, supervised: bool) -> Groups:
        """Return what is learnt from windows; if supervised, only clicks that led to the next.

        A window without such a click keeps all of them: its target still tells what is popular.
        """
        if not supervised:
            return windows.groups
        related = self.is_related(windows)
        some = np.logical_or.reduceat(related, windows.groups.offsets[:-1])
        return _only(windows.groups, related | np.repeat(~some, windows.groups.sizes))

    def _histories_before(self, *parts: Windows) -> Groups:
        """Return every history up to the first click that one of the parts asks for."""
        histories = self.clicks.histories
        lengths = np.asarray(histories.sizes).copy()
        for part in parts:
            np.minimum.at(lengths, part.users, part.positions)
        position = np.arange(histories.n_objects) - np.repeat(
            histories.offsets[:-1], histories.sizes
        )
        kept = position < np.repeat(lengths, histories.sizes)
        offsets = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        return Groups(np.asarray(histories.objects)[kept], offsets)

    @cached_property
    def _watched(self) -> Windows:
        """The validation windows looked at after every epoch."""
        windows = self.split.validation
        rows = np.arange(len(windows.users))
        if len(rows) > VALIDATION_WINDOWS:
            generator = np.random.default_rng(self.seed)
            rows = np.sort(generator.choice(rows, VALIDATION_WINDOWS, replace=False))
        return Windows(windows.groups.subset(rows), windows.users[rows], windows.positions[rows])

    def validation_value(self, estimator: Any, criterion: str = "validation") -> float:
        """Return NDCG@10 against 100 negatives on validation windows."""
        return self._metrics(estimator, self._watched, "sampled")[1]

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return HIT@10 and NDCG@10 against 100 negatives, and over the catalogue if asked."""
        hit, ndcg = self._metrics(estimator, self.split.test, "sampled")
        figures = {f"HIT@{TOP}": hit, f"NDCG@{TOP}": ndcg}
        if self.full:
            hit, ndcg = self._metrics(estimator, self.split.test, "full")
            figures |= {f"full HIT@{TOP}": hit, f"full NDCG@{TOP}": ndcg}
        return figures

    def _metrics(self, estimator: Any, windows: Windows, protocol: str) -> tuple[float, float]:
        ranks = rank_targets(
            estimator,
            windows.groups,
            self.clicks.n_items,
            protocol,
            seen=self.clicks.histories.subset(windows.users),
            random_state=self.seed,
        )
        return hit_at_k(*ranks, k=TOP), ndcg_at_k(*ranks, k=TOP)

    def chosen_right(self, estimator: Any) -> float | None:
        """Return how often the chosen click truly led to the next, where any click did."""
        if "follows" not in self.clicks.notes or not hasattr(estimator, "select"):
            return None
        groups, related = self.split.train.groups, self.is_related(self.split.train)
        some = np.logical_or.reduceat(related, groups.offsets[:-1])
        chosen = estimator.select(groups.subset(some)).chosen
        return float(np.mean(related[groups.offsets[:-1][some] + chosen]))

    def is_related(self, windows: Windows) -> BoolArray:
        """Return for each click of each window whether its target goes back to it.

        `windows`: a part of the split.
        """
        follows = self.clicks.notes.get("follows")
        if follows is None:
            raise DataError(f"{self.dataset} does not say which click caused the next.")
        groups, history = windows.groups, self.clicks.histories.offsets[windows.users]
        first = windows.positions - groups.sizes  # position of each window's first click
        related = np.zeros(groups.n_objects, dtype=bool)
        cause = follows[history + windows.positions]
        for _ in range(int(groups.sizes.max())):
            inside = cause >= np.maximum(first, 0)
            related[(groups.offsets[:-1] + cause - first)[inside]] = True
            cause = np.where(inside, follows[history + np.maximum(cause, 0)], -1)
        return related


def _only(groups: Groups, kept: BoolArray) -> Groups:
    """Return the groups with only the objects kept; a group left empty is dropped."""
    sizes = np.add.reduceat(kept, groups.offsets[:-1], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
    return Groups(groups.objects[kept], offsets, np.asarray(groups.targets)[sizes > 0])

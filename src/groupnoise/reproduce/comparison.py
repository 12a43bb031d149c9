"""Comparison of methods: means, intervals, paired differences and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupnoise.clicks.evaluation.recall_metrics import Interval
from groupnoise.core.words import counted, join_with_and
from groupnoise.reproduce.report.tables import corrected_t_test

CONFIDENCE = 0.95
SCALE = 1.0
"""Range of a metric."""
MAX_NAMED = 3
"""Most methods tied with the leader that a sentence names."""
CHANCE, CLEAR = 0.5, 2.0
"""AUROC of guessing, and the standard errors by which a method must exceed it."""


@dataclass(frozen=True)
class ComparedMethod:
    """The metrics of one method on a data set.

    `name`: as `groupnoise methods` lists it.
    `splits`: the metrics on each split, in order.
    `seconds`: mean seconds of a fit.
    `failed`: why it has no metrics, in a sentence.
    """

    name: str
    splits: tuple[Mapping[str, float], ...] = ()
    seconds: float = 0.0
    failed: str | None = None

    def values(self, metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a metric on each split, shape (n_splits,)."""
        return np.array([split.get(metric, math.nan) for split in self.splits])


@dataclass(frozen=True)
class ComparisonOfMethods:
    """Methods on one data set, best first, with intervals and paired tests.

    `dataset`, `setting`: of the data.
    `metric`: by which methods are ranked.
    `needs_truth`: whether the metric needs true labels.
    `n_splits`: the most splits of any method; a spent budget leaves some with fewer.
    `share`: share of the groups that each split holds out.
    `methods`: best first; failed ones last.
    `notes`: on the data and on a spent budget.
    """

    dataset: str
    setting: str
    metric: str
    needs_truth: bool
    n_splits: int
    share: float
    methods: tuple[ComparedMethod, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def is_alone(self) -> bool:
        """Whether a single method has metrics."""
        return len(self.ranked) == 1

    @property
    def ranked(self) -> list[ComparedMethod]:
        """The methods that did not fail, best first."""
        return [each for each in self.methods if each.failed is None]

    @property
    def leader(self) -> ComparedMethod:
        """The method with the best mean, not necessarily significantly so."""
        return self.methods[0]

    @property
    def winner(self) -> ComparedMethod | None:
        """The leader, if it is significantly ahead of every other method."""
        others = [each for each in self.ranked if each is not self.leader]
        is_told = bool(others) and not any(self.is_tied(each) for each in others)
        return self.leader if is_told else None

    def interval(self, method: ComparedMethod) -> Interval:
        """Return the mean of a method and its interval, clipped to [0, 1].

        Missing splits are adjusted for as in `adjusted_means`.
        """
        found = corrected_interval(method.values(self.metric), self.share)
        mean = adjusted_means(self.ranked, self.metric)[method.name]
        ends = np.array([found.low, found.high]) + (mean - found.mean)
        return Interval(mean, *np.clip(ends, 0.0, 1.0).tolist())

    def behind(self, method: ComparedMethod) -> Interval:
        """Return the paired difference of the leader and a method over their common splits."""
        return corrected_interval(self.gaps(self.leader, method), self.share)

    def gaps(
        self, one: ComparedMethod, other: ComparedMethod
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the differences of two methods on their common splits."""
        n_both = min(len(one.splits), len(other.splits))
        return one.values(self.metric)[:n_both] - other.values(self.metric)[:n_both]

    def heading(self, units: str) -> str:
        """Return the metric, the data and the splits in one line."""
        basis = " by true labels" if self.needs_truth else " by what needs no truth"
        basis = "" if self.setting == "rs" else basis  # clicks are all the truth there is
        some_lack = any(len(each.splits) < self.n_splits for each in self.ranked)
        splits = f"{'up to ' * some_lack}{counted(self.n_splits, 'splits')}"
        return (
            f"{self.dataset}: {self.metric}{basis}, mean over {splits}, {self.share:.0%} of the "
            f"{units} held out"
        )

    def is_tied(self, method: ComparedMethod) -> bool:
        """Whether a method does not differ significantly from the leader."""
        low = self.behind(method).low
        return method is self.leader or math.isnan(low) or low <= 0.0

    def is_inconclusive(self, method: ComparedMethod) -> bool:
        """Whether the interval of the difference is wider than the range of the metric.

        Then there are too few groups to call methods tied.
        """
        behind = self.behind(method)
        return method is not self.leader and behind.high - behind.low > SCALE

    def verdict(self) -> str:
        """Return a sentence on the significance of the lead, and a warning of chance level."""
        return self._who_is_ahead() + self.chance_warning(self.leader.name)

    def _who_is_ahead(self) -> str:
        name = self.leader.name
        if self.is_alone:
            return f"{name} has nothing to compare it with."
        if self.winner is not None:
            return f"{name} is ahead of the others beyond chance."
        level = [each for each in self.ranked if each is not self.leader and self.is_tied(each)]
        if all(math.isnan(self.behind(each).low) for each in level):
            return f"{name} has the highest mean, but one split cannot show whether that is chance."
        if all(self.is_inconclusive(each) for each in level):
            return f"{name} has the highest mean, but there are too few groups to tell."
        names = [each.name for each in level]
        shown = names if len(names) <= MAX_NAMED else [*names[:MAX_NAMED], "others"]
        return (
            f"{name} has the highest mean, but the data cannot tell it from "
            f"{join_with_and(shown)}: none is ahead beyond chance."
        )

    def chance_warning(self, name: str) -> str:
        """Return a warning that a method may be no better than chance, empty if it is.

        Needs two splits or more.
        """
        values = next(each for each in self.ranked if each.name == name).values(self.metric)
        values = values[~np.isnan(values)]
        if not self.metric.endswith("AUROC") or len(values) < 2:
            return ""
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
        if values.mean() - CLEAR * error > CHANCE:
            return ""
        return (
            f" {name} may tell no more than chance, whose AUROC is {CHANCE:g}: look at whether the "
            "features tell the labels apart and whether labels are right."
        )

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it."""
        return {
            "data": self.dataset,
            "setting": self.setting,
            "metric": self.metric,
            "needs_truth": self.needs_truth,
            "n_splits": self.n_splits,
            "held_out_share": self.share,
            "leader": self.leader.name,
            "winner": None if self.winner is None else self.winner.name,
            "verdict": self.verdict(),
            "notes": list(self.notes),
            "methods": [self._row(method) for method in self.methods],
        }

    def _row(self, method: ComparedMethod) -> dict[str, Any]:
        if method.failed is not None:
            return {"method": method.name, "failed": method.failed}
        names = sorted({name for split in method.splits for name in split})
        mean, behind = self.interval(method), self.behind(method)
        return {
            "method": method.name,
            "mean": mean.mean,
            "low": _known(mean.low),
            "high": _known(mean.high),
            "n_splits": len(method.splits),
            "behind_leader": behind.mean,
            "behind_low": _known(behind.low),
            "behind_high": _known(behind.high),
            "seconds": round(method.seconds, 2),
            "figures": {name: float(np.nanmean(method.values(name))) for name in names},
            "splits": method.values(self.metric).tolist(),
        }


def adjusted_means(methods: Sequence[ComparedMethod], metric: str) -> dict[str, float]:
    """Return the mean of each method, adjusted for missing splits.

    Least squares of a method effect plus a split effect; without missing splits these are the plain
    means.

    >>> easy, hard = {"hit": 0.8}, {"hit": 0.6}
    >>> pair = [ComparedMethod("both", (easy, hard)), ComparedMethod("first alone", (easy,))]
    >>> {name: round(mean, 2) for name, mean in adjusted_means(pair, "hit").items()}
    {'both': 0.7, 'first alone': 0.7}
    """
    n_splits = max(len(each.splits) for each in methods)
    rows, values = [], []
    for number, method in enumerate(methods):
        for split, value in enumerate(method.values(metric)):
            if not math.isnan(value):
                row = np.zeros(len(methods) + n_splits)
                row[[number, len(methods) + split]] = 1.0
                rows.append(row)
                values.append(value)
    # Solutions differ by a constant between methods and splits, which cancels.
    found = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    means = found[: len(methods)] + found[len(methods) :].mean()
    return {method.name: float(mean) for method, mean in zip(methods, means, strict=True)}


def corrected_interval(values: Any, share: float) -> Interval:
    """Return mean and interval over splits that overlap, as `corrected_t_test` has them.

    Its ends are NaN for a single split. `share`: share of the groups that a split holds out.

    >>> found = corrected_interval([0.8, 0.9], 0.2)
    >>> round(found.mean, 2), found.low < 0.8
    (0.85, True)
    """
    found = corrected_t_test(values, share / (1.0 - share), confidence=CONFIDENCE)
    if found.n_trials < 2:
        return Interval(found.mean, math.nan, math.nan)
    return Interval(found.mean, found.low, found.high)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value

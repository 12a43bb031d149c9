"""Trials: one data set under one seed in each setting, with fit, validation and test.

Methods are compared on the same trial; the test part is used once, after everything is chosen.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from groupnoise.clicks.evaluation.ranking import rank_targets
from groupnoise.clicks.windows.cutting import take_windows
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups, only_objects
from groupnoise.core.metrics import (
    accuracy,
    accuracy_within,
    approximated_accuracy,
    covering_rate,
    hit_at_k,
    ndcg_at_k,
)
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import (
    BagDataset,
    ClickDataset,
    PartialLabelDataset,
    Windows,
    WindowSplit,
)

TOLERANCES = {"MAE3": 3, "MAE5": 5}
"""Metrics of ages, as named for FG-NET: accuracy within so many years."""
TOP = 10
VALIDATION_WINDOWS = 3000
"""Windows evaluated after every epoch; enough for a standard error below one point."""


@dataclass
class MonitoredFit:
    """The outcome of a fit monitored on the validation part.

    `kept`: for each criterion the estimator at its best epoch; the same one for all where an
        estimator keeps its last epoch or has none.
    `followed`: a value recorded after every epoch, which is not used for selection.
    `n_epochs`: of all members together.
    """

    kept: dict[str, Any] = field(default_factory=dict)
    followed: list[float] = field(default_factory=list)
    n_epochs: int = 0


def fit_monitored(
    judge: DataTrial,
    estimator: Any,
    inputs: Any,
    targets: Any,
    *,
    follow: Callable[[Any], float] | None = None,
    **more: Any,
) -> MonitoredFit:
    """Fit an estimator, monitored on the validation part where it supports that.

    The estimator keeps the best epoch by the main criterion; copies are made at the best epochs by
    the others, so that one fit serves all of them. `follow`: called with the estimator after every
    epoch, its value recorded. `more`: passed to `fit` if it has such parameters.
    """
    watched = MonitoredFit()
    main, *others = judge.criteria
    best = dict.fromkeys(others, -np.inf)

    def validate(fitted: Any) -> float:
        if follow is not None:
            watched.followed.append(follow(fitted))
        for criterion in others if keeps_best_epoch(estimator) else ():
            value = judge.validation_value(fitted, criterion)
            if value > best[criterion]:
                best[criterion], watched.kept[criterion] = value, copy.deepcopy(fitted)
        return judge.validation_value(fitted, main)

    more["validate"] = validate
    known = {name: value for name, value in more.items() if has_fit_parameter(estimator, name)}
    estimator.fit(inputs, targets, **known)
    watched.kept = {c: watched.kept.get(c, estimator) for c in judge.criteria}
    watched.n_epochs = len(getattr(estimator, "history_", ()))
    return watched


def fit_plain(judge: DataTrial, estimator: Any, *inputs: Any, **more: Any) -> MonitoredFit:
    """Fit an estimator that decides by itself; the validation part is unused."""
    with warnings.catch_warnings():
        # Warnings on the data (too little, no better than chance) are expected.
        warnings.simplefilter("ignore")
        estimator.fit(*inputs, **more)
    return MonitoredFit(dict.fromkeys(judge.criteria, estimator))


def keeps_best_epoch(estimator: Any) -> bool:
    """Return whether an estimator keeps its best validation epoch."""
    return has_fit_parameter(estimator, "validate") and getattr(estimator, "keep", "best") == "best"


@dataclass(frozen=True)
class BagTrial:
    """Bags cut in three; chosen by instance accuracy on the validation bags.

    Only instances that belong to a class are scored: background has no label to be right about.

    `follow_test`: whether the test accuracy is recorded after every epoch.
    """

    dataset: str
    seed: int
    train: BagDataset
    validation: BagDataset
    test: BagDataset
    follow_test: bool = False
    setting: ClassVar[str] = "mil"
    criteria: ClassVar[tuple[str, ...]] = ("oracle",)

    def fit(self, estimator: Any, *, supervised: bool = False, plain: bool = False) -> MonitoredFit:
        """Fit on labelled bags, or on labelled instances."""
        if supervised:
            rows, targets = _known_instances(self.train)
            inputs = Groups(rows, np.arange(len(rows) + 1))  # bags of one instance
        else:
            inputs, targets = self.train.bags, self.train.labels.astype(np.int64)
        if plain:
            return fit_plain(self, estimator, inputs, targets)
        follow = partial(instance_accuracy, part=self.test) if self.follow_test else None
        return fit_monitored(self, estimator, inputs, targets, follow=follow)

    def validation_value(self, estimator: Any, criterion: str = "oracle") -> float:
        """Return the instance accuracy on the validation bags."""
        return instance_accuracy(estimator, self.validation)

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return the instance accuracy on the test bags."""
        return {"accuracy": instance_accuracy(estimator, self.test)}

    def chosen_right(self, estimator: Any) -> float | None:
        """Return the share of single-label training bags whose chosen instance is of the class."""
        truth, single = self.train.instance_labels, self.train.labels.sum(axis=1) == 1
        if truth is None or not single.any() or not hasattr(estimator, "select"):
            return None
        bags, labels = self.train.bags, self.train.labels.argmax(axis=1)
        selected = estimator.select(bags.subset(single), labels[single])
        chosen = getattr(selected, "chosen", None)  # pairs of instance and label have none
        if chosen is None:
            return None
        return float(np.mean(truth[bags.offsets[:-1][single] + chosen] == labels[single]))


def instance_accuracy(estimator: Any, part: BagDataset) -> float:
    """Return the accuracy on the instances that belong to a class."""
    rows, labels = _known_instances(part)
    return accuracy(labels, estimator.predict(rows))


def _known_instances(part: BagDataset) -> tuple[Any, IntArray]:
    if part.instance_labels is None:
        raise DataError(f"{part.name} has no instance labels, so accuracy cannot be measured.")
    known = part.instance_labels >= 0
    return part.bags.objects[known], part.instance_labels[known]


@dataclass(frozen=True)
class CandidateTrial:
    """Rows with candidate labels cut in three.

    `criteria`: selection criteria of settings, each with a row of its own: "oracle", the accuracy
        on true labels, or "covering_rate" and "approximated_accuracy", which need none.
    `ordered`: whether classes are ordered numbers, such as ages: accuracy within a tolerance is
        reported too.
    """

    dataset: str
    seed: int
    train: PartialLabelDataset
    validation: PartialLabelDataset
    test: PartialLabelDataset
    criteria: tuple[str, ...] = ("oracle",)
    ordered: bool = False
    setting: ClassVar[str] = "pll"

    def fit(self, estimator: Any, *, supervised: bool = False, plain: bool = False) -> MonitoredFit:
        """Fit on candidate labels, or on true labels."""
        candidates = self.train.candidates
        if supervised:
            candidates = _truth(self.train)[:, None] == np.arange(candidates.shape[1])
        features = self.train.features
        if plain:
            return fit_plain(self, estimator, features, candidates.astype(np.int64))
        return fit_monitored(self, estimator, features, candidates.astype(np.int64))

    def validation_value(self, estimator: Any, criterion: str = "oracle") -> float:
        """Return the criterion on the validation rows."""
        features = self.validation.features
        if criterion == "oracle":
            return accuracy(_truth(self.validation), estimator.predict(features))
        if criterion == "covering_rate":
            return covering_rate(self.validation.candidates, estimator.predict(features))
        return approximated_accuracy(self.validation.candidates, estimator.predict_proba(features))

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return the accuracy on the test rows, and within tolerances where classes are ages."""
        truth, predicted = _truth(self.test), estimator.predict(self.test.features)
        figures = {"accuracy": accuracy(truth, predicted)}
        if self.ordered:
            for name, tolerance in TOLERANCES.items():
                figures[name] = accuracy_within(truth, predicted, tolerance)
        return figures

    def chosen_right(self, estimator: Any) -> float | None:
        """Return the share of training rows whose best candidate is the true label."""
        if self.train.truth is None or not hasattr(estimator, "disambiguate"):
            return None
        resolved = estimator.disambiguate(
            self.train.features, self.train.candidates.astype(np.int64)
        )
        return accuracy(self.train.truth, resolved)


def _truth(part: PartialLabelDataset) -> IntArray:
    if part.truth is None:
        raise DataError(f"{part.name} has no true labels, so accuracy cannot be measured.")
    return part.truth


@dataclass(frozen=True)
class ClickTrial:
    """Windows of a click log cut in three; chosen by NDCG@10 on validation windows.

    `full`: whether test figures over the whole catalogue are reported beside the sampled ones.
    `refits`: whether the chosen settings are refitted on training and validation windows, as in the
        authors' code, which has no validation part.
    """

    dataset: str
    seed: int
    clicks: ClickDataset
    split: WindowSplit
    full: bool = False
    refits: bool = False
    setting: ClassVar[str] = "rs"
    criteria: ClassVar[tuple[str, ...]] = ("validation",)

    def fit(self, estimator: Any, *, supervised: bool = False, plain: bool = False) -> MonitoredFit:
        """Fit on windows, or on the clicks of each window that truly led to the next.

        A default fit reads the histories up to the held-out windows.
        """
        if plain:
            histories = self._histories_before(self.split.validation, self.split.test)
            return fit_plain(self, estimator, histories, item_ids=self.clicks.item_ids)
        return fit_monitored(
            self,
            estimator,
            self._training_groups(self.split.train, supervised),
            None,
            item_ids=self.clicks.item_ids,
            validation=self._validation_windows.groups,
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
        """Return the groups of windows; if supervised, only clicks that led to the next.

        A window without such a click keeps all of them.
        """
        if not supervised:
            return windows.groups
        related = self.is_related(windows)
        some = np.logical_or.reduceat(related, windows.groups.offsets[:-1])
        return only_objects(windows.groups, related | np.repeat(~some, windows.groups.sizes))

    def _histories_before(self, *parts: Windows) -> Groups:
        """Return every history up to its first target in the given parts."""
        histories = self.clicks.histories
        lengths = np.asarray(histories.sizes).copy()
        for part in parts:
            np.minimum.at(lengths, part.users, part.positions)
        kept = histories.position_of_object < np.repeat(lengths, histories.sizes)
        return only_objects(histories, kept)

    @cached_property
    def _validation_windows(self) -> Windows:
        """The validation windows evaluated after every epoch."""
        windows = self.split.validation
        rows = np.arange(len(windows.users))
        if len(rows) > VALIDATION_WINDOWS:
            generator = np.random.default_rng(self.seed)
            rows = np.sort(generator.choice(rows, VALIDATION_WINDOWS, replace=False))
        return take_windows(windows, rows)

    def validation_value(self, estimator: Any, criterion: str = "validation") -> float:
        """Return NDCG@10 against 100 negatives on validation windows."""
        return self._metrics(estimator, self._validation_windows, "sampled")[1]

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return HIT@10 and NDCG@10 against 100 negatives, and over the catalogue if asked."""
        hit, ndcg = self._metrics(estimator, self.split.test, "sampled")
        figures = {f"HIT@{TOP}": hit, f"NDCG@{TOP}": ndcg}
        if self.full:
            hit, ndcg = self._metrics(estimator, self.split.test, "full")
            figures |= {f"full HIT@{TOP}": hit, f"full NDCG@{TOP}": ndcg}
        return figures

    def _metrics(self, estimator: Any, windows: Windows, protocol: str) -> tuple[float, float]:
        return window_metrics(estimator, self.clicks, windows, protocol, self.seed)

    def chosen_right(self, estimator: Any) -> float | None:
        """Return how often the chosen click truly led to the next, where any click did."""
        if "follows" not in self.clicks.notes or not hasattr(estimator, "select"):
            return None
        groups, related = self.split.train.groups, self.is_related(self.split.train)
        some = np.logical_or.reduceat(related, groups.offsets[:-1])
        chosen = estimator.select(groups.subset(some)).chosen
        return float(np.mean(related[groups.offsets[:-1][some] + chosen]))

    def is_related(self, windows: Windows) -> BoolArray:
        """Return for each click of each window whether its target goes back to it."""
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


def window_metrics(
    estimator: Any, clicks: ClickDataset, windows: Windows, protocol: str = "sampled", seed: int = 0
) -> tuple[float, float]:
    """Return HIT@10 and NDCG@10 of the targets of windows, ranked among items not in the history.

    `protocol`, `seed`: as in `rank_targets`.
    """
    ranks = rank_targets(
        estimator,
        windows.groups,
        clicks.n_items,
        protocol,
        seen=clicks.histories.subset(windows.users),
        random_state=seed,
    )
    return hit_at_k(*ranks, k=TOP), ndcg_at_k(*ranks, k=TOP)


DataTrial = BagTrial | CandidateTrial | ClickTrial
"""A data set of one of the settings under one seed."""

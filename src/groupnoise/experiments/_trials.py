"""One data set under one seed, in each setting: how to fit, how to choose, how to test.

A trial knows its training, validation and test parts. Methods are compared by handing the same
trial to each of them; the test part is touched once, after everything is chosen.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from groupnoise._typing import BoolArray, IntArray
from groupnoise.datasets import BagDataset, ClickDataset, PartialLabelDataset, Windows, WindowSplit
from groupnoise.evaluation import (
    accuracy,
    approximated_accuracy,
    covering_rate,
    hit_at_k,
    ndcg_at_k,
    rank_targets,
)
from groupnoise.exceptions import DataError
from groupnoise.groups import Groups

TOP = 10
VALIDATION_WINDOWS = 3000
"""Windows looked at after every epoch; enough for a standard error below one point."""


class Trial(Protocol):
    """What the runner needs of a data set under one seed."""

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        ...

    @property
    def dataset(self) -> str:
        """What to call the data set in tables."""
        ...

    @property
    def seed(self) -> int:
        """The seed that made the parts."""
        ...

    def fit(self, estimator: Any, *, supervised: bool = False) -> None:
        """Fit on the training part, keeping the epoch that validates best."""
        ...

    def validation_value(self, estimator: Any) -> float:
        """Return what settings are chosen by; larger is better."""
        ...

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return the figures of the test part."""
        ...

    def chosen_right(self, estimator: Any) -> float | None:
        """Return how often the object chosen in a training group is the right one."""
        ...


@dataclass(frozen=True)
class BagTrial:
    """Bags cut in three; chosen by instance accuracy on the validation bags.

    Only instances that belong to a class are scored: background has no label to be right about.
    """

    dataset: str
    seed: int
    train: BagDataset
    validation: BagDataset
    test: BagDataset
    setting: ClassVar[str] = "mil"

    def fit(self, estimator: Any, *, supervised: bool = False) -> None:
        """Fit on labelled bags, or on labelled instances."""
        if supervised:
            rows, labels = _known_instances(self.train)
            _fit(self, estimator, rows, labels)
        else:
            _fit(self, estimator, self.train.bags, self.train.labels.astype(np.int64))

    def validation_value(self, estimator: Any) -> float:
        """Return the instance accuracy on the validation bags."""
        return self._instance_accuracy(estimator, self.validation)

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return the instance accuracy on the test bags."""
        return {"accuracy": self._instance_accuracy(estimator, self.test)}

    def chosen_right(self, estimator: Any) -> float | None:
        """Return the share of single-label training bags whose chosen instance is of the class."""
        truth, single = self.train.instance_labels, self.train.labels.sum(axis=1) == 1
        if truth is None or not single.any() or not hasattr(estimator, "select"):
            return None
        bags, labels = self.train.bags, self.train.labels.argmax(axis=1)
        chosen = estimator.select(bags.subset(single), labels[single]).chosen
        return float(np.mean(truth[bags.offsets[:-1][single] + chosen] == labels[single]))

    @staticmethod
    def _instance_accuracy(estimator: Any, part: BagDataset) -> float:
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

    Parameters
    ----------
    criterion : {"oracle", "covering_rate", "approximated_accuracy"}
        What settings are chosen by: true validation labels, or one of two quantities that need
        none.
    """

    dataset: str
    seed: int
    train: PartialLabelDataset
    validation: PartialLabelDataset
    test: PartialLabelDataset
    criterion: str = "oracle"
    setting: ClassVar[str] = "pll"

    def fit(self, estimator: Any, *, supervised: bool = False) -> None:
        """Fit on candidate labels, or on true labels."""
        candidates = self.train.candidates
        if supervised:
            candidates = _truth(self.train)[:, None] == np.arange(candidates.shape[1])
        _fit(self, estimator, self.train.features, candidates.astype(np.int64))

    def validation_value(self, estimator: Any) -> float:
        """Return the criterion on the validation rows."""
        features = self.validation.features
        if self.criterion == "oracle":
            return accuracy(_truth(self.validation), estimator.predict(features))
        if self.criterion == "covering_rate":
            return covering_rate(self.validation.candidates, estimator.predict(features))
        return approximated_accuracy(self.validation.candidates, estimator.predict_proba(features))

    def test_metrics(self, estimator: Any) -> dict[str, float]:
        """Return the accuracy on the test rows."""
        predicted = estimator.predict(self.test.features)
        return {"accuracy": accuracy(_truth(self.test), predicted)}

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

    Parameters
    ----------
    full : bool
        Whether test figures over the whole catalogue are reported beside the sampled ones.
    """

    dataset: str
    seed: int
    clicks: ClickDataset
    split: WindowSplit
    full: bool = False
    setting: ClassVar[str] = "rs"

    def fit(self, estimator: Any, *, supervised: bool = False) -> None:
        """Fit on windows, or on the clicks of each window that truly led to the next.

        A window without such a click keeps all of them: its target still tells what is popular.
        """
        groups = self.split.train.groups
        if supervised:
            related = self.is_related(self.split.train)
            some = np.logical_or.reduceat(related, groups.offsets[:-1])
            groups = _only(groups, related | np.repeat(~some, groups.sizes))
        _fit(
            self,
            estimator,
            groups,
            None,
            item_ids=self.clicks.item_ids,
            validation=self._watched.groups,
        )

    @cached_property
    def _watched(self) -> Windows:
        """The validation windows looked at after every epoch."""
        windows = self.split.validation
        rows = np.arange(len(windows.users))
        if len(rows) > VALIDATION_WINDOWS:
            generator = np.random.default_rng(self.seed)
            rows = np.sort(generator.choice(rows, VALIDATION_WINDOWS, replace=False))
        return Windows(windows.groups.subset(rows), windows.users[rows], windows.positions[rows])

    def validation_value(self, estimator: Any) -> float:
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

        Parameters
        ----------
        windows : Windows
            A part of the split.

        Returns
        -------
        bool ndarray of shape (n_objects,)
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


def _fit(trial: Trial, estimator: Any, inputs: Any, targets: Any, **more: Any) -> None:
    """Fit, watching the validation part where the estimator can."""
    accepted = inspect.signature(estimator.fit).parameters
    more["validate"] = trial.validation_value
    estimator.fit(inputs, targets, **{k: v for k, v in more.items() if k in accepted})

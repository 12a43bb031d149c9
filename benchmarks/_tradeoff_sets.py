"""The data sets of the trade-off study: how each is drawn, split, fitted and evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from groupnoise import (
    Groups,
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)
from groupnoise.bags import load_digit_bags
from groupnoise.clicks import make_shop, split_clicks
from groupnoise.core.arrays import BoolArray
from groupnoise.core.metrics import accuracy, approximated_accuracy, covering_rate
from groupnoise.decisions.trade_off import (
    MIN_CHANCE,
    GroupCriteria,
    candidate_criteria,
    history_criteria,
)
from groupnoise.io import BagDataset, ClickDataset, load_dataset
from groupnoise.io.datasets import Windows, WindowSplit, split_rows, subset_bags, subset_rows
from groupnoise.reproduce.trials import instance_accuracy, window_metrics

FRACTIONS = (0.6, 0.2, 0.2)
MAX_ROWS = 2500
MAX_ITEMS, MAX_USERS, MAX_WINDOWS = 2000, 3000, 1500

Settings = dict[str, Any]
Figures = dict[str, Any]


def bag_criteria(model: Any, bags: Groups, labels: BoolArray) -> GroupCriteria:
    """Judge a classifier of instances by bags: the labels of a bag are candidates of each instance.

    Instances of background agree by chance alone, and a model that prefers frequent labels would
    gain by that, so the covering rate is counted beyond what labels in random order give. A label
    of a bag counts as likely as its best instance: the mean would reward what most of a bag is.
    `labels`: of shape (n_bags, n_classes).
    """
    chances = model.predict_proba(bags.objects)  # (n_instances, n_classes)
    outside = model.background_proba(bags.objects)[:, None]
    best = np.maximum.reduceat(chances * (1.0 - outside), bags.offsets[:-1])  # (n_bags, n_classes)
    candidates = np.repeat(labels, bags.sizes, axis=0)
    answers = chances.argmax(axis=1)
    by_chance = labels.mean(axis=0)[answers].mean()
    return GroupCriteria(
        float(np.log(np.maximum(best[labels], MIN_CHANCE)).mean()),
        covering_rate(candidates, answers) - float(by_chance),
        approximated_accuracy(candidates, chances),
    )


@dataclass(frozen=True)
class StudySet:
    """A data set, and the settings that stay fixed while lambda and the temperature vary."""

    name: str
    kind: str
    load: Callable[[int], Any]
    settings: Settings = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """What the test figures are."""
        return "NDCG@10" if self.kind == "clicks" else "accuracy"

    def cut(self, seed: int) -> Any:
        """Draw the set and cut it in three."""
        return {"bags": BagSplit, "candidates": CandidateSplit, "clicks": ClickSplit}[
            self.kind
        ].cut(self.load(seed), seed)


@dataclass(frozen=True)
class RowSplit:
    """Bags, or rows with candidate labels, in three parts: training, held out and test."""

    data: Any
    rows: tuple[Any, Any, Any]

    @classmethod
    def cut(cls, data: Any, seed: int) -> RowSplit:
        """Cut by whole bags or by rows, and keep a part of each where there are many."""
        n_rows = len(data.bags if isinstance(data, BagDataset) else data.features)
        share = min(1.0, MAX_ROWS / n_rows)
        parts = split_rows(n_rows, FRACTIONS, random_state=seed)
        return cls(data, tuple(rows[: round(share * len(rows))] for rows in parts))

    def with_held_out(self) -> RowSplit:
        """Return the split with the held-out part added to the training part."""
        first, second, test = self.rows
        return replace(self, rows=(np.concatenate([first, second]), second, test))

    @cached_property
    def parts(self) -> tuple[Any, Any, Any]:
        """The data of the three parts."""
        subset = subset_bags if isinstance(self.data, BagDataset) else subset_rows
        return tuple(subset(self.data, rows) for rows in self.rows)


class BagSplit(RowSplit):
    """Bags in three parts; only instances that belong to a class are scored."""

    @property
    def matching_share(self) -> float:
        """The share of instances whose class is a label of their bag."""
        train = self.parts[0]
        labels = np.repeat(train.labels, train.bags.sizes, axis=0)
        truth = train.instance_labels
        return float(np.mean((truth >= 0) & labels[np.arange(len(truth)), truth]))

    def fit(self, settings: Settings, seed: int) -> MaxMatchingMILClassifier:
        model = MaxMatchingMILClassifier(**settings, random_state=seed)
        return model.fit(self.parts[0].bags, self.parts[0].labels.astype(np.int64))

    def judge(self, model: MaxMatchingMILClassifier) -> Figures:
        held_out = self.parts[1]
        return {
            **bag_criteria(model, held_out.bags, held_out.labels)._asdict(),
            "oracle": instance_accuracy(model, held_out),
            "test": self.test_figure(model),
        }

    def test_figure(self, model: MaxMatchingMILClassifier) -> float:
        return instance_accuracy(model, self.parts[2])


class CandidateSplit(RowSplit):
    """Rows with candidate labels in three parts."""

    @property
    def matching_share(self) -> float:
        """The share of candidates that are right."""
        return float(1.0 / self.parts[0].candidates.sum(axis=1).mean())

    def fit(self, settings: Settings, seed: int) -> MaxMatchingPartialLabelClassifier:
        model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=seed)
        return model.fit(self.parts[0].features, self.parts[0].candidates.astype(np.int64))

    def judge(self, model: MaxMatchingPartialLabelClassifier) -> Figures:
        held_out = self.parts[1]
        return {
            **candidate_criteria(model, held_out.features, held_out.candidates)._asdict(),
            "oracle": accuracy(held_out.truth, model.predict(held_out.features)),
            "test": self.test_figure(model),
        }

    def test_figure(self, model: MaxMatchingPartialLabelClassifier) -> float:
        return accuracy(self.parts[2].truth, model.predict(self.parts[2].features))


@dataclass(frozen=True)
class ClickSplit:
    """Windows in three parts: a user's last is for the test, the one before is held out."""

    clicks: ClickDataset
    split: WindowSplit
    seed: int

    @classmethod
    def cut(cls, data: ClickDataset, seed: int) -> ClickSplit:
        """Keep popular items and some users, then cut by windows."""
        data = _smaller_log(data, np.random.default_rng(seed))
        split = split_clicks(
            data.histories, protocol="authors", size=5, min_size=1, random_state=seed
        )
        return cls(data, split, seed)

    @property
    def matching_share(self) -> None:
        """Unknown: a log does not say which clicks led to the next."""

    def fit(self, settings: Settings, seed: int) -> MaxMatchingRecommender:
        model = MaxMatchingRecommender(**settings, random_state=seed)
        return model.fit(self.split.train.groups, item_ids=self.clicks.item_ids)

    def judge(self, model: MaxMatchingRecommender) -> Figures:
        held_out = self.split.validation.groups
        criteria = history_criteria(model, held_out.subset(slice(0, MAX_WINDOWS)))
        return {
            **criteria._asdict(),
            "oracle": self._ndcg(model, self.split.validation),
            "test": self.test_figure(model),
        }

    def test_figure(self, model: MaxMatchingRecommender) -> float:
        return self._ndcg(model, self.split.test)

    def with_held_out(self) -> ClickSplit:
        """Return the parts with the windows held out added to those trained on."""
        first, second = self.split.train, self.split.validation
        windows = Windows(
            Groups.concat([first.groups, second.groups]),
            np.concatenate([first.users, second.users]),
            np.concatenate([first.positions, second.positions]),
        )
        return replace(self, split=replace(self.split, train=windows))

    def _ndcg(self, model: MaxMatchingRecommender, windows: Any) -> float:
        return window_metrics(model, self.clicks, windows, seed=self.seed)[1]


def _smaller_log(data: ClickDataset, generator: np.random.Generator) -> ClickDataset:
    """Return clicks on the most popular items, of users with at least four of them."""
    if len(data.histories) <= MAX_USERS:
        return data
    counts = np.bincount(data.histories.objects, minlength=data.n_items)
    items = np.sort(np.argsort(-counts, kind="stable")[:MAX_ITEMS])
    number = np.full(data.n_items, -1)
    number[items] = np.arange(len(items))
    histories = [number[clicks][number[clicks] >= 0] for clicks in data.histories]
    histories = [clicks for clicks in histories if len(clicks) >= 4]
    users = generator.permutation(len(histories))[:MAX_USERS]
    return replace(
        data,
        histories=Groups.from_lists([histories[user] for user in users]),
        item_ids=np.asarray(data.item_ids)[items],
        user_ids=users,
        titles=None,
        categories=None,
    )


def _named(name: str) -> Callable[[int], Any]:
    return lambda seed: load_dataset(name, random_state=seed)


BAGS = {"encoder": "mlp", "learning_rate": 1e-2}
CANDIDATES = {"encoder": "mlp", "learning_rate": 1e-2, "scaling": "l2"}
CLICKS = {"dim": 64, "max_epochs": 5}

STUDY_SETS = (
    StudySet(
        "digit-bags",
        "bags",
        lambda seed: load_digit_bags(600, random_state=seed),
        {"max_epochs": 15},
    ),
    StudySet(
        "hja-birdsong",
        "bags",
        _named("hja-birdsong"),
        {**BAGS, "background": True, "absent_strength": 0.5, "batch_size": 128, "max_epochs": 20},
    ),
    StudySet(
        "letter-walk",
        "bags",
        _named("letter-walk"),
        {**BAGS, "absent_strength": 1.0, "max_epochs": 40},
    ),
    StudySet(
        "spambase-bags",
        "bags",
        _named("spambase-bags"),
        {**BAGS, "background_label": 0, "absent_strength": 1.0, "batch_size": 64, "max_epochs": 20},
    ),
    StudySet(
        "sival-like",
        "bags",
        _named("sival-like"),
        {**BAGS, "background": True, "absent_strength": 0.5, "batch_size": 128, "max_epochs": 12},
    ),
    StudySet(
        "digit-candidates",
        "candidates",
        _named("digit-candidates"),
        {"encoder": "linear", "max_epochs": 15},
    ),
    StudySet("lost", "candidates", _named("lost"), {**CANDIDATES, "max_epochs": 30}),
    StudySet(
        "msrcv2",
        "candidates",
        _named("msrcv2"),
        {**CANDIDATES, "batch_size": 128, "max_epochs": 30},
    ),
    StudySet(
        "birdsong",
        "candidates",
        _named("birdsong"),
        {**CANDIDATES, "scaling": "standard", "batch_size": 128, "max_epochs": 20},
    ),
    StudySet("fg-net", "candidates", _named("fg-net"), {**CANDIDATES, "max_epochs": 20}),
    StudySet("shop", "clicks", lambda seed: make_shop(n_users=800, random_state=seed), CLICKS),
    StudySet("amazon-video-games", "clicks", _named("amazon-video-games"), CLICKS),
    StudySet("amazon-beauty-5core", "clicks", _named("amazon-beauty-5core"), CLICKS),
)

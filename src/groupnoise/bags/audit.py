"""Judging bags: which instance carries each label, and whether any is credible."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import (
    Findings,
    ObjectTally,
    choice_columns,
    class_columns,
    object_posterior,
)
from groupnoise.core.arrays import BoolArray, Columns, FloatArray, IntArray, ragged_rows
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import BagDataset


class BagSource:
    """Bags as material of an audit: each (bag, label) is a group, each instance an object.

    `dataset`: what to audit.
    `truth`: True labels of some instances, -1 elsewhere, from which models learn too.
    `teaches`: bags that models learn from; by default all, those without a label too.
    """

    setting = "mil"

    def __init__(
        self,
        dataset: BagDataset,
        truth: IntArray | None = None,
        teaches: BoolArray | None = None,
    ) -> None:
        self.dataset = dataset
        self.truth = truth
        self.teaches = np.ones(len(dataset.bags), dtype=bool) if teaches is None else teaches
        self.group_counts: IntArray = dataset.labels.sum(axis=1, dtype=np.int64)
        self.object_counts: IntArray = dataset.bags.sizes
        self.strata: IntArray = np.where(
            self.group_counts > 0, dataset.labels.argmax(axis=1), len(dataset.class_names)
        )
        self.clusters = dataset.patients

    def __len__(self) -> int:
        return len(self.dataset.bags)

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Labels, and the ids of bags and the rows of instances where the source has them."""
        labels = np.asarray(self.dataset.class_names)
        names = {"target": labels, "suggested": labels}
        if self.dataset.bag_ids is not None:
            names["source"] = self.dataset.bag_ids
        if self.dataset.source_rows is not None:
            names["object"] = self.dataset.source_rows
        return names

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on the bags at `rows`."""
        from sklearn.base import clone  # loads for seconds, and readers come by here

        rows = rows[self.teaches[rows]]
        bags = self.dataset.bags.subset(rows)
        named: dict[str, Any] = {}
        if self.clusters is not None:
            named["patients"] = self.clusters[rows]
        if self.truth is not None and (self.truth >= 0).any():
            known = Groups(self.truth[:, None], self.dataset.bags.offsets).subset(rows).objects
            named["truth"] = [label if label >= 0 else None for label in known[:, 0].tolist()]
        return clone(estimator).fit(bags, self.dataset.labels[rows].astype(np.int64), **named)

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a model on bags it has not seen."""
        rows = rows[self.teaches[rows]]
        columns = class_columns(model.classes_, self.dataset.class_names)
        labels = np.zeros((len(rows), len(model.classes_)), dtype=np.int64)
        labels[:, columns] = self.dataset.labels[rows]
        model.calibrate(self.dataset.bags.subset(rows), labels, only_if_better=False)

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return what the model says of the bags at `rows`."""
        bags, labels = self.dataset.bags.subset(rows), self.dataset.labels[rows]
        columns = class_columns(model.classes_, self.dataset.class_names)
        fits = _class_probabilities(model, bags.objects)[:, columns]  # (n_objects, n_classes)
        instance = ragged_rows(self.dataset.bags.offsets[rows], bags.sizes)
        noise, tally = np.ones(bags.n_objects), ObjectTally(bags.n_objects)
        groups: Columns = {}
        bag, label = np.nonzero(labels)
        if len(bag):
            sizes = bags.sizes[bag]
            objects = ragged_rows(bags.offsets[bag], sizes)
            selected = model.select(bags.subset(bag), model.classes_[columns[label]])
            found = object_posterior(selected.scores, selected.offsets)
            fit = fits[objects, np.repeat(label, sizes)]  # P(label | instance)
            credibility = np.maximum.reduceat(fit, selected.offsets[:-1])
            baseline, suggested = _best_absent(fits, bags.offsets[:-1], labels)
            np.minimum.at(noise, objects, 1.0 - fit * found.responsibility)
            tally.add(objects, found)
            groups = {
                "source": rows[bag],
                "target": label,
                "size": sizes,
                "object": instance[objects[found.chosen]],
                **choice_columns(found, selected.offsets[:-1], selected.log_weight),
                "doubt": 1.0 - credibility,
                "suspicion": baseline[bag] * (1.0 - credibility),
                "suggested": suggested[bag],
            }
        instances: Columns = {
            "source": np.repeat(rows, bags.sizes),
            "position": ragged_rows(np.zeros(len(rows)), bags.sizes),
            "object": instance,
            **tally.columns(),
            "noise": noise,
        }
        return Findings(groups, instances)


def _class_probabilities(model: Any, instances: FloatArray) -> FloatArray:
    """Return P(class | instance) with what a background target takes taken off."""
    probabilities: FloatArray = model.predict_proba(instances)
    if getattr(model, "background", False):
        probabilities = probabilities * (1.0 - model.background_proba(instances))[:, None]
    return probabilities


def _best_absent(
    fits: FloatArray, starts: IntArray, labels: BoolArray
) -> tuple[FloatArray, IntArray]:
    """Return how well the best class a bag is not labelled with is matched, and which it is."""
    best = np.maximum.reduceat(fits, starts)
    best[labels] = 0.0
    suggested: IntArray = np.where(best.max(axis=1) > 0, best.argmax(axis=1), -1)
    return best.max(axis=1), suggested

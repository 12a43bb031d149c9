"""Judging candidate labels: which one fits, which can go, and whether the right one is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import Findings, choice_columns, class_columns, object_posterior
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.io.datasets import PartialLabelDataset


class PartialLabelSource:
    """Candidate labels as material of an audit: each row is a group, each candidate an object.

    `dataset`: what to audit.
    """

    setting = "pll"

    def __init__(self, dataset: PartialLabelDataset) -> None:
        self.dataset = dataset
        self.group_counts: IntArray = np.ones(len(dataset.features), dtype=np.int64)
        self.object_counts: IntArray = dataset.candidates.sum(axis=1, dtype=np.int64)
        self.strata: IntArray = self.object_counts
        self._decided: Any = None

    def __len__(self) -> int:
        return len(self.dataset.features)

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Labels, which are the objects here."""
        labels = np.asarray(self.dataset.class_names)
        return {"object": labels, "suggested": labels}

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on the rows at `rows`.

        What is "auto" is decided in the first fold; the others train the same settings.
        """
        from sklearn.base import clone  # loads for seconds, and readers come by here

        candidates = self.dataset.candidates[rows].astype(np.int64)
        unfitted = self._decided if self._decided is not None else estimator
        model = clone(unfitted).fit(self.dataset.features[rows], candidates)
        if self._decided is None and hasattr(model, "decided"):
            self._decided = model.decided()
        return model

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a model on rows it has not seen."""
        columns = class_columns(model.classes_, self.dataset.class_names)
        candidates = self._as_known(model, rows, columns)
        model.calibrate(self.dataset.features[rows], candidates, only_if_better=False)

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return what the model says of the rows at `rows`."""
        features, candidates = self.dataset.features[rows], self.dataset.candidates[rows]
        columns = class_columns(model.classes_, self.dataset.class_names)
        known = self._as_known(model, rows, columns)
        selected = model.select(features, known)

        def in_order(values: Any) -> Any:
            """Reorder values of candidates from the model's classes to the data's."""
            table = np.zeros(known.shape)
            table[known] = values
            return table[:, columns][candidates]

        found = object_posterior(in_order(selected.scores), selected.offsets)
        log_weight = in_order(selected.log_weight)
        fits = model.predict_proba(features)[:, columns]  # (n_rows, n_classes)
        row, label = np.nonzero(candidates)
        credibility = np.minimum((fits * candidates).sum(axis=1), 1.0)
        outside = np.where(candidates, 0.0, fits)
        baseline = outside.max(axis=1)
        is_chosen = np.zeros(len(label), dtype=np.int64)
        is_chosen[found.chosen] = 1
        return Findings(
            {
                "source": rows,
                "target": rows,
                "size": self.object_counts[rows],
                "object": label[found.chosen],
                **choice_columns(found, selected.offsets[:-1], log_weight),
                "doubt": 1.0 - credibility,
                "suspicion": baseline,
                "suggested": np.where(baseline > 0, outside.argmax(axis=1), -1),
            },
            {
                "source": rows[row],
                "position": np.arange(len(label))
                - np.repeat(selected.offsets[:-1], self.object_counts[rows]),
                "object": label,
                "responsibility": found.responsibility,
                "times_chosen": is_chosen,
                "noise": 1.0 - fits[row, label],
            },
        )

    def _as_known(self, model: Any, rows: IntArray, columns: IntArray) -> BoolArray:
        """Return the candidates in the order of the model's classes."""
        known = np.zeros((len(rows), len(model.classes_)), dtype=bool)
        known[:, columns] = self.dataset.candidates[rows]
        return known

"""What a model of candidate labels is worth: by the candidates, and by the truth where known."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupnoise.core.class_metrics import (
    class_metrics,
    columns_of_classes,
    majority_metrics,
    positions_of_labels,
    with_columns_of,
)
from groupnoise.core.metrics import expected_calibration_error
from groupnoise.core.selective import risk_coverage
from groupnoise.io.datasets import PartialLabelDataset
from groupnoise.io.setting import Evaluation

TOP = 3
"""How many of the best classes may hold the truth in the third figure; 2 of three classes."""

AMONG_CANDIDATES = "best candidate accuracy"
"""How often the candidate that a model finds most probable is the true label."""


def evaluate_candidates(fitted: Any, dataset: PartialLabelDataset) -> Evaluation:
    """Measure a model on rows with candidate labels.

    The covering rate says how often the answer is a candidate. Where the truth of rows is known:
    accuracy, accuracy of the best candidate of each row, accuracy among the best few classes,
    balanced accuracy, AUROC, average precision, F1, the expected calibration error, and the area
    below the risk-coverage curve: the mean share of wrong answers when only the surest rows are
    answered, over all numbers of them.

    `fitted`: ours or a baseline.
    """
    columns = columns_of_classes(dataset.class_names, fitted.classes_)
    probabilities = np.asarray(fitted.predict_proba(dataset.features), dtype=np.float64)
    aligned = with_columns_of(probabilities, columns)
    n_classes = len(dataset.class_names)
    predicted = positions_of_labels(fitted.predict(dataset.features), fitted.classes_, columns)
    rows = np.arange(len(predicted))
    covered = dataset.candidates[rows, np.maximum(predicted, 0)] & (predicted >= 0)
    frequent = int(dataset.candidates.sum(axis=0).argmax())
    metrics = {"covering rate": float(covered.mean())}
    majority = {"covering rate": float(dataset.candidates[:, frequent].mean())}
    counts = {"groups": len(predicted)}
    per_class: dict[str, dict[str, float]] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    if dataset.truth is not None and (dataset.truth >= 0).any():
        known = dataset.truth >= 0
        truth = dataset.truth[known]
        counts["rows with known truth"] = int(known.sum())
        labels = truth[:, None] == np.arange(n_classes)
        figures, by_class = class_metrics(labels, predicted[known], aligned[known])
        metrics |= figures
        majority |= majority_metrics(labels)
        n_top = min(TOP, n_classes - 1)
        if n_top > 1:
            best = np.argsort(-aligned[known], axis=1, kind="stable")[:, :n_top]
            metrics[f"top-{n_top} accuracy"] = float((best == truth[:, None]).any(axis=1).mean())
            most = np.argsort(-labels.sum(axis=0), kind="stable")[:n_top]
            majority[f"top-{n_top} accuracy"] = float(np.isin(truth, most).mean())
        metrics[AMONG_CANDIDATES], majority[AMONG_CANDIDATES] = (
            float(
                (np.where(dataset.candidates[known], scores, -1.0).argmax(axis=1) == truth).mean()
            )
            for scores in (aligned[known], np.tile(labels.mean(axis=0), (len(truth), 1)))
        )
        metrics["calibration error"] = expected_calibration_error(truth, aligned[known])
        sure, right = aligned[known].max(axis=1), predicted[known] == truth
        curve = risk_coverage(sure, right)
        metrics["risk-coverage area"] = curve.area
        majority["risk-coverage area"] = 1.0 - majority["accuracy"]
        curves["rows"] = curve.points()
        for column, name in enumerate(dataset.class_names):
            per_class[name] = {"rows": int(labels[:, column].sum())}
            for figure, found in by_class.items():
                if column in found:
                    per_class[name][figure] = found[column]
    return Evaluation(metrics, counts, majority, per_class, curves=curves)

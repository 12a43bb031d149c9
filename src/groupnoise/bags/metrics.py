"""What a model of bags is worth: by bag and by instance, class by class, beside the majority."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.class_metrics import (
    class_metrics,
    columns_of_classes,
    majority_metrics,
    positions_of_labels,
    with_columns_of,
)
from groupnoise.core.groups import Groups
from groupnoise.core.selective import risk_coverage
from groupnoise.io.datasets import BagDataset
from groupnoise.io.setting import Evaluation


def evaluate_bags(fitted: Any, dataset: BagDataset) -> Evaluation:
    """Measure a model on bags, and on their instances where the truth of some is known.

    The area below the risk-coverage curve is the mean share of wrong answers when only the surest
    bags, or instances, are answered, over all numbers of them.

    `fitted`: ours or a baseline.
    """
    columns = columns_of_classes(dataset.class_names, fitted.classes_)
    levels: dict[str, tuple[BoolArray, FloatArray, BoolArray | None]]
    scores = bag_scores(fitted, dataset.bags)
    levels = {"bag": (dataset.labels, scores, None)}
    predicted = np.asarray(fitted.predict_bags(dataset.bags))
    if predicted.ndim == 2:  # all labels a baseline finds: the likeliest one is its answer
        predicted = fitted.classes_[scores.argmax(axis=1)]
    answers = {"bag": positions_of_labels(predicted, fitted.classes_, columns)}
    counts = {"groups": len(dataset.bags), "instances": dataset.bags.n_objects}
    if dataset.instance_labels is not None and (dataset.instance_labels >= 0).any():
        labels, is_rated = _instance_truth(dataset, dataset.instance_labels)
        levels["instance"] = (labels, fitted.predict_proba(dataset.bags.objects), is_rated)
        predicted = fitted.predict(dataset.bags.objects)
        answers["instance"] = positions_of_labels(predicted, fitted.classes_, columns)
        counts["instances with known truth"] = int(labels.any(axis=1).sum())
    metrics: dict[str, float] = {}
    majority: dict[str, float] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    per_class: dict[str, dict[str, float]] = {name: {} for name in dataset.class_names}
    for level, (labels, values, rated) in levels.items():
        aligned = with_columns_of(np.asarray(values), columns)
        figures, by_class = class_metrics(labels, answers[level], aligned, rated)
        metrics |= {f"{level} {name}": value for name, value in figures.items()}
        constant = majority_metrics(labels, rated)
        majority |= {f"{level} {name}": value for name, value in constant.items()}
        known, best = labels.any(axis=1), answers[level]
        right = labels[np.arange(len(labels)), np.maximum(best, 0)] & (best >= 0)
        curve = risk_coverage(aligned[known].max(axis=1), right[known])
        metrics[f"{level} risk-coverage area"] = curve.area
        majority[f"{level} risk-coverage area"] = 1.0 - majority[f"{level} accuracy"]
        curves[f"{level}s"] = curve.points()
        for column, name in enumerate(dataset.class_names):
            per_class[name][f"{level}s"] = int(labels[:, column].sum())
            for figure, found in by_class.items():
                if column in found:
                    per_class[name][f"{level} {figure}"] = found[column]
    return Evaluation(metrics, counts, majority, per_class, curves=curves)


def bag_scores(fitted: Any, bags: Groups) -> FloatArray:
    """Return the score of every class for each bag; a pair model gives probabilities of bags."""
    scores = (
        fitted.bag_scores(bags) if hasattr(fitted, "bag_scores") else fitted.predict_proba(bags)
    )
    return np.asarray(scores)


def _instance_truth(dataset: BagDataset, truth: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return the class of each instance, and of which classes it is known whether it is one.

    Where every label of every bag has a witness the truth is complete, and an instance without a
    class is background: a negative of all classes. Otherwise it may be unknown, and is a negative
    only of the classes that its bag does not have.
    """
    labels = truth[:, None] == np.arange(len(dataset.class_names))
    bag_of_object = dataset.bags.group_of_object
    has_witness = np.zeros(dataset.labels.shape, dtype=bool)
    known = truth >= 0
    has_witness[bag_of_object[known], truth[known]] = True
    if (has_witness | ~dataset.labels).all():
        return labels, np.ones(labels.shape, dtype=bool)
    return labels, known[:, None] | ~dataset.labels[bag_of_object]

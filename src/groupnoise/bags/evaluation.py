"""Evaluation of bag classifiers, by bag and, where the truth is known, by instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from groupnoise.bags.object_predictions import (
    bag_probabilities,
    object_probabilities,
    predicted_columns,
)
from groupnoise.bags.reading.inputs import has_all_witnesses
from groupnoise.bags.reading.labels import fill_negative_label, get_known_labels
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.class_metrics import (
    add_class_metrics,
    align_columns,
    calibration_metrics,
    class_metrics,
    class_positions,
    frequency_array,
    label_set_metrics,
    majority_metrics,
    match_classes,
)
from groupnoise.core.groups import Groups
from groupnoise.core.selective import risk_coverage
from groupnoise.core.words import counted
from groupnoise.io.datasets import BagDataset
from groupnoise.io.labels.spellings import match_model_labels
from groupnoise.io.setting import Evaluation

LABEL_SETS_NOTE = (
    "bags have several labels: accuracy counts the most likely label, right if it is one of "
    "them; exact match, Hamming loss, precision, recall, F1 and balanced accuracy count all labels"
)
NO_LABEL_ROW = "(no label)"
"""Row of bags without any label in the table of classes."""


def evaluate_bags(
    fitted: Any, dataset: BagDataset, shares: Mapping[str, Any] | None = None
) -> Evaluation:
    """Evaluate a model on bags, and on instances whose truth is known.

    Calibration error and log loss are reported beside those of constant base rates.

    `fitted`: ours or a baseline. `shares`: label frequencies of the training data
    (`BagSetting.shares`); by default those of these bags.
    """
    learned = get_known_labels(fitted)
    names, labels, numbers, about_labels = match_model_labels(
        dataset.class_names, dataset.labels, dataset.instance_labels, learned.classes, "bags"
    )
    dataset = replace(dataset, class_names=names, labels=labels, instance_labels=numbers)
    dataset = fill_negative_label(dataset, learned.negative)
    columns = match_classes(dataset.class_names, fitted.classes_)
    scores = bag_scores(fitted, dataset.bags)
    predicted = np.asarray(fitted.predict_bags(dataset.bags))
    sets = align_columns(predicted, columns) > 0 if predicted.ndim == 2 else None
    if sets is not None:  # figures of one answer are about the likeliest label
        predicted = fitted.classes_[scores.argmax(axis=1)]
    answers = class_positions(predicted, fitted.classes_, columns)
    if not hasattr(fitted, "bag_scores") and (dataset.labels.sum(axis=1) > 1).any():
        return _covering_rate(answers, dataset.labels, dataset.bags.n_objects)
    rates = {
        level: frequency_array(each, dataset.class_names) for level, each in (shares or {}).items()
    }
    claims = align_columns(bag_probabilities(fitted, dataset.bags), columns)
    of_bags = rates.get("bag")
    calibration = calibration_metrics(
        dataset.labels, claims, None if of_bags is None else of_bags[:-1]
    )
    aligned = align_columns(scores, columns)
    levels = [_Level("bag", dataset.labels, aligned, answers, None, calibration, of_bags)]
    counts = {"groups": len(dataset.bags), "instances": dataset.bags.n_objects}
    notes = [*about_labels, *([] if sets is None else [LABEL_SETS_NOTE])]
    n_without = int((~dataset.labels.any(axis=1)).sum())
    if n_without:
        counts["bags without a label"] = n_without
        notes.append(
            f"{n_without} of {len(dataset.bags)} bags have no label: no answer about them is right "
            "but none, which accuracy leaves out"
        )
    if dataset.instance_labels is not None and (dataset.instance_labels >= 0).any():
        level, messages = _level_of_instances(
            fitted, dataset, dataset.instance_labels, columns, rates
        )
        levels.append(level)
        counts["instances with known truth"] = int(level.labels.any(axis=1).sum())
        notes += messages
    per_class: dict[str, dict[str, float]] = {name: {} for name in dataset.class_names}
    if n_without and sets is not None:
        per_class[NO_LABEL_ROW] = unlabelled_metrics(dataset.labels, sets)
    result = Evaluation({}, counts, per_class=per_class, notes=tuple(notes))
    for level in levels:
        _add_level(result, level, dataset.class_names, sets if level.name == "bag" else None)
    return result


@dataclass(frozen=True)
class _Level:
    """Labels and predictions of bags, or of instances.

    `labels`, `scores` (n, n_classes). `answers`: position of the predicted label, -1 if unknown.
    `rated` (n, n_classes): where membership is known; None if everywhere. `calibration`: metrics
    of the model and of constant base rates. `rates`: label frequencies of the training data, "no
    label" last; None if unknown. `with_background`: metrics with background as a further class.
    """

    name: str
    labels: BoolArray
    scores: FloatArray
    answers: IntArray
    rated: BoolArray | None
    calibration: tuple[dict[str, float], dict[str, float]]
    rates: FloatArray | None
    with_background: dict[str, float] = field(default_factory=dict)


def _level_of_instances(
    fitted: Any,
    dataset: BagDataset,
    truth: IntArray,
    columns: IntArray,
    rates: Mapping[str, FloatArray | None],
) -> tuple[_Level, list[str]]:
    """Return labels and predictions of instances, and notes on their truth."""
    labels, is_rated = _instance_truth(dataset, truth)
    probability, background = object_probabilities(fitted, dataset.bags)
    predicted = fitted.classes_[predicted_columns(fitted, probability)]
    answers = class_positions(predicted, fitted.classes_, columns)
    aligned = align_columns(probability, columns)
    has_background, of_truth = bool(background.any()), rates.get("instance")
    calibration = _instance_calibration(
        labels, aligned, background, has_background and bool(is_rated.all()), of_truth
    )
    with_background: dict[str, float] = {}
    if is_rated.all() and not labels.any(axis=1).all():
        everything = np.c_[probability, background] if has_background else probability
        called = predicted_columns(fitted, everything) == probability.shape[1]
        with_background = background_metrics(labels, answers, called, background)
    known_rates = rates.get("bag") if of_truth is None else of_truth
    level = _Level(
        "instance", labels, aligned, answers, is_rated, calibration, known_rates, with_background
    )
    return level, truth_notes(labels, is_rated, with_background, has_background)


def _add_level(
    result: Evaluation, level: _Level, class_names: Sequence[str], sets: BoolArray | None
) -> None:
    """Add the metrics of bags or instances; `sets`: predicted label sets, if there are several."""
    name, labels, answers = level.name, level.labels, level.answers
    figures, by_class = class_metrics(labels, answers, level.scores, level.rated)
    rates = labels.mean(axis=0) if level.rates is None else level.rates[:-1]
    constant = majority_metrics(labels, level.rated, rates)
    if sets is not None:
        of_sets, sets_by_class = label_set_metrics(labels, sets)
        figures, by_class = {**figures, **of_sets}, {**by_class, **sets_by_class}
        frequent = np.zeros_like(sets)
        frequent[:, rates.argmax()] = True
        constant |= label_set_metrics(labels, frequent)[0]
    known = labels.any(axis=1)
    right = labels[np.arange(len(labels)), np.maximum(answers, 0)] & (answers >= 0)
    curve = risk_coverage(level.scores[known].max(axis=1), right[known])
    honest, honest_constant = level.calibration
    figures |= {**level.with_background, "risk-coverage area": curve.area, **honest}
    constant |= {"risk-coverage area": 1.0 - constant["accuracy"], **honest_constant}
    result.metrics.update({f"{name} {each}": value for each, value in figures.items()})
    result.baseline.update({f"{name} {each}": value for each, value in constant.items()})
    result.curves[f"{name}s"] = curve.points()
    add_class_metrics(result.per_class, class_names, labels, by_class, f"{name}s", f"{name} ")


def _covering_rate(answers: IntArray, candidates: BoolArray, n_instances: int) -> Evaluation:
    """Evaluate a pair model on bags whose labels are candidates, of which one is true."""
    covered = candidates[np.arange(len(answers)), np.maximum(answers, 0)] & (answers >= 0)
    return Evaluation(
        {"bag covering rate": float(covered.mean())},
        {"groups": len(answers), "instances": n_instances},
        {"bag covering rate": float(candidates.mean(axis=0).max())},
        {},
        ("labels of bags are candidates here: the rate is how often the answer is one of them",),
    )


def _instance_calibration(
    labels: BoolArray,
    claims: FloatArray,
    background: FloatArray,
    tells_background: bool,
    rates: FloatArray | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return calibration metrics of instances, with background as a further class if known."""
    known = labels.any(axis=1)
    if tells_background:
        return calibration_metrics(np.c_[labels, ~known], np.c_[claims, background], rates)
    claims = claims / np.maximum(1.0 - background, 1e-12)[:, None]
    classes_alone = None if rates is None else rates[:-1]
    return calibration_metrics(labels[known], claims[known], classes_alone)


def bag_scores(fitted: Any, bags: Groups) -> FloatArray:
    """Return the score of every class for each bag; probabilities for a pair model."""
    scores = (
        fitted.bag_scores(bags) if hasattr(fitted, "bag_scores") else fitted.predict_proba(bags)
    )
    return np.asarray(scores)


def _instance_truth(dataset: BagDataset, truth: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return the class of each instance, and of which classes its membership is known.

    If every label of every bag has a witness, the truth is complete: an instance without a class is
    background, a negative of all classes. Otherwise it is a negative only of classes that its bag
    lacks.
    """
    labels = truth[:, None] == np.arange(len(dataset.class_names))
    bag_of_row = dataset.bags.group_of_object
    if has_all_witnesses(truth, dataset.labels, bag_of_row):
        return labels, np.ones(labels.shape, dtype=bool)
    return labels, (truth >= 0)[:, None] | ~dataset.labels[bag_of_row]


def unlabelled_metrics(labels: BoolArray, sets: BoolArray) -> dict[str, float]:
    """Return precision, recall and F1 of bags without any label."""
    truth, answers = labels.sum(axis=1) == 0, sets.sum(axis=1) == 0
    n_own, n_found, n_right = (int(each.sum()) for each in (truth, answers, truth & answers))
    return {
        "bags": n_own,
        "bag precision": n_right / max(1, n_found),
        "bag recall": n_right / n_own,
        "bag F1": 2 * n_right / (n_own + n_found),
    }


def background_metrics(
    labels: BoolArray, answers: IntArray, called: BoolArray, background: FloatArray
) -> dict[str, float]:
    """Return accuracy with background as a further class, and recall and AUROC of background.

    `labels` (n_instances, n_classes): the truth. `answers`: most likely class of each instance.
    `called`: predicted as background. `background`: its probability; zeros for models without it.
    """
    from sklearn.metrics import roc_auc_score

    outside = ~labels.any(axis=1)
    right = labels[np.arange(len(labels)), np.maximum(answers, 0)] & (answers >= 0)
    figures = {
        "accuracy with background": float(np.where(outside, called, right & ~called).mean()),
        "background recall": float(called[outside].mean()),
    }
    if background.any():
        figures["background AUROC"] = float(roc_auc_score(outside, background))
    return figures


def truth_notes(
    labels: BoolArray,
    is_rated: BoolArray,
    with_background: Mapping[str, float],
    tells_background: bool,
) -> list[str]:
    """Return a note on instances that are not counted in accuracies.

    `with_background`: metrics of background. `tells_background`: whether the model predicts it.
    """
    n_all, n_without = len(labels), int((~labels.any(axis=1)).sum())
    if not n_without:
        return []
    if not is_rated.all():
        return [
            f"of {n_without} of {counted(n_all, 'instances')} the truth is empty, background or "
            "unknown, and some labels of bags have no instance: figures of instances leave them out"
        ]
    n_called = round(n_without * with_background["background recall"])
    also = (
        f"; {n_called} of them are called background, and accuracy with background counts all"
        if tells_background
        else "; the model has no background and gives each a label of bags, which accuracy with "
        "background counts as wrong"
    )
    return [
        f"{n_without} of {n_all} instances are background: wrong for every class in AUROC and "
        f"average precision, and left out of accuracy{also}"
    ]

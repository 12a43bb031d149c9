"""Classification metrics, overall and per class; classes of data matched to those of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.metrics import expected_calibration_error

MIN_PROBABILITY = 1e-7
"""Probabilities are clipped here, which bounds the log loss of a row."""


def class_metrics(
    labels: BoolArray, predicted: IntArray, scores: FloatArray, rated: BoolArray | None = None
) -> tuple[dict[str, float], dict[str, dict[int, float]]]:
    """Return metrics of one predicted class per row and of the scores of all classes.

    A prediction is correct if it is one of the labels of its row. Balanced accuracy, AUROC, average
    precision and F1 are averaged over the classes that have positive and negative rows.

    Returns `figures`: accuracy, balanced accuracy, AUROC, average precision and F1, if defined;
    `by_class`: AUROC, average precision, recall and F1 per class. `labels` (n_rows, n_classes):
    rows without a label are negatives of every class and do not count for accuracies. `predicted`:
    the class of each row, -1 for one that the data lack. `scores` (n_rows, n_classes). `rated`
    (n_rows, n_classes): where membership is known; everywhere by default.
    """
    n_classes = labels.shape[1]
    known = labels.any(axis=1)
    rated = np.ones(labels.shape, dtype=bool) if rated is None else rated
    is_right = labels[np.arange(len(labels)), np.maximum(predicted, 0)] & (predicted >= 0)
    names = ("recall", "AUROC", "average precision", "F1")
    by_class: dict[str, dict[int, float]] = {name: {} for name in names}
    for column in range(n_classes):
        own = labels[:, column]
        if own.any():
            by_class["recall"][column] = float(is_right[own].mean())
            n_right = int((is_right & (predicted == column)).sum())
            n_missed = int((own & ~is_right).sum())
            n_false = int(((predicted == column) & known & ~own).sum())
            # Of several labels another may have been answered each time, and rightly.
            if n_right or n_missed or n_false:
                by_class["F1"][column] = 2 * n_right / (2 * n_right + n_missed + n_false)
        here = rated[:, column]
        if own[here].any() and not own[here].all():
            area, precision = auroc_and_average_precision(own[here], scores[here, column])
            by_class["AUROC"][column], by_class["average precision"][column] = area, precision
    means = {name: float(np.mean([*found.values()])) for name, found in by_class.items() if found}
    if "recall" in means:
        means = {"balanced accuracy": means.pop("recall"), **means}
    if known.any():
        means = {"accuracy": float(is_right[known].mean()), **means}
    return means, by_class


def auroc_and_average_precision(truth: BoolArray, scores: FloatArray) -> tuple[float, float]:
    """Return AUROC and average precision of rows that are ranked by their scores.

    Of equal scores half are ahead in the area, and all count as found in the precision. `truth`:
    whether each row belongs to the class; some must, and some must not. A score that is no number
    leaves no figure.

    >>> auroc_and_average_precision(np.array([True, False, True]), np.array([0.9, 0.5, 0.5]))
    (0.75, 0.8333333333333333)
    """
    if np.isnan(scores).any():
        return float("nan"), float("nan")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    found = np.cumsum(truth[order])[last]  # down to each distinct score
    others = last + 1 - found
    new, more = np.diff(found, prepend=0), np.diff(others, prepend=0)
    area = float((more * (found - new / 2)).sum()) / (int(found[-1]) * int(others[-1]))
    # Sums of many terms may end a rounding error above 1.
    return area, min(1.0, float((new * (found / (last + 1))).sum()) / int(found[-1]))


def label_set_metrics(
    labels: BoolArray, predicted: BoolArray
) -> tuple[dict[str, float], dict[str, dict[int, float]]]:
    """Measure a set of predicted classes per row.

    Returns `figures`: the share of rows whose set is right (exact match), the share of wrong
    decisions on single classes (Hamming loss), and means over the classes that some row has:
    balanced accuracy (of recall and specificity), precision (zero of a class that is never
    predicted), recall and F1; micro F1 counts all decisions alike. `by_class`: precision, recall
    and F1 of single classes.
    """
    right = (labels & predicted).sum(axis=0)
    own, found = labels.sum(axis=0), predicted.sum(axis=0)
    n_others = len(labels) - own
    present = np.flatnonzero(own)
    each = {
        "precision": right / np.maximum(found, 1),
        "recall": right / np.maximum(own, 1),
        "F1": 2 * right / np.maximum(own + found, 1),
    }
    by_class = {
        name: {int(column): float(values[column]) for column in present}
        for name, values in each.items()
    }
    specificity = 1.0 - (found - right) / np.maximum(n_others, 1)
    both = present[n_others[present] > 0]
    figures = {
        "exact match": float((labels == predicted).all(axis=1).mean()),
        "Hamming loss": float((labels != predicted).mean()),
        **{name: float(values[present].mean()) for name, values in each.items()},
        "micro F1": float(2 * right.sum() / max(1, int((own + found).sum()))),
    }
    if len(both):
        figures["balanced accuracy"] = float((each["recall"] + specificity)[both].mean() / 2)
    return figures, by_class


def majority_metrics(
    labels: BoolArray, rated: BoolArray | None = None, rates: FloatArray | None = None
) -> dict[str, float]:
    """Return the metrics of a classifier that always predicts the most frequent class.

    `rates`: class frequencies of the training data; by default those of these rows.
    """
    frequent = int((labels.mean(axis=0) if rates is None else rates).argmax())
    scores = np.zeros(labels.shape)
    scores[:, frequent] = 1.0
    return class_metrics(labels, np.full(len(labels), frequent), scores, rated)[0]


def calibration_metrics(
    labels: BoolArray, probabilities: FloatArray, rates: FloatArray | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Return calibration error and log loss, of the model and of constant base rates.

    With one label per row: the expected calibration error of the predicted label, and the mean of
    -log P(label). Otherwise every class of every row counts as a binary event. `rates`: class
    frequencies of the training data, which the base rates predict; by default those of these rows.
    """
    claims_of_rates = np.tile(labels.mean(axis=0) if rates is None else rates, (len(labels), 1))
    if (labels.sum(axis=1) == 1).all():
        truth = labels.argmax(axis=1)
        claims_of_rates /= np.maximum(claims_of_rates.sum(axis=1, keepdims=True), 1e-12)
        # Baselines may answer each class by itself; claims beyond one in all are no distribution.
        total = np.maximum(probabilities.sum(axis=1, keepdims=True), 1.0)
        error, claimed = expected_calibration_error(truth, probabilities), probabilities / total
        loss = float(_log_loss(claimed[np.arange(len(truth)), truth]).mean())
        of_rates = float(_log_loss(claims_of_rates[np.arange(len(truth)), truth]).mean())
        error_of_rates = expected_calibration_error(truth, claims_of_rates)
    else:
        present, claims = labels.ravel(), probabilities.ravel()
        error = _presence_error(present, claims)
        loss = float(_presence_loss(present, claims).mean())
        of_rates = float(_presence_loss(labels, claims_of_rates).mean())
        error_of_rates = _presence_error(present, claims_of_rates.ravel())
    figures = {"calibration error": error, "log loss": loss}
    if rates is None:  # what is left is rounding
        error_of_rates = 0.0
    return figures, {"calibration error": error_of_rates, "log loss": of_rates}


def add_class_metrics(
    per_class: dict[str, dict[str, float]],
    class_names: Sequence[str],
    labels: BoolArray,
    by_class: Mapping[str, Mapping[int, float]],
    units: str,
    prefix: str = "",
) -> None:
    """Add the number of `units` of each class and its metrics to a table by class."""
    for column, name in enumerate(class_names):
        own = per_class.setdefault(name, {})
        own[units] = int(labels[:, column].sum())
        own |= {
            f"{prefix}{each}": found[column] for each, found in by_class.items() if column in found
        }


def class_frequencies(labels: BoolArray, class_names: Sequence[str]) -> dict[str, Any]:
    """Return the frequency of each class ("classes", by name) and of no class ("none")."""
    found = labels.mean(axis=0).round(6).tolist()
    none = round(float((~labels.any(axis=1)).mean()), 6)
    return {"classes": dict(zip(class_names, found, strict=True)), "none": none}


def frequency_array(
    shares: Mapping[str, Any] | None, class_names: Sequence[str]
) -> FloatArray | None:
    """Return :func:`class_frequencies` as an array, "no class" last; unknown classes get zero."""
    if shares is None:
        return None
    known = [shares["classes"].get(name, 0.0) for name in class_names]
    return np.array([*known, shares["none"]], dtype=np.float64)


def _log_loss(probabilities: FloatArray) -> FloatArray:
    return -np.log(np.maximum(probabilities, MIN_PROBABILITY))


def _presence_loss(present: BoolArray, claims: FloatArray) -> FloatArray:
    """Return -log P of what labels are: present or absent."""
    return np.where(present, _log_loss(claims), _log_loss(1.0 - claims))


def _presence_error(present: BoolArray, claims: FloatArray) -> float:
    """Return the expected calibration error of binary events."""
    n_bins = 15
    bins = np.minimum((claims * n_bins).astype(np.int64), n_bins - 1)
    gap = np.bincount(bins, claims, n_bins) - np.bincount(bins, present, n_bins)
    return float(np.abs(gap).sum() / len(claims))


def known_label_names(truth: IntArray | None, class_names: list[str]) -> list[str | None] | None:
    """Return the names of true labels, None where one is -1."""
    if truth is None:
        return None
    return [class_names[label] if label >= 0 else None for label in truth.tolist()]


def indicator_to_labels(indicator: BoolArray, class_names: Sequence[str]) -> list[list[str]]:
    """Return the names of the classes set in each row."""
    names = np.asarray(class_names)
    return [names[row].tolist() for row in indicator]


def match_classes(class_names: Sequence[str], classes: NDArray[Any]) -> IntArray:
    """Return the model's column of each class of the data, -1 if it has none.

    Classes are matched by name. A model trained on a 0/1 matrix has numbers instead of names; its
    classes are then matched by position.
    """
    columns = {str(label): column for column, label in enumerate(classes.tolist())}
    if columns.keys().isdisjoint(class_names) and list(columns) == [
        str(number) for number in range(len(class_names))
    ]:
        return np.arange(len(class_names))
    return np.array([columns.get(name, -1) for name in class_names], dtype=np.int64)


def class_positions(predicted: Any, classes: NDArray[Any], columns: IntArray) -> IntArray:
    """Return the position among the classes of the data of each predicted label, -1 if unknown."""
    own = {label: number for number, label in enumerate(classes.tolist())}
    position = {int(column): number for number, column in enumerate(columns) if column >= 0}
    labels = np.asarray(predicted).tolist()
    return np.array([position.get(own[label], -1) for label in labels], dtype=np.int64)


def align_columns(values: NDArray[Any], columns: IntArray) -> NDArray[Any]:
    """Reorder the model's scores to the classes of the data; 0 for classes the model lacks."""
    aligned = values[:, np.maximum(columns, 0)].astype(np.float64)
    aligned[:, columns < 0] = 0.0
    return aligned

"""Figures over classes agree with plain loops, for one label a row and for several."""

import numpy as np
import pytest

import reference
from groupnoise.core.class_metrics import (
    calibration_metrics,
    class_frequencies,
    class_metrics,
    frequency_array,
    majority_metrics,
)


@pytest.fixture(params=[1, 2])
def rows(request):
    rng = np.random.default_rng(request.param)
    labels = np.zeros((40, 3), dtype=bool)
    for row in range(40):
        labels[row, rng.choice(3, request.param, replace=False)] = True
    scores = rng.random((40, 3)) + 0.5 * labels
    return labels, scores.argmax(axis=1), scores


def test_areas_and_precisions_are_means_over_classes(rows):
    labels, predicted, scores = rows
    figures, by_class = class_metrics(labels, predicted, scores)
    for name, loop in (
        ("AUROC", reference.area_under_roc),
        ("average precision", reference.average_precision),
    ):
        expected = [loop(labels[:, k].tolist(), scores[:, k].tolist()) for k in range(3)]
        assert list(by_class[name].values()) == pytest.approx(expected)
        assert figures[name] == pytest.approx(np.mean(expected))


def test_accuracy_recall_and_f1_count_as_loops_do(rows):
    labels, predicted, scores = rows
    figures, by_class = class_metrics(labels, predicted, scores)
    right = [bool(labels[row, predicted[row]]) for row in range(40)]
    assert figures["accuracy"] == pytest.approx(np.mean(right))
    for column in range(3):
        own = [row for row in range(40) if labels[row, column]]
        assert by_class["recall"][column] == pytest.approx(np.mean([right[row] for row in own]))
        hit = sum(right[row] and predicted[row] == column for row in own)
        missed = sum(not right[row] for row in own)
        false = sum(predicted[row] == column and row not in own for row in range(40))
        assert by_class["F1"][column] == pytest.approx(2 * hit / (2 * hit + missed + false))
    assert figures["balanced accuracy"] == pytest.approx(np.mean([*by_class["recall"].values()]))


def test_what_is_not_rated_is_no_negative():
    labels = np.array([[True], [False], [False]])
    scores = np.array([[0.5], [0.9], [0.1]])
    rated = np.array([[True], [False], [True]])
    figures, _ = class_metrics(labels, np.zeros(3, dtype=int), scores, rated)
    assert figures["AUROC"] == 1.0


def test_the_majority_may_be_that_of_the_training():
    labels = np.eye(2, dtype=bool)[[0, 0, 0, 1]]
    rates = frequency_array(
        class_frequencies(labels[[0, 3, 3, 3]], ["fox", "owl"]), ["owl", "fox", "elk"]
    )
    assert rates.tolist() == [0.75, 0.25, 0.0, 0.0]  # by name, and last no class
    figures = majority_metrics(labels, rates=np.array([0.25, 0.75]))
    assert figures["accuracy"] == 0.25
    _, of_rates = calibration_metrics(labels, labels.astype(float), np.array([0.25, 0.75]))
    assert of_rates["log loss"] == pytest.approx(-0.75 * np.log(0.25) - 0.25 * np.log(0.75))
    assert of_rates["calibration error"] == pytest.approx(0.5)
    _, knowing = calibration_metrics(labels, labels.astype(float))
    assert knowing["log loss"] < of_rates["log loss"]
    assert knowing["calibration error"] == 0.0


def test_the_majority_is_as_good_as_its_share():
    labels = np.eye(2, dtype=bool)[[0, 0, 0, 1]]
    figures = majority_metrics(labels)
    assert figures["accuracy"] == 0.75
    assert figures["balanced accuracy"] == 0.5
    assert figures["AUROC"] == 0.5

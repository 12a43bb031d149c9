"""Reliability and the expected calibration error against plain loops."""

import math

import numpy as np
import pytest

from groupnoise.core import expected_calibration_error
from groupnoise.core.class_metrics import MIN_PROBABILITY, calibration_metrics
from groupnoise.core.metrics import reliability
from groupnoise.exceptions import DataError


def looped_error(truth, probabilities, n_bins):
    bins = [[] for _ in range(n_bins)]
    for label, row in zip(truth, probabilities, strict=True):
        best = int(np.argmax(row))
        bins[min(int(row[best] * n_bins), n_bins - 1)].append((row[best], best == label))
    total = 0.0
    for members in filter(None, bins):
        claimed = sum(claim for claim, _ in members) / len(members)
        right = sum(is_right for _, is_right in members) / len(members)
        total += len(members) / len(truth) * abs(claimed - right)
    return total


@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_the_error_is_that_of_a_plain_loop(n_bins):
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(4), size=200)
    truth = generator.integers(4, size=200)
    assert expected_calibration_error(truth, probabilities, n_bins) == pytest.approx(
        looped_error(truth, probabilities, n_bins)
    )


def test_certainty_that_comes_true_has_no_error():
    assert expected_calibration_error([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_empty_bins_say_nothing():
    found = reliability([0], [[0.9, 0.1]], n_bins=3)
    assert found.counts.tolist() == [0, 0, 1]
    assert np.isnan(found.claimed[:2]).all()
    assert np.isnan(found.right[:2]).all()


def test_rows_must_agree():
    with pytest.raises(DataError, match="a class and a row of probabilities per row"):
        expected_calibration_error([0, 1], [[1.0, 0.0]])


def looped_log_loss(labels, claims):
    """Mean of -log P(what is) over rows of one label, else over all decisions on single labels."""
    one_each = all(sum(row) == 1 for row in labels)
    costs = []
    for row, claimed in zip(labels, claims, strict=True):
        for own, claim in zip(row, claimed, strict=True):
            if one_each and not own:
                continue
            costs.append(-math.log(max(claim if own else 1 - claim, MIN_PROBABILITY)))
    return sum(costs) / len(costs)


@pytest.mark.parametrize("several", [False, True])
def test_log_loss_stands_beside_that_of_the_frequencies_of_labels(several):
    generator = np.random.default_rng(0)
    claims = generator.dirichlet(np.ones(3), size=300)
    truth = (claims.cumsum(axis=1) < generator.random((300, 1))).sum(axis=1)
    labels = generator.random((300, 3)) < claims if several else np.eye(3, dtype=bool)[truth]
    claims[0] = [0.0, 1.0, 0.0]  # certain, and wrong of some row of either kind
    labels[0] = [True, False, False]
    figures, of_rates = calibration_metrics(labels, claims)
    assert figures["log loss"] == pytest.approx(looped_log_loss(labels.tolist(), claims.tolist()))
    rates = [labels.mean(axis=0).tolist()] * len(labels)
    assert of_rates["log loss"] == pytest.approx(looped_log_loss(labels.tolist(), rates))
    assert figures["log loss"] < of_rates["log loss"]
    assert of_rates["calibration error"] == 0.0
    if not several:
        error = looped_error(truth_of(labels), claims, 15)
        assert figures["calibration error"] == pytest.approx(error)


def truth_of(labels):
    return [row.index(True) for row in labels.tolist()]


def test_labels_claimed_present_are_held_to_how_often_they_are():
    claims = np.array([[0.9, 0.2], [0.9, 0.2], [0.9, 0.2], [0.9, 0.2]])
    labels = np.array([[True, False], [True, True], [False, False], [True, True]])
    figures, _ = calibration_metrics(labels, claims)
    assert figures["calibration error"] == pytest.approx((0.15 + 0.3) / 2)


def test_answers_about_each_class_by_itself_are_brought_to_one_in_all():
    labels = np.eye(2, dtype=bool)
    figures, _ = calibration_metrics(labels, np.array([[0.9, 0.9], [0.6, 0.9]]))
    assert figures["log loss"] == pytest.approx(-(math.log(0.5) + math.log(0.6)) / 2)

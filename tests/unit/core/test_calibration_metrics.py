"""Reliability and the expected calibration error against plain loops."""

import numpy as np
import pytest

from groupnoise.core import expected_calibration_error
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

import numpy as np
import pytest

from groupnoise import find_label_issues
from groupnoise.candidates.label_issues import (
    cross_fit,
    estimate_noise,
    label_posterior,
    nearest_rows,
)
from groupnoise.core.arrays import stratified_folds
from groupnoise.exceptions import DataError


def test_every_row_is_held_out_once_and_classes_are_dealt_evenly():
    labels = np.array([0] * 10 + [1] * 6)
    folds = stratified_folds(labels, 4, np.random.default_rng(0))
    counts = np.array([np.bincount(labels[folds == fold], minlength=2) for fold in range(4)])
    assert counts.sum() == 16
    assert (np.ptp(counts, axis=0) <= 1).all()


def test_a_row_is_predicted_without_having_been_trained_on():
    labels = np.arange(12) % 3

    def predict(training, held):
        assert not set(training) & set(held)
        return np.eye(3)[labels[held]]

    table = cross_fit(predict, labels, 3, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(table, np.eye(3)[labels])


def test_no_row_is_its_own_neighbour_not_even_beside_a_twin():
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.1]])
    found = nearest_rows(rows, 1).ravel()
    np.testing.assert_array_equal(found, [1, 0, 3, 2])


def test_noise_is_estimated_from_confident_rows():
    truth = np.repeat([0, 1], 500)
    given = truth.copy()
    given[:100] = 1  # a fifth of class 0 is called 1
    noise = estimate_noise(np.eye(2)[truth] * 0.9 + 0.05, given)
    np.testing.assert_allclose(noise, [[0.8, 0.2], [0.0, 1.0]], atol=0.05)


def test_the_posterior_is_bayes_rule():
    evidence = np.array([[0.7, 0.3], [0.4, 0.6]])
    noise = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = label_posterior(evidence, np.array([0, 0]), noise)
    for row, (first, second) in zip(found, evidence, strict=True):
        left, right = (first + 1e-3) * 0.9, (second + 1e-3) * 0.2
        np.testing.assert_allclose(row, [left / (left + right), right / (left + right)])


def test_wrong_labels_come_first_and_are_put_right():
    generator = np.random.default_rng(0)
    truth = np.arange(60) % 3
    given = truth.copy()
    given[[4, 9]] = (truth[[4, 9]] + 1) % 3
    probabilities = 0.9 * np.eye(3)[truth] + 0.1 * generator.dirichlet([1.0] * 3, 60)
    issues = find_label_issues(given, probabilities)
    assert set(np.argsort(issues.quality)[:2]) == {4, 9}
    assert set(issues.ranked()) <= {4, 9}
    assert issues.suggested[4] == truth[4]


def test_neighbours_speak_where_features_are_given():
    truth = np.repeat([0, 1], 20)
    given = truth.copy()
    given[3] = 1
    rows = np.eye(2)[truth] + 0.01 * np.arange(40)[:, None]
    undecided = np.full((40, 2), 0.5)
    assert find_label_issues(given, undecided, X=rows, n_neighbors=5).ranked().tolist() == [3]


@pytest.mark.parametrize(
    ("probabilities", "settings", "message"),
    [
        ([[0.5, 0.5]], {}, "probabilities has shape"),
        ([[-0.5, 1.5]] * 3, {}, "must not be negative"),
        ([[0.5, 0.5]] * 3, {"X": [[0.0]]}, "X has 1 row,"),
    ],
)
def test_bad_input_is_refused(probabilities, settings, message):
    with pytest.raises(DataError, match=message):
        find_label_issues(["a", "b", "b"], probabilities, **settings)

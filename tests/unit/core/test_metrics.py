"""Each metric against its definition, and ties against every order they allow."""

from itertools import permutations
from math import log2

import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise.core import approximated_accuracy, hit_at_k, ndcg_at_k
from groupnoise.core.metrics import accuracy, accuracy_within, covering_rate
from groupnoise.exceptions import DataError, ParameterError


def test_accuracy_counts_equal_labels_of_any_kind():
    assert accuracy(["a", "b", "c"], ["a", "c", "c"]) == pytest.approx(2 / 3)
    assert accuracy(np.array([1, 2]), [1, 2]) == 1.0


def test_accuracy_within_counts_errors_up_to_the_tolerance():
    assert accuracy_within([10, 20, 30], [13, 24, 30], 3) == pytest.approx(2 / 3)
    assert accuracy_within([10, 20, 30], [13, 24, 30], 0) == pytest.approx(1 / 3)


def test_accuracy_within_does_not_wrap_around_for_unsigned_labels():
    assert accuracy_within(np.array([0], np.uint8), np.array([1], np.uint8), 1) == 1.0


def test_covering_rate_counts_predictions_among_the_candidates():
    candidates = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    assert covering_rate(candidates, [0, 0, 0]) == pytest.approx(2 / 3)


def test_approximated_accuracy_agrees_with_a_plain_loop():
    generator = np.random.default_rng(0)
    chances = generator.dirichlet(np.ones(4), size=50)
    candidates = generator.random((50, 4)) < 0.5
    candidates[np.arange(50), generator.integers(4, size=50)] = True
    expected = 0.0
    for row, allowed in zip(chances, candidates, strict=True):
        best = max(range(4), key=lambda label: row[label])
        if allowed[best]:
            expected += row[best] / sum(row[label] for label in range(4) if allowed[label])
    assert approximated_accuracy(candidates, chances) == pytest.approx(expected / 50)


def test_approximated_accuracy_of_candidates_without_probability_is_zero():
    assert approximated_accuracy([[False, True]], [[1.0, 0.0]]) == 0.0


@given(better=st.integers(0, 6), tied=st.integers(0, 4), k=st.integers(1, 8))
def test_ties_are_averaged_over_every_order(better, tied, k):
    places = [better + order.index(0) for order in permutations(range(tied + 1))]
    hits = [place < k for place in places]
    gains = [1 / log2(place + 2) if place < k else 0.0 for place in places]
    assert hit_at_k([better], [tied], k) == pytest.approx(np.mean(hits))
    assert ndcg_at_k([better], [tied], k) == pytest.approx(np.mean(gains))


def test_a_constant_scorer_earns_what_chance_earns():
    n_better, n_tied = np.zeros(5, int), np.full(5, 100)
    assert hit_at_k(n_better, n_tied, 10) == pytest.approx(10 / 101)


@pytest.mark.parametrize("metric", [hit_at_k, ndcg_at_k])
def test_a_list_of_no_length_is_refused(metric):
    with pytest.raises(ParameterError, match="k must be a whole number"):
        metric([0], [0], 0)


def test_unequal_lengths_are_refused():
    with pytest.raises(DataError, match="one of each per row"):
        accuracy([1, 2], [1])
    with pytest.raises(DataError, match="predictions"):
        covering_rate([[True]], [0, 0])
    with pytest.raises(DataError, match="must agree"):
        approximated_accuracy([[True]], [[0.5, 0.5]])


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="at least one"):
        hit_at_k([], [])
    with pytest.raises(DataError, match="at least one row"):
        covering_rate(np.zeros((0, 3), bool), [])

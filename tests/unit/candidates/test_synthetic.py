"""Candidate labels at a chosen level of noise."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise.candidates import add_candidates, load_digit_candidates
from groupnoise.candidates.synthetic import replace_candidates
from groupnoise.exceptions import DataError, ParameterError


@given(
    n_classes=st.integers(2, 12),
    epsilon=st.floats(0, 1),
    tau=st.integers(2, 6),
    correlated=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_epsilon_and_tau_hold_exactly_and_the_truth_is_always_a_candidate(
    n_classes, epsilon, tau, correlated, seed
):
    tau = min(tau, n_classes)
    given_truth = np.arange(50) % n_classes
    candidates, truth = add_candidates(
        given_truth, n_classes, epsilon=epsilon, tau=tau, correlated=correlated, random_state=seed
    )
    counts = candidates.sum(axis=1)
    np.testing.assert_array_equal(truth, given_truth)
    assert candidates[np.arange(50), truth].all()
    assert (counts > 1).sum() == round(epsilon * 50)
    assert counts.max() <= tau


def test_every_number_of_candidates_up_to_tau_is_as_frequent():
    candidates, _ = add_candidates(np.zeros(6000, int), 9, epsilon=1.0, tau=4, random_state=0)
    shares = np.bincount(candidates.sum(axis=1))[2:] / 6000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)


def test_even_noise_draws_every_wrong_label_as_often():
    candidates, _ = add_candidates(np.full(8000, 2), 5, epsilon=1.0, tau=2, random_state=0)
    np.testing.assert_allclose(np.delete(candidates.mean(axis=0), 2), 0.25, atol=0.03)


def test_correlated_noise_gives_each_class_one_partner():
    truth = np.arange(6000) % 6
    candidates, _ = add_candidates(truth, 6, epsilon=1.0, tau=2, correlated=True, random_state=0)
    for label in range(6):
        shares = np.delete(candidates[truth == label].mean(axis=0), label)
        assert np.sort(shares)[-1] == pytest.approx(0.5, abs=0.06)
        assert np.sort(shares)[-2] < 0.2


def test_replacing_candidates_keeps_features_and_truth():
    digits = load_digit_candidates(random_state=0)
    clean = replace_candidates(digits, epsilon=0.0, tau=2, random_state=0)
    assert (clean.candidates.sum(axis=1) == 1).all()
    assert clean.features is digits.features
    np.testing.assert_array_equal(clean.candidates.argmax(axis=1), digits.truth)


def test_a_set_without_truth_is_refused():
    from dataclasses import replace

    unknown = replace(load_digit_candidates(random_state=0), truth=None)
    with pytest.raises(DataError, match="the true label of every row of digit candidates"):
        replace_candidates(unknown, epsilon=0.5, tau=3)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"tau": 6}, ParameterError, r"tau \(6\) is more than there are classes \(3\)"),
        ({"tau": 1}, ParameterError, "tau must be a whole number of at least 2"),
        ({"epsilon": 1.2}, ParameterError, "epsilon must lie between 0 and 1"),
        ({"truth": [0, 3]}, DataError, "between 0 and 2; row 1 has 3"),
        ({"truth": [0.5]}, DataError, "truth must be a row of whole numbers"),
    ],
)
def test_impossible_noise_is_refused(arguments, error, sentence):
    values = {"truth": [0, 1, 2], "epsilon": 0.5, "tau": 2, **arguments}
    with pytest.raises(error, match=sentence):
        add_candidates(values.pop("truth"), 3, **values)

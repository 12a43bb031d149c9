"""Greedy ensembles: averages only where they are better than chance explains."""

from __future__ import annotations

import numpy as np
import pytest

from groupnoise.decisions.ensemble import greedy_ensemble
from groupnoise.exceptions import ParameterError

TRUTH = np.random.default_rng(1).normal(size=400)


def closeness(prediction):
    return -((prediction - TRUTH) ** 2)


def noisy(scale, seed):
    return TRUTH + np.random.default_rng(seed).normal(scale=scale, size=len(TRUTH))


def test_errors_that_differ_are_averaged_out():
    weights = greedy_ensemble([noisy(0.5, 2), noisy(0.5, 3), noisy(5.0, 4)], closeness)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[:2].min() > 0.3
    assert weights[2] == 0.0


def test_the_single_best_is_kept_where_the_gain_is_within_noise():
    best = noisy(0.5, 2)
    nearly = best + 1e-9 * np.random.default_rng(3).normal(size=len(best))
    assert greedy_ensemble([nearly, best], closeness, min_gain=3.0).max() == 1.0


def test_an_ensemble_is_never_worse_than_its_best_member_on_the_held_out_groups():
    predictions = [noisy(scale, seed) for seed, scale in enumerate([0.3, 0.6, 0.9, 2.0])]
    weights = greedy_ensemble(predictions, closeness, min_gain=0.0)
    together = sum(w * each for w, each in zip(weights, predictions, strict=True))
    assert closeness(together).mean() >= max(closeness(each).mean() for each in predictions)


def test_one_set_of_predictions_gets_all_the_weight():
    assert greedy_ensemble([noisy(1.0, 0)], closeness).tolist() == [1.0]


def test_no_predictions_and_no_members_are_refused():
    with pytest.raises(ParameterError, match="at least one"):
        greedy_ensemble([], closeness)
    with pytest.raises(ParameterError, match="max_members"):
        greedy_ensemble([TRUTH], closeness, max_members=0)

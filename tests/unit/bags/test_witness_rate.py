"""The witness rate and the threshold of instances, from labels of bags alone."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from groupnoise.bags.witness_rate import (
    MAX_COST,
    N_THRESHOLDS,
    accurate_threshold,
    find_witness_rate,
    witness_evidence,
)


def scored_bags(rate, distance, *, n_bags=200, size=10, seed=0):
    generator = np.random.default_rng(seed)
    is_positive = np.arange(n_bags) % 2 == 1
    bag = np.repeat(np.arange(n_bags), size)
    truth = np.zeros(n_bags * size, dtype=bool)
    for each in np.flatnonzero(is_positive):
        truth[each * size : each * size + max(1, round(rate * size))] = True
    scores = generator.normal(size=len(bag)) + distance * truth
    return scores, bag, is_positive, truth


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6])
def test_rate_and_threshold_are_found_without_labels_of_instances(rate):
    scores, bag, is_positive, truth = scored_bags(rate, 2.0)
    found = find_witness_rate(scores, bag, is_positive)
    assert found.rate == pytest.approx(rate, abs=0.12)
    # Of two normal laws with one spread the best threshold lies half way.
    assert -found.constant / found.slope == pytest.approx(1.0, abs=0.4)
    called = found.slope * scores + found.constant > 0
    assert balanced_accuracy_score(truth, called) > 0.8


def test_rare_witnesses_that_stand_apart_are_told_from_the_rest():
    scores, bag, is_positive, truth = scored_bags(0.03, 9.0, n_bags=40, size=30)
    found = find_witness_rate(scores, bag, is_positive)
    assert balanced_accuracy_score(truth, found.slope * scores + found.constant > 0) > 0.95


def test_better_scores_are_more_evidence_and_noise_is_none():
    total = []
    for distance in (0.0, 1.0, 3.0):
        scores, bag, is_positive, _ = scored_bags(0.3, distance)
        told = witness_evidence(scores, bag, is_positive)
        assert told.shape == is_positive.shape
        total.append(told.sum())
    assert total[0] < 5.0 < total[1] < total[2]


@pytest.mark.parametrize(("rate", "distance"), [(0.1, 3.0), (0.3, 1.0), (0.9, 2.0)])
def test_a_threshold_trades_a_little_balanced_accuracy_for_right_answers(rate, distance):
    scores, bag, is_positive, truth = scored_bags(rate, distance, n_bags=60)
    found = find_witness_rate(scores, bag, is_positive)
    odds = found.rate / (1.0 - found.rate)
    ratios = [found.slope * score + found.constant for score in scores]
    chances = [
        odds * np.exp(ratio) / (1.0 + odds * np.exp(ratio)) if is_positive[each] else 0.0
        for ratio, each in zip(ratios, bag, strict=True)
    ]
    n_positive = sum(chances)
    n_negative = len(chances) - n_positive
    tried = []
    for threshold in np.linspace(0.0, np.log(n_negative / n_positive), N_THRESHOLDS):
        hits = sum(p for p, ratio in zip(chances, ratios, strict=True) if ratio > threshold)
        left = sum(1 - p for p, ratio in zip(chances, ratios, strict=True) if ratio <= threshold)
        tried.append((0.5 * (hits / n_positive + left / n_negative), hits + left, threshold))
    most = max(balanced for balanced, _, _ in tried)
    expected = max(right for balanced, right, _ in tried if balanced >= most - MAX_COST)
    threshold = accurate_threshold(found, scores, bag, is_positive)
    (reached,) = (each[:2] for each in tried if each[2] == pytest.approx(threshold, abs=1e-9))
    assert reached[0] >= most - MAX_COST - 1e-9
    assert reached[1] == pytest.approx(expected)
    at_first, then = (np.array(ratios) > each for each in (0.0, threshold))
    assert np.mean(then == truth) >= np.mean(at_first == truth)
    lost = balanced_accuracy_score(truth, at_first) - balanced_accuracy_score(truth, then)
    assert lost < 0.03

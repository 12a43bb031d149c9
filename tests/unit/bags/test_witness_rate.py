"""The witness rate and the threshold of instances, from labels of bags alone."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import cauchy
from sklearn.metrics import balanced_accuracy_score

from groupnoise.bags.search.witness_rate import (
    MAX_COST,
    RATE_SPREAD,
    USUAL_RATE,
    WitnessRate,
    accurate_threshold,
    find_witness_rate,
    log_rate_prior,
    witness_evidence,
)
from groupnoise.core.class_metrics import calibration_metrics


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
    assert found.share == pytest.approx(rate, abs=0.12)
    # Of two normal laws with one spread the best threshold lies half way.
    assert -found.constant / found.slope == pytest.approx(1.0, abs=0.4)
    called = found.slope * scores + found.constant > 0
    assert balanced_accuracy_score(truth, called) > 0.8


def test_rare_witnesses_that_stand_apart_are_told_from_the_rest():
    scores, bag, is_positive, truth = scored_bags(0.03, 9.0, n_bags=40, size=30)
    found = find_witness_rate(scores, bag, is_positive)
    assert balanced_accuracy_score(truth, found.slope * scores + found.constant > 0) > 0.95


@pytest.mark.parametrize("seed", range(4))
def test_where_scores_tell_little_few_instances_are_positive(seed):
    scores, bag, is_positive, _ = scored_bags(0.1, 0.3, n_bags=80, seed=seed)
    assert 0.05 < find_witness_rate(scores, bag, is_positive).share < 0.35


def test_rates_above_what_is_usual_follow_a_cauchy_law_of_their_logit():
    for logit in (-1.5, 0.0, 3.0):
        expected = cauchy.logpdf(logit, USUAL_RATE, RATE_SPREAD)
        expected -= cauchy.logpdf(USUAL_RATE, USUAL_RATE, RATE_SPREAD)
        assert log_rate_prior(logit) == pytest.approx(expected)
    assert log_rate_prior(-8.0) == 0.0


def test_better_scores_are_more_evidence_and_noise_is_none():
    total = []
    for distance in (0.0, 1.0, 3.0):
        scores, bag, is_positive, _ = scored_bags(0.3, distance)
        told = witness_evidence(scores, bag, is_positive)
        assert told.shape == is_positive.shape
        total.append(told.sum())
    assert total[0] < 5.0 < total[1] < total[2]


def test_chances_are_those_of_all_ways_in_which_one_instance_at_least_is_positive():
    scores = np.array([0.5, -1.0, 2.0, 0.1, 0.3])
    bag, is_positive = np.array([0, 0, 0, 1, 1]), np.array([True, False])
    found = WitnessRate(slope=1.5, constant=-1.0, rate=0.2, share=0.3)
    weights = {}
    for ways in itertools.product([False, True], repeat=3):
        if any(ways):
            parts = [
                0.2 * math.exp(1.5 * score - 1.0) if way else 0.8
                for way, score in zip(ways, scores, strict=False)
            ]
            weights[ways] = math.prod(parts)
    expected = [
        sum(weight for ways, weight in weights.items() if ways[each]) / sum(weights.values())
        for each in range(3)
    ]
    chances = found.chances(scores, bag, is_positive)
    assert chances.tolist() == pytest.approx([*expected, 0.0, 0.0])


@pytest.mark.parametrize(("rate", "distance"), [(0.1, 3.0), (0.3, 2.0)])
def test_probabilities_found_by_bags_alone_mean_what_they_say(rate, distance):
    scores, bag, is_positive, truth = scored_bags(rate, distance, n_bags=400)
    found = find_witness_rate(scores, bag, is_positive)
    assert found.share == pytest.approx(rate, abs=0.08)
    chances = found.chances(scores, bag, is_positive)
    figures, of_rates = calibration_metrics(
        np.stack([~truth, truth], axis=1), np.stack([1 - chances, chances], axis=1)
    )
    assert figures["calibration error"] < 0.05
    assert figures["log loss"] < 0.6 * of_rates["log loss"]


@pytest.mark.parametrize(("rate", "distance"), [(0.1, 3.0), (0.3, 1.0), (0.9, 2.0)])
def test_a_threshold_trades_a_little_balanced_accuracy_for_right_answers(rate, distance):
    scores, bag, is_positive, truth = scored_bags(rate, distance, n_bags=60)
    scores = np.round(scores, 1)  # some are equally likely
    found = find_witness_rate(scores, bag, is_positive)
    probability = 1.0 / (1.0 + np.exp(-found.slope * scores - found.constant))
    chances = found.chances(scores, bag, is_positive)
    n_positive = sum(chances)
    n_negative = len(chances) - n_positive
    tried = []
    for least in sorted(set(probability)):
        pairs = list(zip(probability, chances, strict=True))
        hits = sum(chance for p, chance in pairs if p >= least)
        left = sum(1 - chance for p, chance in pairs if p < least)
        tried.append((0.5 * (hits / n_positive + left / n_negative), hits + left, least))
    most = max(balanced for balanced, _, _ in tried)
    right = max(right for balanced, right, _ in tried if balanced >= most - MAX_COST)
    (least,) = (each[2] for each in tried if each[1] == right and each[0] >= most - MAX_COST)
    threshold = accurate_threshold(probability, chances)
    np.testing.assert_array_equal(probability > threshold, probability >= least)
    fair = next(each[2] for each in tried if each[0] == most)
    at_first, then = (probability >= each for each in (fair, least))
    assert np.mean(then == truth) >= np.mean(at_first == truth)
    lost = balanced_accuracy_score(truth, at_first) - balanced_accuracy_score(truth, then)
    assert lost < 0.04

"""Every multiple-instance objective against plain loops: values and gradients, in float64."""

import itertools
import math

import numpy as np
import pytest
import torch

from groupnoise.bags.baselines.attention import attention_loss
from groupnoise.bags.baselines.logistic import milr_loss, soft_maximum
from groupnoise.bags.baselines.networks import gicf_cost, imil_risk, instance_prior, minet_loss

SIZES = [3, 1, 4, 2]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
BAG_OF = np.repeat(np.arange(len(SIZES)), SIZES)
N_INSTANCES, N_PROBLEMS = sum(SIZES), 2
ANSWERS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(N_INSTANCES, N_PROBLEMS))


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def bags_of(values):
    """The values of one problem as one list per bag."""
    return [list(values[start:end]) for start, end in itertools.pairwise(OFFSETS)]


def cross_entropy(probability, answer):
    return -math.log(probability) if answer else -math.log(1 - probability)


def numeric_slope(loss, point, step=1e-6):
    slope = np.zeros_like(point)
    for place in np.ndindex(point.shape):
        moved = point.copy()
        moved[place] += step
        above = loss(moved)
        moved[place] -= 2 * step
        slope[place] = (above - loss(moved)) / (2 * step)
    return slope


def assert_equals_loops(loss, by_loops, point):
    """The torch loss has the value and the gradient of the plain loops."""
    tensor = torch.tensor(point, requires_grad=True)
    value = loss(tensor)
    value.backward()
    assert value.item() == pytest.approx(by_loops(point), abs=1e-12)
    np.testing.assert_allclose(tensor.grad.numpy(), numeric_slope(by_loops, point), atol=1e-7)


def milr_by_loops(column, answer, strength):
    total = 0.0
    for bag, y in zip(bags_of(column), answer, strict=True):
        o = [sigmoid(value) for value in bag]
        top = sum(p * math.exp(strength * p) for p in o)
        total += (y - top / sum(math.exp(strength * p) for p in o)) ** 2
    return 0.5 * total / len(SIZES)


@pytest.mark.parametrize("strength", [0.0, 2.5])
def test_milr_equals_its_formula_and_slope(logits, strength):
    for column, answer in zip(logits.T, ANSWERS.T, strict=True):
        loss, slope = milr_loss(column, OFFSETS, answer, strength)
        assert loss == pytest.approx(milr_by_loops(column, answer, strength))
        expected = numeric_slope(lambda moved, a=answer: milr_by_loops(moved, a, strength), column)
        np.testing.assert_allclose(slope, expected, atol=1e-9)


def test_the_soft_maximum_lies_between_mean_and_maximum(logits):
    p = 1 / (1 + np.exp(-logits))
    mean, _ = soft_maximum(p, OFFSETS, 0.0)
    nearly_max, _ = soft_maximum(p, OFFSETS, 500.0)
    bags = np.split(p, OFFSETS[1:-1])
    np.testing.assert_allclose(mean, [bag.mean(axis=0) for bag in bags])
    np.testing.assert_allclose(nearly_max, [bag.max(axis=0) for bag in bags], atol=1e-4)


def test_a_soft_maximum_of_any_strength_is_finite_and_at_last_the_maximum(logits):
    p = 1 / (1 + np.exp(-logits))
    just_plain, _ = soft_maximum(p, OFFSETS, 500.0)
    just_shifted, _ = soft_maximum(p, OFFSETS, np.nextafter(500.0, 501.0))
    np.testing.assert_allclose(just_shifted, just_plain, rtol=1e-9)
    hard, weight = soft_maximum(p, OFFSETS, 1e6)
    np.testing.assert_allclose(hard, [b.max(axis=0) for b in np.split(p, OFFSETS[1:-1])])
    assert np.isfinite(weight).all()


@pytest.mark.parametrize("pooling", ["max", "mean", "log_mean_exp"])
def test_minet_equals_its_formula_and_gradient(logits, pooling):
    pool = {
        "max": max,
        "mean": lambda o: sum(o) / len(o),
        "log_mean_exp": lambda o: math.log(sum(math.exp(p) for p in o) / len(o)),
    }[pooling]

    def by_loops(point):
        return sum(
            cross_entropy(pool([sigmoid(value) for value in bag]), y) / len(SIZES)
            for column, answer in zip(point.T, ANSWERS.T, strict=True)
            for bag, y in zip(bags_of(column), answer, strict=True)
        )

    bag_of, answers = torch.from_numpy(BAG_OF), torch.from_numpy(ANSWERS)
    assert_equals_loops(lambda t: minet_loss(t, bag_of, answers, pooling), by_loops, logits)


def test_gicf_equals_its_formula_and_gradient(logits):
    rows = np.random.default_rng(1).normal(size=(N_INSTANCES, 3))
    kernel = np.array([[math.exp(-np.sum((a - b) ** 2)) for b in rows] for a in rows])

    def by_loops(point):
        total = 0.0
        for column, answer in zip(point.T, ANSWERS.T, strict=True):
            y = [sigmoid(value) for value in column]
            pairs = sum(
                kernel[i, j] * (y[i] - y[j]) ** 2
                for i in range(N_INSTANCES)
                for j in range(N_INSTANCES)
            )
            errors = [
                (sum(bag) / len(bag) - target) ** 2
                for bag, target in zip(bags_of(y), answer, strict=True)
            ]
            total += pairs / N_INSTANCES**2 + 0.7 / len(SIZES) * sum(errors)
        return total

    bag_of, answers, likeness = map(torch.from_numpy, (BAG_OF, ANSWERS, kernel))
    assert_equals_loops(
        lambda t: gicf_cost(t.sigmoid(), likeness, bag_of, answers, 0.7), by_loops, logits
    )


@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_imil_equals_its_formula_and_gradient(logits, shift):
    """At shift 6 the estimate for the positives is negative, so the risk is held at zero there."""
    prior = [0.2, 0.3]

    def by_loops(point):
        total = 0.0
        for column, answer, pi in zip(point.T, ANSWERS.T, prior, strict=True):
            positives = negatives = 0.0
            for bag, y in zip(bags_of(column), answer, strict=True):
                w = 0.0 if y else (1 - pi) ** -(len(bag) - 1)
                for value in bag:
                    positives += (1 - w) * math.log(1 + math.exp(-value)) / N_INSTANCES
                    negatives += w * math.log(1 + math.exp(value)) / N_INSTANCES
            total += max(0.0, positives) + negatives
        return total

    sizes = np.array(SIZES)[:, None]
    weight = torch.from_numpy(((1 - ANSWERS) * (1 - np.array(prior)) ** -(sizes - 1.0))[BAG_OF])
    # Confident wrong positives: negative bags far below zero, positive bags far above.
    point = logits + shift * np.where(ANSWERS[BAG_OF] > 0, 1.0, -1.0)
    assert_equals_loops(lambda t: imil_risk(t, weight), by_loops, point)


def test_imil_on_bags_of_one_is_logistic_regression(logits):
    answers = torch.from_numpy((logits > 0).astype(float))
    tensor = torch.from_numpy(logits)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        tensor, answers, reduction="none"
    )
    assert imil_risk(tensor, 1 - answers).item() == pytest.approx(expected.mean(dim=0).sum().item())


@pytest.mark.parametrize("prior", [0.02, 0.3])
def test_the_instance_prior_is_recovered_from_bag_counts(prior):
    sizes = np.array([2, 5, 5, 9] * 1000)
    n_negative = round(sum((1 - prior) ** size for size in sizes))
    assert instance_prior(sizes, n_negative) == pytest.approx(prior, rel=0.02)


@pytest.mark.parametrize(("n_negative", "low", "high"), [(0, 0.5, 1.0), (4, 0.0, 1e-6)])
def test_the_instance_prior_stays_inside_the_unit_interval(n_negative, low, high):
    assert low <= instance_prior(np.array([1, 2, 3, 1]), n_negative) < high


def test_attention_equals_its_formula_and_gradient(logits):
    scores = np.random.default_rng(2).normal(size=logits.shape)

    def by_loops(point):
        total = 0.0
        for column, score, answer in zip(point[0].T, point[1].T, ANSWERS.T, strict=True):
            for bag, look, y in zip(bags_of(column), bags_of(score), answer, strict=True):
                normalizer = sum(math.exp(value) for value in look)
                pooled = sum(math.exp(a) / normalizer * b for a, b in zip(look, bag, strict=True))
                total += cross_entropy(sigmoid(pooled), y) / len(SIZES)
        return total

    bag_of, answers = torch.from_numpy(BAG_OF), torch.from_numpy(ANSWERS)
    assert_equals_loops(
        lambda t: attention_loss(t[0], t[1], bag_of, answers), by_loops, np.stack([logits, scores])
    )

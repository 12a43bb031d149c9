"""How many instances of a positive bag are positive, and from which score on, told by bags alone.

Instances of negative bags show how scores of negative instances are spread. Those of positive
ones are a mixture: a share of them, the witness rate, is positive. With the ratio of the two
densities taken as :math:`r(s) = e^{a s + b}`, whose mean over negative instances is one, two
numbers are left to be found, a and the rate, and labels of held-out bags find them. Balanced
accuracy is greatest where an instance is called positive from r = 1 on. Positive instances are
rare, so that far more answers are right from a larger r on, at little cost where they stand apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

SLOPES = (0.4, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
RATES = (0.03, 0.1, 0.2, 0.35, 0.55, 0.8)
MAX_SCORE = 8.0
"""Standard deviations beyond which scores are cut off."""
INSTANCE_SHARE = 0.1
"""How much single instances count beside whole bags where the rate is found."""
DOUBT = 0.01
MIN_RATE = 1e-6
MAX_COST = 0.01
"""Balanced accuracy that may be lost, as estimated, so that more answers are right."""
N_THRESHOLDS = 25


class WitnessRate(NamedTuple):
    """What turns scores into log density ratios.

    `slope`, `constant`: the log ratio of a score is `slope * score + constant`.
    `rate`: share of the instances of positive bags that are positive.
    """

    slope: float
    constant: float
    rate: float


class _Scores:
    """Scores of instances, standardised, with the labels of their bags."""

    def __init__(self, scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> None:
        self.mean, self.spread = float(scores.mean()), max(float(scores.std()), 1e-9)
        self.values = np.clip((scores - self.mean) / self.spread, -MAX_SCORE, MAX_SCORE)
        self.bag, self.is_positive = bag, is_positive
        self.inherited = is_positive[bag]
        self.negative = self.values[~self.inherited]
        n_positive = int(self.inherited.sum())
        self.prior = math.log(n_positive / (len(bag) - n_positive))

    def constant(self, slope: float) -> float:
        """Return b, under which the mean ratio over negative instances is one."""
        return -float(np.logaddexp.reduce(slope * self.negative) - math.log(len(self.negative)))

    def log_mixture(self, slope: float, rate: float) -> FloatArray:
        """Return how much likelier each score is in a positive bag, on a log scale."""
        ratio = slope * self.values + self.constant(slope)
        result: FloatArray = np.logaddexp(math.log1p(-rate), math.log(rate) + ratio)
        return result

    def instance_likelihood(self, log_mixture: FloatArray) -> FloatArray:
        """Return log P(label of its bag | score) of each instance."""
        sign = np.where(self.inherited, -1.0, 1.0)
        result: FloatArray = -np.logaddexp(0.0, sign * (self.prior + log_mixture))
        return result


def witness_evidence(scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> FloatArray:
    """Return how much the scores of its instances tell of the label of each bag, in nats.

    The instances are judged one by one, under the best of a few slopes and rates; scores that
    tell nothing get zero.

    `scores`: of instances that models have not seen. `is_positive`: of which bags are positive;
    there are both kinds.
    """
    held = _Scores(scores, bag, is_positive)
    odds = math.exp(held.prior)
    nothing = held.instance_likelihood(np.zeros(len(scores)))
    best, most = nothing, float(nothing.sum())
    for slope in SLOPES:
        ratio = np.exp(slope * held.values + held.constant(slope))
        for rate in RATES:
            # What `instance_likelihood` of `log_mixture` is, where nothing can overflow.
            mixture = odds * (1.0 - rate + rate * ratio)
            each = held.inherited * np.log(mixture) - np.log(1.0 + mixture)
            if float(each.sum()) > most:
                best, most = each, float(each.sum())
    told = np.bincount(bag, best - nothing, minlength=len(is_positive))
    return told.astype(np.float64)


def find_witness_rate(scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> WitnessRate:
    """Return the density ratio and the rate under which held-out bags are likeliest.

    `scores`: of instances that models have not seen. `is_positive`: of which bags are positive;
    there are both kinds.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    held = _Scores(scores, bag, is_positive)
    share = float(is_positive.mean())
    prior, sign = math.log(share / (1.0 - share)), np.where(is_positive, -1.0, 1.0)
    n_bags = len(is_positive)

    def parts(values: FloatArray) -> tuple[float, float]:
        slope = math.exp(min(float(values[0]), 5.0))
        return slope, float(np.clip(expit(values[1]), MIN_RATE, 1.0 - MIN_RATE))

    def loss(values: FloatArray) -> float:
        mixture = held.log_mixture(*parts(values))
        odds = prior + np.bincount(bag, mixture, minlength=n_bags)
        sure = math.log1p(-DOUBT) - np.logaddexp(0.0, sign * odds)
        bags = float(np.logaddexp(sure, math.log(DOUBT)).mean())
        instances = float(held.instance_likelihood(mixture).sum()) / n_bags
        penalty = 1e-3 * (float(values[0]) ** 2 + 0.1 * float(values[1]) ** 2)
        return penalty - bags - INSTANCE_SHARE * instances

    starts = (np.array([0.0, 0.0]), np.array([1.0, -3.0]))
    options = {"maxiter": 60, "xatol": 0.02, "fatol": 1e-6}
    tried = [minimize(loss, each, method="Nelder-Mead", options=options) for each in starts]
    slope, rate = parts(min(tried, key=lambda each: float(each.fun)).x)
    constant = held.constant(slope)
    return WitnessRate(slope / held.spread, constant - slope * held.mean / held.spread, rate)


def accurate_threshold(
    found: WitnessRate, scores: FloatArray, bag: IntArray, is_positive: BoolArray
) -> float:
    """Return the log ratio from which on instances are called positive.

    Of thresholds between that of the greatest balanced accuracy and that of the greatest accuracy
    the most accurate one whose balanced accuracy is at most a little less. Both are estimated: an
    instance of a positive bag counts as positive by its probability.

    Zero or more where positive instances are the fewer, else zero or less. `found`: what
    :func:`find_witness_rate` found of the same instances. `scores`: of instances that models have
    not seen. `is_positive`: of which bags are positive; there are both kinds.
    """
    from scipy.special import expit

    ratio = found.slope * scores + found.constant
    odds = math.log(found.rate / (1.0 - found.rate))
    chance = np.where(is_positive[bag], expit(ratio + odds), 0.0)
    n_positive = max(float(chance.sum()), MIN_RATE)
    n_negative = len(chance) - n_positive
    thresholds = np.linspace(0.0, math.log(n_negative / n_positive), N_THRESHOLDS)
    called = ratio > thresholds[:, None]  # (n_thresholds, n_rows)
    found_positive, found_negative = called @ chance, ~called @ (1.0 - chance)
    balanced = 0.5 * (found_positive / n_positive + found_negative / n_negative)
    right = np.where(balanced >= balanced.max() - MAX_COST, found_positive + found_negative, 0.0)
    return float(thresholds[right.argmax()])

r"""Estimates, from bag labels alone, of which instances have the label of their bag.

Positive and negative bags: the instances of negative bags show the distribution of negative scores.
Those of positive bags are a mixture: each is positive with a probability, the witness rate, and at
least one of them is. The ratio of the two densities is modelled as :math:`r(s) = e^{a s + b}`, with
mean one over negative instances, so only a and the rate are fitted, by the likelihood of held-out
bags. The result turns a score into a probability. The threshold that maximizes balanced accuracy
calls an instance positive as soon as its probability is above average. As positive instances are
rare, a higher threshold classifies far more instances correctly and costs little balanced accuracy
where the scores separate well.

Bags of one label each: suppose that each instance has its bag's label or none, and that instances
of none are distributed alike in all bags. Then the label of the bag of an instance x is y with
probability

.. math:: P(y \mid x) = p_y(x) + p_0(x) \, \pi_y

where p_0 is the probability of background and pi_y the frequency of y; for a bag with two labels
the probabilities of both are summed. Bags do not determine p_0: a class might also share part of
its instances with all other classes. But p_0 is at most the minimum over y of P(y | x) / pi_y, and
is close to this bound where bags contain any noise. The mean of the bound over held-out instances
estimates the share of background; it is near zero where every instance has its bag's label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

SCALES = (0.03, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5)
SHIFTS = (-6.0, -3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0, 6.0)
MAX_SHARED, MAX_SHARED_BY_TWO = 0.2, 0.4
"""Largest share of ambiguous instances without background, for several classes and for two: two
classes that are hard to distinguish have more of them."""
MAX_ROWS = 4_000
"""Instances that the scale and the shift are fitted on."""
MIN_LOG = -10.0
"""Lower bound of the log-likelihood of an instance, so that a few outliers cannot decide alone."""
SLOPES = (0.4, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
RATES = (0.03, 0.1, 0.2, 0.35, 0.55, 0.8)
MAX_SCORE = 8.0
"""Standard deviations at which scores are clipped."""
INSTANCE_SHARE = 0.3
"""Weight of the likelihood of single instances, relative to that of bags, in fitting the rate."""
USUAL_RATE, RATE_SPREAD = -1.5, 0.7
"""The prior of the logit of the rate: flat up to the first, Cauchy of this scale above it."""
DOUBT = 0.01
MIN_RATE = 1e-6
MAX_COST = 0.01
"""Estimated balanced accuracy that the threshold may give up for accuracy."""


def with_background(log_p: Tensor, level: float) -> Tensor:
    """Return log probabilities of targets and, last, of background.

    `log_p` (n_rows, n_classes): log P(class | instance). `level`: log odds of background against
    the geometric mean of the classes.
    """
    free = log_p.clamp(min=-60.0).mean(-1, keepdim=True) + level
    return torch.cat([log_p, free], dim=-1).log_softmax(-1)


class SharedBackground(NamedTuple):
    """Calibration of instances under which the labels of their bags are likeliest.

    `scale`: of all log odds. `shift`: of the background. `log_likelihood`: of each instance.
    """

    scale: float
    shift: float
    log_likelihood: FloatArray


def fit_shared_background(
    log_odds: FloatArray, labels: BoolArray, bag: IntArray, part: BoolArray | None = None
) -> SharedBackground:
    """Fit the scale and the shift of log odds by the likelihood of bag labels.

    `log_odds` (n_rows, n_classes + 1): up to a constant per row, background last. `labels` (n_bags,
    n_classes): of the bags, mostly one each. `bag`: the bag of each row. `part`: rows that were
    held out, by default all.
    """
    part = np.ones(len(bag), dtype=bool) if part is None else part
    of_bag, prior = _labels_of_rows(labels, bag, part)
    log_prior = np.log(of_bag @ prior)

    def likelihood(scale: float, shift: float, rows: IntArray) -> FloatArray:
        values = log_odds[rows] * scale
        values[:, -1] += shift
        total = np.logaddexp.reduce(values, axis=1)
        inside = np.logaddexp.reduce(np.where(of_bag[rows], values[:, :-1], -np.inf), axis=1)
        log_p = np.logaddexp(inside, values[:, -1] + log_prior[rows]) - total
        return np.asarray(np.maximum(log_p, MIN_LOG))

    some = np.flatnonzero(part)
    some = some[:: max(1, -(-len(some) // MAX_ROWS))]
    scale, shift = max(
        ((scale, shift) for scale in SCALES for shift in SHIFTS),
        key=lambda each: float(likelihood(each[0], each[1], some).mean()),
    )
    return SharedBackground(scale, shift, likelihood(scale, shift, np.arange(len(of_bag))))


def background_share(
    log_odds: FloatArray, labels: BoolArray, bag: IntArray, part: BoolArray
) -> tuple[float, float]:
    """Return the mean log-likelihood of bag labels, and an upper bound of the background share.

    The scale of the log odds is first fitted by this likelihood.

    `log_odds` (n_rows, n_classes): up to a constant per row, by members without background.
    `labels`, `bag`, `part`: as in :func:`fit_shared_background`.
    """
    from scipy.optimize import minimize_scalar

    of_bag, prior = _labels_of_rows(labels, bag, part)
    of_bag, centred = of_bag[part], log_odds[part] - log_odds[part].mean(axis=0)

    def log_proba(log_scale: float) -> FloatArray:
        values = math.exp(log_scale) * centred + np.log(prior)
        return np.asarray(values - np.logaddexp.reduce(values, axis=1, keepdims=True))

    def loss(log_scale: float) -> float:
        inside = np.logaddexp.reduce(np.where(of_bag, log_proba(log_scale), -np.inf), axis=1)
        return -float(np.maximum(inside, MIN_LOG).mean())

    log_scale = minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x
    bound = np.exp((log_proba(log_scale) - np.log(prior)).min(axis=1))
    return -loss(log_scale), float(bound.mean())


def _labels_of_rows(
    labels: BoolArray, bag: IntArray, part: BoolArray
) -> tuple[BoolArray, FloatArray]:
    """Return the bag labels of each row, and the label frequencies among rows of a part.

    A bag without a label counts as a bag of the first class.
    """
    of_bag = labels[bag]
    of_bag[~of_bag.any(axis=1), 0] = True
    counts = of_bag[part].sum(axis=0) + 0.5
    return of_bag, counts / counts.sum()


class WitnessRate(NamedTuple):
    """A fitted model of the scores of positive and negative instances.

    `slope`, `constant`: the log density ratio of a score is `slope * score + constant`.
    `rate`: probability that an instance of a positive bag is positive, before conditioning on at
        least one of them being so.
    `share`: share of positive instances in positive bags.
    """

    slope: float
    constant: float
    rate: float
    share: float

    def chances(self, scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> FloatArray:
        """Return P(positive | scores, label of the bag) of each instance: zero in negative bags."""
        from scipy.special import expit

        log_odds = math.log(self.rate / (1.0 - self.rate))
        proba = np.minimum(expit(self.slope * scores + self.constant + log_odds), 1.0 - 1e-12)
        log_none = np.bincount(bag, np.log1p(-proba), minlength=len(is_positive))
        p_some = np.maximum(-np.expm1(log_none), 1e-12)
        return np.where(is_positive, 1.0 / p_some, 0.0)[bag] * proba


class _Scores:
    """Scores of instances, standardised, with the labels of their bags."""

    def __init__(self, scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> None:
        self.mean, self.spread = float(scores.mean()), max(float(scores.std()), 1e-9)
        self.values = np.clip((scores - self.mean) / self.spread, -MAX_SCORE, MAX_SCORE)
        self.bag, self.is_positive = bag, is_positive
        self.sizes = np.bincount(bag, minlength=len(is_positive))
        self.inherited = is_positive[bag]
        self.negative = self.values[~self.inherited]
        n_positive = int(self.inherited.sum())
        self.prior = math.log(n_positive / (len(bag) - n_positive))

    def constant(self, slope: float) -> float:
        """Return b, for which the mean ratio over negative instances is one."""
        return -float(np.logaddexp.reduce(slope * self.negative) - math.log(len(self.negative)))

    def log_mixture(self, slope: float, rate: float | FloatArray) -> FloatArray:
        """Return the log density ratio of each score between positive and negative bags."""
        ratio = slope * self.values + self.constant(slope)
        return np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)

    def log_bags(self, slope: float, rate: float) -> FloatArray:
        """Return the log-likelihood ratio of the scores of each bag, positive against negative.

        In a positive bag at least one instance is positive.
        """
        total = np.bincount(self.bag, self.log_mixture(slope, rate), minlength=len(self.sizes))
        log_none = self.sizes * math.log1p(-rate)
        return total + _log_complement(log_none - total) - _log_complement(log_none)

    def shares(self, rate: float) -> FloatArray:
        """Return the expected share of positive instances in each bag, if it is positive."""
        result: FloatArray = rate / np.exp(_log_complement(self.sizes * math.log1p(-rate)))
        return np.clip(result, MIN_RATE, 1.0 - MIN_RATE)

    def instance_likelihood(self, log_mixture: FloatArray) -> FloatArray:
        """Return log P(label of its bag | score) of each instance."""
        sign = np.where(self.inherited, -1.0, 1.0)
        return -np.logaddexp(0.0, sign * (self.prior + log_mixture))


def witness_evidence(scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> FloatArray:
    """Return the information of instance scores about the label of each bag, in nats.

    It is the gain in log-likelihood over scores that are independent of the labels, summed over the
    instances of a bag, under the best of a few slopes and rates.

    `scores`: of instances that models have not seen. `is_positive`: which bags are positive; there
    are both kinds.
    """
    held = _Scores(scores, bag, is_positive)
    odds = math.exp(held.prior)
    uninformed = held.instance_likelihood(np.zeros(len(scores)))
    best, highest = uninformed, float(uninformed.sum())
    for slope in SLOPES:
        ratio = np.exp(slope * held.values + held.constant(slope))
        for rate in RATES:
            # Equals `instance_likelihood` of `log_mixture`; nothing can overflow here.
            mixture = odds * (1.0 - rate + rate * ratio)
            likelihood = held.inherited * np.log(mixture) - np.log(1.0 + mixture)
            if float(likelihood.sum()) > highest:
                best, highest = likelihood, float(likelihood.sum())
    gain = np.bincount(bag, best - uninformed, minlength=len(is_positive))
    return gain.astype(np.float64)


def find_witness_rate(scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> WitnessRate:
    """Fit the density ratio and the rate by the likelihood of held-out bags.

    `scores`: of instances that models have not seen. `is_positive`: which bags are positive; there
    are both kinds.
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
        slope, rate = parts(values)
        odds = prior + held.log_bags(slope, rate)
        sure = math.log1p(-DOUBT) - np.logaddexp(0.0, sign * odds)
        bags = float(np.logaddexp(sure, math.log(DOUBT)).mean())
        mixture = held.log_mixture(slope, held.shares(rate)[bag])
        instances = float(held.instance_likelihood(mixture).sum()) / n_bags
        penalty = 1e-3 * (float(values[0]) ** 2 + 0.1 * float(values[1]) ** 2)
        penalty -= log_rate_prior(float(values[1])) / n_bags
        return penalty - bags - INSTANCE_SHARE * instances

    starts = (np.array([0.0, 0.0]), np.array([1.0, -3.0]))
    options = {"maxiter": 60, "xatol": 0.02, "fatol": 1e-6}
    tried = [minimize(loss, each, method="Nelder-Mead", options=options) for each in starts]
    slope, rate = parts(min(tried, key=lambda each: float(each.fun)).x)
    constant = held.constant(slope) - slope * held.mean / held.spread
    share = float(np.average(held.shares(rate)[is_positive], weights=held.sizes[is_positive]))
    return WitnessRate(slope / held.spread, constant, rate, share)


def log_rate_prior(logit: float) -> float:
    """Return the log prior of a rate: flat up to `USUAL_RATE`, then a Cauchy tail of its logit.

    Weak scores cannot distinguish few positive instances that stand out from many that hardly do,
    and few are the rule. The heavy tail hardly contradicts informative bags.
    """
    return -math.log1p((max(0.0, logit - USUAL_RATE) / RATE_SPREAD) ** 2)


def accurate_threshold(probability: FloatArray, chances: FloatArray) -> float:
    """Return the probability above which instances are called positive.

    It is the most accurate threshold whose balanced accuracy is within `MAX_COST` of the best. Both
    are expectations: an instance counts as positive with its probability in `chances`.

    `probability`: P(positive) of held-out instances, by models that have seen neither them nor the
    label of their bag. `chances`: the same given the label, :meth:`WitnessRate.chances`.
    """
    order = np.argsort(-probability, kind="stable")
    sorted_p, true_positives = probability[order], np.cumsum(chances[order])
    n_positive = max(float(true_positives[-1]), MIN_RATE)
    n_negative = max(len(chances) - n_positive, MIN_RATE)
    true_negatives = n_negative - (np.arange(1, len(chances) + 1) - true_positives)
    balanced = 0.5 * (true_positives / n_positive + true_negatives / n_negative)
    # No threshold separates instances of equal probability.
    balanced[:-1][sorted_p[1:] == sorted_p[:-1]] = 0.0
    is_good = balanced >= balanced.max() - MAX_COST
    last = int(np.where(is_good, true_positives + true_negatives, 0.0).argmax())
    following = sorted_p[min(last + 1, len(sorted_p) - 1)]
    return float(0.5 * (sorted_p[last] + following))


def _log_complement(log_p: FloatArray) -> FloatArray:
    """Return log(1 - p), finite also for p of one."""
    return np.log(-np.expm1(np.minimum(log_p, -1e-12)))

r"""What instances carry the label of their bag, told by bags alone.

Positive and negative bags: instances of negative bags show how scores of negative instances are
spread. Those of positive ones are a mixture: each is positive by a chance, the witness rate, and
one of them at least is. With the ratio of the two densities taken as :math:`r(s) = e^{a s + b}`,
whose mean over negative instances is one, two numbers are left to be found, a and the rate, and
labels of held-out bags find them. That makes a score a probability. Balanced accuracy is greatest
where an instance is called positive as soon as it is likelier so than most. Positive instances are
rare, so that far more answers are right from a larger probability on, at little cost where they
stand apart.

Bags of one label each: let an instance be of its bag's label or of none, and let instances of none
be alike whatever the label of their bag is. Then the label of the bag of an instance x is y by the
chance

.. math:: P(y \mid x) = p_y(x) + p_0(x) \, \pi_y

where p_0 is background and pi_y how frequent y is; of a bag with two labels it is one of them by
the sum of both. No bag tells p_0 for certain: a class might also
have two faces, one of which it shares with every other class. But background cannot be more than
what the least likely label leaves to it, the minimum over y of P(y | x) / pi_y, and where bags are
noisy at all it is nearly that. Its mean over held-out instances is the share of background: next to
nothing where every instance is of its bag's label.
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
"""Share of instances that all labels explain alike above which they are background: two classes
that are hard to tell apart share more than several."""
MAX_ROWS = 4_000
"""Instances by which the scale and the shift are found."""
MIN_LOG = -10.0
"""What an instance costs at most, so that a few cannot decide alone."""
SLOPES = (0.4, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
RATES = (0.03, 0.1, 0.2, 0.35, 0.55, 0.8)
MAX_SCORE = 8.0
"""Standard deviations beyond which scores are cut off."""
INSTANCE_SHARE = 0.3
"""How much single instances count beside whole bags where the rate is found."""
USUAL_RATE, RATE_SPREAD = -1.5, 0.7
"""Logit up to which a rate is usual before any bag is seen, and how fast it is less so above."""
DOUBT = 0.01
MIN_RATE = 1e-6
MAX_COST = 0.01
"""Balanced accuracy that may be lost, as estimated, so that more answers are right."""


def with_background(log_p: Tensor, level: float) -> Tensor:
    """Return log probabilities of targets and, last, of background: an instance alike to all.

    `log_p` (n_rows, n_classes): log P(class | instance). `level`: log odds of background against
    the geometric mean of the classes.
    """
    free = log_p.clamp(min=-60.0).mean(-1, keepdim=True) + level
    return torch.cat([log_p, free], dim=-1).log_softmax(-1)


class SharedBackground(NamedTuple):
    """Under which scale and shift the labels of their bags are likeliest of instances.

    `scale`: of all log odds. `shift`: of the background. `log_likelihood`: of each instance.
    """

    scale: float
    shift: float
    log_likelihood: FloatArray


def fit_shared_background(
    log_odds: FloatArray, labels: BoolArray, bag: IntArray, part: BoolArray | None = None
) -> SharedBackground:
    """Return what makes log odds of targets tell most of the labels of bags.

    `log_odds` (n_rows, n_classes + 1): up to a constant per row, background last. `labels` (n_bags,
    n_classes): of each bag, mostly one. `bag`: of each row. `part`: rows that were held out, by
    default all.
    """
    part = np.ones(len(bag), dtype=bool) if part is None else part
    own, prior = _own(labels, bag, part)
    by_chance = np.log(own @ prior)

    def likelihood(scale: float, shift: float, rows: IntArray) -> FloatArray:
        values = log_odds[rows] * scale
        values[:, -1] += shift
        total = np.logaddexp.reduce(values, axis=1)
        mine = np.logaddexp.reduce(np.where(own[rows], values[:, :-1], -np.inf), axis=1)
        told = np.logaddexp(mine, values[:, -1] + by_chance[rows]) - total
        return np.asarray(np.maximum(told, MIN_LOG))

    some = np.flatnonzero(part)
    some = some[:: max(1, -(-len(some) // MAX_ROWS))]
    scale, shift = max(
        ((scale, shift) for scale in SCALES for shift in SHIFTS),
        key=lambda each: float(likelihood(each[0], each[1], some).mean()),
    )
    return SharedBackground(scale, shift, likelihood(scale, shift, np.arange(len(own))))


def background_share(
    log_odds: FloatArray, labels: BoolArray, bag: IntArray, part: BoolArray
) -> tuple[float, float]:
    """Return how well labels of bags are told, and the share of instances that need no label.

    Log odds are first given the scale under which they tell most of the labels of bags; the mean
    log likelihood says how much.

    `log_odds` (n_rows, n_classes): up to a constant per row, by members without background.
    `labels`, `bag`, `part`: as in :func:`fit_shared_background`.
    """
    from scipy.optimize import minimize_scalar

    own, prior = _own(labels, bag, part)
    own, centred = own[part], log_odds[part] - log_odds[part].mean(axis=0)

    def told(log_scale: float) -> FloatArray:
        values = math.exp(log_scale) * centred + np.log(prior)
        return np.asarray(values - np.logaddexp.reduce(values, axis=1, keepdims=True))

    def loss(log_scale: float) -> float:
        mine = np.logaddexp.reduce(np.where(own, told(log_scale), -np.inf), axis=1)
        return -float(np.maximum(mine, MIN_LOG).mean())

    found = minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x
    least = np.exp((told(found) - np.log(prior)).min(axis=1))
    return -loss(found), float(least.mean())


def _own(labels: BoolArray, bag: IntArray, part: BoolArray) -> tuple[BoolArray, FloatArray]:
    """Return the labels of each row's bag, and how frequent labels are among rows.

    A bag without a label, which tells nothing of its rows, counts as a bag of the first class.
    """
    own = labels[bag]
    own[~own.any(axis=1), 0] = True
    counts = own[part].sum(axis=0) + 0.5
    return own, counts / counts.sum()


class WitnessRate(NamedTuple):
    """What turns scores into log density ratios.

    `slope`, `constant`: the log ratio of a score is `slope * score + constant`.
    `rate`: chance of an instance of a positive bag to be positive, before it is known that one of
        them at least is.
    `share`: part of the instances of positive bags that are positive.
    """

    slope: float
    constant: float
    rate: float
    share: float

    def chances(self, scores: FloatArray, bag: IntArray, is_positive: BoolArray) -> FloatArray:
        """Return P(positive | scores, label of the bag) of each instance: zero in negative bags."""
        from scipy.special import expit

        odds = math.log(self.rate / (1.0 - self.rate))
        each = np.minimum(expit(self.slope * scores + self.constant + odds), 1.0 - 1e-12)
        none = np.bincount(bag, np.log1p(-each), minlength=len(is_positive))
        some = np.maximum(-np.expm1(none), 1e-12)
        return np.where(is_positive, 1.0 / some, 0.0)[bag] * each


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
        """Return b, under which the mean ratio over negative instances is one."""
        return -float(np.logaddexp.reduce(slope * self.negative) - math.log(len(self.negative)))

    def log_mixture(self, slope: float, rate: float | FloatArray) -> FloatArray:
        """Return how much likelier each score is in a positive bag, on a log scale."""
        ratio = slope * self.values + self.constant(slope)
        return np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)

    def log_bags(self, slope: float, rate: float) -> FloatArray:
        """Return how much likelier the scores of each bag are if it is positive, on a log scale.

        Of all ways in which its instances may be positive but the one in which none is.
        """
        each = np.bincount(self.bag, self.log_mixture(slope, rate), minlength=len(self.sizes))
        none = self.sizes * math.log1p(-rate)
        return each + _log_less(none - each) - _log_less(none)

    def shares(self, rate: float) -> FloatArray:
        """Return the part of a positive bag that is positive, of one at least."""
        result: FloatArray = rate / np.exp(_log_less(self.sizes * math.log1p(-rate)))
        return np.clip(result, MIN_RATE, 1.0 - MIN_RATE)

    def instance_likelihood(self, log_mixture: FloatArray) -> FloatArray:
        """Return log P(label of its bag | score) of each instance."""
        sign = np.where(self.inherited, -1.0, 1.0)
        return -np.logaddexp(0.0, sign * (self.prior + log_mixture))


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
    """Return how usual a rate is, on a log scale: above what is usual, a Cauchy law of its logit.

    Weak scores cannot tell few positive instances that stand apart from many that hardly do; few
    are the rule. The tail is long, so that bags which do tell are hardly contradicted.
    """
    return -math.log1p((max(0.0, logit - USUAL_RATE) / RATE_SPREAD) ** 2)


def accurate_threshold(probability: FloatArray, chances: FloatArray) -> float:
    """Return the probability from which on instances are called positive.

    Of all thresholds the most accurate one whose balanced accuracy is at most a little less than
    the greatest. Both are estimated: an instance counts as positive by its chance.

    `probability`: of held-out instances to be positive, by models that have seen neither them nor
    the label of their bag. `chances`: the same with the label, :meth:`WitnessRate.chances`.
    """
    order = np.argsort(-probability, kind="stable")
    sorted_p, hits = probability[order], np.cumsum(chances[order])
    n_positive = max(float(hits[-1]), MIN_RATE)
    n_negative = max(len(chances) - n_positive, MIN_RATE)
    left = n_negative - (np.arange(1, len(chances) + 1) - hits)
    balanced = 0.5 * (hits / n_positive + left / n_negative)
    # Between two instances that are equally likely there is no threshold.
    balanced[:-1][sorted_p[1:] == sorted_p[:-1]] = 0.0
    right = np.where(balanced >= balanced.max() - MAX_COST, hits + left, 0.0)
    last = int(right.argmax())
    following = sorted_p[min(last + 1, len(sorted_p) - 1)]
    return float(0.5 * (sorted_p[last] + following))


def _log_less(log_p: FloatArray) -> FloatArray:
    """Return log(1 - p); of p near one as of the greatest number below it."""
    return np.log(-np.expm1(np.minimum(log_p, -1e-12)))

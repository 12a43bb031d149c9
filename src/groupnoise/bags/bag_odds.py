"""Log odds of bags as probabilities of their labels, and how likely they make the right ones."""

from __future__ import annotations

import math

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

DOUBT = 1e-3
"""Share of labels taken to be wrong, so that no bag can cost without bound."""
KNEE = 0.9
"""Part of the probability of a bag from which on those of its instances are bent below it."""


def log_bag_proba(
    log_odds: FloatArray, exclusive: bool, has_negative: bool, doubt: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return log P(label present) and log P(label absent) of each bag, (n_bags, n_named).

    `log_odds` (n_bags, n_named): calibrated. `exclusive`: whether a bag has at most one label: then
    the labels, and the negative one where there is one, share one probability. `has_negative`:
    whether a bag may have none of the labels. `doubt`: share of bags of which nothing is known.
    """
    if not exclusive or (has_negative and log_odds.shape[1] == 1):
        present, absent = -np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)
    else:
        padded = np.hstack([log_odds, np.zeros((len(log_odds), 1))]) if has_negative else log_odds
        present = log_odds - np.logaddexp.reduce(padded, axis=1, keepdims=True)
        absent = np.log1p(-np.exp(np.minimum(present, -1e-12)))
    chance = chance_of_label(log_odds.shape[1], exclusive, has_negative)
    return mixed_with_chance(present, doubt, chance), mixed_with_chance(absent, doubt, 1.0 - chance)


def chance_of_label(n_named: int, exclusive: bool, has_negative: bool) -> float:
    """Return how likely a label is in a bag of which nothing is known: labels are alike then.

    Not by their frequencies, so that the likeliest label stays the likeliest. Parameters are as in
    :func:`log_bag_proba`.
    """
    return 1.0 / (n_named + has_negative) if exclusive else 0.5


def doubt_after(n_bags: int, before: float = 1.0) -> float:
    """Return the share of bags of which nothing is known after so many held-out ones.

    Members may tell all of these apart and be wrong about the next: by Laplace's rule of succession
    one of two labels is to be expected wrong once in `n_bags` + 2. `before`: the share before these
    bags were seen.
    """
    return before / (1.0 + 0.5 * n_bags * before)


def mixed_with_chance(log_proba: FloatArray, doubt: float, chance: float) -> FloatArray:
    """Return log probabilities of bags if nothing but `chance` is known of a share of them."""
    if doubt == 0.0 or chance == 0.0:
        return log_proba
    result: FloatArray = np.logaddexp(np.log1p(-doubt) + log_proba, np.log(doubt * chance))
    return result


def at_most_of_bag(proba: FloatArray, of_bags: FloatArray, sizes: IntArray) -> FloatArray:
    """Return probabilities of instances, none larger than that of its bag.

    A bag has the label of each of its instances, so that it cannot be less likely. Where the best
    instance exceeds its bag, what lies above nine tenths of the bag's probability is brought below
    it in proportion; the order of instances stays.

    `proba` (n_rows, n_named): of instances. `of_bags` (n_bags, n_named). `sizes`: of the bags.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    most = np.maximum.reduceat(proba, starts, axis=0)
    knee = KNEE * of_bags
    slope = np.where(most > of_bags, (of_bags - knee) / np.maximum(most - knee, 1e-300), 1.0)
    knee, slope = (each.repeat(sizes, axis=0) for each in (knee, slope))
    result: FloatArray = np.where(proba > knee, knee + slope * (proba - knee), proba)
    return result


def label_log_likelihood(
    log_odds: FloatArray,
    labels: BoolArray,
    exclusive: bool,
    has_negative: bool,
    doubt: float = 0.0,
) -> FloatArray:
    """Return the log likelihood of the labels of each bag, bounded by a little doubt.

    `log_odds` (n_bags, n_named): calibrated. `labels`: what the bags are labelled with.
    `exclusive`, `has_negative`, `doubt`: as in :func:`log_bag_proba`.
    """
    log_present, log_absent = log_bag_proba(log_odds, exclusive, has_negative, doubt)
    if not exclusive or labels.shape[1] == 1:
        return with_doubt(np.where(labels, log_present, log_absent).sum(axis=1))
    chosen = np.where(labels, log_present, 0.0).sum(axis=1)
    return with_doubt(np.where(labels.any(axis=1), chosen, log_none(log_odds, doubt)))


def log_none(log_odds: FloatArray, doubt: float = 0.0) -> FloatArray:
    """Return log P(none of the labels) where a bag has at most one, or none."""
    none: FloatArray = -np.logaddexp(0.0, np.logaddexp.reduce(log_odds, axis=1))
    return mixed_with_chance(none, doubt, chance_of_label(log_odds.shape[1], True, True))


def share_explained(
    scores: FloatArray, labels: BoolArray, exclusive: bool, has_negative: bool
) -> float:
    """Return how much of what frequencies leave open of held-out labels is told, from 0 to 1.

    Of the log likelihood, as in McFadden's R squared. `scores`: log likelihood of each bag.
    `labels`, `exclusive`, `has_negative`: as in :func:`label_log_likelihood`.
    """
    rate = np.clip(labels.mean(axis=0), 1e-6, 1.0 - 1e-6)
    none = np.clip(1.0 - labels.any(axis=1).mean(), 1e-6, 1.0)
    together = exclusive and labels.shape[1] > 1
    frequent = np.log(rate / (none if together else 1.0 - rate))
    constant = np.tile(frequent, (len(labels), 1))
    least = label_log_likelihood(constant, labels, exclusive, has_negative).mean()
    return float(np.clip(1.0 - scores.mean() / min(float(least), -1e-9), 0.0, 1.0))


def with_doubt(log_likelihood: FloatArray) -> FloatArray:
    """Return log likelihoods if a small share of the labels were wrong."""
    result: FloatArray = np.logaddexp(
        math.log1p(-DOUBT) + log_likelihood, math.log(DOUBT) + 0.0 * log_likelihood
    )
    return result

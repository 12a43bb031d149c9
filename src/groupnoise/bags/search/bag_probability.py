"""Log odds of bags as probabilities of their labels, and their scale by bags that were held out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import apply_in_blocks
from groupnoise.training.temperature import (
    CalibrationTrial,
    calibration_folds,
    evaluate_calibration,
)

if TYPE_CHECKING:
    from groupnoise.bags.search.ensemble import BagEnsemble

WRONG_LABELS = 1e-3
"""Share of labels taken to be wrong, so that no bag can cost without bound."""
KNEE = 0.9
"""Part of the probability of a bag from which on those of its instances are bent below it."""
SCALE_SPREAD = 0.25
"""Standard deviation of the log scale and of the shift of log odds before any held-out bag is seen:
`fit` has calibrated them once."""


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
    return mix_with_prior(present, doubt, chance), mix_with_prior(absent, doubt, 1.0 - chance)


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


def mix_with_prior(log_proba: FloatArray, doubt: float, chance: float) -> FloatArray:
    """Return log probabilities of bags if nothing but `chance` is known of a share of them."""
    if doubt == 0.0 or chance == 0.0:
        return log_proba
    return np.logaddexp(np.log1p(-doubt) + log_proba, np.log(doubt * chance))


def cap_at_bag_probability(proba: FloatArray, of_bags: FloatArray, sizes: IntArray) -> FloatArray:
    """Return probabilities of instances, none larger than that of its bag.

    A bag has the label of each of its instances, so that it cannot be less likely. Where the best
    instance exceeds its bag, what lies above nine tenths of the bag's probability is brought below
    it in proportion; the order of instances stays.

    `proba` (n_rows, n_named): of instances. `of_bags` (n_bags, n_named). `sizes`: of the bags.
    """
    most = np.maximum.reduceat(proba, offsets_from_sizes(sizes)[:-1], axis=0)
    knee = KNEE * of_bags
    slope = np.where(most > of_bags, (of_bags - knee) / np.maximum(most - knee, 1e-300), 1.0)
    knee, slope = (each.repeat(sizes, axis=0) for each in (knee, slope))
    return np.where(proba > knee, knee + slope * (proba - knee), proba)


def label_log_likelihood(
    log_odds: FloatArray,
    labels: BoolArray,
    exclusive: bool,
    has_negative: bool,
    doubt: float = 0.0,
) -> FloatArray:
    """Return the log likelihood of the labels of each bag, of which a few are taken to be wrong.

    `log_odds` (n_bags, n_named): calibrated. `labels`: what the bags are labelled with.
    `exclusive`, `has_negative`, `doubt`: as in :func:`log_bag_proba`.
    """
    log_present, log_absent = log_bag_proba(log_odds, exclusive, has_negative, doubt)
    if not exclusive or labels.shape[1] == 1:
        return mix_with_label_noise(np.where(labels, log_present, log_absent).sum(axis=1))
    chosen = np.where(labels, log_present, 0.0).sum(axis=1)
    return mix_with_label_noise(np.where(labels.any(axis=1), chosen, log_none(log_odds, doubt)))


def log_none(log_odds: FloatArray, doubt: float = 0.0) -> FloatArray:
    """Return log P(none of the labels) where a bag has at most one, or none."""
    none: FloatArray = -np.logaddexp(0.0, np.logaddexp.reduce(log_odds, axis=1))
    return mix_with_prior(none, doubt, chance_of_label(log_odds.shape[1], True, True))


def explained_deviance(
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


def mix_with_label_noise(log_likelihood: FloatArray) -> FloatArray:
    """Return log likelihoods if a small share of the labels were wrong."""
    return np.logaddexp(
        math.log1p(-WRONG_LABELS) + log_likelihood, math.log(WRONG_LABELS) + 0.0 * log_likelihood
    )


def calibrate_bag_odds(
    ensemble: BagEnsemble, log_odds: FloatArray, labels: BoolArray, *, only_if_better: bool
) -> tuple[BagEnsemble, FloatArray, CalibrationTrial]:
    """Return an ensemble whose log odds make held-out bags likelier, these, and what that is worth.

    `log_odds` (n_bags, n_named): what it says of the bags. `labels` (n_bags, n_classes): theirs.
    """
    negative = ensemble.negative
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    kind = (ensemble.exclusive, ensemble.has_negative, ensemble.doubt)

    def loss(scale: float, shift: float, rows: IntArray) -> FloatArray:
        return -label_log_likelihood(log_odds[rows] * scale + shift, named[rows], *kind)

    has_shift = ensemble.has_negative or not ensemble.exclusive
    found = fit_scale(loss, len(labels), has_shift=has_shift)
    # Where labels come together their log losses were summed; `evaluate` tells that of each.
    n_told = 1 if ensemble.exclusive else named.shape[1]
    trial = evaluate_calibration("bags", *(each / n_told for each in found.losses))
    if not trial.is_taken and only_if_better:
        return ensemble, log_odds, trial
    scaled = replace(
        ensemble,
        bag_scale=ensemble.bag_scale * found.scale,
        bag_shift=ensemble.bag_shift * found.scale + found.shift,
        doubt=doubt_after(len(labels), ensemble.doubt),
    )
    return scaled, log_odds * found.scale + found.shift, trial


def calibrate_instance_odds(
    ensemble: BagEnsemble,
    log_odds: FloatArray,
    bags: Groups,
    known: IntArray,
    *,
    only_if_better: bool,
) -> tuple[BagEnsemble, CalibrationTrial]:
    """Return an ensemble whose log odds make known instances likelier, and what that is worth.

    Where bags are positive or negative.

    `log_odds` (n_bags, 1): what it says of the bags. `known`: the column of the true label of each
    instance, -1 where it is not known.
    """
    assert ensemble.negative is not None
    log_p = torch.from_numpy(
        apply_in_blocks(bags, lambda rows: ensemble.log_probabilities(rows).numpy())
    )
    of_bag, sizes, positive = bags.group_of_object, np.asarray(bags.sizes), 1 - ensemble.negative
    told = np.flatnonzero(known >= 0)
    told_bags, counts = np.unique(of_bag[told], return_counts=True)

    def loss(scale: float, shift: float, rows: IntArray) -> FloatArray:
        scaled = log_p * scale
        scaled[:, positive] += shift
        within = ensemble.within_bags(scaled.log_softmax(-1), log_odds, sizes).numpy()
        total = np.bincount(of_bag[told], -within[told, known[told]], minlength=len(sizes))
        return total[told_bags[rows]].astype(np.float64)

    found = fit_scale(loss, len(told_bags), has_shift=True)
    # So that their mean is that of instances.
    per_instance = [each * (len(counts) / counts.sum()) for each in found.losses]
    trial = evaluate_calibration("instances", *per_instance)
    if not trial.is_taken and only_if_better:
        return ensemble, trial
    decided = math.log(ensemble.threshold / (1.0 - ensemble.threshold))
    moved = replace(
        ensemble,
        scale=ensemble.scale * found.scale,
        shift=ensemble.shift * found.scale - found.shift,
        threshold=1.0 / (1.0 + math.exp(-decided * found.scale - found.shift)),
    )
    return moved, trial


class FittedScale(NamedTuple):
    """A scale and a shift of log odds, and the losses of groups before and by other folds."""

    scale: float
    shift: float
    losses: tuple[FloatArray, FloatArray]


def fit_scale(
    loss: Callable[[float, float, IntArray], FloatArray], n_groups: int, *, has_shift: bool
) -> FittedScale:
    """Return the scale and the shift under which groups are likeliest, near one and zero if few.

    `loss`: of groups, by scale, shift and their numbers. `has_shift`: whether a shift means
    something.
    """
    from scipy.optimize import minimize

    def fitted(rows: IntArray) -> tuple[float, float]:
        def total(values: FloatArray) -> float:
            prior = 0.5 * float((values**2).sum()) / SCALE_SPREAD**2
            shift = float(values[1]) if has_shift else 0.0
            return prior + float(loss(math.exp(float(values[0])), shift, rows).sum())

        first = np.zeros(1 + has_shift)
        simplex = np.vstack([first, first + 0.3 * np.eye(len(first))])
        options = {"initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-4, "maxiter": 100}
        found = minimize(total, first, method="Nelder-Mead", options=options).x
        return math.exp(float(found[0])), float(found[1]) if has_shift else 0.0

    everything = np.arange(n_groups)
    before = loss(1.0, 0.0, everything)
    after = np.zeros(n_groups)
    for others, own in calibration_folds(n_groups):
        after[own] = loss(*fitted(others), own)
    return FittedScale(*fitted(everything), (before, after))

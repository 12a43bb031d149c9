"""A scale and a shift of log odds of bags and instances, by held-out bags and known instances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from groupnoise.bags.bag_odds import doubt_after, label_log_likelihood
from groupnoise.bags.ensemble import BagEnsemble
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import answers_about
from groupnoise.training.temperature import CalibrationTrial, folds_of, judge_calibration

SCALE_SPREAD = 0.25
"""Standard deviation of the log scale and of the shift of log odds before any held-out bag is seen:
`fit` has calibrated them once."""


def with_scaled_bags(
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
    trial = judge_calibration("bags", *(each / n_told for each in found.losses))
    if not trial.is_taken and only_if_better:
        return ensemble, log_odds, trial
    scaled = replace(
        ensemble,
        bag_scale=ensemble.bag_scale * found.scale,
        bag_shift=ensemble.bag_shift * found.scale + found.shift,
        doubt=doubt_after(len(labels), ensemble.doubt),
    )
    return scaled, log_odds * found.scale + found.shift, trial


def with_scaled_instances(
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
        answers_about(bags, lambda rows: ensemble.log_probabilities(rows).numpy())
    )
    of_bag, sizes, positive = bags.group_of_object, np.asarray(bags.sizes), 1 - ensemble.negative
    told = np.flatnonzero(known >= 0)
    told_bags, counts = np.unique(of_bag[told], return_counts=True)

    def loss(scale: float, shift: float, rows: IntArray) -> FloatArray:
        scaled = log_p * scale
        scaled[:, positive] += shift
        within = ensemble.within_bags(scaled.log_softmax(-1), log_odds, sizes).numpy()
        total = np.bincount(of_bag[told], -within[told, known[told]], minlength=len(sizes))
        result: FloatArray = total[told_bags[rows]].astype(np.float64)
        return result

    found = fit_scale(loss, len(told_bags), has_shift=True)
    # So that their mean is that of instances.
    per_instance = [each * (len(counts) / counts.sum()) for each in found.losses]
    trial = judge_calibration("instances", *per_instance)
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
    for others, own in folds_of(n_groups):
        after[own] = loss(*fitted(others), own)
    return FittedScale(*fitted(everything), (before, after))

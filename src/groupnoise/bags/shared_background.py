r"""Background of bags that have one label each: what bags of all labels have in common.

Let an instance be of its bag's label or of none, and let instances of none be alike whatever the
label of their bag is. Then the label of the bag of an instance x is y by the chance

.. math:: P(y \mid x) = p_y(x) + p_0(x) \, \pi_y

where p_0 is background and pi_y how frequent y is. No bag tells p_0 for certain: a class might also
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
MAX_SHARED, MAX_SHARED_BY_TWO = 0.2, 0.4
"""Share of instances that all labels explain alike above which they are background: two classes
that are hard to tell apart share more than several."""
MAX_ROWS = 4_000
"""Instances by which the scale and the shift are found."""
MIN_LOG = -10.0
"""What an instance costs at most, so that a few cannot decide alone."""


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
    n_classes): one of each bag. `bag`: of each row. `part`: rows that were held out, by default
    all.
    """
    part = np.ones(len(bag), dtype=bool) if part is None else part
    own, prior = _own(labels, bag, part)
    log_prior = np.log(prior)

    def likelihood(scale: float, shift: float, rows: IntArray) -> FloatArray:
        values = log_odds[rows] * scale
        values[:, -1] += shift
        total = np.logaddexp.reduce(values, axis=1)
        mine = values[np.arange(len(rows)), own[rows]]
        told = np.logaddexp(mine, values[:, -1] + log_prior[own[rows]]) - total
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
    rows = np.arange(len(centred))

    def told(log_scale: float) -> FloatArray:
        values = math.exp(log_scale) * centred + np.log(prior)
        return np.asarray(values - np.logaddexp.reduce(values, axis=1, keepdims=True))

    def loss(log_scale: float) -> float:
        return -float(told(log_scale)[rows, own].mean())

    found = minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x
    least = np.exp((told(found) - np.log(prior)).min(axis=1))
    return -loss(found), float(least.mean())


def _own(labels: BoolArray, bag: IntArray, part: BoolArray) -> tuple[IntArray, FloatArray]:
    """Return the column of the label of each row's bag, and how frequent labels are among rows."""
    own = labels.argmax(axis=1)[bag]
    counts = np.bincount(own[part], minlength=labels.shape[1]) + 0.5
    return own, counts / counts.sum()

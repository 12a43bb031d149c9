"""Yeo-Johnson power transform, fitted by maximum likelihood to all features at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import boxcox1p

if TYPE_CHECKING:
    from torch import Tensor

SEARCH_ROWS = 10_000
"""Maximum rows that exponents are fitted on."""

SEARCH_VALUES = 1 << 16
"""Values fitted at once: as many as fit the cache."""
SEARCH_WIDTH = 0.02
"""Interval width at which golden section search ends and the maximum is interpolated."""
MAX_STEPS = 100
"""Steps to that width; exponents of next to nothing are so large that rounding would hinder it."""
MAX_LOG_POWER = 336.18
"""Logarithm of the largest power that a square is taken of, as in SciPy."""

Floats = NDArray[np.float64]


class PowerTransform:
    """Yeo-Johnson transform of each feature.

    `table` (3, n_features): exponents, and minimum and maximum of the training values.
    """

    def __init__(self, table: Floats) -> None:
        self.table = table

    @classmethod
    def fit(cls, rows: NDArray[Any]) -> PowerTransform:
        """Fit the exponents by maximum likelihood under a normal distribution."""
        some = rows[:: -(-len(rows) // SEARCH_ROWS)].astype(np.float64)
        exponent = fit_exponents(some)
        ends = np.stack([rows.min(axis=0), rows.max(axis=0)])
        with np.errstate(over="ignore", invalid="ignore"):
            powered = yeo_johnson(np.vstack([some, ends]), exponent)
            # Far from zero a power may overflow or lose the differences of values.
            is_sound = powered.std(axis=0) > 1e-6 * np.abs(powered).max(axis=0)
        return cls(np.vstack([np.where(is_sound, exponent, 1.0), ends]))

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """Return transformed rows, clipped to the training range."""
        exponent, least, greatest = self.table
        return yeo_johnson(rows.clip(least, greatest), exponent)

    def raise_in_place(self, rows: Tensor) -> None:
        """Transform single-precision rows in place."""
        import torch

        exponent, least, greatest = torch.from_numpy(self.table.astype(np.float32))
        rows.clamp_(least, greatest)
        # A power of almost zero is the logarithm, to the last digit.
        above, below = (each + 1e-12 * (each == 0) for each in (exponent, 2.0 - exponent))
        power = torch.where(rows < 0, below, above)
        raised = rows.abs().log1p_().mul_(power).expm1_().div_(power)
        torch.copysign(raised, rows, out=rows)


def yeo_johnson(values: NDArray[Any], exponent: Floats) -> Floats:
    """Return ((1 + x)^e - 1) / e above zero, and its mirror with 2 - e below (Yeo, Johnson 2000).

    An exponent of 1 changes nothing, of 0 takes the logarithm of 1 + x.

    >>> yeo_johnson(np.array([-1.0, 0.0, 1.0, 3.0]), np.array([1.0])).tolist()
    [-1.0, 0.0, 1.0, 3.0]
    """
    power = np.where(values < 0, 2.0 - exponent, exponent)
    return np.copysign(boxcox1p(np.abs(values), power), values)


def fit_exponents(rows: Floats) -> Floats:
    """Return the maximum likelihood exponents, 1 for constant features.

    Features are fitted in parallel; scikit-learn gives the same exponents one feature at a time,
    which took half of a fit on small bags.
    """
    values = np.ascontiguousarray(rows.T)
    exponents: Floats = np.ones(len(values))
    varying = np.flatnonzero(values.min(axis=1) < values.max(axis=1))
    n_blocks = -(-len(varying) * values.shape[1] // SEARCH_VALUES)
    for block in np.array_split(varying, max(1, n_blocks)):
        if len(block):
            with np.errstate(all="ignore"):  # of features next to nothing, which stay as they are
                exponents[block] = _fit_exponents(values[block])
    return exponents


def _fit_exponents(values: Floats) -> Floats:
    """Return the exponent of each row of values; golden section search of a unimodal function."""
    size, below = np.log1p(np.abs(values)), values < 0
    sign = np.where(below, -1.0, 1.0)
    slope = (sign * size).mean(axis=1)

    def likelihood(exponent: Floats) -> Floats:
        own = np.where(below, 2.0 - exponent[:, None], exponent[:, None])
        own = np.where(np.abs(own) < 1e-9, 1e-9, own)
        variance = (sign * np.expm1(own * size) / own).var(axis=1)
        found = (exponent - 1.0) * slope - 0.5 * np.log(np.where(variance > 0, variance, 1.0))
        return np.where(variance > 0, found, -np.inf)

    # Squares of powers must not overflow, even of somewhat larger values; below zero 2 - e counts.
    most = MAX_LOG_POWER / np.log1p(20.0 * np.abs(values).max(axis=1))
    low = np.where(below.any(axis=1), 2.0 - most, -most)
    high = np.where(below.all(axis=1), 2.0 + most, most)
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - golden * (high - low), low + golden * (high - low)
    of_left, of_right = likelihood(left), likelihood(right)
    for _ in range(MAX_STEPS):
        if not float((high - low).max()) > SEARCH_WIDTH:
            break
        is_low = of_left > of_right
        low, high = np.where(is_low, low, left), np.where(is_low, right, high)
        inner = golden * (high - low)
        new = np.where(is_low, high - inner, low + inner)
        of_new = likelihood(new)
        left, right = np.where(is_low, new, right), np.where(is_low, left, new)
        of_left, of_right = np.where(is_low, of_new, of_right), np.where(is_low, of_left, of_new)
    best: Floats = 0.5 * (low + high)
    for step in (0.5 * SEARCH_WIDTH, 0.05 * SEARCH_WIDTH):  # the peak of a parabola
        before, at, after = (likelihood(best + shift) for shift in (-step, 0.0, step))
        bend = before - 2.0 * at + after
        is_peak = np.isfinite(bend) & (bend < 0)
        move = 0.5 * (before - after) / np.where(is_peak, bend, 1.0)
        best = best + np.where(is_peak, np.clip(step * move, -step, step), 0.0)
    return best

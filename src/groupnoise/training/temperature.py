"""Temperature scaling fitted on held-out groups, and its cross-validated gain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.objective import average_log_probabilities
from groupnoise.decisions.halving import standard_error

LOWEST, HIGHEST = 0.05, 20.0
"""Range of temperatures."""
PRIOR_SPREAD = 0.5
"""Standard deviation of the Gaussian prior of the log temperature: without it, a few groups that
are all correct would make any model certain."""
WRONG_SHARE = 0.01
"""Assumed fraction of wrong labels, which bounds the loss of a group."""
GRID_SIZE = 24
"""Temperatures of the cross-validation grid."""
N_FOLDS = 5
Likelihood = Callable[[Tensor], Tensor]
"""Maps log probabilities (n_objects, n_targets) to the log likelihood of each group."""


class CalibrationTrial(NamedTuple):
    """Cross-validated gain of a calibration.

    `of`: what is calibrated: "bags", "instances" or "rows".
    `before`, `after`: mean log loss without calibration, and calibrated by the other folds.
    `is_taken`: whether the gain exceeds its standard error.
    `judged_by`: whose log loss it is, if not that of what is calibrated.
    """

    of: str
    before: float
    after: float
    is_taken: bool
    judged_by: str = ""

    def __str__(self) -> str:
        loss = f"log loss of {self.judged_by}" if self.judged_by else "log loss"
        figures = f"{loss} {self.before:.4f}, calibrated by other folds {self.after:.4f}"
        if self.is_taken:
            return f"probabilities of {self.of} are calibrated: {figures}"
        return (
            f"probabilities of {self.of} stay as they are, no gain being beyond chance: {figures}"
        )


def evaluate_calibration(of: str, before: FloatArray, after: FloatArray) -> CalibrationTrial:
    """Compare the log losses of groups before and after; keep gains beyond a standard error."""
    gain = before - after
    is_taken = bool(gain.mean() > standard_error(gain) and gain.mean() > 0.0)
    return CalibrationTrial(of, float(before.mean()), float(after.mean()), is_taken)


def calibration_folds(n_groups: int) -> list[tuple[IntArray, IntArray]]:
    """Return (training, test) groups of each fold."""
    fold = np.arange(n_groups) % min(N_FOLDS, max(2, n_groups))
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]


def cross_validate_temperature(
    of: str,
    members: list[Tensor],
    likelihood: Likelihood,
    weights: list[float] | None = None,
    *,
    now: float = 1.0,
    judged_by: str = "",
) -> CalibrationTrial:
    """Cross-validate the temperature over a grid."""
    members = [member.double() for member in members]
    present = math.log(now)
    grid = np.append(np.linspace(math.log(LOWEST), math.log(HIGHEST), GRID_SIZE), present)
    cooled = ([(each / math.exp(value)).log_softmax(-1) for each in members] for value in grid)
    losses = np.stack(
        [-likelihood(average_log_probabilities(each, weights)).numpy() for each in cooled]
    )
    prior = 0.5 * (grid / PRIOR_SPREAD) ** 2
    after = np.zeros(losses.shape[1])
    for others, own in calibration_folds(len(after)):
        best = int(np.nanargmin(losses[:, others].sum(axis=1) + prior))
        after[own] = losses[best, own]
    return evaluate_calibration(of, losses[-1], after)._replace(judged_by=judged_by)


def fit_temperature(
    members: list[Tensor], likelihood: Likelihood, weights: list[float] | None = None
) -> float:
    """Return the maximum a posteriori temperature of held-out groups.

    `members` (n_objects, n_targets): log probabilities of each member of an ensemble. `weights`: of
    the members; equal by default.
    """
    from scipy.optimize import minimize_scalar

    members = [member.double() for member in members]

    def loss(log_temperature: float) -> float:
        cooled = [(each / math.exp(log_temperature)).log_softmax(-1) for each in members]
        groups = likelihood(average_log_probabilities(cooled, weights))
        prior = 0.5 * (log_temperature / PRIOR_SPREAD) ** 2
        return prior / len(groups) - float(groups.mean())

    bounds = (math.log(LOWEST), math.log(HIGHEST))
    # A coarse look first: the likelihood of groups may have more than one peak.
    grid = np.linspace(*bounds, 25)
    best = int(np.nanargmin([loss(value) for value in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-3})
    return float(math.exp(found.x))


def candidate_likelihood(candidates: BoolArray) -> Likelihood:
    """Return the likelihood that the true label is among the candidates (n_rows, n_classes)."""
    allowed = torch.from_numpy(candidates)
    chance = allowed.double().mean(-1)  # of an even guess

    def likelihood(log_proba: Tensor) -> Tensor:
        return mix_with_chance((log_proba.exp() * allowed).sum(-1), chance)

    return likelihood


def mix_with_chance(proba: Tensor, chance: Tensor | float) -> Tensor:
    """Return log probabilities mixed with a small fraction of random guesses."""
    return torch.log((1.0 - WRONG_SHARE) * proba + WRONG_SHARE * chance)

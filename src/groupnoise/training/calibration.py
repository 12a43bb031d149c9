"""Calibrated probabilities: one temperature, fitted on held-out groups without a true label."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.core.arrays import BoolArray
from groupnoise.core.feature_names import column_state, restore_columns
from groupnoise.core.label_sets import check_equal_rows, read_candidates
from groupnoise.core.objective import mean_probability
from groupnoise.io.model_files import pack_labels, unpack_labels

LOWEST, HIGHEST = 0.05, 20.0
"""Temperatures looked at."""
WRONG_SHARE = 0.01
"""Fraction of held-out rows, and of bags with one label, taken to be wrong themselves, so that none
can cost without bound."""

Likelihood = Callable[[Tensor], Tensor]
"""Maps log probabilities (n_objects, n_targets) to the log likelihood of each group."""


class Calibration:
    """Divides logits by `calibration_temperature_`, which is 1 until held-out groups set it."""

    classes_: NDArray[Any]
    n_features_in_: int
    calibration_temperature_: float = 1.0

    def _classifier_state(self) -> dict[str, Any]:
        """Return what a model file says of a classifier: labels, columns and temperature."""
        return {
            "classes": pack_labels(self.classes_),
            "calibration_temperature": self.calibration_temperature_,
            **column_state(self),
        }

    def _restore_classifier(self, fitted: Mapping[str, Any]) -> None:
        """Take over what `_classifier_state` returned."""
        self.classes_ = unpack_labels(fitted["classes"])
        restore_columns(self, fitted)
        # Models saved before calibration existed have no temperature.
        self.calibration_temperature_ = float(fitted.get("calibration_temperature", 1.0))


class CandidateCalibration(Calibration):
    """Calibration of label probabilities with candidate labels."""

    def calibrate(self, X: ArrayLike, candidates: Any) -> Any:
        """Make label probabilities honest with rows that were held out from training.

        One temperature for all logits is chosen so that the candidates become as likely as
        possible; true labels are not needed. Which label is predicted does not change, save for
        ties between members. `save` keeps the temperature, and `fit` forgets it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows that `fit` has not seen.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels, as in `fit`.

        Returns
        -------
        object
            The estimator itself.
        """
        estimator: Any = self
        check_is_fitted(estimator, "model_")
        indicator, _ = read_candidates(candidates, estimator.classes_)
        members = [pair.log_softmax(-1) for pair in estimator._log_pair(X, 1.0)]
        check_equal_rows(members[0], indicator)
        self.calibration_temperature_ = fit_temperature(
            members, candidate_likelihood(indicator), self._member_weights()
        )
        return self

    def _member_weights(self) -> list[float] | None:
        """Return how much each member counts in the average; None is alike."""
        return None


def fit_temperature(
    members: list[Tensor], likelihood: Likelihood, weights: list[float] | None = None
) -> float:
    """Return the temperature under which held-out groups are most likely.

    `members` (n_objects, n_targets): log probabilities of each member of an ensemble at temperature
    one. `likelihood`: the log likelihood of each group from the log probabilities of the ensemble.
    `weights`: how much each member counts, summing to one; alike by default.
    """
    from scipy.optimize import minimize_scalar

    members = [member.double() for member in members]

    def loss(log_temperature: float) -> float:
        cooled = [(each / math.exp(log_temperature)).log_softmax(-1) for each in members]
        return -float(likelihood(mean_probability(cooled, weights)).mean())

    bounds = (math.log(LOWEST), math.log(HIGHEST))
    # A coarse look first: the likelihood of groups may have more than one peak.
    grid = np.linspace(*bounds, 25)
    best = int(np.nanargmin([loss(value) for value in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-3})
    return float(math.exp(found.x))


def candidate_likelihood(candidates: BoolArray) -> Likelihood:
    """Return the likelihood of candidate sets: the right label is one of the candidates.

    `candidates`: of shape (n_rows, n_classes).
    """
    allowed = torch.from_numpy(candidates)
    chance = allowed.double().mean(-1)  # of an even guess

    def likelihood(log_proba: Tensor) -> Tensor:
        return _with_guesses((log_proba.exp() * allowed).sum(-1), chance)

    return likelihood


def _with_guesses(proba: Tensor, chance: Tensor | float) -> Tensor:
    """Return log probabilities if a small fraction of all answers were guesses, right by chance."""
    return torch.log((1.0 - WRONG_SHARE) * proba + WRONG_SHARE * chance)

"""Selective prediction: posteriors of candidates, conformal prediction sets, and abstention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_fraction
from groupnoise.exceptions import DataError, ParameterError

MIN_PER_CLASS = 20.0
"""Effective rows of a class; a rarer class is supplemented by all others."""
MAX_PREDICTABLE = 2.0
"""Predictable candidates per row from which most of them are false."""
PRIOR_ROWS = 5.0
"""Weight of the pooled candidate rate in that of a single label, in rows."""
MAX_FLATTENING = 0.999
"""Below 1, so that the most likely label stays the most likely."""
DOUBT_BEGINS, DOUBT_ENDS = 1.5, 3.5
"""Predictable candidates per row from which the model's preference among candidates is discounted,
and from which it is ignored; chosen on Lost and MSRCv2."""


class RiskCoverage(NamedTuple):
    """Risk-coverage curve.

    `coverage`: fraction of rows predicted, from the most confident row to all.
    `risk`: error rate among them.
    `area`: mean risk over all coverages; 0 is best, and random ranking gives the error rate.
    """

    coverage: FloatArray
    risk: FloatArray
    area: float

    def points(self, n: int = 50) -> dict[str, list[float]]:
        """Return at most n points of the curve, for files and pictures."""
        count = len(self.coverage)
        last = np.unique(np.ceil(np.arange(1, n + 1) * count / n).astype(np.int64)) - 1
        parts = {"coverage": self.coverage[last], "risk": self.risk[last]}
        return {name: np.round(values, 6).tolist() for name, values in parts.items()}


def risk_coverage(confidence: ArrayLike, right: ArrayLike) -> RiskCoverage:
    """Return the error rate among the most confident rows, at every coverage.

    `confidence`: of each prediction; ties share their errors evenly. `right`: whether it is
    correct.

    >>> risk_coverage([0.9, 0.8, 0.7, 0.6], [True, True, False, True]).area
    0.14583333333333331
    """
    sure = np.asarray(confidence, dtype=np.float64)
    wrong = 1.0 - np.asarray(right, dtype=np.float64)
    if sure.ndim != 1 or sure.shape != wrong.shape or not len(sure):
        raise DataError("confidence and right must hold one value per row, and one row or more.")
    _, tie = np.unique(-sure, return_inverse=True)
    wrong = (np.bincount(tie, wrong) / np.bincount(tie))[np.sort(tie)]
    counts = np.arange(1, len(sure) + 1)
    risk = np.cumsum(wrong) / counts
    return RiskCoverage(counts / len(sure), risk, float(risk.mean()))


@dataclass(frozen=True)
class SetCalibration:
    """Held-out rows that calibrate prediction sets and abstention.

    `probabilities` (n_rows, n_classes): out-of-sample predictions.
    `belief` (n_rows, n_classes): posterior of the true label given the candidates; one-hot where
        the truth is known.
    `answers` (n_rows, 2): if rows may be background (no class), confidence of each prediction and
        probability that it is correct; the arrays above are then of rows that have a class.
    """

    probabilities: FloatArray
    belief: FloatArray
    answers: FloatArray | None = None

    def __post_init__(self) -> None:
        # Rounded as a model folder keeps them, so that a saved model draws the same sets.
        for name in ("probabilities", "belief", "answers"):
            if getattr(self, name) is not None:
                rounded = np.asarray(getattr(self, name)).astype(np.float32).astype(np.float64)
                object.__setattr__(self, name, rounded)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return what a model folder keeps."""
        parts = {"probabilities": self.probabilities, "belief": self.belief}
        if self.answers is not None:
            parts["answers"] = self.answers
        return {f"{prefix}.{name}": values.astype(np.float32) for name, values in parts.items()}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> SetCalibration | None:
        """Return what :meth:`arrays` described, or None where there is nothing."""
        probabilities, belief, answers = (
            arrays.get(f"{prefix}.{name}") for name in ("probabilities", "belief", "answers")
        )
        if probabilities is None or belief is None:
            return None
        return cls(probabilities, belief, answers)

    def thresholds(
        self, alpha: float, *, by_class: bool = False, guaranteed: bool = False
    ) -> FloatArray:
        """Return the probability from which a label belongs to a set, one per class.

        `by_class`: whether every class is held to `alpha` by itself. A class with little evidence
        borrows from all classes alike. `guaranteed`: whether to take the least likely candidate of
        each row for the true one, which is at least as likely, whatever the candidates depend on.
        """
        check_fraction("alpha", alpha)
        n_classes = self.probabilities.shape[1]
        if guaranteed:
            if by_class:
                raise ParameterError(
                    "what is guaranteed holds for all rows together: without true labels no row "
                    "is known to be of a class; leave out by_class or guaranteed."
                )
            least = np.where(self.belief > 0, self.probabilities, np.inf).min(axis=1)
            return np.full(n_classes, _quantile(least, np.ones(len(least)), alpha))
        every = _quantile(self.probabilities.ravel(), self.belief.ravel(), alpha)
        found = np.full(n_classes, every)
        if by_class:
            everybody = self.probabilities.ravel(), self.belief.ravel() / self.belief.sum()
            for label in range(n_classes):
                values, weights = self.probabilities[:, label], self.belief[:, label]
                # Twice as many rows as one miss among them takes, or a set would hold all labels.
                missing = max(MIN_PER_CLASS, 2.0 / alpha) - weights.sum()
                if missing > 0:
                    values = np.concatenate([values, everybody[0]])
                    weights = np.concatenate([weights, missing * everybody[1]])
                found[label] = _quantile(values, weights, alpha)
        return found

    def sets(
        self,
        probabilities: FloatArray,
        alpha: float,
        *,
        by_class: bool = False,
        guaranteed: bool = False,
    ) -> BoolArray:
        """Return the labels of each row that reach the threshold; the likeliest always does."""
        least = self.thresholds(alpha, by_class=by_class, guaranteed=guaranteed)
        inside: BoolArray = probabilities >= least
        inside[np.arange(len(inside)), probabilities.argmax(axis=1)] = True
        return inside

    def abstains(
        self, probabilities: FloatArray, risk: float, background: FloatArray | None = None
    ) -> BoolArray:
        """Return the rows to abstain on; all if no threshold keeps the risk.

        `risk`: accepted error rate among the other rows. `background`: probability that a row is of
        no class, so that any prediction is wrong.
        """
        check_fraction("risk", risk)
        surest = probabilities.max(axis=1)
        if self.answers is not None and background is not None:
            (sure, right), surest = self.answers.T, surest * (1.0 - background)
        else:
            best = self.probabilities.argmax(axis=1)
            rows = np.arange(len(best))
            sure, right = self.probabilities[rows, best], self.belief[rows, best]
        order = np.argsort(-sure, kind="stable")
        wrong = 1.0 - right[order]
        # Finite-sample correction: the new row counts as one more error.
        expected = (np.cumsum(wrong) + 1.0) / np.arange(2, len(wrong) + 2)
        bearable = np.flatnonzero(expected <= risk)
        if not len(bearable):
            return np.ones(len(probabilities), dtype=bool)
        return np.asarray(surest < sure[order][bearable[-1]])


def _quantile(values: FloatArray, weights: FloatArray, alpha: float) -> float:
    """Return the weighted (1 - alpha) upper quantile, with the finite-sample correction."""
    total = float(weights.sum())
    needed = math.ceil((1.0 - alpha) * (total + 1.0) - 1e-9)
    if needed > total:
        return 0.0
    order = np.argsort(-values, kind="stable")
    reached = np.cumsum(weights[order])
    position = int(np.searchsorted(reached, needed - 1e-9))
    return float(values[order][min(position, len(values) - 1)])


def check_calibrated(calibration: SetCalibration | None) -> SetCalibration:
    """Return the calibration, or raise if there is none."""
    if calibration is None:
        raise ParameterError(
            "nothing was held out in fit, so nothing says how sure is sure enough; call "
            "calibrate_sets with rows or bags that fit has not seen."
        )
    return calibration


def belief_in_candidates(
    probabilities: FloatArray, candidates: BoolArray, truth: NDArray[np.int64] | None = None
) -> FloatArray:
    """Return P(candidate is true | row, candidates); rows sum to one, or to zero without any.

    Assumes that false candidates do not depend on the true label: probabilities are renormalized
    over the candidates. `truth`: column of the true label, which then has probability one, or -1.
    """
    inside = np.where(candidates, np.maximum(probabilities, 1e-12), 0.0)
    belief: FloatArray = inside / np.maximum(inside.sum(axis=1, keepdims=True), 1e-12)
    if truth is not None:
        known = truth >= 0
        belief[known] = truth[known, None] == np.arange(belief.shape[1])
    return belief


def hidden_errors(probabilities: FloatArray, belief: FloatArray, candidates: BoolArray) -> float:
    """Estimate how many wrong predictions are candidates of their row, and so cannot be counted.

    A prediction outside the candidates is wrong. A wrong prediction is assumed to be a candidate
    with the same probability q as a wrong runner-up of a covered prediction, weighted by
    uncertainty: hidden errors are to visible ones as q to 1 - q.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    rows = np.arange(len(order))
    covered, next_covered = candidates[rows, order[:, 0]], candidates[rows, order[:, 1]]
    doubt = (1.0 - probabilities[rows, order[:, 0]]) * covered
    wrong = doubt * (1.0 - belief[rows, order[:, 1]])  # weight of a runner-up that is not true
    chance = float((wrong * next_covered).sum() / max(wrong.sum(), 1e-12))
    hideable = float((covered & (candidates.sum(axis=1) > 1)).sum())
    seen = float((~covered).sum())
    return min(hideable, seen * chance / max(1.0 - chance, 1e-12))


def belief_with_errors(
    belief: FloatArray, probabilities: FloatArray, candidates: BoolArray, errors: float
) -> FloatArray:
    """Mix a belief with the uniform one over candidates until it expects that many errors.

    Errors are counted among predictions (the argmax of `probabilities`) that are candidates.
    """
    even = candidates / candidates.sum(axis=1, keepdims=True)
    rows, best = np.arange(len(belief)), probabilities.argmax(axis=1)
    covered = candidates[rows, best]
    believed, most = (float((1.0 - each[rows, best])[covered].sum()) for each in (belief, even))
    if errors <= believed or most <= believed:
        return belief
    share = min(MAX_FLATTENING, (errors - believed) / (most - believed))
    return (1.0 - share) * belief + share * even


def n_predictable_candidates(
    probabilities: FloatArray, candidates: BoolArray, *, by_label: bool = False
) -> float:
    """Estimate how many candidates of a row can be predicted from the features, on average.

    If false candidates are independent of the features, the labels ranked last by the model are
    candidates at the rate of any false label, and the excess among the others is the true label:
    one per row. More than one means that the model has learned which labels become candidates
    together, so that it can be confident in a false one.

    `by_label`: estimate the rate of false candidates for each label. With a single rate a frequent
    candidate passes for predictable, as it is ranked last less often.
    """
    n_classes = probabilities.shape[1]
    order = np.argsort(-probabilities, axis=1, kind="stable")
    is_last = np.zeros(candidates.shape, dtype=bool)
    np.put_along_axis(is_last, order[:, n_classes // 2 :], True, axis=1)
    among_last = candidates & is_last
    every = float(among_last.sum() / is_last.sum())
    if every >= 1.0:
        return 1.0
    n_named = float(candidates.sum(axis=1).mean())
    if not by_label:
        return float((n_named - n_classes * every) / (1.0 - every))
    n_last = is_last.sum(axis=0)
    chances = (among_last.sum(axis=0) + PRIOR_ROWS * every) / (n_last + PRIOR_ROWS)
    # What is foretold is no candidate by chance: so many chances less, as labels are frequent.
    frequency = belief_in_candidates(probabilities, candidates).mean(axis=0)
    return float((n_named - chances.sum()) / (1.0 - frequency @ chances))


def belief_if_predictable(
    belief: FloatArray, candidates: BoolArray, n_predictable: float
) -> FloatArray:
    """Flatten a belief over the candidates if too many of them are predictable.

    Unchanged up to `DOUBT_BEGINS` predictable candidates per row, uniform from `DOUBT_ENDS`, and
    linear in between. `n_predictable`: see :func:`n_predictable_candidates`.
    """
    share = min(1.0, max(0.0, (n_predictable - DOUBT_BEGINS) / (DOUBT_ENDS - DOUBT_BEGINS)))
    if share == 0.0:
        return belief
    mixed: FloatArray = (1.0 - share) * belief
    mixed += share * candidates / candidates.sum(axis=1, keepdims=True)
    return mixed

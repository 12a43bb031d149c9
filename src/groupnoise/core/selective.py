"""Knowing when not to answer: beliefs in candidates, prediction sets and abstention."""

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
"""A class with less evidence borrows what is missing from all classes."""
MAX_PREDICTABLE = 2.0
"""Candidates of a row that features foretell, from which on more of them are wrong than true."""
PRIOR_ROWS = 5.0
"""Rows that the chance of all labels is worth in that of one."""
MAX_FLATTENING = 0.999
"""How even a belief may become: which label is the likeliest must stay."""
DOUBT_BEGINS, DOUBT_ENDS = 1.5, 3.5
"""Where the model's preference among candidates begins to be doubted, and where it counts nothing;
chosen on Lost and MSRCv2."""


class RiskCoverage(NamedTuple):
    """What answering only the surest rows costs.

    `coverage`: share of rows answered, from the surest row alone to all.
    `risk`: share of wrong answers among them.
    `area`: mean risk over all coverages; 0 is best, and the error rate is what guessing whom to
        answer gives.
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
    """Return the share of wrong answers among the surest rows, for every number of them.

    The curve and the area below it. `confidence`: how sure each answer is. Rows that are equally
    sure share their errors evenly. `right`: whether each answer is right.

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
    """Held-out rows by which sets and abstention are calibrated.

    `probabilities` (n_rows, n_classes): what the model said of rows it had not seen.
    `belief` (n_rows, n_classes): how likely each label is the true one, given what is known of the
        row beside the model: one at the true label where it is known. Rows sum to one.
    `answers` (n_rows, 2): where rows may be background, of no class at all, how sure the answer on
        each row is and how likely right: the arrays above are of rows that have a class.
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
        """Return the rows to leave unanswered; all if no confidence is worth the risk.

        `risk`: the share of wrong answers that is accepted among those given. `background`: how
        likely new rows are of no class, so that an answer is wrong.
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
        # One more row, answered wrong: the new row is not among those that were counted.
        expected = (np.cumsum(wrong) + 1.0) / np.arange(2, len(wrong) + 2)
        bearable = np.flatnonzero(expected <= risk)
        if not len(bearable):
            return np.ones(len(probabilities), dtype=bool)
        return np.asarray(surest < sure[order][bearable[-1]])


def _quantile(values: FloatArray, weights: FloatArray, alpha: float) -> float:
    """Return the largest value that all but a share `alpha` of the weight reaches."""
    total = float(weights.sum())
    # One more row, which may lie anywhere, stands for the one to come.
    needed = math.ceil((1.0 - alpha) * (total + 1.0) - 1e-9)
    if needed > total:
        return 0.0
    order = np.argsort(-values, kind="stable")
    reached = np.cumsum(weights[order])
    position = int(np.searchsorted(reached, needed - 1e-9))
    return float(values[order][min(position, len(values) - 1)])


def check_calibrated(calibration: SetCalibration | None) -> SetCalibration:
    """Return the calibration, or say how to come by one."""
    if calibration is None:
        raise ParameterError(
            "nothing was held out in fit, so nothing says how sure is sure enough; call "
            "calibrate_sets with rows or bags that fit has not seen."
        )
    return calibration


def belief_in_candidates(
    probabilities: FloatArray, candidates: BoolArray, truth: NDArray[np.int64] | None = None
) -> FloatArray:
    """Return how likely each candidate is the true label; rows sum to one, or to zero without any.

    If wrong candidates do not depend on which label is true, the probabilities of the candidates
    relative to each other stay as the model gives them; where the truth is known it stands.
    `truth`: the column of the true label, -1 where it is not known.
    """
    inside = np.where(candidates, np.maximum(probabilities, 1e-12), 0.0)
    belief: FloatArray = inside / np.maximum(inside.sum(axis=1, keepdims=True), 1e-12)
    if truth is not None:
        known = truth >= 0
        belief[known] = truth[known, None] == np.arange(belief.shape[1])
    return belief


def hidden_errors(probabilities: FloatArray, belief: FloatArray, candidates: BoolArray) -> float:
    """Return how many rows are answered wrong by a label that is a candidate all the same.

    An answer outside the candidates is wrong, and can be counted. A wrong answer is taken to be a
    candidate as often as the runner-up is where the answer is one and the runner-up is wrong,
    doubtful rows counting more: with this chance q, errors that cannot be seen are to those that
    can as q to 1 - q. Where the truth is known it is the only candidate.
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
    """Return a belief that expects at least so many wrong answers among the candidates.

    It is mixed with equal chances of all candidates as far as that takes; `probabilities` decide
    the answers.
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
    """Return how many candidates of a row the features foretell, on average.

    Where wrong candidates have nothing to do with the features, the labels that the model ranks
    last are candidates as often as any wrong label is, and what stands above that in the ranks
    before is the true label: one in each row. More than one says that the model has learned which
    labels become candidates together, so that it can be sure of a wrong one.

    `by_label`: whether each label is a candidate by a chance of its own. All alike, a label that
    often is one passes for foretold, because it is ranked last less often than others.
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


def belief_if_predictable(belief: FloatArray, candidates: BoolArray, foretold: float) -> FloatArray:
    """Return a belief that prefers no candidate where features foretell too many of them.

    As it is up to `DOUBT_BEGINS`, equal chances of all candidates from `DOUBT_ENDS` on, and a
    mixture in between.
    """
    share = min(1.0, max(0.0, (foretold - DOUBT_BEGINS) / (DOUBT_ENDS - DOUBT_BEGINS)))
    if share == 0.0:
        return belief
    mixed: FloatArray = (1.0 - share) * belief
    mixed += share * candidates / candidates.sum(axis=1, keepdims=True)
    return mixed

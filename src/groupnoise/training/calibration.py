"""Calibrated probabilities and conformal prediction sets from held-out candidate labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import check_is_fitted

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.core.label_sets import check_equal_rows, read_candidate_sets
from groupnoise.core.scaling import Scaler, column_state, restore_columns
from groupnoise.core.selective import (
    MAX_PREDICTABLE,
    SetCalibration,
    belief_if_predictable,
    belief_in_candidates,
    belief_with_errors,
    check_calibrated,
    hidden_errors,
    n_predictable_candidates,
)
from groupnoise.core.words import counted
from groupnoise.exceptions import CalibrationWarning, DataError
from groupnoise.io.folders.model_files import pack_labels, unpack_labels
from groupnoise.training.temperature import (
    CalibrationTrial,
    candidate_likelihood,
    cross_validate_temperature,
    fit_temperature,
)

MIN_GROUPS = 30
"""With fewer groups a temperature is unreliable, which is warned about."""

MIN_KNOWN = 50
"""Known true labels from which rows without one are not used."""
ROW_PREFIX = "sets"
"""Of the arrays of held-out rows in a model folder."""
STRATEGIES = ("change", "margin", "random")
MAX_POOL = 2_000
"""Most uncertain rows that "change" chooses among."""
KERNEL_WIDTH = 0.5
"""Of the Gaussian similarity of rows, in units of the mean distance."""


class Calibration:
    """Temperature scaling of logits by `calibration_temperature_`, initially 1.

    `calibration_trials_`: cross-validated gain of the last calibration, and whether it was kept.
    """

    classes_: NDArray[Any]
    n_features_in_: int
    calibration_temperature_: float = 1.0
    calibration_groups_: int = 0
    calibration_trials_: tuple[CalibrationTrial, ...] = ()

    def _store_calibration(
        self, n_groups: int, units: str, trials: Sequence[CalibrationTrial], temperature: float
    ) -> None:
        """Store a temperature, its number of groups and its cross-validated gain."""
        self.calibration_trials_ = tuple(trials)
        self.calibration_temperature_ = temperature
        if temperature != 1.0 or any(trial.is_taken for trial in trials):
            self.calibration_groups_ = n_groups
        if n_groups < MIN_GROUPS:
            warnings.warn(
                f"{counted(n_groups, units)} to calibrate by: too few, so probabilities were kept "
                f"near what they were; give {MIN_GROUPS} or more.",
                CalibrationWarning,
                stacklevel=3,
            )

    def _copy_calibration(self, other: Any) -> None:
        self.calibration_temperature_ = other.calibration_temperature_
        self.calibration_groups_ = other.calibration_groups_

    def _classifier_state(self) -> dict[str, Any]:
        return {
            "classes": pack_labels(self.classes_),
            "calibration_temperature": self.calibration_temperature_,
            "calibration_groups": self.calibration_groups_,
            **column_state(self),
        }

    def _restore_classifier(self, fitted: Mapping[str, Any]) -> None:
        self.classes_ = unpack_labels(fitted["classes"])
        restore_columns(self, fitted)
        self.calibration_temperature_ = float(fitted["calibration_temperature"])
        self.calibration_groups_ = int(fitted["calibration_groups"])


def has_enough_known_labels(known: IntArray) -> bool:
    """Return whether enough instance labels are known to calibrate with; warn if not."""
    n_known = int((known >= 0).sum())
    if n_known < MIN_KNOWN:
        warnings.warn(
            f"{counted(n_known, 'known labels')} of instances to calibrate by: too few, so they "
            f"were not used; give {MIN_KNOWN} or more.",
            CalibrationWarning,
            stacklevel=3,
        )
    return n_known >= MIN_KNOWN


class CandidateCalibration(Calibration):
    """Calibration of label probabilities with candidate labels."""

    def calibrate(
        self, X: ArrayLike, candidates: Any, *, truth: Any = None, only_if_better: bool = True
    ) -> Any:
        """Make label probabilities honest with rows that were held out from training.

        One temperature for all logits is chosen so that the candidates become as likely as
        possible; true labels are not needed. Which label is predicted does not change, save for
        ties between members. `save` keeps the temperature, and `fit` forgets it.
        `calibration_trials_` says what it is worth on rows that it was not fitted on.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows that `fit` has not seen.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels, as in `fit`.
        truth : array-like of shape (n_rows,), optional
            True labels; None where one is not known. From fifty on only rows that have one count.
        only_if_better : bool, default=True
            Whether probabilities stay as they are unless rows of other folds become likelier.

        Returns
        -------
        object
            The estimator itself.
        """
        estimator: Any = self
        check_is_fitted(estimator, "model_")
        indicator, _ = read_candidate_sets(candidates, estimator.classes_)
        members = [pair.log_softmax(-1) for pair in estimator._log_pair(X, 1.0)]
        check_equal_rows(members[0], indicator)
        judged_by = "their candidates"
        if truth is not None:
            columns = known_label_columns(truth, estimator.classes_, len(indicator))
            is_known = columns >= 0
            indicator = np.where(
                is_known[:, None], columns[:, None] == np.arange(indicator.shape[1]), indicator
            )
            if is_known.sum() >= MIN_KNOWN:
                indicator, members = indicator[is_known], [each[is_known] for each in members]
                judged_by = ""
        likelihood, weights = candidate_likelihood(indicator), self._member_weights()
        found = self.calibration_temperature_
        trial = cross_validate_temperature(
            "rows", members, likelihood, weights, now=found, judged_by=judged_by
        )
        if trial.is_taken or not only_if_better:
            found = fit_temperature(members, likelihood, weights)
        self._store_calibration(len(indicator), "rows", [trial], found)
        return self

    def _member_weights(self) -> list[float] | None:
        """Return how much each member counts in the average; None is alike."""
        return None


class CalibratedSets:
    """Sets of labels and rows better left unanswered.

    Attributes
    ----------
    set_calibration_ : SetCalibration or None
        Held-out rows, from a search in `fit` or from `calibrate_sets`.
    """

    classes_: NDArray[Any]
    set_calibration_: SetCalibration | None = None

    def predict_set(
        self, X: ArrayLike, alpha: float = 0.1, *, by_class: bool = False, guaranteed: bool = False
    ) -> BoolArray:
        """Return for each row the labels that hold the truth with probability 1 - alpha.

        Split conformal prediction on rows that were held out in `fit` (in its search), or given
        to :meth:`calibrate_sets`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        alpha : float, default=0.1
            The share of sets that may miss the truth.
        by_class : bool, default=False
            Whether that holds for the rows of every class, not for all rows together; sets grow.
        guaranteed : bool, default=False
            Whether nothing is assumed but that one of the candidates of a held-out row is the true
            label and that new rows are drawn like these; sets grow much.

        Returns
        -------
        bool ndarray of shape (n_rows, n_classes)
            True where a label of `classes_` belongs to the set; one label or more in each row.
        """
        estimator: Any = self
        calibration = check_calibrated(self.set_calibration_)
        return calibration.sets(
            np.exp(estimator.predict_log_proba(X)), alpha, by_class=by_class, guaranteed=guaranteed
        )

    def abstain(self, X: ArrayLike, risk: float = 0.05) -> BoolArray:
        """Return the rows to leave unanswered, so that few of the answers given are wrong.

        Any class is wrong of an instance that is background, so these are left unanswered.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        risk : float, default=0.05
            The share of wrong answers that is accepted among those given.

        Returns
        -------
        bool ndarray of shape (n_rows,)
            True where to abstain.
        """
        estimator: Any = self
        calibration = check_calibrated(self.set_calibration_)
        proba = np.exp(estimator.predict_log_proba(X)).astype(np.float64)
        return calibration.abstains(proba, risk, self._background_of(X))

    def _background_of(self, X: ArrayLike) -> FloatArray | None:
        """Return how likely rows are of no class; None where every row has one."""
        return None

    def _set_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a model folder keeps of the held-out rows: no features."""
        found = self.set_calibration_
        return {} if found is None else found.arrays(ROW_PREFIX)

    def _restore_sets(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.set_calibration_ = SetCalibration.from_arrays(ROW_PREFIX, arrays)


def fit_set_calibration(
    probabilities: FloatArray,
    candidates: BoolArray,
    truth: IntArray | None = None,
    background: FloatArray | None = None,
) -> SetCalibration:
    """Fit the calibration of prediction sets on held-out rows with candidate labels.

    The belief in each candidate is its probability at the temperature under which the candidate
    sets are most likely, corrected for errors that are hidden because the wrong prediction is a
    candidate (`hidden_errors`), and flattened if the features predict several candidates of a row
    (`belief_if_predictable`). With enough true labels only rows that have one are used, and no
    assumption about the candidates is needed.

    `probabilities`: out-of-sample predictions. `truth`: the column of the true label, -1 if
    unknown. `background`: probability that a row belongs to no class.
    """
    known = np.zeros(len(probabilities), dtype=bool) if truth is None else truth >= 0
    if known.sum() >= MIN_KNOWN and truth is not None:
        own = truth[known, None] == np.arange(probabilities.shape[1])
        return SetCalibration(probabilities[known], own.astype(np.float64))
    log_proba = np.log(np.maximum(probabilities, 1e-12))
    temperature = fit_temperature([torch.from_numpy(log_proba)], candidate_likelihood(candidates))
    cooled = softmax(log_proba / temperature, axis=1)
    possible = candidates.copy()
    if truth is not None:
        possible[known] = truth[known, None] == np.arange(probabilities.shape[1])
    belief = belief_in_candidates(cooled, possible)
    if probabilities.shape[1] > 1:
        errors = hidden_errors(cooled, belief, possible)
        belief = belief_with_errors(belief, probabilities, possible, errors)
        n_predictable = n_predictable_candidates(probabilities, possible)
        belief = belief_if_predictable(belief, possible, n_predictable)
    if background is None or not background.any():
        return SetCalibration(probabilities, belief)
    return SetCalibration(
        probabilities, belief, _answers_with_background(background, probabilities, belief, possible)
    )


def _answers_with_background(
    background: FloatArray, probabilities: FloatArray, belief: FloatArray, possible: BoolArray
) -> FloatArray:
    """Return confidence and probability of being right of each row, given P(background).

    Rows that are probably background would pass for errors of the model, so beliefs are estimated
    without them.
    """
    inside = background < 0.5
    if inside.any() and not inside.all():
        belief = belief.copy()
        belief[inside] = fit_set_calibration(probabilities[inside], possible[inside]).belief
    best = probabilities.argmax(axis=1)
    rows, left = np.arange(len(best)), 1.0 - background
    covered = left * (probabilities * possible).sum(axis=1)
    has_class = covered / np.maximum(covered + background, 1e-12)
    return np.stack([left * probabilities[rows, best], has_class * belief[rows, best]], axis=1)


def unreliable_sets_warning(probabilities: FloatArray, candidates: BoolArray) -> str | None:
    """Return a warning if candidates cannot calibrate the coverage of prediction sets, else None.

    `probabilities`: out-of-sample predictions.
    """
    if probabilities.shape[1] < 2:
        return None
    n_predictable = n_predictable_candidates(probabilities, candidates)
    if n_predictable < MAX_PREDICTABLE:
        return None
    return (
        f"the features predict {n_predictable:.1f} candidate labels of a row, not only the true "
        "one, so how often predict_set holds the truth cannot be told from candidates; sets are "
        f"drawn wide. Give calibrate_sets the true labels of {MIN_KNOWN} rows or more, or call "
        "predict_set with guaranteed=True."
    )


def known_label_columns(truth: Any, classes: NDArray[Any], n_rows: int) -> IntArray:
    """Return the column of each true label, -1 where it is None or not a class."""
    labels = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)
    if len(labels) != n_rows:
        raise DataError(f"truth holds {len(labels)} labels for {n_rows} rows; give one per row.")
    column = {label: number for number, label in enumerate(classes.tolist())}
    return np.array([column.get(label, -1) for label in labels], dtype=np.int64)


def select_queries(
    belief: FloatArray, rows: NDArray[np.float64], n: int = 10, *, strategy: str = "change"
) -> IntArray:
    """Return the rows to label next (active learning), most useful first.

    `belief` (n_rows, n_classes): probability that each label is the true one; rows with a certain
    label are skipped. `rows` (n_rows, n_features): features, for the similarity of rows.
    `strategy`: "change" maximises the expected change of the belief, sum p (1 - p), of the row and
    of similar rows with the same labels in question, greedily; "margin" takes the smallest
    difference between the two most likely labels; "random" draws with a fixed seed.
    """
    check_count("n", n)
    check_choice("strategy", strategy, STRATEGIES)
    doubt = (belief * (1.0 - belief)).sum(axis=1)
    open_rows = np.flatnonzero(doubt > 1e-6)
    if not len(open_rows):
        return np.empty(0, dtype=np.int64)
    if strategy == "random":
        drawn = np.random.default_rng(0).permutation(open_rows)[:n]
        return np.asarray(drawn, dtype=np.int64)
    if strategy == "margin":
        top = np.sort(belief[open_rows], axis=1)[:, -2:]
        order = np.argsort(top[:, 1] - top[:, 0], kind="stable")
        return np.asarray(open_rows[order][:n], dtype=np.int64)
    pool = open_rows[np.argsort(-doubt[open_rows], kind="stable")[:MAX_POOL]]
    scaled = Scaler("standard").fit(rows)(rows[pool]).astype(np.float64)
    distances = euclidean_distances(scaled)
    width = max(KERNEL_WIDTH * float(distances.mean()), 1e-12)
    in_question = belief[pool] * (1.0 - belief[pool])
    lengths = np.linalg.norm(in_question, axis=1, keepdims=True)
    in_question = in_question / np.maximum(lengths, 1e-12)
    alike = np.exp(-((distances / width) ** 2) / 2) * (in_question @ in_question.T)
    np.fill_diagonal(alike, 1.0)
    left = doubt[pool].copy()
    chosen: list[int] = []
    for _ in range(min(n, len(pool))):
        gain = alike @ left * doubt[pool]
        gain[chosen] = -1.0
        best = int(gain.argmax())
        chosen.append(best)
        left *= 1.0 - alike[best]
    return np.asarray(pool[chosen], dtype=np.int64)

"""SelectiveAnswers: sets of labels, rows better left unanswered, and rows worth a question."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from groupnoise.candidates.questions import choose_questions
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.label_sets import check_equal_rows, read_candidates
from groupnoise.core.selective import SetCalibration, belief_in_candidates, check_calibrated
from groupnoise.exceptions import DataError
from groupnoise.training.calibration import candidate_likelihood, fit_temperature

if TYPE_CHECKING:
    from typing_extensions import Self

PROBABILITIES, BELIEF = "sets.probabilities", "sets.belief"
"""Names of the held-out rows in a model folder."""


class SelectiveAnswers:
    """Answers that say how far they are to be trusted.

    Attributes
    ----------
    set_calibration_ : SetCalibration or None
        Held-out rows, from the search of `fit` or from :meth:`calibrate_sets`.
    """

    classes_: NDArray[Any]
    set_calibration_: SetCalibration | None = None

    @abstractmethod
    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return log P(label | row)."""

    def calibrate_sets(self, X: ArrayLike, candidates: Any, *, truth: Any = None) -> Self:
        """Calibrate :meth:`predict_set` and :meth:`abstain` with rows held out from training.

        Without true labels the assumption is that wrong candidates do not depend on which of the
        candidates is true, given the features; with them only that rows are drawn alike.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows that `fit` has not seen.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels, as in `fit`.
        truth : array-like of shape (n_rows,), default=None
            True labels; None in a row says that its label is not known.

        Returns
        -------
        object
            The estimator itself.
        """
        log_proba = self.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        columns = None if truth is None else columns_of(truth, self.classes_, len(log_proba))
        self.set_calibration_ = calibrated_by(np.exp(log_proba), indicator, columns)
        return self

    def predict_set(self, X: ArrayLike, alpha: float = 0.1, *, by_class: bool = False) -> BoolArray:
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

        Returns
        -------
        bool ndarray of shape (n_rows, n_classes)
            True where a label of `classes_` belongs to the set; one label or more in each row.
        """
        calibration = check_calibrated(self.set_calibration_)
        return calibration.sets(np.exp(self.predict_log_proba(X)), alpha, by_class=by_class)

    def abstain(self, X: ArrayLike, risk: float = 0.05) -> BoolArray:
        """Return the rows to leave unanswered, so that few of the answers given are wrong.

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
        calibration = check_calibrated(self.set_calibration_)
        return calibration.abstains(np.exp(self.predict_log_proba(X)), risk)

    def query(
        self, X: ArrayLike, candidates: Any, n: int = 10, *, strategy: str = "change"
    ) -> IntArray:
        """Return the rows whose true label would help most, the first first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with candidates, those of `fit` as a rule.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels; a row with one candidate is never asked about.
        n : int, default=10
            How many rows.
        strategy : {"change", "margin", "random"}, default="change"
            By how much an answer is expected to change what is believed of the row and of rows
            like it, which is counted once however many of them are asked about; by the margin
            between the two likeliest candidates; or at random, to compare with.

        Returns
        -------
        int64 ndarray of shape (at most n,)
            Positions of rows.
        """
        log_proba = self.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        belief = belief_in_candidates(np.exp(log_proba), indicator)
        return choose_questions(belief, check_features("X", X), n, strategy=strategy)

    def _set_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a model folder keeps of the held-out rows: no features."""
        if self.set_calibration_ is None:
            return {}
        found = self.set_calibration_
        return {
            PROBABILITIES: found.probabilities.astype(np.float32),
            BELIEF: found.belief.astype(np.float32),
        }

    def _restore_sets(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over what :meth:`_set_arrays` returned."""
        self.set_calibration_ = None
        if PROBABILITIES in arrays and BELIEF in arrays:
            self.set_calibration_ = SetCalibration(
                arrays[PROBABILITIES].astype(np.float64), arrays[BELIEF].astype(np.float64)
            )


def calibrated_by(
    probabilities: FloatArray, candidates: BoolArray, truth: IntArray | None = None
) -> SetCalibration:
    """Return held-out rows with what is believed of their candidates.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        What a model said that had not seen them.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Their candidate labels.
    truth : int64 ndarray of shape (n_rows,), optional
        The column of the true label, -1 where it is not known.

    Returns
    -------
    SetCalibration
        The belief is at the temperature under which the candidates are likeliest, so that a
        model that sounds too sure is not believed.
    """
    # Rounded as a model folder keeps them, so that a saved model draws the same sets.
    probabilities = probabilities.astype(np.float32).astype(np.float64)
    log_proba = np.log(np.maximum(probabilities, 1e-12))
    temperature = fit_temperature([torch.from_numpy(log_proba)], candidate_likelihood(candidates))
    cooled = softmax(log_proba / temperature, axis=1)
    belief = belief_in_candidates(cooled, candidates, truth)
    return SetCalibration(probabilities, belief.astype(np.float32).astype(np.float64))


def columns_of(truth: Any, classes: NDArray[Any], n_rows: int) -> IntArray:
    """Return the column of each true label, -1 where it is None or not a class."""
    labels = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)
    if len(labels) != n_rows:
        raise DataError(f"truth holds {len(labels)} labels for {n_rows} rows; give one per row.")
    column = {label: number for number, label in enumerate(classes.tolist())}
    return np.array([column.get(label, -1) for label in labels], dtype=np.int64)

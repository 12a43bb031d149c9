"""SelectiveAnswers: sets of labels, rows better left unanswered, and rows worth a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.label_sets import check_equal_rows, read_candidates
from groupnoise.core.selective import belief_in_candidates
from groupnoise.training.questions import choose_questions
from groupnoise.training.selective import CalibratedSets, calibrated_by, columns_of
from groupnoise.training.truth import truth_columns

if TYPE_CHECKING:
    from typing_extensions import Self


class SelectiveAnswers(CalibratedSets):
    """Calibration of sets with candidate labels, and questions about rows."""

    def calibrate_sets(self, X: ArrayLike, candidates: Any, *, truth: Any = None) -> Self:
        """Calibrate :meth:`predict_set` and :meth:`abstain` with rows held out from training.

        Without true labels the assumption is that a wrong answer is a candidate as often as the
        runner-up of a doubtful row is, and that the other candidates do not depend on which one is
        true, given the features; with them only that rows are drawn alike.

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
        estimator: Any = self
        log_proba = estimator.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        columns = None if truth is None else columns_of(truth, self.classes_, len(log_proba))
        self.set_calibration_ = calibrated_by(np.exp(log_proba), indicator, columns)
        return self

    def query(
        self,
        X: ArrayLike,
        candidates: Any,
        n: int = 10,
        *,
        strategy: str = "change",
        truth: Any = None,
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
        truth : array-like of shape (n_rows,), default=None
            True labels that are known already, as in `fit`: such rows are not asked about.

        Returns
        -------
        int64 ndarray of shape (at most n,)
            Positions of rows.
        """
        estimator: Any = self
        log_proba = estimator.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        columns = None
        if truth is not None:
            columns = truth_columns(truth, self.classes_, len(log_proba), of="rows")
        belief = belief_in_candidates(np.exp(log_proba), indicator, columns)
        return choose_questions(belief, check_features("X", X), n, strategy=strategy)

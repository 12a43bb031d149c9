"""CandidateAnswers: what a fitted model of candidate labels says of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from groupnoise.candidates.parameters import CandidateParameters
from groupnoise.candidates.selective import SelectiveAnswers
from groupnoise.core.arrays import FloatArray
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.label_sets import answered_right, check_equal_rows, read_candidates
from groupnoise.core.pair_matching import Matching
from groupnoise.core.prior_weights import spread_over_neighbours
from groupnoise.training.calibration import CandidateCalibration
from groupnoise.training.estimator import (
    MatchingEstimator,
    ObjectScores,
    mean_output,
    mean_probability,
    object_scores,
)

EVALUATION_BATCH = 1024


@inherit_docstring
class CandidateAnswers(
    CandidateParameters,
    ClassifierMixin,
    SelectiveAnswers,
    CandidateCalibration,
    MatchingEstimator,
):
    """Probabilities, labels and responsibilities from what members say of rows and labels."""

    @abstractmethod
    def _log_pair(self, X: ArrayLike, temperature: float | None = None) -> list[Tensor]:
        """Return what each member says of every (row, label) pair: (n_rows, n_classes) each."""

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return log P(label | row).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        members = [log_pair.log_softmax(-1) for log_pair in self._log_pair(X)]
        return spread_over_neighbours(mean_probability(members), self.ordinal_smoothing).numpy()

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return P(label | row).

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels of `classes_`.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def disambiguate(self, X: ArrayLike, candidates: Any) -> NDArray[Any]:
        """Return the best of the candidate labels of each row.

        Returns
        -------
        ndarray of shape (n_rows,)
            One of the candidates each.
        """
        log_proba = self.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        best = np.where(indicator, log_proba, -np.inf).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def select(self, X: ArrayLike, candidates: Any) -> ObjectScores:
        """Return which candidate each row matches, and how all of its candidates score.

        Returns
        -------
        ObjectScores
            The candidates of a row in the order of `classes_`.
        """
        log_pairs = self._log_pair(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        check_equal_rows(log_pairs[0], indicator)
        objective, mask, outputs = self._objective(), torch.from_numpy(indicator), []
        with torch.no_grad():
            tables = [m.encode_objects(torch.arange(len(self.classes_))) for m in self._models()]
            for rows in torch.arange(len(mask)).split(EVALUATION_BATCH):
                members = [
                    objective(
                        Matching(pair[rows], mask[rows], table.expand(len(rows), -1, -1), None)
                    )
                    for pair, table in zip(log_pairs, tables, strict=True)
                ]
                outputs.append((mean_output(members), mask[rows]))
        return object_scores(outputs)

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy for true labels, the covering rate for candidate labels.

        The covering rate is the share of rows whose predicted label is one of the candidates: it
        needs no true label, so `GridSearchCV` can choose by it. A true label that `fit` did not
        see counts as answered wrong.

        Parameters
        ----------
        y : array-like, sparse matrix or sequence of sets
            True labels, or candidate labels as in `fit`.
        sample_weight : array-like of shape (n_rows,), default=None
            How much each row counts; alike by default.

        Returns
        -------
        float
            Between 0 and 1.
        """
        right = answered_right(self.predict(X), y, self.classes_)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))

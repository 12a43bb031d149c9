"""The contract of partial-label baselines: candidate sets in, one label out."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.label_sets import correct_predictions, read_candidate_sets
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.exceptions import DataError
from groupnoise.training.baseline import SavedClassifier

if TYPE_CHECKING:
    from typing_extensions import Self


@inherit_docstring
class PartialLabelClassifier(SavedClassifier):
    """Fits on candidate labels and predicts one label per row.

    A subclass learns in `_learn` and ranks the classes in `_class_scores`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the order of all columns.
    n_features_in_ : int
        The number of features seen in `fit`.
    """

    @abstractmethod
    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        """Fit to rows (n_rows, n_features) and candidates (n_rows, n_classes)."""

    @abstractmethod
    def _class_scores(self, rows: FloatArray) -> FloatArray:
        """Return a score per row and class, the higher the likelier."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows whose label is known only up to a set of candidates.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        y : array-like, sparse matrix or sequence of n_rows sets
            Candidate labels of each row: a 0/1 matrix, a sequence of sets, or plain labels.

        Returns
        -------
        self
        """
        self._learn(*self._training_data(X, y))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (n_rows,); the first wins a tie.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        scores = self._class_scores(self._rows_to_predict(X))
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, shape (n_rows, n_classes).

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return self._probabilities(self._class_scores(self._rows_to_predict(X)))

    def disambiguate(self, X: Any, candidates: Any) -> NDArray[Any]:
        """Return the likeliest of each row's own candidates.

        Parameters
        ----------
        candidates : array-like, sparse matrix or sequence of n_rows sets
            Their candidate labels, in any form `fit` takes.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        scores = self._class_scores(self._rows_to_predict(X))
        indicator, _ = read_candidate_sets(candidates, self.classes_)
        _check_same_length(scores, indicator)
        inside = np.where(indicator, scores, -np.inf)
        return np.asarray(self.classes_[inside.argmax(axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """Return how often the prediction is right.

        Parameters
        ----------
        y : array-like
            True labels, for the accuracy; or candidate sets, for the covering rate: the part of
            the rows whose prediction is among their candidates.

        Returns
        -------
        score : float
        """
        return float(correct_predictions(self.predict(X), y, self.classes_).mean())

    def _training_data(self, X: Any, y: Any) -> tuple[FloatArray, BoolArray]:
        """Return checked rows and candidates, and take over the classes."""
        rows = self._rows_to_fit(X)
        indicator, self.classes_ = read_candidate_sets(y)
        _check_same_length(rows, indicator)
        return rows, indicator

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        return np.asarray(softmax(scores, axis=1))


def _check_same_length(rows: NDArray[Any], labels: NDArray[Any]) -> None:
    if len(rows) != len(labels):
        raise DataError(
            f"{counted(len(rows), 'rows')} came with {counted(len(labels), 'labels')}; give one "
            f"per row."
        )

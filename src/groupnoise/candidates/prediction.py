"""Parameters and predictions of classifiers of candidate labels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.label_sets import (
    check_equal_rows,
    correct_predictions,
    read_candidate_sets,
    truth_columns,
)
from groupnoise.core.objective import (
    ObjectScores,
    average_log_probabilities,
    average_outputs,
    collect_object_scores,
)
from groupnoise.core.pair_matching import Matching
from groupnoise.core.prior_weights import smooth_over_neighbours
from groupnoise.core.selective import belief_in_candidates
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.training.calibration import (
    MIN_KNOWN,
    CalibratedSets,
    CandidateCalibration,
    fit_set_calibration,
    known_label_columns,
    select_queries,
    unreliable_sets_warning,
)
from groupnoise.training.estimator import MatchingEstimator
from groupnoise.training.parameters import PAPER_TRAINING, FeatureParameters

if TYPE_CHECKING:
    from typing_extensions import Self

EVALUATION_BATCH = 1024

PAPER: dict[str, Any] = {
    "encoder": "linear",
    "scaling": "l2",
    "normalize": "targets",
    "candidates": "full",
    **PAPER_TRAINING,
}
"""The paper's settings: linear g, Eq. 5 over instances, max selection, lambda 1."""

DECIDED = (
    "encoder",
    "hidden",
    "dropout",
    "kernel_scale",
    "kernel_ridge",
    "scaling",
    "normalize",
    "temperature",
    "weighting_strength",
    "max_epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "ordinal_smoothing",
    "answer_temperature",
    "label_offsets",
    "n_members",
)
"""Parameters that depend on the data and are "auto" by default."""
TRADE_OFF = {"temperature", "weighting_strength"}
"""If these alone are "auto" they are chosen on a grid, see `TradeOff`."""
DETAILS: dict[str, Any] = {
    "dropout": 0.5,
    "kernel_scale": 1.0,
    "kernel_ridge": 0.05,
    "answer_temperature": 1.0,
    "label_offsets": None,
}
"""Parameters that are decided together with others; alone they are not worth a search."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class CandidateParameters(FeatureParameters):
    """Parameters of one setting; subclasses may have other defaults.

    Parameters
    ----------
    encoder : {"linear", "mlp", "kernel", "trees", "random trees"} or nn.Module, default="mlp"
        g. "linear" is the paper's. "kernel" is a Gaussian kernel between rows that is solved in
        closed form: no steps, one member; it keeps up to 4000 training rows. "trees" is a forest
        that is grown on the candidates, "random trees" one whose thresholds are drawn.
    kernel_scale : float, default=1.0
        Width of "kernel" in units of the mean distance between rows.
    kernel_ridge : float, default=0.05
        Strength of the ridge penalty of "kernel".
    normalize : {"both", "objects", "targets"}, default="both"
        Over labels ("objects"), as an ordinary classifier does; over instances ("targets"), as
        the paper's Eq. 5 reads when labels are the objects; or the mean of both, which keeps a
        label from winning only because it is a candidate of many rows.
    candidates : {"in_batch", "full", "sampled"}, default="in_batch"
        The instances normalized over under "targets" and "both".
    n_negatives : int, default=1024
        Number of instances that "sampled" draws.
    ordinal_smoothing : float, default=0.0
        For labels in an order, such as ages: over how many neighbours in `classes_` answers are
        averaged, as the standard deviation of a Gaussian. 0 takes labels as names.
    answer_temperature : float, default=1.0
        What logits are divided by in answers: above 1 a model sounds less sure beside others.
    label_offsets : sequence of float or None, default=None
        What is added to the logarithm of the answer of each of `classes_`, for labels that are
        more frequent than training, which asks how well rows tell labels apart, lets them be.
    """

    kernel_scale: float = 1.0
    kernel_ridge: float = 0.05
    normalize: str = "both"
    candidates: str = "in_batch"
    n_negatives: int = 1024
    ordinal_smoothing: float = 0.0
    answer_temperature: float = 1.0
    label_offsets: Sequence[float] | None = None


def plain_values() -> dict[str, Any]:
    """Return the plain value of every parameter that is "auto" by default."""
    return {each.name: each.default for each in fields(CandidateParameters) if each.name in DECIDED}


def explicit_values(parameters: CandidateParameters) -> dict[str, Any]:
    """Return the decided parameters that the user set."""
    values = {name: getattr(parameters, name) for name in DECIDED}
    return {name: value for name, value in values.items() if not is_auto(value)}


def resolved_values(parameters: CandidateParameters) -> dict[str, Any]:
    """Return a value for every parameter, the plain one where it is "auto"."""
    values = {each.name: getattr(parameters, each.name) for each in fields(CandidateParameters)}
    return {**values, **plain_values(), **explicit_values(parameters)}


class SelectivePredictions(CalibratedSets):
    """Calibration of sets with candidate labels, and questions about rows."""

    def calibrate_sets(self, X: ArrayLike, candidates: Any, *, truth: Any = None) -> Self:
        """Calibrate :meth:`predict_set` and :meth:`abstain` with rows held out from training.

        Without true labels the assumption is that a wrong answer is a candidate as often as the
        runner-up of a doubtful row is, and that the other candidates do not depend on which one is
        true, given the features; with them only that rows are drawn alike. A warning says where
        the features foretell several candidates of a row, which speaks against it.

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
        log_proba, indicator = self._log_proba_and_candidates(X, candidates)
        columns = (
            None if truth is None else known_label_columns(truth, self.classes_, len(log_proba))
        )
        self.set_calibration_ = fit_set_calibration(np.exp(log_proba), indicator, columns)
        if columns is None or (columns >= 0).sum() < MIN_KNOWN:
            doubt = unreliable_sets_warning(np.exp(log_proba), indicator)
            if doubt is not None:
                warnings.warn(doubt, UserWarning, stacklevel=2)
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
        log_proba, indicator = self._log_proba_and_candidates(X, candidates)
        columns = None
        if truth is not None:
            columns = truth_columns(truth, self.classes_, len(log_proba), of="rows")
        belief = belief_in_candidates(np.exp(log_proba), indicator, columns)
        return select_queries(belief, check_features("X", X), n, strategy=strategy)

    def _log_proba_and_candidates(
        self, X: ArrayLike, candidates: Any
    ) -> tuple[FloatArray, BoolArray]:
        """Return log P(label | row) and where the candidates are, (n_rows, n_classes) each."""
        estimator: Any = self
        log_proba: FloatArray = estimator.predict_log_proba(X)
        indicator, _ = read_candidate_sets(candidates, self.classes_)
        check_equal_rows(log_proba, indicator)
        return log_proba, indicator


@inherit_docstring
class CandidatePredictions(
    CandidateParameters,
    ClassifierMixin,
    SelectivePredictions,
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
        mean = average_log_probabilities(members)
        return smooth_over_neighbours(mean, self.ordinal_smoothing, self.classes_).numpy()

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
        return self.classes_[best]

    def disambiguate(self, X: ArrayLike, candidates: Any) -> NDArray[Any]:
        """Return the best of the candidate labels of each row.

        Returns
        -------
        ndarray of shape (n_rows,)
            One of the candidates each.
        """
        log_proba, indicator = self._log_proba_and_candidates(X, candidates)
        best = np.where(indicator, log_proba, -np.inf).argmax(axis=1)
        return self.classes_[best]

    def select(self, X: ArrayLike, candidates: Any) -> ObjectScores:
        """Return which candidate each row matches, and how all of its candidates score.

        Returns
        -------
        ObjectScores
            The candidates of a row in the order of `classes_`.
        """
        log_pairs = self._log_pair(X)
        indicator, _ = read_candidate_sets(candidates, self.classes_)
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
                outputs.append((average_outputs(members), mask[rows]))
        return collect_object_scores(outputs)

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
        right = correct_predictions(self.predict(X), y, self.classes_)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))

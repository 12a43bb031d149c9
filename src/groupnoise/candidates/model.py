"""CandidateModel: candidate labels in, one label out, under one setting of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.candidates.parameters import PAPER, CandidateParameters
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.candidates import (
    CandidateSource,
    FullCandidates,
    InBatchCandidates,
    SampledCandidates,
)
from groupnoise.core.checks import (
    check_choice,
    check_count,
    check_dropout,
    check_features,
    check_positive,
)
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.feature_names import remember_columns, rows_to_predict
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import (
    answered_right,
    check_equal_rows,
    read_candidate_weights,
    read_candidates,
)
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import Matcher, Matching, PairMatching, PriorMatching
from groupnoise.core.prior_weights import (
    group_weights,
    log_candidate_weights,
    spread_over_neighbours,
)
from groupnoise.core.scaling import Scaler
from groupnoise.decisions.trade_off import CandidateTrials
from groupnoise.exceptions import DataError
from groupnoise.training.calibration import CandidateCalibration
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import (
    MatchingEstimator,
    ObjectScores,
    Validate,
    mean_output,
    mean_probability,
    object_scores,
)
from groupnoise.training.workers import Workers

if TYPE_CHECKING:
    from typing_extensions import Self

EVALUATION_BATCH = 1024


@dataclass(kw_only=True, eq=False, repr=False)
class CandidateModel(CandidateParameters, ClassifierMixin, CandidateCalibration, MatchingEstimator):
    """Classify instances after learning from sets of candidate labels, under one setting.

    Objects are candidate labels, targets are instances; f is a vector per label, g the encoder of
    the features, h = f and S the dot product (the paper's Table 1, second row). The parameters
    are those of :class:`CandidateParameters`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Width of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `fit` was given data frames with names; answers are given for
        the same columns in the same order only.
    members_ : ModuleList of MatchingModel
        The trained encoders of each member; `model_` is the first.
    log_normaliser_ : ndarray of shape (n_members, n_classes)
        log of each label's denominator over the training rows; zero unless
        `normalize="targets"`.
    history_ : History
        One record per epoch, with the number of the member where there are several.
    calibration_temperature_ : float
        What logits are divided by: 1 until :meth:`calibrate` finds something better.
    """

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the paper's settings: linear g, Eq. 4 over instances, max selection, lambda 1.

        Parameters
        ----------
        **overrides
            Parameters that shall differ from the paper's.

        Returns
        -------
        CandidateModel
            Of the class it is called on.
        """
        return cls(**{**PAPER, **overrides})

    def fit(
        self,
        X: ArrayLike,
        y: Any,
        *,
        candidate_weights: ArrayLike | None = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> Self:
        """Learn from rows and their candidate labels.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            One row per instance.
        y : array-like, sparse matrix or sequence of sets
            Candidate labels: a 0/1 matrix (n_rows, n_classes), one set of labels per row, one
            mapping of label to weight per row, or one label per row.
        candidate_weights : array-like of shape (n_rows, n_classes), default=None
            How far each candidate is trusted beforehand: votes of annotators, for example.
            Positive at every candidate; only ratios inside a row matter.
        validate : callable, default=None
            Called with this estimator after each epoch; the best epoch's weights are kept.
        workers : Workers, default=None
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, default=None
            Where the training saves itself while it runs, and resumes from after an interruption.

        Returns
        -------
        CandidateModel
            Itself, fitted.
        """
        rows = check_features("X", X)
        indicator, classes = read_candidates(y)
        check_equal_rows(rows, indicator)
        candidate_weights = weights_once(candidate_weights, y, indicator, classes)
        remember_columns(self, [X])
        self._fit_rows(
            rows,
            indicator,
            classes,
            candidate_weights,
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        return self

    def _fit_rows(
        self,
        rows: NDArray[Any],
        indicator: BoolArray,
        classes: NDArray[Any],
        candidate_weights: ArrayLike | None = None,
        *,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> None:
        """Learn from rows and candidates that are read and checked already.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Finite features.
        indicator : bool ndarray of shape (n_rows, n_classes)
            The candidates; a class may be a candidate of no row.
        classes : ndarray of shape (n_classes,)
            The label of each column.
        candidate_weights, validate, workers, checkpoint
            As in :meth:`fit`.
        """
        check_dropout(self.dropout)
        check_count("dim", self.dim)
        check_positive("ordinal_smoothing", self.ordinal_smoothing, allow_zero=True)
        self.classes_, self.n_features_in_ = classes, rows.shape[1]
        trials = CandidateTrials(rows, indicator, self.classes_, candidate_weights)
        self._settle_trade_off(trials)
        self.calibration_temperature_ = 1.0
        self.scaler_ = Scaler(self.scaling).fit(rows)
        inputs = torch.from_numpy(self.scaler_(rows))
        generator = self._generator()
        groups = Groups.from_indicator(indicator, targets=np.arange(len(rows)))
        pair: Matcher = self._pair(len(rows))
        if candidate_weights is not None:
            pair = PriorMatching(pair, log_candidate_weights(candidate_weights, indicator))
        try:
            self._train_members(
                lambda draw: self._build_model(draw, inputs),
                groups,
                pair,
                generator,
                group_weights=group_weights(self.class_weight, indicator, self.classes_),
                validate=validate,
                workers=workers,
                checkpoint=checkpoint,
            )
        finally:
            # Also after a training that failed: the best weights so far answer and are saved.
            self._let_go_of_rows()

    def _let_go_of_rows(self) -> None:
        """Keep the denominators of the labels; no training rows, here or in a model file."""
        models = [
            model for model in getattr(self, "members_", ()) if model.target_inputs is not None
        ]
        if models:
            self.log_normaliser_ = torch.stack([self._level(model) for model in models]).numpy()
        for model in models:
            model.target_inputs = None

    def _build_model(self, generator: torch.Generator, inputs: Tensor | None) -> MatchingModel:
        return MatchingModel(
            EmbeddingEncoder(len(self.classes_), self.dim, generator=generator),
            self._feature_encoder(self.n_features_in_, self.dim, generator),
            n_targets=0 if inputs is None else len(inputs),
            target_inputs=inputs,
            precision=self._precision(),
        )

    def _pair(self, n_rows: int) -> PairMatching:
        check_choice("normalize", self.normalize, ("both", "objects", "targets"))
        check_choice("candidates", self.candidates, ("in_batch", "full", "sampled"))
        labels = FullCandidates(len(self.classes_))
        if self.normalize == "objects":
            return PairMatching(labels, "objects")
        rows: CandidateSource = InBatchCandidates()
        if self.candidates == "full":
            rows = FullCandidates(n_rows)
        elif self.candidates == "sampled":
            rows = SampledCandidates(n_rows, self.n_negatives)
        if self.normalize == "both":
            return PairMatching(rows, "both", object_source=labels)
        return PairMatching(rows)

    def _level(self, model: MatchingModel) -> Tensor:
        """Return log sum over training rows of exp(logit) for each label, shape (n_classes,)."""
        level = torch.zeros(len(self.classes_))
        if self.normalize != "targets" or model.target_inputs is None:
            return level
        level -= torch.inf
        with torch.no_grad():
            for block in model.target_inputs.split(EVALUATION_BATCH):
                level = torch.logaddexp(level, self._logits(model, block).logsumexp(0))
        return level

    def _logits(self, model: MatchingModel, inputs: Tensor) -> Tensor:
        """Return the logit of scaled rows with every label, shape (n_rows, n_classes)."""
        labels = model.encode_objects(torch.arange(len(self.classes_)))
        return model.encode_target_inputs(inputs) @ labels.t()

    def _log_pair(self, X: ArrayLike, temperature: float | None = None) -> list[Tensor]:
        """Return what each member says of every (row, label) pair: (n_rows, n_classes) each.

        The temperature of the logits is by default the calibrated one. Under
        `normalize="targets"` rows do not sum to one over labels, and no temperature makes them.
        """
        cooling = self.calibration_temperature_ if temperature is None else temperature
        check_is_fitted(self, "model_")
        rows = self.scaler_(rows_to_predict(self, X))
        blocks = torch.from_numpy(rows).split(EVALUATION_BATCH)
        pairs = []
        with torch.no_grad():
            for number, model in enumerate(self._models()):
                logits = torch.cat([self._logits(model, block) for block in blocks])
                if self.normalize != "targets":
                    pairs.append((logits / cooling).log_softmax(-1))
                elif model.target_inputs is not None:  # asked during training
                    pairs.append((logits - self._level(model)) / cooling)
                else:
                    level = torch.from_numpy(self.log_normaliser_[number])
                    pairs.append((logits - level) / cooling)
        return pairs

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

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.

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

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels, as in `fit`.

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

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        candidates : array-like, sparse matrix or sequence of sets
            Their candidate labels, as in `fit`.

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
        X : array-like of shape (n_rows, n_features)
            The rows.
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

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {**self.scaler_.arrays(), "log_normalizer": self.log_normaliser_}
        return self._classifier_state(), arrays

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._restore_classifier(fitted)
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self.log_normaliser_ = arrays["log_normalizer"]
        self._rebuild_members(lambda draw: self._build_model(draw, None), arrays)


def weights_once(
    given: ArrayLike | None, y: Any, indicator: BoolArray, classes: NDArray[Any]
) -> ArrayLike | None:
    """Return the weights of candidates, from their own argument or from the candidates."""
    found = read_candidate_weights(y, indicator, classes)
    if found is not None and given is not None:
        raise DataError("candidates map labels to weights; give no candidate_weights beside them.")
    return given if found is None else found

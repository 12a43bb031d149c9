"""CandidateModel: candidate labels in, one label out, under one setting of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise.core.arrays import BoolArray, FloatArray, ProgressCallback, RandomState
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
    ClassWeight,
    group_weights,
    log_candidate_weights,
    spread_over_neighbours,
)
from groupnoise.core.scaling import Scaler
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting
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
PAPER: dict[str, Any] = {
    "encoder": "linear",
    "scaling": "l2",
    "normalize": "targets",
    "candidates": "full",
    "selection": "max",
    "weighting_strength": 1.0,
    "max_epochs": 50,
    "schedule": "constant",
    "keep": "best",
    "n_members": 1,
}
"""The paper's settings: linear g, Eq. 4 over instances, max selection, lambda 1."""


@dataclass(kw_only=True, eq=False, repr=False)
class CandidateModel(ClassifierMixin, CandidateCalibration, MatchingEstimator):
    """Classify instances after learning from sets of candidate labels, under one setting.

    Objects are candidate labels, targets are instances; f is a vector per label, g the encoder of
    the features, h = f and S the dot product (the paper's Table 1, second row).

    Parameters
    ----------
    encoder : {"linear", "mlp"} or nn.Module, default="mlp"
        g. "linear" is the paper's.
    hidden : int or sequence of int, default=(300,)
        Hidden widths of "mlp".
    dim : int, default=64
        Width of the vectors.
    dropout : float, default=0.5
        Dropout of "mlp".
    scaling : {"standard", "l2", "power", "none"}, default="standard"
        Scaling of the features, learned from the training rows.
    normalize : {"both", "objects", "targets"}, default="both"
        Over labels ("objects"), as an ordinary classifier does; over instances ("targets"), as
        the paper's Eq. 4 reads when labels are the objects; or the mean of both, which keeps a
        label from winning only because it is a candidate of many rows.
    candidates : {"in_batch", "full", "sampled"}, default="in_batch"
        The instances normalized over under "targets" and "both".
    n_negatives : int, default=1024
        Number of instances that "sampled" draws.
    selection : str or Selection, default="tempered"
        How a row's score comes from its candidates; see :func:`groupnoise.core.make_selection`.
    temperature : float, (start, end) or "auto", default=(1.0, 0.3)
        Of tempered selection; "auto" is chosen on held-out rows.
    top_k : int, default=2
        Candidates that "top_k" selection averages.
    weighting : str, Weighting or None, default="sigmoid"
        Group weighting; see :func:`groupnoise.core.make_weighting`.
    weighting_strength : float or "auto", default=1.0
        Lambda; "auto" is chosen on held-out rows.
    similarity : str or Similarity, default="dot"
        S of the group weighting.
    similarity_scale : float, default=1.0
        What similarities are multiplied by.
    class_weight : "balanced", mapping of label to weight, or None, default=None
        How much the rows of each class count; a row counts as the mean of its candidates.
    max_epochs : int, default=60
        Passes over the data.
    batch_size : int, default=64
        Rows per step.
    learning_rate : float, default=0.01
        Adam's step size.
    weight_decay : float, default=0.0
        Decoupled weight decay: weights shrink by learning_rate * weight_decay each step.
    schedule : {"constant", "cosine", "linear"}, default="cosine"
        Path of the learning rate.
    patience : int or None, default=None
        Stop after this many epochs without a better validation value.
    keep : {"best", "last"}, default="last"
        Weights to end with where there is a validation value.
    ordinal_smoothing : float, default=0.0
        For labels in an order, such as ages: over how many neighbours in `classes_` answers are
        averaged, as the standard deviation of a Gaussian. 0 takes labels as names.
    n_members : int, default=1
        Number of models in the ensemble. Their probabilities are averaged. An encoder of your
        own has one set of initial weights, so it takes one member.
    mixed_precision : bool, default=False
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.
    on_epoch : callable or None, default=None
        Called with a record after each epoch.
    random_state : int, generator or None, default=None
        Decides all randomness.

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

    encoder: str | nn.Module = "mlp"
    hidden: int | Sequence[int] = (300,)
    dim: int = 64
    dropout: float = 0.5
    scaling: str = "standard"
    normalize: str = "both"
    candidates: str = "in_batch"
    n_negatives: int = 1024
    selection: str | Selection = "tempered"
    temperature: float | Sequence[float] | str = (1.0, 0.3)
    top_k: int = 2
    weighting: str | Weighting | None = "sigmoid"
    weighting_strength: float | str = 1.0
    similarity: str | Similarity = "dot"
    similarity_scale: float = 1.0
    class_weight: ClassWeight = None
    max_epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    schedule: str = "cosine"
    patience: int | None = None
    keep: str = "last"
    ordinal_smoothing: float = 0.0
    n_members: int = 1
    mixed_precision: bool = False
    on_epoch: ProgressCallback | None = None
    random_state: RandomState = None

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

"""CandidateModel: candidate labels in, one label out, under one setting of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise.candidates.gradient_free import count_landmarks, fit_kernel, grow_trees
from groupnoise.candidates.prediction import EVALUATION_BATCH, PAPER, CandidatePredictions
from groupnoise.core.arrays import BoolArray
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
from groupnoise.core.encoders import EmbeddingEncoder, unit_vectors
from groupnoise.core.groups import Groups
from groupnoise.core.kernels import KernelEncoder
from groupnoise.core.label_sets import (
    check_equal_rows,
    read_candidate_sets,
    read_candidate_weights,
    replace_by_truth,
    truth_columns,
)
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import Matcher, PairMatching, PriorMatching
from groupnoise.core.prior_weights import group_weights, log_candidate_weights
from groupnoise.core.scaling import Scaler, remember_columns, rows_to_predict
from groupnoise.core.trees import TreesEncoder
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.decisions.trade_off import CandidateTrials
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.parameters import History
from groupnoise.training.workers import Workers

if TYPE_CHECKING:
    from typing_extensions import Self

GRADIENT_FREE: dict[str, type[KernelEncoder] | type[TreesEncoder]] = {
    "kernel": KernelEncoder,
    "trees": TreesEncoder,
    "random trees": TreesEncoder,
}
"""Encoders that are fitted without gradient steps."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class CandidateModel(CandidatePredictions):
    """Classify instances after learning from sets of candidate labels, under one setting.

    Objects are candidate labels, targets are instances; f is a vector per label, g the encoder of
    the features, h = f and S the dot product (the paper's Table 1, second row).

    Attributes
    ----------
    log_normalizer_ : ndarray of shape (n_members, n_classes)
        log of each label's denominator over the training rows; zero unless
        `normalize="targets"`.
    calibration_temperature_ : float
        What logits are divided by: 1 until :meth:`calibrate` finds something better.
    """

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return the paper's settings: linear g, Eq. 5 over instances, max selection, lambda 1.

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
        truth: Any = None,
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
        truth : array-like of shape (n_rows,), default=None
            True labels of some rows, among the labels of `y`; None where one is not known. Such a
            row learns from its true label alone, whatever its candidates are.
        validate : callable, default=None
            Called with this estimator after each epoch; the best epoch's weights are kept.
        workers : Workers, default=None
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, default=None
            Where the training saves itself while it runs, and resumes from after an interruption.

        Returns
        -------
        self
            Fitted.
        """
        rows, indicator, classes, candidate_weights = read_rows(X, y, candidate_weights, truth)
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
        scaler: Scaler | None = None,
    ) -> None:
        """Fit to validated rows (n_rows, n_features) and candidates (n_rows, n_classes).

        A class may be a candidate of no row. `scaler`: fitted already to the same rows.
        """
        self._check_parameters()
        self.classes_, self.n_features_in_ = classes, rows.shape[1]
        trials = CandidateTrials(rows, indicator, self.classes_, candidate_weights)
        self._resolve_trade_off(trials)
        self.calibration_temperature_, self.set_calibration_ = 1.0, None
        self.calibration_groups_ = 0
        self.scaler_ = scaler or Scaler(self.scaling).fit(rows)
        inputs = torch.from_numpy(self.scaler_(rows))
        generator = self._generator()
        groups = Groups.from_indicator(indicator, targets=np.arange(len(rows)))
        pair: Matcher = self._pair(len(rows))
        log_trust = None
        if candidate_weights is not None:
            log_trust = log_candidate_weights(candidate_weights, indicator)
            pair = PriorMatching(pair, log_trust)
        counts = group_weights(self.class_weight, indicator, self.classes_)
        if self._is_gradient_free():
            self._fit_gradient_free(inputs, indicator, log_trust, counts, generator)
            return
        try:
            self._train_members(
                lambda draw: self._build_model(draw, inputs),
                groups,
                pair,
                generator,
                group_weights=counts,
                validate=validate,
                workers=workers,
                checkpoint=checkpoint,
            )
        finally:
            # Also after a failed training, which leaves the best weights so far.
            self._drop_training_rows()

    def _check_parameters(self) -> None:
        """Validate parameters before any training."""
        check_dropout(self._in_use("dropout"))
        check_count("dim", self.dim)
        check_count("n_members", self._in_use("n_members"))
        check_positive("ordinal_smoothing", self.ordinal_smoothing, allow_zero=True)
        offsets = self._in_use("label_offsets")
        if offsets is not None and not np.isfinite(np.asarray(offsets, dtype=float)).all():
            raise ParameterError("label_offsets must be finite numbers, one for each label.")
        for name in ("answer_temperature", "kernel_scale", "kernel_ridge"):
            check_positive(name, self._in_use(name))
        check_choice("normalize", self.normalize, ("both", "objects", "targets"))
        check_choice("candidates", self.candidates, ("in_batch", "full", "sampled"))
        Scaler(self.scaling)
        self._plan()
        if not (is_auto(self.temperature) or is_auto(self.weighting_strength)):
            self._objective()
        if isinstance(self.encoder, str) and not self._is_gradient_free():
            self._feature_encoder(1, 1, torch.Generator())

    def _is_gradient_free(self) -> bool:
        """Whether the encoder is a kernel or a forest."""
        return isinstance(self.encoder, str) and self.encoder in GRADIENT_FREE

    def _fit_gradient_free(
        self,
        inputs: Tensor,
        indicator: BoolArray,
        log_trust: Tensor | None,
        counts: Tensor | None,
        generator: np.random.Generator,
    ) -> None:
        """Fit a kernel or a forest: one member, one history record per iteration."""
        given: dict[str, Any] = {
            "trust": None if log_trust is None else log_trust.double().exp().numpy(),
            "row_weights": None if counts is None else counts.double().numpy(),
            "generator": generator,
        }
        encoder: KernelEncoder | TreesEncoder
        if self.encoder == "kernel":
            given |= {each: self._in_use(f"kernel_{each}") for each in ("scale", "ridge")}
            n_landmarks = count_landmarks(len(inputs))
            encoder = KernelEncoder(self.n_features_in_, n_landmarks, len(self.classes_))
            errors = fit_kernel(encoder, inputs.numpy(), indicator, **given)
        else:
            extra = self.encoder == "random trees"
            encoder, errors = grow_trees(inputs.numpy(), indicator, extra=extra, **given)
        self.model_ = self._logit_model(encoder, inputs)
        self.members_ = nn.ModuleList([self.model_])
        self.history_ = History()
        for number, error in enumerate(errors):
            record = {"epoch": number + 1, "n_epochs": len(errors), "loss": error}
            self.history_.append(record)
            if self.on_epoch is not None:
                self.on_epoch(record)
        self._drop_training_rows()

    def _logit_model(self, encoder: nn.Module, inputs: Tensor | None) -> MatchingModel:
        """Return a model whose g gives the logits: f is one-hot."""
        n_rows = 0 if inputs is None else len(inputs)
        labels = unit_vectors(len(self.classes_))
        return MatchingModel(labels, encoder, n_targets=n_rows, target_inputs=inputs)

    def _drop_training_rows(self) -> None:
        """Store the denominators of the labels and drop the training rows (but for landmarks)."""
        models = [
            model for model in getattr(self, "members_", ()) if model.target_inputs is not None
        ]
        if models:
            self.log_normalizer_ = torch.stack(
                [self._log_normalizer(model) for model in models]
            ).numpy()
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

    def _log_normalizer(self, model: MatchingModel) -> Tensor:
        """Return log sum over training rows of exp(logit) for each label, shape (n_classes,)."""
        log_normalizer = torch.zeros(len(self.classes_))
        if self.normalize != "targets" or model.target_inputs is None:
            return log_normalizer
        log_normalizer -= torch.inf
        with torch.no_grad():
            for block in model.target_inputs.split(EVALUATION_BATCH):
                log_normalizer = torch.logaddexp(
                    log_normalizer, self._logits(model, block).logsumexp(0)
                )
        return log_normalizer

    def _logits(self, model: MatchingModel, inputs: Tensor) -> Tensor:
        """Return the logit of scaled rows with every label, shape (n_rows, n_classes)."""
        labels = model.encode_objects(torch.arange(len(self.classes_)))
        return model.encode_target_inputs(inputs) @ labels.t()

    def _log_pair(self, X: ArrayLike, temperature: float | None = None) -> list[Tensor]:
        """Return log P of every (row, label) pair by each member, (n_rows, n_classes) each.

        The default temperature is the calibrated one. Under `normalize="targets"` rows do not sum
        to one over labels at any temperature.
        """
        cooling = self.calibration_temperature_ if temperature is None else temperature
        cooling = cooling * self._in_use("answer_temperature")
        check_is_fitted(self, "model_")
        rows = self.scaler_(rows_to_predict(self, X))
        blocks = torch.from_numpy(rows).split(EVALUATION_BATCH)
        offsets = self._offsets()
        pairs = []
        with torch.no_grad():
            for number, model in enumerate(self._models()):
                logits = torch.cat([self._logits(model, block) for block in blocks])
                if self.normalize != "targets":
                    pairs.append((logits / cooling + offsets).log_softmax(-1))
                elif model.target_inputs is not None:  # asked during training
                    pairs.append((logits - self._log_normalizer(model)) / cooling + offsets)
                else:
                    log_normalizer = torch.from_numpy(self.log_normalizer_[number])
                    pairs.append((logits - log_normalizer) / cooling + offsets)
        return pairs

    def _offsets(self) -> Tensor:
        """Return the offset of the log probability of each label, shape (n_classes,)."""
        offsets = self._in_use("label_offsets")
        if offsets is None:
            return torch.zeros(len(self.classes_))
        if len(offsets) != len(self.classes_):
            raise ParameterError(
                f"label_offsets has {len(offsets)} numbers for {len(self.classes_)} labels."
            )
        return torch.tensor(offsets, dtype=torch.float32)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {**self.scaler_.arrays(), "log_normalizer": self.log_normalizer_}
        arrays |= self._set_arrays()
        state = self._classifier_state()
        if self._is_gradient_free():
            (encoder,) = (model.target_encoder for model in self._models())
            assert isinstance(encoder, (KernelEncoder, TreesEncoder))
            state |= encoder.sizes()
        return state, arrays

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._restore_classifier(fitted)
        self._restore_sets(arrays)
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self.log_normalizer_ = arrays["log_normalizer"]
        if self._is_gradient_free():
            kind = GRADIENT_FREE[str(self.encoder)]
            encoder = kind.of_sizes(fitted, self.n_features_in_, len(self.classes_))
            self.model_ = self._logit_model(encoder, None)
            self.members_ = nn.ModuleList([self.model_])
            return
        self._rebuild_members(lambda draw: self._build_model(draw, None), arrays)


def read_rows(
    X: ArrayLike, y: Any, candidate_weights: ArrayLike | None, truth: Any
) -> tuple[NDArray[Any], BoolArray, NDArray[Any], ArrayLike | None]:
    """Return validated rows, candidates, classes and candidate weights."""
    rows = check_features("X", X)
    indicator, classes = read_candidate_sets(y)
    check_equal_rows(rows, indicator)
    found = read_candidate_weights(y, indicator, classes)
    if found is not None and candidate_weights is not None:
        raise DataError("candidates map labels to weights; give no candidate_weights beside them.")
    weights = candidate_weights if found is None else found
    if truth is not None:
        columns = truth_columns(truth, classes, len(rows), of="rows")
        indicator, weights = replace_by_truth(indicator, weights, columns)
    return rows, indicator, classes, weights

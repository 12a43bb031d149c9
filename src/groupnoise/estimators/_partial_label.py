"""MaxMatchingPartialLabelClassifier: candidate labels in, one label out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise._candidates import read_candidates
from groupnoise._checks import check_choice, check_count, check_features, check_fraction
from groupnoise._model_files import pack_labels, unpack_labels
from groupnoise._random import RandomState, torch_generator
from groupnoise._scaling import Scaler
from groupnoise._typing import BoolArray, FloatArray, ProgressCallback
from groupnoise.estimators._base import MatchingEstimator, ObjectScores, Validate, object_scores
from groupnoise.exceptions import DataError
from groupnoise.groups import Groups
from groupnoise.matching import (
    CandidateSource,
    EmbeddingEncoder,
    FullCandidates,
    InBatchCandidates,
    MatchingModel,
    SampledCandidates,
    Similarity,
)
from groupnoise.objectives import Matching, PairMatching, Selection, Weighting

EVALUATION_BATCH = 1024


class MaxMatchingPartialLabelClassifier(ClassifierMixin, MatchingEstimator):
    """Classify instances after learning from sets of candidate labels.

    Objects are candidate labels, targets are instances; f is a vector per label, g the encoder of
    the features, h = f and S the dot product (the paper's Table 1, second row).

    Parameters
    ----------
    encoder : {"linear", "mlp"} or nn.Module
        g. "linear" is the paper's.
    hidden : sequence of int
        Hidden widths of "mlp".
    dim : int
        Width of the vectors.
    dropout : float
        Dropout of "mlp".
    scaling : {"standard", "l2", "none"}
        Scaling of the features, learned from the training rows.
    normalize : {"objects", "targets"}
        Over labels, as an ordinary classifier does; or over instances, as the paper's Eq. 4 reads
        when labels are the objects.
    candidates : {"full", "in_batch", "sampled"}
        The instances normalised over under `normalize="targets"`.
    n_negatives : int
        How many instances "sampled" draws.
    selection, temperature, top_k
        How a row's score comes from its candidates; see
        :func:`groupnoise.objectives.make_selection`.
    weighting, weighting_strength, similarity, similarity_scale
        Group weighting; see :func:`groupnoise.objectives.make_weighting`.
    max_epochs, batch_size, learning_rate, weight_decay, schedule, patience
        See :class:`groupnoise.training.TrainingPlan`.
    on_epoch : callable, optional
        Called with a record after each epoch.
    random_state : int, generator or None
        Decides all randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Width of the rows.
    model_ : MatchingModel
        The trained encoders.
    log_normaliser_ : ndarray of shape (n_classes,)
        log of each label's denominator over the training rows; zero under `normalize="objects"`.
    history_ : History
        One record per epoch.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 8, axis=0)
    >>> pairs = [{"a", "b"}, {"a", "c"}, {"b", "c"}, {"b"}, {"c", "a"}, {"c"}]
    >>> candidates = pairs[:2] * 4 + pairs[2:4] * 4 + pairs[4:] * 4
    >>> model = MaxMatchingPartialLabelClassifier(encoder="linear", random_state=0)
    >>> model.fit(X, candidates).predict(np.eye(3)).tolist()
    ['a', 'b', 'c']
    """

    def __init__(
        self,
        *,
        encoder: str | nn.Module = "mlp",
        hidden: Sequence[int] = (300,),
        dim: int = 64,
        dropout: float = 0.5,
        scaling: str = "standard",
        normalize: str = "objects",
        candidates: str = "full",
        n_negatives: int = 1024,
        selection: str | Selection = "tempered",
        temperature: float | Sequence[float] = (1.0, 0.3),
        top_k: int = 2,
        weighting: str | Weighting | None = "sigmoid",
        weighting_strength: float = 1.0,
        similarity: str | Similarity = "dot",
        similarity_scale: float = 1.0,
        max_epochs: int = 60,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.0,
        schedule: str = "constant",
        patience: int | None = None,
        on_epoch: ProgressCallback | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.dim = dim
        self.dropout = dropout
        self.scaling = scaling
        self.normalize = normalize
        self.candidates = candidates
        self.n_negatives = n_negatives
        self.selection = selection
        self.temperature = temperature
        self.top_k = top_k
        self.weighting = weighting
        self.weighting_strength = weighting_strength
        self.similarity = similarity
        self.similarity_scale = similarity_scale
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.patience = patience
        self.on_epoch = on_epoch
        self.random_state = random_state

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingPartialLabelClassifier:
        """Return the paper's settings: linear g, Eq. 4 over instances, max selection, lambda 1."""
        settings = {
            "encoder": "linear",
            "scaling": "l2",
            "normalize": "targets",
            "selection": "max",
            "max_epochs": 50,
        }
        return cls(**{**settings, **overrides})

    def fit(
        self, X: ArrayLike, y: Any, *, validate: Validate | None = None
    ) -> MaxMatchingPartialLabelClassifier:
        """Learn from rows and their candidate labels.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            One row per instance.
        y : array-like, sparse matrix or sequence of sets
            Candidate labels: a 0/1 matrix (n_rows, n_classes), one set of labels per row, or one
            label per row.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept.
        """
        check_fraction("dropout", self.dropout)
        check_count("dim", self.dim)
        rows = check_features("X", X)
        indicator, self.classes_ = read_candidates(y)
        _refuse_unequal(rows, indicator)
        self.n_features_in_ = rows.shape[1]
        self.scaler_ = Scaler(self.scaling).fit(rows)
        inputs = torch.from_numpy(self.scaler_(rows))
        generator = self._generator()
        groups = Groups.from_indicator(indicator, targets=np.arange(len(rows)))
        model = self._build_model(torch_generator(generator), inputs)
        source = self._source(len(rows))
        pair = PairMatching(source, "objects" if self.normalize == "objects" else "targets")
        self._train(model, groups, pair, generator, validate=validate)
        self.log_normaliser_ = self._label_normaliser().numpy()
        # Training rows are neither part of the model nor of its file.
        model.target_inputs = None
        return self

    def _build_model(self, generator: torch.Generator, inputs: Tensor | None) -> MatchingModel:
        return MatchingModel(
            EmbeddingEncoder(len(self.classes_), self.dim, generator=generator),
            self._feature_encoder(self.n_features_in_, self.dim, generator),
            n_targets=0 if inputs is None else len(inputs),
            target_inputs=inputs,
        )

    def _source(self, n_rows: int) -> CandidateSource:
        check_choice("normalize", self.normalize, ("objects", "targets"))
        check_choice("candidates", self.candidates, ("full", "in_batch", "sampled"))
        if self.normalize == "objects":
            return FullCandidates(len(self.classes_))
        if self.candidates == "full":
            return FullCandidates(n_rows)
        if self.candidates == "sampled":
            return SampledCandidates(n_rows, self.n_negatives)
        return InBatchCandidates()

    def _label_normaliser(self) -> Tensor:
        """Return log sum over training rows of exp(logit) for each label."""
        n_classes = len(self.classes_)
        if self.normalize == "objects":
            return torch.zeros(n_classes)
        if self.model_.target_inputs is None:
            return torch.from_numpy(self.log_normaliser_)
        with torch.no_grad():
            level = torch.full((n_classes,), -torch.inf)
            for block in self.model_.target_inputs.split(EVALUATION_BATCH):
                level = torch.logaddexp(level, self._logits(block).logsumexp(0))
        return level

    def _logits(self, inputs: Tensor) -> Tensor:
        """Return the logit of scaled rows with every label, shape (n_rows, n_classes)."""
        labels = self.model_.encode_objects(torch.arange(len(self.classes_)))
        return self.model_.encode_target_inputs(inputs) @ labels.t()

    def _log_pair(self, X: ArrayLike) -> Tensor:
        """Return log P of every (row, label) pair under the chosen normalisation."""
        check_is_fitted(self, "model_")
        rows = check_features("X", X, width=self.n_features_in_)
        inputs = torch.from_numpy(self.scaler_(rows))
        with torch.no_grad():
            level = self._label_normaliser()
            logits = torch.cat([self._logits(b) for b in inputs.split(EVALUATION_BATCH)])
        return (logits - level) if self.normalize == "targets" else logits.log_softmax(-1)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return log P(label | row), shape (n_rows, n_classes)."""
        result: FloatArray = self._log_pair(X).log_softmax(-1).numpy()
        return result

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return P(label | row), shape (n_rows, n_classes); rows sum to one."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row, shape (n_rows,)."""
        labels: NDArray[Any] = self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return labels

    def disambiguate(self, X: ArrayLike, candidates: Any) -> NDArray[Any]:
        """Return the best of the candidate labels of each row, shape (n_rows,)."""
        log_proba = self.predict_log_proba(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        _refuse_unequal(log_proba, indicator)
        best = np.where(indicator, log_proba, -np.inf).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def select(self, X: ArrayLike, candidates: Any) -> ObjectScores:
        """Return which candidate each row matches, and how all of its candidates score."""
        log_pair = self._log_pair(X)
        indicator, _ = read_candidates(candidates, self.classes_)
        _refuse_unequal(log_pair, indicator)
        objective, outputs = self._objective(), []
        with torch.no_grad():
            labels = self.model_.encode_objects(torch.arange(len(self.classes_)))
            mask = torch.from_numpy(indicator)
            for pair, real in zip(
                log_pair.split(EVALUATION_BATCH), mask.split(EVALUATION_BATCH), strict=True
            ):
                features = labels.expand(len(pair), -1, -1)
                outputs.append((objective(Matching(pair, real, features, None)), real))
        return object_scores(outputs)

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy for true labels, the covering rate for candidate labels.

        The covering rate is the share of rows whose predicted label is one of the candidates: it
        needs no true label, so `GridSearchCV` can choose by it.
        """
        indicator, _ = read_candidates(y, self.classes_)
        log_proba = self.predict_log_proba(X)
        _refuse_unequal(log_proba, indicator)
        covered = indicator[np.arange(len(indicator)), log_proba.argmax(axis=1)]
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(covered, weights=weights))

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        fitted = {"classes": pack_labels(self.classes_), "n_features_in": self.n_features_in_}
        return fitted, {**self.scaler_.arrays(), "log_normaliser": self.log_normaliser_}

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_ = unpack_labels(fitted["classes"])
        self.n_features_in_ = int(fitted["n_features_in"])
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self.log_normaliser_ = arrays["log_normaliser"]
        self.model_ = self._build_model(torch.Generator().manual_seed(0), None)


def _refuse_unequal(rows: Any, indicator: BoolArray) -> None:
    if len(rows) != len(indicator):
        raise DataError(
            f"X has {len(rows)} rows, but candidates were given for {len(indicator)}; "
            "found input variables with inconsistent numbers of samples."
        )

"""MaxMatchingMILClassifier: bags with labels in, labels of single instances out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise.bags.calibration import BagCalibration
from groupnoise.bags.forms import check_labelled, holds_bags, read_bag_labels, read_bags
from groupnoise.core.arrays import FloatArray, IntArray, ProgressCallback, RandomState
from groupnoise.core.batching import GroupBatch, batch_rows, collate
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.checks import check_choice, check_count, check_dropout, check_positive
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.feature_names import (
    check_same_columns,
    remember_columns,
    rows_to_predict,
    tables_of_bags,
)
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import answered_right
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import Matching, PairMatching
from groupnoise.core.prior_weights import ClassWeight, group_weights
from groupnoise.core.scaling import Scaler
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting
from groupnoise.decisions.trade_off import BagTrials
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import (
    MatchingEstimator,
    ObjectScores,
    Validate,
    mean_probability,
    object_scores,
)
from groupnoise.training.workers import Workers

EVALUATION_BATCH = 256


class MaxMatchingMILClassifier(ClassifierMixin, BagCalibration, MatchingEstimator):
    """Classify single instances after learning from labelled bags.

    Objects are instances, targets are bag labels; f is the encoder, g a vector per class, h the
    class probabilities and S the negative KL divergence (the paper's Table 1, first row). A bag
    with several labels gives one group per label.

    Parameters
    ----------
    encoder : {"identity", "linear", "mlp"} or nn.Module
        f. "identity" makes the classifier linear, as in the paper. A module of your own maps
        (n, ...) to (n, dim).
    hidden : int or sequence of int
        Hidden widths of "mlp".
    dim : int
        Width of the vectors; "identity" takes that of the features.
    dropout : float
        Dropout of "mlp".
    scaling : {"standard", "l2", "power", "none"}
        Scaling of the features, learned from the training bags.
    normalize : {"both", "targets"}
        Over classes ("targets"), as the paper's Eq. 4 reads; or the mean of that and of the
        normalization over the instances of a batch, which keeps a common kind of instance from
        standing for every class.
    background : bool
        Whether instances may match a background target that no bag is asked for.
    background_label : label, optional
        A class of `y` that instances of any bag may have, such as "negative" beside "positive":
        the absent-class term never counts it as absent.
    absent_strength : float
        Strength of the absent-class term; needs bags that list all their labels.
    selection, temperature, top_k
        How a bag's score comes from its instances; see
        :func:`groupnoise.core.make_selection`.
    weighting, weighting_strength, similarity, similarity_scale
        Group weighting; see :func:`groupnoise.core.make_weighting`.
        `weighting_strength="auto"` and `temperature="auto"` are chosen on held-out groups.
    class_weight : "balanced", mapping of label to weight, or None
        How much the bags of each class count.
    max_epochs, batch_size, learning_rate, weight_decay, schedule, patience, keep
        See :class:`groupnoise.training.TrainingPlan`.
    n_members : int
        How many models are trained from different initial weights; their probabilities are
        averaged. An encoder of your own has one set of initial weights, so it takes one member.
    mixed_precision : bool
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.
    on_epoch : callable, optional
        Called with a record after each epoch.
    random_state : int, generator or None
        Decides all randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Width of the instances.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `fit` was given data frames with names; answers are given for
        the same columns in the same order only.
    members_ : ModuleList of MatchingModel
        The trained encoders of each member; `model_` is the first.
    history_ : History
        One record per epoch, with the number of the member where there are several.
    calibration_temperature_ : float
        What logits are divided by: 1 until :meth:`calibrate` finds something better.

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.array([[0.0, 1.0], [5.0, 5.0]]), np.array([[1.0, 0.0], [5.0, 5.0]])] * 8
    >>> model = MaxMatchingMILClassifier(learning_rate=0.1, random_state=0)
    >>> model.fit(bags, ["a", "b"] * 8).predict([[0.0, 1.0], [1.0, 0.0]]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        *,
        encoder: str | nn.Module = "identity",
        hidden: int | Sequence[int] = (128,),
        dim: int = 64,
        dropout: float = 0.3,
        scaling: str = "standard",
        normalize: str = "both",
        background: bool = False,
        background_label: Any = None,
        absent_strength: float = 0.0,
        selection: str | Selection = "tempered",
        temperature: float | Sequence[float] | str = (1.0, 0.7),
        top_k: int = 2,
        weighting: str | Weighting | None = "sigmoid",
        weighting_strength: float | str = 0.1,
        similarity: str | Similarity = "neg_kl",
        similarity_scale: float = 1.0,
        class_weight: ClassWeight = None,
        max_epochs: int = 50,
        batch_size: int = 32,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        schedule: str = "cosine",
        patience: int | None = None,
        keep: str = "last",
        n_members: int = 1,
        mixed_precision: bool = False,
        on_epoch: ProgressCallback | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.dim = dim
        self.dropout = dropout
        self.scaling = scaling
        self.normalize = normalize
        self.background = background
        self.background_label = background_label
        self.absent_strength = absent_strength
        self.selection = selection
        self.temperature = temperature
        self.top_k = top_k
        self.weighting = weighting
        self.weighting_strength = weighting_strength
        self.similarity = similarity
        self.similarity_scale = similarity_scale
        self.class_weight = class_weight
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.patience = patience
        self.keep = keep
        self.n_members = n_members
        self.mixed_precision = mixed_precision
        self.on_epoch = on_epoch
        self.random_state = random_state

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingMILClassifier:
        """Return the paper's settings: linear, max selection, lambda 1, Adam for 50 epochs."""
        settings = {
            "encoder": "identity",
            "normalize": "targets",
            "background": False,
            "absent_strength": 0.0,
            "selection": "max",
            "weighting_strength": 1.0,
            "max_epochs": 50,
            "schedule": "constant",
            "keep": "best",
            "n_members": 1,
        }
        return cls(**{**settings, **overrides})

    def fit(
        self,
        bags: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> MaxMatchingMILClassifier:
        """Learn from bags and their labels.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            One array of shape (size, n_features) per bag; an array (n_bags, size, n_features);
            or flat rows (n_rows, n_features) with `groups`.
        y : array-like
            One label per bag, a set of labels per bag, or a 0/1 matrix (n_bags, n_classes).
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept.
        workers : Workers, optional
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, optional
            Where the training saves itself while it runs, and resumes from after an interruption.
        """
        check_choice("normalize", self.normalize, ("both", "targets"))
        check_positive("absent_strength", self.absent_strength, allow_zero=True)
        check_dropout(self.dropout)
        check_count("dim", self.dim)
        instances = read_bags(bags, groups)
        labels, self.classes_ = read_bag_labels(y, len(instances), groups=groups)
        check_labelled(labels)
        self._settle_trade_off(BagTrials(instances, labels, self.classes_))
        remember_columns(self, tables_of_bags(bags, instances.objects))
        self.calibration_temperature_ = 1.0
        self.scaler_ = Scaler(self.scaling).fit(instances.objects)
        bag, label = np.nonzero(labels)  # one group per (bag, label)
        scaled = Groups(self.scaler_(instances.objects), instances.offsets)
        training = scaled.subset(bag)
        training.targets = label.astype(np.int64)
        allowed, of_group = labels[bag], np.eye(len(self.classes_), dtype=bool)[label]
        if self.background_label is not None:
            self._check_background_matters()
            allowed[:, self._column_of_background()] = True
        if self.background:
            allowed = np.hstack([allowed, np.ones((len(bag), 1), dtype=bool)])
        self._train_members(
            self._build_model,
            training,
            self._pair(workers),
            self._generator(),
            allowed=torch.from_numpy(allowed),
            group_weights=group_weights(self.class_weight, of_group, self.classes_),
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        return self

    def _check_background_matters(self) -> None:
        if not self.absent_strength:
            raise ParameterError(
                f"background_label={self.background_label!r} has no effect while absent_strength "
                "is 0; set absent_strength, for example to 1.0."
            )

    def _column_of_background(self) -> IntArray:
        column: IntArray = np.flatnonzero(self.classes_ == self.background_label)
        if not len(column):
            raise ParameterError(
                f"background_label {self.background_label!r} is none of the labels of the bags: "
                f"{', '.join(map(repr, self.classes_[:5].tolist()))} ..."
            )
        return column

    def _build_model(self, generator: torch.Generator) -> MatchingModel:
        dim = self.n_features_in_ if self.encoder == "identity" else self.dim
        encoder = self._feature_encoder(self.n_features_in_, dim, generator)
        n_targets = len(self.classes_) + bool(self.background)
        table = EmbeddingEncoder(n_targets, dim, std=0.01, generator=generator)
        return MatchingModel(
            encoder, table, n_targets=n_targets, has_bias=True, precision=self._precision()
        )

    def _pair(self, workers: Workers | None = None) -> PairMatching:
        n_targets = len(self.classes_) + bool(self.background)
        normalize: Literal["both", "targets"] = "both" if self.normalize == "both" else "targets"
        return PairMatching(
            FullCandidates(n_targets),
            normalize,
            with_probabilities=True,
            over_workers=None if workers is None else workers.logsumexp,
        )

    def _log_probabilities(
        self, instances: NDArray[Any], temperature: float | None = None
    ) -> Tensor:
        """Return log P(target | instance) of scaled instances, background last.

        The temperature of the logits is by default the calibrated one.
        """
        cooling = self.calibration_temperature_ if temperature is None else temperature
        with torch.no_grad():
            blocks, members = torch.from_numpy(instances).split(EVALUATION_BATCH), []
            for model in self._models():
                targets = torch.arange(model.n_targets)
                logits = [model.logits(model.encode_objects(block), targets) for block in blocks]
                members.append(torch.cat(logits).log_softmax(-1))
            log_proba = mean_probability(members)
            return log_proba if cooling == 1.0 else (log_proba / cooling).log_softmax(-1)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return log P(class | instance), shape (n_rows, n_classes); background left out."""
        log_all = self._log_probabilities(self._scaled_rows(X))[:, : len(self.classes_)]
        result: FloatArray = log_all.log_softmax(-1).numpy()
        return result

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return P(class | instance), shape (n_rows, n_classes); rows sum to one."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each instance, shape (n_rows,)."""
        best = self.predict_log_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def background_proba(self, X: ArrayLike) -> FloatArray:
        """Return P(background | instance), shape (n_rows,); zero without a background target."""
        log_all = self._log_probabilities(self._scaled_rows(X))
        outside: FloatArray = log_all[:, len(self.classes_) :].exp().sum(-1).numpy()
        return outside

    def _scaled_rows(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "model_")
        return self.scaler_(rows_to_predict(self, X))

    def _read_bags(self, bags: Any, groups: ArrayLike | None) -> Groups:
        """Return bags to answer about, of the columns seen in `fit`."""
        check_is_fitted(self, "model_")
        instances = read_bags(bags, groups)
        check_same_columns(self, tables_of_bags(bags, instances.objects))
        return instances

    def bag_scores(self, bags: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return the score of each class for each bag, shape (n_bags, n_classes)."""
        objective = self._objective()
        parts = []
        for batch in self._batches(bags, groups):
            matching = self._match(batch, 0)
            log_weight = objective.log_weight(matching.features, batch.mask)
            scores = matching.features[..., : len(self.classes_)]
            scores = scores + objective.weighting_strength * log_weight.unsqueeze(-1)
            mask = batch.mask.unsqueeze(1).expand(-1, scores.shape[-1], -1)
            parts.append(objective.selection(scores.transpose(1, 2), mask).log_score)
        result: FloatArray = torch.cat(parts).numpy()
        return result

    def predict_bags(self, bags: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Return the best label of each bag, shape (n_bags,)."""
        labels: NDArray[Any] = self.classes_[self.bag_scores(bags, groups=groups).argmax(axis=1)]
        return labels

    def select(self, bags: Any, y: Any, *, groups: ArrayLike | None = None) -> ObjectScores:
        """Return which instance carries the label of each bag, and how all of them score.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            As in :meth:`fit`.
        y : array-like of shape (n_bags,)
            One label per bag; call once per label for bags with several.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.
        """
        objective = self._objective()
        batches = list(self._batches(bags, groups))
        n_bags = sum(len(batch) for batch in batches)
        labels, _ = read_bag_labels(y, n_bags, self.classes_, groups=groups)
        several = np.flatnonzero(labels.sum(axis=1) != 1)
        if len(several):
            raise DataError(
                f"select needs one label per bag; bag {several[0]} has "
                f"{labels[several[0]].sum()}. Call it once per label."
            )
        column = torch.from_numpy(labels.argmax(axis=1))
        outputs = []
        for batch in batches:
            matching = self._match(batch, column[batch.rows])
            outputs.append((objective(matching), batch.mask))
        return object_scores(outputs)

    def _batches(self, bags: Any, groups: ArrayLike | None) -> Iterator[GroupBatch]:
        instances = self._read_bags(bags, groups)
        scaled = Groups(
            self.scaler_(instances.objects),
            instances.offsets,
            np.zeros(len(instances), dtype=np.int64),
        )
        for rows in batch_rows(scaled.sizes, EVALUATION_BATCH, None):
            yield collate(scaled, rows)

    def _match(self, batch: GroupBatch, column: Tensor | int) -> Matching:
        """Return the matching of a batch with one target column per group."""
        n_groups, size = batch.mask.shape
        log_all = self._log_probabilities(batch.objects.flatten(0, 1).numpy())
        features = log_all.view(n_groups, size, -1)
        wanted = torch.as_tensor(column).expand(n_groups).view(-1, 1, 1).expand(-1, size, 1)
        log_pair = features.gather(-1, wanted).squeeze(-1)
        return Matching(log_pair, batch.mask, features, features)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on single instances with known labels, or on bags.

        Bags in any form but flat rows are answered by :meth:`predict_bags`, so `GridSearchCV` can
        choose by the labels `fit` was given; a bag with several is right if the answer is one of
        them. Plain rows are instances.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), sequence of arrays, or Groups
            Instances, or bags.
        y : array-like
            A label per instance; for bags, as in :meth:`fit`.
        sample_weight : array-like of shape (n_rows,) or (n_bags,), optional
            How much each counts.
        """
        if not holds_bags(X):
            return float(super().score(X, y, sample_weight))
        right = answered_right(self.predict_bags(X), y, self.classes_)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self._classifier_state(), self.scaler_.arrays()

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._restore_classifier(fitted)
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self._rebuild_members(self._build_model, arrays)

"""MaxMatchingMIPLClassifier: bags with candidate labels in, one label per bag out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from groupnoise.bags.forms import check_labelled, read_bag_labels, read_bags
from groupnoise.bags.mipl_answers import PairAnswers
from groupnoise.core.arrays import ProgressCallback, RandomState
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.feature_names import (
    column_state,
    remember_columns,
    restore_columns,
    tables_of_bags,
)
from groupnoise.core.joint_matching import JointMatching, PerObjectWeighting
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.prior_weights import ClassWeight, group_weights
from groupnoise.core.scaling import Scaler
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting
from groupnoise.decisions.trade_off import is_auto
from groupnoise.exceptions import ParameterError
from groupnoise.io.model_files import pack_labels, unpack_labels
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.workers import Workers


class MaxMatchingMIPLClassifier(PairAnswers):
    """Classify bags after learning from bags with candidate labels.

    Multi-instance partial-label learning: groups on both sides. Exactly one pair of an instance
    and a candidate label is taken to be true. Each bag gives P(instance, label | bag) over all its
    pairs, and the objective selects among the pairs its candidate labels allow; f is the encoder
    of instances, g a vector per class.

    Parameters
    ----------
    encoder : {"identity", "linear", "mlp"} or nn.Module, default="mlp"
        f. A module of your own maps (n, ...) to (n, dim).
    hidden : int or sequence of int, default=(256,)
        Hidden widths of "mlp".
    dim : int, default=64
        Width of the vectors; "identity" takes that of the features.
    dropout : float, default=0.3
        Dropout of "mlp".
    scaling : {"standard", "l2", "power", "none"}, default="standard"
        Scaling of the features, learned from the training bags.
    pooling : float, default=2.0
        Temperature at which the instances of a bag speak for a label: towards 0 the best alone,
        at 1 one softmax over all pairs, above 1 more and more all of them.
    selection : {"max", "marginal", "tempered", "top_k", "all"} or Selection, default="marginal"
        How the score of a group comes from the scores of its objects; "max" is the paper's.
    temperature : float or (start, end), default=(1.0, 0.5)
        Of "tempered" selection: constant, or from the first value to the second over the
        training.
    top_k : int, default=2
        Number of objects that "top_k" averages over.
    weighting : {"sigmoid", "contrastive"}, Weighting or None, default="sigmoid"
        Form of the group weighting: the paper's, that of the authors' code, or none.
    weighting_strength : float, default=0.0
        Lambda: multiplies the log of the group weights. 1 is the paper's, 0 leaves them
        out.
    similarity : {"dot", "neg_kl"} or Similarity, default="neg_kl"
        S of Eq. 6, by which the objects of a group are compared.
    similarity_scale : float, default=1.0
        Multiplies S.
    class_weight : "balanced", mapping of label to weight, or None, default=None
        How much the bags of each class count; a bag counts as the mean of its candidates.
    max_epochs : int, default=60
        Passes over the data.
    batch_size : int, default=32
        Groups per step.
    learning_rate : float, default=0.003
        Adam's step size.
    weight_decay : float, default=0.0
        Decoupled weight decay: weights shrink by learning_rate * weight_decay each step.
    schedule : {"constant", "cosine", "linear"}, default="cosine"
        Path of the learning rate over the training; all but "constant" end at zero.
    patience : int or None, default=None
        Stop after so many epochs without a better validation value; None never stops early.
    keep : {"best", "last"}, default="last"
        Weights to end with where `fit` is given a `validate`.
    n_members : int, default=1
        How many models are trained from different initial weights; their probabilities are
        averaged. An encoder of your own has one set of initial weights, so it takes one member.
    mixed_precision : bool, default=False
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.
    device : str, default="auto"
        Where the training runs: "cpu", "cuda", "cuda:1", "mps"; "auto" takes a CUDA device where
        there is one. Fitted models lie in the memory of the CPU, and answer there.
    on_epoch : callable, optional
        Called with a record after each epoch.
    random_state : int, generator or None, default=None
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

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.array([[0.0, 1.0], [5.0, 5.0]]), np.array([[1.0, 0.0], [5.0, 5.0]])] * 12
    >>> candidates = [{"a", "c"}, {"b", "a"}, {"a", "b"}, {"b", "c"}] * 6
    >>> model = MaxMatchingMIPLClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model.fit(bags, candidates).predict(bags[:2]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        *,
        encoder: str | nn.Module = "mlp",
        hidden: int | Sequence[int] = (256,),
        dim: int = 64,
        dropout: float = 0.3,
        scaling: str = "standard",
        pooling: float = 2.0,
        selection: str | Selection = "marginal",
        temperature: float | Sequence[float] = (1.0, 0.5),
        top_k: int = 2,
        weighting: str | Weighting | None = "sigmoid",
        weighting_strength: float = 0.0,
        similarity: str | Similarity = "neg_kl",
        similarity_scale: float = 1.0,
        class_weight: ClassWeight = None,
        max_epochs: int = 60,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.0,
        schedule: str = "cosine",
        patience: int | None = None,
        keep: str = "last",
        n_members: int = 1,
        mixed_precision: bool = False,
        device: str = "auto",
        on_epoch: ProgressCallback | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.dim = dim
        self.dropout = dropout
        self.scaling = scaling
        self.pooling = pooling
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
        self.device = device
        self.on_epoch = on_epoch
        self.random_state = random_state

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingMIPLClassifier:
        """Return the paper's objective carried over to pairs: linear, max selection, lambda 1.

        Parameters
        ----------
        **overrides : Any
            Parameters to set on top.

        Returns
        -------
        MaxMatchingMIPLClassifier
            Not fitted.
        """
        settings = {
            "encoder": "identity",
            "pooling": 1.0,
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
    ) -> MaxMatchingMIPLClassifier:
        """Learn from bags and their candidate labels.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            One array of shape (size, n_features) per bag; an array (n_bags, size, n_features);
            or flat rows (n_rows, n_features) with `groups`.
        y : array-like, sparse matrix or sequence of sets
            Candidate labels: a 0/1 matrix (n_bags, n_classes), one set of labels per bag, or one
            label per bag.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept.
        workers : Workers, optional
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, optional
            Where the training saves itself while it runs, and resumes from after an interruption.

        Returns
        -------
        MaxMatchingMIPLClassifier
            The classifier itself.
        """
        if is_auto(self.weighting_strength) or is_auto(self.temperature):
            raise ParameterError(
                "weighting_strength and temperature cannot be 'auto' for bags with candidate "
                "labels; give numbers."
            )
        check_dropout(self.dropout)
        check_count("dim", self.dim)
        check_positive("pooling", self.pooling)
        instances = read_bags(bags, groups)
        candidates, self.classes_ = read_bag_labels(y, len(instances), groups=groups)
        check_labelled(candidates)
        remember_columns(self, tables_of_bags(bags, instances.objects))
        self.scaler_ = Scaler(self.scaling).fit(instances.objects)
        self._train_members(
            self._build_model,
            self._scaled(instances),
            JointMatching(torch.from_numpy(candidates), self.pooling),
            self._generator(),
            group_weights=group_weights(self.class_weight, candidates, self.classes_),
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        return self

    def _build_model(self, generator: torch.Generator) -> MatchingModel:
        dim = self.n_features_in_ if self.encoder == "identity" else self.dim
        n_targets = len(self.classes_)
        return MatchingModel(
            self._feature_encoder(self.n_features_in_, dim, generator),
            EmbeddingEncoder(n_targets, dim, generator=generator),
            n_targets=n_targets,
            has_bias=True,
            precision=self._precision(),
        )

    def _objective(self) -> GroupObjective:
        objective = super()._objective()
        if objective.weighting is None:
            return objective
        return replace(objective, weighting=PerObjectWeighting(objective.weighting))

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        fitted = {"classes": pack_labels(self.classes_), **column_state(self)}
        return fitted, self.scaler_.arrays()

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_ = unpack_labels(fitted["classes"])
        restore_columns(self, fitted)
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self._rebuild_members(self._build_model, arrays)

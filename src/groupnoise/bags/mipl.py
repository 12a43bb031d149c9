"""MaxMatchingMIPLClassifier: bags with candidate labels in, one label and its instance out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from groupnoise.bags.estimator import MaxMatchingMILClassifier
from groupnoise.bags.pair_prediction import PairPredictions
from groupnoise.bags.reading.inputs import as_bags, check_labelled, read_bag_labels
from groupnoise.core.arrays import strip_prefix
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, Selection
from groupnoise.core.pair_matching import JointMatching, PerObjectWeighting
from groupnoise.core.prior_weights import group_weights
from groupnoise.core.scaling import (
    Scaler,
    column_state,
    feature_tables,
    remember_columns,
    restore_columns,
)
from groupnoise.core.weighting import Similarity
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.exceptions import ParameterError
from groupnoise.io.folders.model_files import pack_labels, unpack_labels
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.parameters import PAPER_TRAINING
from groupnoise.training.workers import Workers

MIN_RESOLVED = 40
"""Fewer bags than this are answered by their pairs alone."""
RESOLVED_PREFIX = "resolved."
"""Begins the names of arrays of the fit on resolved labels in a file."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MaxMatchingMIPLClassifier(PairPredictions):
    """Classify bags after learning from bags with candidate labels.

    Multi-instance partial-label learning: groups on both sides. Exactly one pair of an instance
    and a candidate label is taken to be true. Each bag gives P(instance, label | bag) over all its
    pairs, and the objective selects among the pairs its candidate labels allow; f is the encoder
    of instances, g a vector per class. Then every bag is given the likeliest of its candidates, a
    plain :class:`MaxMatchingMILClassifier`, which decides by held-out bags what suits them, learns
    from these, and both answer together.

    Parameters
    ----------
    encoder : {"identity", "linear", "mlp"} or nn.Module, default="mlp"
        f. A module of your own maps (n, ...) to (n, dim).
    pooling : float, default=2.0
        Temperature at which the instances of a bag speak for a label: towards 0 the best alone,
        at 1 one softmax over all pairs, above 1 more and more all of them.
    temperature : float or (start, end), default=(1.0, 0.5)
        Of "tempered" selection: constant, or from the first value to the second over the
        training.
    weighting_strength : float, default=0.0
        Lambda: multiplies the log of the group weights. 1 is the paper's, 0 leaves them
        out.
    refit : bool, default=True
        Whether a plain fit learns from the candidates that were found likeliest, where there are 40
        bags or more and one process trains; not with weights of classes or an encoder of your own.

    Attributes
    ----------
    resolved_ : MaxMatchingMILClassifier or None
        The fit on the candidates that were found likeliest, with its `decisions_`.

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.array([[0.0, 1.0], [5.0, 5.0]]), np.array([[1.0, 0.0], [5.0, 5.0]])] * 12
    >>> candidates = [{"a", "c"}, {"b", "a"}, {"a", "b"}, {"b", "c"}] * 6
    >>> model = MaxMatchingMIPLClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model.fit(bags, candidates).predict(bags[:2]).tolist()
    ['a', 'b']
    """

    hidden: int | Sequence[int] = (256,)
    dropout: float = 0.3
    pooling: float = 2.0
    selection: str | Selection = "marginal"
    temperature: float | Sequence[float] = (1.0, 0.5)
    weighting_strength: float = 0.0
    similarity: str | Similarity = "neg_kl"
    batch_size: int = 32
    learning_rate: float = 3e-3
    refit: bool = True

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
        settings = {"encoder": "identity", "pooling": 1.0, "refit": False, **PAPER_TRAINING}
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
        instances = as_bags(bags, groups)
        candidates, self.classes_ = read_bag_labels(y, len(instances), groups=groups)
        check_labelled(candidates)
        remember_columns(self, feature_tables(bags, instances.objects))
        self.scaler_ = Scaler(self.scaling).fit(instances.objects)
        self.resolved_ = None
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
        is_alone = workers is None or workers.count == 1
        # A plain fit knows of no weights of classes and no encoders but its own.
        is_plain = self.class_weight is None and isinstance(self.encoder, str)
        if self.refit and is_alone and is_plain:
            log_proba = self.predict_log_proba(bags, groups=groups)
            best = np.where(candidates, log_proba, -np.inf).argmax(axis=1)
            self._refit(instances, self.classes_[best], checkpoint)
        return self

    def _refit(
        self, instances: Groups, labels: NDArray[Any], checkpoint: Checkpoints | None
    ) -> None:
        """Learn from bags and one label each, where these are not too few."""
        if len(instances) < MIN_RESOLVED or len(np.unique(labels)) < 2:
            return
        plain = MaxMatchingMILClassifier(
            negative_label=None,  # every label has its instance here
            device=self.device,
            on_epoch=self.on_epoch,
            random_state=self.random_state,
        )
        of_its_own = None if checkpoint is None else checkpoint.part("resolved")
        self.resolved_ = plain.fit(instances, labels, checkpoint=of_its_own)

    def _weights(self) -> nn.Module:
        own = super()._weights()
        return own if self.resolved_ is None else nn.ModuleList([own, self.resolved_._weights()])

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
        arrays = self.scaler_.arrays()
        if self.resolved_ is not None:
            fitted["resolved"], more = self.resolved_._fitted_state()
            arrays |= {f"{RESOLVED_PREFIX}{name}": array for name, array in more.items()}
        return fitted, arrays

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_ = unpack_labels(fitted["classes"])
        restore_columns(self, fitted)
        self.scaler_ = Scaler.from_arrays(self.scaling, arrays)
        self._rebuild_members(self._build_model, arrays)
        if "resolved" in fitted:
            self.resolved_ = MaxMatchingMILClassifier(negative_label=None)
            self.resolved_._rebuild(fitted["resolved"], strip_prefix(RESOLVED_PREFIX, arrays))

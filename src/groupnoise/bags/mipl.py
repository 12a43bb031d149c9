"""MaxMatchingMIPLClassifier: bags with candidate labels in, one label and its instance out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.bags.forms import as_bags, check_labelled, read_bag_labels
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.batching import GroupBatch, batch_rows, collate
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import answered_right
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, Selection, mean_probability
from groupnoise.core.pair_matching import JointMatching, PerObjectWeighting, match_pairs
from groupnoise.core.prior_weights import group_weights
from groupnoise.core.scaling import (
    Scaler,
    check_same_columns,
    column_state,
    remember_columns,
    restore_columns,
    tables_of_bags,
)
from groupnoise.core.weighting import Similarity
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.exceptions import ParameterError
from groupnoise.io.model_files import pack_labels, unpack_labels
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import MatchingEstimator, Validate
from groupnoise.training.parameters import PAPER_TRAINING, FeatureParameters
from groupnoise.training.workers import Workers

EVALUATION_BATCH = 256


class ChosenPairs(NamedTuple):
    """The instance-label pair that each bag is believed to hold.

    `instance`: place inside its bag of the instance chosen.
    `label`: the candidate label chosen.
    `probability`: the part of the chosen pair among all pairs the bag allows.
    """

    instance: IntArray
    label: NDArray[Any]
    probability: FloatArray


@inherit_docstring
class PairAnswers(FeatureParameters, ClassifierMixin, MatchingEstimator):
    """Answers of bags with candidate labels, by the pairs of instance and label they allow."""

    classes_: NDArray[Any]
    scaler_: Scaler
    pooling: float

    def _scaled(self, instances: Groups) -> Groups:
        """Return scaled bags; the target of a bag is its own row, whose candidates are known."""
        rows = np.arange(len(instances))
        return Groups(self.scaler_(instances.objects), instances.offsets, rows)

    def _log_pairs(self, batch: GroupBatch, candidates: Tensor) -> Tensor:
        """Return the log score of every pair, shape (bags, size, n_classes); -inf where none is."""
        objective, members = self._objective(), []
        for model in self._models():
            matching = match_pairs(model, batch, candidates, self.pooling)
            scores = objective(matching).scores.masked_fill(~matching.mask, -torch.inf)
            members.append(scores.log_softmax(-1))
        return mean_probability(members).view(*batch.mask.shape, len(self.classes_))

    def _batches(self, bags: Any, groups: ArrayLike | None) -> Iterator[GroupBatch]:
        check_is_fitted(self, "model_")
        instances = as_bags(bags, groups)
        check_same_columns(self, tables_of_bags(bags, instances.objects))
        scaled = self._scaled(instances)
        for rows in batch_rows(scaled.sizes, EVALUATION_BATCH, None):
            yield collate(scaled, rows)

    def predict_log_proba(self, bags: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return log P(label | bag), shape (n_bags, n_classes).

        A plain matrix is read as bags of one, so single instances can be asked as well.

        Parameters
        ----------
        bags : Groups, sequence of arrays, or array
            As in :meth:`fit`.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Log-probabilities, in the order of `classes_`.
        """
        parts = []
        with torch.no_grad():
            for batch in self._batches(bags, groups):
                every = torch.ones(len(batch), len(self.classes_), dtype=torch.bool)
                parts.append(self._log_pairs(batch, every).logsumexp(1))
        return torch.cat(parts).numpy()

    def predict_proba(self, bags: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return P(label | bag), shape (n_bags, n_classes); rows sum to one.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(bags, groups=groups))

    def predict(self, bags: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label of each bag, shape (n_bags,).

        Returns
        -------
        ndarray of shape (n_bags,)
            Labels.
        """
        best = self.predict_log_proba(bags, groups=groups).argmax(axis=1)
        return self.classes_[best]

    def predict_bags(self, bags: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label of each bag: :meth:`predict` under the name all bag classifiers have.

        Returns
        -------
        ndarray of shape (n_bags,)
            Labels.
        """
        return self.predict(bags, groups=groups)

    def select(self, bags: Any, candidates: Any, *, groups: ArrayLike | None = None) -> ChosenPairs:
        """Return which instance and which candidate label of each bag form the true pair.

        Parameters
        ----------
        candidates : array-like, sparse matrix or sequence of n_bags sets
            Candidate labels of each bag, in any form :meth:`fit` takes.

        Returns
        -------
        ChosenPairs
            One pair per bag.
        """
        batches = list(self._batches(bags, groups))
        indicator = self._read_candidates(candidates, sum(map(len, batches)), groups)
        table = torch.from_numpy(indicator)
        best, probability = [], []
        with torch.no_grad():
            for batch in batches:
                pairs = self._log_pairs(batch, table[batch.rows])
                top = pairs.flatten(1).max(-1)
                best.append(top.indices.numpy())
                probability.append(top.values.exp().numpy())
        instance, column = np.divmod(np.concatenate(best), len(self.classes_))
        return ChosenPairs(instance, self.classes_[column], np.concatenate(probability))

    def disambiguate(
        self, bags: Any, candidates: Any, *, groups: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the best of the candidate labels of each bag, shape (n_bags,).

        Returns
        -------
        ndarray of shape (n_bags,)
            Labels.
        """
        log_proba = self.predict_log_proba(bags, groups=groups)
        indicator = self._read_candidates(candidates, len(log_proba), groups)
        best = np.where(indicator, log_proba, -np.inf).argmax(axis=1)
        return self.classes_[best]

    def score(self, bags: Any, y: Any, *, groups: ArrayLike | None = None) -> float:
        """Return the accuracy for true bag labels, the covering rate for candidate labels.

        Parameters
        ----------
        y : array-like
            True labels, or candidate labels in any form :meth:`fit` takes.

        Returns
        -------
        float
            Between 0 and 1.
        """
        best = self.predict_log_proba(bags, groups=groups).argmax(axis=1)
        if groups is None:
            return float(answered_right(self.classes_[best], y, self.classes_).mean())
        indicator = self._read_candidates(y, len(best), groups)
        return float(indicator[np.arange(len(best)), best].mean())

    def _read_candidates(self, candidates: Any, n_bags: int, groups: Any) -> BoolArray:
        indicator, _ = read_bag_labels(candidates, n_bags, self.classes_, groups=groups)
        check_labelled(indicator)
        return indicator


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
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
    pooling : float, default=2.0
        Temperature at which the instances of a bag speak for a label: towards 0 the best alone,
        at 1 one softmax over all pairs, above 1 more and more all of them.
    temperature : float or (start, end), default=(1.0, 0.5)
        Of "tempered" selection: constant, or from the first value to the second over the
        training.
    weighting_strength : float, default=0.0
        Lambda: multiplies the log of the group weights. 1 is the paper's, 0 leaves them
        out.

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
        settings = {"encoder": "identity", "pooling": 1.0, **PAPER_TRAINING}
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

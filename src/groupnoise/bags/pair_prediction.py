"""Predictions for bags with candidate labels, from pairs of instance and label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.bags.estimator import MaxMatchingMILClassifier
from groupnoise.bags.reading.inputs import as_bags, check_labelled, read_bag_labels
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.batching import GroupBatch, batch_rows, collate
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import correct_predictions
from groupnoise.core.objective import average_log_probabilities
from groupnoise.core.pair_matching import match_pairs
from groupnoise.core.scaling import Scaler, check_same_columns, feature_tables
from groupnoise.core.words import inherit_docstring
from groupnoise.training.estimator import MatchingEstimator
from groupnoise.training.parameters import FeatureParameters

EVALUATION_BATCH = 256
MIN_PROBABILITY, MIN_LOG = 1e-12, -1e4


class ChosenPairs(NamedTuple):
    """The most probable pair of instance and label of each bag.

    `instance`: position of the chosen instance inside its bag.
    `label`: the candidate label chosen.
    `probability`: the part of the chosen pair among all pairs the bag allows.
    """

    instance: IntArray
    label: NDArray[Any]
    probability: FloatArray


@inherit_docstring
class PairPredictions(FeatureParameters, ClassifierMixin, MatchingEstimator):
    """Predictions for bags with candidate labels, from pairs of instance and label."""

    classes_: NDArray[Any]
    scaler_: Scaler
    pooling: float
    resolved_: MaxMatchingMILClassifier | None = None

    def _scaled(self, instances: Groups) -> Groups:
        """Return scaled bags; the target of a bag is its own row, whose candidates are known."""
        rows = np.arange(len(instances))
        return Groups(self.scaler_(instances.objects), instances.offsets, rows)

    def _log_pairs(self, batch: GroupBatch, candidates: Tensor, of_bags: Tensor | None) -> Tensor:
        """Return the log score of every pair, shape (bags, size, n_classes); -inf where none is.

        `of_bags` (bags, n_classes): log probabilities of the fit on resolved labels, averaged with
        those of the pairs.
        """
        objective, members = self._objective(), []
        for model in self._models():
            matching = match_pairs(model, batch, candidates, self.pooling)
            scores = objective(matching).scores.masked_fill(~matching.mask, -torch.inf)
            members.append(scores.log_softmax(-1))
        pairs = average_log_probabilities(members).view(*batch.mask.shape, len(self.classes_))
        if of_bags is None:
            return pairs
        own = pairs.logsumexp(1).clamp(min=MIN_LOG)  # labels that are no candidates have none
        both = pairs + 0.5 * (of_bags - own).unsqueeze(1)
        return both.flatten(1).log_softmax(-1).view_as(pairs)

    def _batches(
        self, bags: Any, groups: ArrayLike | None
    ) -> Iterator[tuple[GroupBatch, Tensor | None]]:
        """Yield bags, and their log probabilities by the fit on resolved labels, if any."""
        check_is_fitted(self, "model_")
        instances = as_bags(bags, groups)
        check_same_columns(self, feature_tables(bags, instances.objects))
        of_bags = self._log_resolved(instances)
        scaled = self._scaled(instances)
        for rows in batch_rows(scaled.sizes, EVALUATION_BATCH, None):
            yield collate(scaled, rows), None if of_bags is None else of_bags[rows]

    def _log_resolved(self, instances: Groups) -> Tensor | None:
        """Return log P(label | bag) by the fit on resolved labels, (n_bags, n_classes)."""
        if self.resolved_ is None:
            return None
        found = np.log(np.maximum(self.resolved_.bag_proba(instances), MIN_PROBABILITY))
        # A label that no bag was resolved to gets the smallest probability of the others.
        every = np.repeat(found.min(axis=1, keepdims=True), len(self.classes_), axis=1)
        every[:, np.isin(self.classes_, self.resolved_.classes_)] = found
        return torch.from_numpy(every).float()

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
            for batch, of_bags in self._batches(bags, groups):
                every = torch.ones(len(batch), len(self.classes_), dtype=torch.bool)
                parts.append(self._log_pairs(batch, every, of_bags).logsumexp(1))
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
        n_bags = sum(len(batch) for batch, _ in batches)
        table = torch.from_numpy(self._read_candidates(candidates, n_bags, groups))
        best, probability = [], []
        with torch.no_grad():
            for batch, of_bags in batches:
                pairs = self._log_pairs(batch, table[batch.rows], of_bags)
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
            return float(correct_predictions(self.classes_[best], y, self.classes_).mean())
        indicator = self._read_candidates(y, len(best), groups)
        return float(indicator[np.arange(len(best)), best].mean())

    def _read_candidates(self, candidates: Any, n_bags: int, groups: Any) -> BoolArray:
        indicator, _ = read_bag_labels(candidates, n_bags, self.classes_, groups=groups)
        check_labelled(indicator)
        return indicator

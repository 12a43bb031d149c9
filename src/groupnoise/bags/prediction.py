"""Predictions of bag classifiers: for instances, for bags, and the instance behind a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from groupnoise.bags.reading.inputs import as_bags, check_no_scorer, holds_bags, read_bag_labels
from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.batching import GroupBatch, batch_rows, collate, split_batch
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import correct_predictions
from groupnoise.core.objective import (
    GroupObjective,
    ObjectScores,
    average_log_probabilities,
    collect_object_scores,
)
from groupnoise.core.pair_matching import Matching
from groupnoise.core.scaling import Scaler, check_same_columns, feature_tables, rows_to_predict
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.core.weighting import ContrastiveWeighting
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import DataError
from groupnoise.training.estimator import MatchingEstimator
from groupnoise.training.parameters import FeatureParameters

EVALUATION_BATCH = 256
MAX_OBJECTS = 1 << 16
"""Instances in memory at a time, padding included."""


@inherit_docstring
class BagPredictions(FeatureParameters, ClassifierMixin, MatchingEstimator):
    """Predictions of the training loop's models, or of the ensemble of a search."""

    classes_: NDArray[Any]
    calibration_temperature_: float
    scaler_: Scaler
    ensemble_: BagEnsemble | None = None
    decisions_: Decisions
    negative_label_: Any
    negatives_: NDArray[Any] | None = None

    def _prediction_objective(self) -> GroupObjective:
        """Return the objective with fixed negatives, so that bags are predicted independently."""
        objective = self._objective()
        if self.negatives_ is None or not isinstance(objective.weighting, ContrastiveWeighting):
            return objective
        fixed = objective.weighting.against(torch.from_numpy(self.negatives_))
        return replace(objective, weighting=fixed)

    def _log_probabilities(
        self, instances: NDArray[Any], temperature: float | None = None
    ) -> Tensor:
        """Return log P(target | instance) of scaled instances, background last.

        The default temperature is the calibrated one.
        """
        cooling = self.calibration_temperature_ if temperature is None else temperature
        with torch.no_grad():
            if self.ensemble_ is not None:
                log_proba = self.ensemble_.log_probabilities(instances).float()
            else:
                blocks, members = torch.from_numpy(instances).split(EVALUATION_BATCH), []
                for model in self._models():
                    targets = torch.arange(model.n_targets)
                    logits = [model.logits(model.encode_objects(each), targets) for each in blocks]
                    members.append(torch.cat(logits).log_softmax(-1))
                log_proba = average_log_probabilities(members)
            return log_proba if cooling == 1.0 else (log_proba / cooling).log_softmax(-1)

    def predict_log_proba(self, X: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return log P(class | instance), if it is of some class and no background.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or bags as in `fit`
            Instances. Those that come in their bags are judged within them: a label that the bag
            seems to lack (:meth:`bag_proba` below a half) is less likely in each of its instances.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Log probabilities.
        """
        check_no_scorer(X)
        log_all = self._log_instances(X, groups)[:, : len(self.classes_)]
        return log_all.log_softmax(-1).numpy()

    def predict_proba(
        self, X: Any, *, groups: ArrayLike | None = None, background: bool = False
    ) -> FloatArray:
        """Return P(class | instance), if it is of some class; or of all classes and background.

        Where no class is negative, instances may be background: of no class at all. Of these the
        classes alone say nothing, so ask for `background=True`, or :meth:`background_proba`.

        Parameters
        ----------
        background : bool, default=False
            Whether a last column holds P(background | instance), and the classes have what is
            left.

        Returns
        -------
        ndarray of shape (n_rows, n_classes) or (n_rows, n_classes + 1)
            Rows sum to one.
        """
        if not background:
            return np.exp(self.predict_log_proba(X, groups=groups))
        log_all = self._log_instances(X, groups)
        n_classes = len(self.classes_)
        outside = log_all[:, n_classes:].exp().sum(-1, keepdim=True)
        return torch.cat([log_all[:, :n_classes].exp(), outside], 1).numpy()

    def predict(
        self, X: Any, *, groups: ArrayLike | None = None, background: Any = None
    ) -> NDArray[Any]:
        """Return the label of each instance: its likeliest class.

        Parameters
        ----------
        background : object, default=None
            What to answer where background is likelier than every class, such as "background";
            by default the likeliest class is answered there too.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        if background is None:
            best = self.answered(self.predict_proba(X, groups=groups))
            return self.classes_[best]
        known = [*self.classes_.tolist(), background]
        is_mixed = len({isinstance(label, str) for label in known}) > 1
        answers = np.array(known, dtype=object if is_mixed else None)
        proba = self.predict_proba(X, groups=groups, background=True)
        return np.asarray(answers[self.answered(proba)])

    def answered(self, proba: FloatArray) -> IntArray:
        """Return which column of :meth:`predict_proba` is answered of each instance.

        The likeliest; of positive and negative bags the positive class from a probability on that
        `fit` found, for positive instances are rare.

        Parameters
        ----------
        proba : ndarray of shape (n_rows, n_classes) or (n_rows, n_classes + 1)
            What :meth:`predict_proba` returned.

        Returns
        -------
        int64 ndarray of shape (n_rows,)
            Columns.
        """
        return proba.argmax(axis=1) if self.ensemble_ is None else self.ensemble_.answered(proba)

    def background_proba(self, X: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return P(background | instance).

        Returns
        -------
        ndarray of shape (n_rows,)
            Zero without a background target.
        """
        return self.predict_proba(X, groups=groups, background=True)[:, -1]

    def _log_instances(self, X: Any, groups: ArrayLike | None = None) -> Tensor:
        """Return log P(target | instance) in the order of the rows given, background last."""
        if groups is None and not holds_bags(X):
            check_is_fitted(self, "model_")
            return self._log_probabilities(self._scale_unless_ensemble(rows_to_predict(self, X)))
        bags = self._read_bags(X, groups)
        parts = []
        for rows, sizes in self._parts(bags):
            if self.ensemble_ is None:
                parts.append(self._log_probabilities(self._scale_unless_ensemble(rows)))
                continue
            with torch.no_grad():
                temperature = self.calibration_temperature_
                found = self.ensemble_.log_probabilities_in_bags(rows, sizes, temperature)
            parts.append(found.float())
        log_all = torch.cat(parts)
        if groups is not None:
            numbers = Groups.from_rows(np.arange(len(log_all))[:, None], groups)[0].objects[:, 0]
            log_all = log_all[np.argsort(numbers)]
        return log_all

    def _parts(self, bags: Groups) -> Iterator[tuple[NDArray[Any], IntArray]]:
        """Yield instances and sizes of consecutive bags that fit into memory."""
        sizes, streamed = np.asarray(bags.sizes), isinstance(bags, StreamedGroups)
        if not streamed and bags.n_objects <= MAX_OBJECTS:
            yield bags.objects, sizes
            return
        for rows in split_batch(np.arange(len(bags)), sizes, MAX_OBJECTS):
            part = bags.gathered(rows) if streamed else bags.subset(rows).objects
            yield part, sizes[rows]

    def _scale_unless_ensemble(self, instances: NDArray[Any]) -> NDArray[Any]:
        """Scale instances; members of an ensemble scale them themselves."""
        return instances if self.ensemble_ is not None else self.scaler_(instances)

    def _read_bags(self, bags: Any, groups: ArrayLike | None) -> Groups:
        """Return validated bags with the columns seen in `fit`."""
        check_is_fitted(self, "model_")
        instances = as_bags(bags, groups)
        check_same_columns(self, feature_tables(bags, instances[0]))
        return instances

    def _read_labelled(
        self, bags: Any, y: Any, groups: ArrayLike | None
    ) -> tuple[Groups, BoolArray]:
        """Return validated bags and labels, with the columns and classes seen in `fit`."""
        instances = self._read_bags(bags, groups)
        return instances, read_bag_labels(y, len(instances), self.classes_, groups=groups)[0]

    def bag_scores(self, bags: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return the score of each class for each bag.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            As in `fit`.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Log probabilities; under the training loop, log scores of its selection.
        """
        if self.ensemble_ is not None:
            told = self._parts(self._read_bags(bags, groups))
            log_odds = np.concatenate([self.ensemble_.bag_log_odds(*each) for each in told])
            return self.ensemble_.log_proba_of_bags(log_odds)
        objective = self._prediction_objective()
        parts = []
        for batch in self._batches(self._read_bags(bags, groups)):
            matching = self._match_batch(batch, 0)
            log_weight = objective.log_weight(matching.features, batch.mask)
            scores = matching.features[..., : len(self.classes_)]
            scores = scores + objective.weighting_strength * log_weight.unsqueeze(-1)
            mask = batch.mask.unsqueeze(1).expand(-1, scores.shape[-1], -1)
            parts.append(objective.selection(scores.transpose(1, 2), mask).log_score)
        return torch.cat(parts).numpy()

    def bag_proba(self, bags: Any, *, groups: ArrayLike | None = None) -> FloatArray:
        """Return the probability that each bag has each label.

        They are calibrated on bags that were held out in `fit`; few of these make none certain: of
        two labels at most one in as many as were held out, and two, is left to the other. Where no
        bag of the training had more than one label the probabilities of a bag sum to one.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Probabilities.
        """
        scores = self.bag_scores(bags, groups=groups)
        if self.ensemble_ is None:  # scores of a selection: which class is matched most
            scores = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return np.exp(scores)

    @property
    def _predicts_label_sets(self) -> bool:
        """Whether predictions are sets of labels: training bags had several labels, or none."""
        ensemble = self.ensemble_
        return ensemble is not None and (not ensemble.exclusive or ensemble.has_unlabelled)

    def predict_bags(self, bags: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label of each bag; all of its labels after a fit on bags with several.

        A bag has the labels that are likelier in it than not. Where there is none it has the
        likeliest one, or no label at all if bags of the fit had none. Under the training loop,
        which learns no probability of a label, the best one is answered.

        Returns
        -------
        ndarray
            Labels of shape (n_bags,); if bags of the fit had several labels, or none, a boolean
            matrix of shape (n_bags, n_classes).
        """
        scores = self.bag_scores(bags, groups=groups)
        if self._predicts_label_sets and self.ensemble_ is not None:
            return self.ensemble_.likeliest_sets(scores)
        return self.classes_[scores.argmax(axis=1)]

    def select(self, bags: Any, y: Any, *, groups: ArrayLike | None = None) -> ObjectScores:
        """Return which instance carries the label of each bag, and how all of them score.

        Parameters
        ----------
        y : array-like of shape (n_bags,)
            One label per bag; call once per label for bags with several.

        Returns
        -------
        ObjectScores
            One row per bag and per instance.
        """
        objective = self._prediction_objective()
        instances, labels = self._read_labelled(bags, y, groups)
        several = np.flatnonzero(labels.sum(axis=1) != 1)
        if len(several):
            raise DataError(
                f"select needs one label per bag; bag {several[0]} has "
                f"{labels[several[0]].sum()}. Call it once per label."
            )
        column = torch.from_numpy(labels.argmax(axis=1))
        outputs = []
        for batch in self._batches(instances):
            matching = self._match_batch(batch, column[batch.rows])
            outputs.append((objective(matching), batch.mask))
        return collect_object_scores(outputs)

    def _batches(self, instances: Groups) -> Iterator[GroupBatch]:
        if not isinstance(instances, StreamedGroups):
            scaled = Groups(self._scale_unless_ensemble(instances.objects), instances.offsets)
        elif self.ensemble_ is None:
            scaled = instances.scaled_by(self.scaler_)
        else:
            scaled = instances.subset(slice(None))
        scaled.targets = np.zeros(len(instances), dtype=np.int64)
        sizes = scaled.sizes
        for rows in batch_rows(sizes, EVALUATION_BATCH, None):
            for part in split_batch(rows, sizes[rows], MAX_OBJECTS):
                yield collate(scaled, part)

    def _match_batch(self, batch: GroupBatch, column: Tensor | int) -> Matching:
        """Return the matching of a batch with one target column per group."""
        n_groups, size = batch.mask.shape
        log_all = self._log_probabilities(batch.objects.flatten(0, 1).numpy())
        features = log_all.view(n_groups, size, -1)
        columns = torch.as_tensor(column).expand(n_groups).view(-1, 1, 1).expand(-1, size, 1)
        log_pair = features.gather(-1, columns).squeeze(-1)
        return Matching(log_pair, batch.mask, features, features)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on single instances with known labels, or on bags.

        Bags in any form but flat rows are answered by their likeliest label, so `GridSearchCV` can
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

        Returns
        -------
        float
            The share of right answers.
        """
        if not holds_bags(X):
            return float(super().score(X, y, sample_weight))
        likeliest = self.classes_[self.bag_scores(X).argmax(axis=1)]
        right = correct_predictions(likeliest, y, self.classes_)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))

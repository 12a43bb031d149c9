"""Cross-fitting: rows are predicted by classifiers that were not trained on their votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.votes.calibration import best_calibrated
from groupnoise.votes.classifiers import Fit, PredictionCache
from groupnoise.votes.dawid_skene import MIN_PROBABILITY
from groupnoise.votes.features import weigh_by_neighbours

MIN_WEIGHT = 1e-3
"""Least weight of a named label in training: a vote is evidence, never a proof."""
MIN_NESTED_FOLDS, MAX_NESTED_FOLDS = 4, 5
"""Two folds are left out at a time: fewer leave too few rows to train on, more cost too much."""
FitAnnotators = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From P(label | features): log P(votes of a row | label), and P(label | votes, features)."""


@dataclass(frozen=True)
class CrossFit:
    """Classifiers trained on some folds of the rows to predict the others.

    `named` (n_rows, n_classes): labels that somebody named; rows without any are predicted but not
        trained on.
    `features`: of shape (n_rows, n_features).
    `fits`: the training functions; the predictions of each are kept apart.
    `n_folds`, `seed`: the folds.
    `cache`: predictions of an earlier, interrupted run.
    `on_training`: called after each training.
    """

    named: BoolArray
    features: FloatArray
    fits: Sequence[Fit]
    n_folds: int = 5
    seed: int = 0
    cache: PredictionCache | None = None
    on_training: Callable[[], None] | None = None

    @property
    def n_nested_fits(self) -> int:
        """Number of models that `nested` trains; 0 where there are too few folds."""
        n_folds = min(self.n_folds, MAX_NESTED_FOLDS)
        if n_folds < MIN_NESTED_FOLDS:
            return 0
        return len(self.fits) * (n_folds * (n_folds - 1) // 2 + n_folds)

    def predict(
        self, fit: Fit, belief: FloatArray, training: IntArray, held: IntArray
    ) -> FloatArray:
        """Return P(label | features) of the rows `held` from a model of the rows `training`.

        `belief` (n_rows, n_classes): weights of the named labels.
        """
        rows = training[self.named[training].any(axis=1)]
        present = self.named[rows].any(axis=0)
        named = self.named[rows][:, present]
        weights = np.where(named, np.maximum(belief[rows][:, present], MIN_WEIGHT), 0.0)
        inputs = self.features[rows], named, weights

        def train() -> FloatArray:
            return np.asarray(fit(*inputs).predict_proba(self.features[held]))

        found = np.full((len(held), self.named.shape[1]), MIN_PROBABILITY)
        found[:, present] = (
            train() if self.cache is None else self.cache(train, fit, *inputs, self.features[held])
        )
        if self.on_training is not None:
            self.on_training()
        return found

    def out_of_fold(self, belief: FloatArray, *, seed: int | None = None) -> list[FloatArray]:
        """Return out-of-fold P(label | features) of all rows, by each classifier.

        `seed`: decides the folds in place of the own one.
        """
        from groupnoise.candidates.label_issues import cross_fit

        n_classes = self.named.shape[1]
        best = np.where(self.named.any(axis=1), belief.argmax(axis=1), n_classes)
        found = []
        for fit in self.fits:
            generator = np.random.default_rng(self.seed if seed is None else seed)
            predict = partial(self.predict, fit, belief)
            found.append(cross_fit(predict, best, n_classes, self.n_folds, generator))
        return found

    def nested(
        self,
        belief: FloatArray,
        likelihood: FloatArray,
        nearest: IntArray,
        is_taught: BoolArray,
        fit_annotators: FitAnnotators,
    ) -> FloatArray:
        """Return P(label | features) of two rounds that do not use the votes of a row's own fold.

        After one plain round the votes on a row have shaped the labels of similar rows; in the next
        round those train the model that predicts the row, so its own votes seem to be confirmed by
        its features. So models trained without two folds predict both of them first; this updates
        the labels of the other rows, which then train the model of a fold. Only the temperatures, a
        few numbers, are chosen by the likelihood of all votes.

        `belief` (n_rows, n_classes): P(label | votes). `likelihood` (n_rows, n_classes): log
        P(votes of a row | label). `nearest` (n_rows, n_neighbours): similar rows. `is_taught`: rows
        with votes or a true label. `fit_annotators`: fits the annotators again, with features as
        prior.
        """
        n_rows, n_classes = belief.shape
        n_folds = min(self.n_folds, MAX_NESTED_FOLDS)
        rows = np.arange(n_rows)
        order = np.random.default_rng(self.seed).permutation(n_rows)
        best = np.where(is_taught, belief.argmax(axis=1), n_classes)
        fold = np.empty(n_rows, dtype=np.int64)
        fold[order[np.argsort(best[order], kind="stable")]] = rows % n_folds

        # Predictions [k] of all rows come from models that saw neither a row's own fold nor fold k.
        without = [np.zeros((n_folds, n_rows, n_classes)) for _ in self.fits]
        for fit, predictions in zip(self.fits, without, strict=True):
            for one, other in combinations(range(n_folds), 2):
                is_held = (fold == one) | (fold == other)
                held = np.flatnonzero(is_held)
                predicted = self.predict(fit, belief, np.flatnonzero(~is_held), held)
                for left_out in (one, other):
                    is_own = fold[held] == left_out
                    predictions[left_out, held[~is_own]] = predicted[~is_own]
                    predictions[left_out, held[is_own]] += predicted[is_own] / (n_folds - 1)

        # One copy of all rows per fold, stacked; a row is scored in the copy of its own fold only.
        own = fold * n_rows + rows
        is_own = np.zeros(n_folds * n_rows, dtype=bool)
        is_own[own] = True
        is_judged = is_own & np.tile(is_taught, n_folds)
        stacked = [each.reshape(-1, n_classes) for each in without]
        frequency = belief[is_taught].mean(axis=0)
        first, _ = best_calibrated(stacked, np.tile(likelihood, (n_folds, 1)), frequency, is_judged)
        of_fold = np.concatenate([nearest + number * n_rows for number in range(n_folds)])
        believed = np.where(is_own[:, None], first, _posterior(first, likelihood))
        first = weigh_by_neighbours(
            first, np.tile(likelihood, (n_folds, 1)), of_fold, is_judged, believed=believed
        )
        likelihood, belief = fit_annotators(first[own])
        believed = _posterior(first, likelihood)
        raw: list[FloatArray] = [np.zeros((n_rows, n_classes)) for _ in self.fits]
        for fit, by_fold in zip(self.fits, raw, strict=True):
            for number in range(n_folds):
                held, training = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
                weights = believed[number * n_rows : (number + 1) * n_rows]
                by_fold[held] = self.predict(fit, weights, training, held)
        second, _ = best_calibrated(raw, likelihood, belief[is_taught].mean(axis=0), is_taught)
        return weigh_by_neighbours(second, likelihood, of_fold[own], is_taught, believed=believed)


def _posterior(stacked: FloatArray, likelihood: FloatArray) -> FloatArray:
    """Return P(label | votes, features) of all rows in every fold."""
    scaled = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    weighed = stacked * np.tile(scaled, (len(stacked) // len(scaled), 1))
    return np.asarray(
        weighed / np.maximum(weighed.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    )

"""Label inference from votes and features: annotators and classifiers are fitted alternately.

All predictions of the classifier are out of fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.votes.calibration import (
    best_calibrated,
    calibrate_by_votes,
    calibrate_confidences,
    expect_hidden_errors,
    held_out_temperature,
    single_vote_temperature,
)
from groupnoise.votes.classifiers import MAX_KERNEL_ROWS, Fit, PredictionCache, default_fits
from groupnoise.votes.cross_fit import CrossFit
from groupnoise.votes.data import Votes, is_checked
from groupnoise.votes.dawid_skene import (
    MIN_PROBABILITY,
    SHARED_ACCURACY,
    DawidSkene,
    log_vote_likelihood,
    one_coin_confusion,
    softmax,
    vote_likelihoods,
    vote_posterior,
    with_truth,
)
from groupnoise.votes.features import (
    N_NEIGHBOURS,
    nearest_voted_rows,
    single_vote_accuracy,
    weigh_by_neighbours,
)
from groupnoise.votes.gibbs import gibbs_posterior

VOTE_ROUNDS, CANDIDATE_ROUNDS = 2, 3
"""How often annotators, or candidates, and classifiers are fitted to each other."""
MIN_ROWS = 20
"""Rows with votes below which no classifier is trained: a fold would be too small."""


@dataclass(frozen=True)
class Belief:
    """Posterior over the true labels, and what it was made from.

    `probabilities` (n_rows, n_classes): p(label | votes, features), calibrated on held-out votes;
        certain where the true label is known.
    `unanswered` (n_rows, n_classes): the same as if no row's own true label were known.
    `predicted` (n_rows, n_classes): p(label | features) from models that did not see the row; None
        without features.
    `model`: the annotators; None for candidate labels.
    `temperature`: by which log probabilities were divided.
    `neighbours` (n_rows, n_neighbours): the rows with votes that are most like each row, nearest
        first; None without features.
    """

    probabilities: FloatArray
    unanswered: FloatArray
    predicted: FloatArray | None
    model: DawidSkene | None
    temperature: float
    neighbours: IntArray | None = None

    def likeliest_other(self, row: int, label: int) -> int:
        """Return the label that would be the likeliest of a row if `label` were not."""
        others = self.unanswered[row].copy()
        others[label] = -1.0
        return int(others.argmax())


def infer_labels(
    votes: Votes,
    features: FloatArray | None,
    *,
    is_candidates: bool = False,
    truth: IntArray | None = None,
    n_folds: int = 5,
    n_rounds: int | None = None,
    fit: Fit | Sequence[Fit] | None = None,
    seed: int = 0,
    cache: PredictionCache | None = None,
    on_progress: ProgressCallback | None = None,
) -> Belief:
    """Return the posterior over the labels of all rows, given votes and features.

    With features, rows without votes are predicted too.
    `features` (n_rows, n_features): by default votes are the only evidence.
    `is_candidates`: whether the votes on a row are a candidate set that holds the true label.
    `truth`: true labels of some rows as positions in `votes.class_names`, -1 where unknown.
    `n_folds`: folds of the rows; each is predicted by a model trained on the others.
    `n_rounds`: how often annotators and classifier are fitted to each other; by default
        `CANDIDATE_ROUNDS` for candidates, averaged over all rounds, and `VOTE_ROUNDS` for votes.
    `fit`: trains the classifier; of several, the one under which held-out votes are likeliest is
        used, or the mean of all. By default those of `default_fits`.
    `cache`: predictions of an earlier, interrupted run.
    `on_progress`: called after each training with the numbers `done` and `total`.
    """
    if n_rounds is None:
        n_rounds = CANDIDATE_ROUNDS if is_candidates else VOTE_ROUNDS
    if not is_candidates:
        votes = calibrate_confidences(votes, truth)
    model = None if is_candidates else _fit_annotators(votes, None, truth, seed)
    belief = with_truth(votes.shares(), truth) if model is None else model.probabilities_
    is_taught = votes.counts > 0 if truth is None else (votes.counts > 0) | (truth >= 0)
    predicted: FloatArray | None = None
    nearest: IntArray | None = None
    nested: FloatArray | None = None
    if features is not None and is_taught.sum() >= MIN_ROWS and votes.n_classes > 1:
        n_near = N_NEIGHBOURS if is_candidates else 2 * N_NEIGHBOURS  # two halves judge votes
        nearest = nearest_voted_rows(features, is_taught, n_near)
        fits = default_fits(fit, features, seed, is_candidates=is_candidates)
        known = with_truth(np.zeros((votes.n_rows, votes.n_classes)), truth) > 0
        classifiers = CrossFit(votes.candidates() | known, features, fits, n_folds, seed, cache)
        is_nested = model is not None and n_rounds > 1 and votes.n_rows <= MAX_KERNEL_ROWS
        total = n_rounds * n_folds * len(fits) + is_nested * classifiers.n_nested_fits
        rounds = _Alternation(
            votes, truth, is_taught, nearest[:, :N_NEIGHBOURS],
            replace(classifiers, on_training=_counter(on_progress, total)),
        )  # fmt: skip
        if model is not None and is_nested and classifiers.n_nested_fits:
            nested = rounds.nested(model, belief)
        model, belief, predicted = rounds.run(n_rounds, model, belief)
    shown = None if nearest is None else nearest[:, :N_NEIGHBOURS]
    if model is None:
        unanswered = votes.shares()
        if predicted is not None:
            likelihood = log_vote_likelihood(votes, None)
            unanswered = softmax(np.log(np.maximum(predicted, MIN_PROBABILITY)) + likelihood)
            named = with_truth(votes.totals(), truth)[is_taught] > 0
            belief[is_taught] = expect_hidden_errors(belief[is_taught], predicted[is_taught], named)
        return Belief(belief, unanswered, predicted, model, 1.0, shown)
    unanswered, temperature = _calibrated_posterior(
        votes, model, predicted, nearest, truth, n_folds, seed
    )
    if nested is not None:
        other = _fit_annotators(votes, nested, truth, seed)
        also, _ = _calibrated_posterior(votes, other, nested, nearest, truth, n_folds, seed)
        unanswered = (unanswered + also) / 2.0
    answered = with_truth(unanswered, truth)
    return Belief(answered, unanswered, predicted, model, temperature, shown)


def _counter(on_progress: ProgressCallback | None, total: int) -> Callable[[], None] | None:
    """Return what reports one more of `total` trainings at each call."""
    if on_progress is None:
        return None
    done = count(1)
    return lambda: on_progress({"stage": "training", "done": next(done), "total": total})


@dataclass(frozen=True)
class _Alternation:
    """Rounds in which classifiers and annotators, or candidates, are fitted to each other.

    `is_taught`: rows with votes or a true label. `nearest`: similar rows.
    """

    votes: Votes
    truth: IntArray | None
    is_taught: BoolArray
    nearest: IntArray
    classifiers: CrossFit

    def run(
        self, n_rounds: int, model: DawidSkene | None, belief: FloatArray
    ) -> tuple[DawidSkene | None, FloatArray, FloatArray]:
        """Return the annotators, P(label | votes, features) and P(label | features).

        `model`, `belief`: from the votes alone.
        """
        predictions = list[FloatArray]()
        for number in range(n_rounds):
            raw = self.classifiers.out_of_fold(belief, seed=self.classifiers.seed + number)
            likelihood = _log_likelihood(self.votes, model, self.truth)
            predicted = self._calibrated(raw, likelihood, belief, is_candidates=model is None)
            if model is not None:
                model = self._fit_annotators(predicted)
                belief = model.probabilities_
                continue
            predictions.append(predicted)
            if len(predictions) == n_rounds:
                # Later rounds know more, but repeat their own errors: the mean of all is better.
                predicted = np.mean(predictions, axis=0)
            belief = softmax(np.log(np.maximum(predicted, MIN_PROBABILITY)) + likelihood)
        return model, belief, predicted

    def nested(self, model: DawidSkene, belief: FloatArray) -> FloatArray:
        """Return P(label | features) of rounds in which no vote influences its own row."""

        def fit_annotators(prior: FloatArray) -> tuple[FloatArray, FloatArray]:
            fitted = self._fit_annotators(prior)
            return _log_likelihood(self.votes, fitted, self.truth), fitted.probabilities_

        likelihood = _log_likelihood(self.votes, model, self.truth)
        return self.classifiers.nested(
            belief, likelihood, self.nearest, self.is_taught, fit_annotators
        )

    def _fit_annotators(self, prior: FloatArray) -> DawidSkene:
        return _fit_annotators(self.votes, prior, self.truth, self.classifiers.seed)

    def _calibrated(
        self,
        raw: Sequence[FloatArray],
        likelihood: FloatArray,
        belief: FloatArray,
        *,
        is_candidates: bool,
    ) -> FloatArray:
        """Return p(label | features), calibrated by the votes and weighed by the neighbours."""
        frequency = belief[self.is_taught].mean(axis=0)
        predicted, _ = best_calibrated(raw, likelihood, frequency, self.is_taught)
        predicted = weigh_by_neighbours(predicted, likelihood, self.nearest, self.is_taught)
        if is_candidates:
            # There is no second vote to tell that neighbours make predictions overconfident.
            # (With votes, single ones would outweigh features that are more accurate.)
            predicted, _ = calibrate_by_votes(predicted, likelihood, frequency, self.is_taught)
        return predicted


def _fit_annotators(
    votes: Votes, prior: FloatArray | None, truth: IntArray | None, seed: int
) -> DawidSkene:
    """Return annotators: the posterior mean where anything checks the votes, else the likeliest."""
    model = DawidSkene().fit(votes, prior=prior, truth=truth)
    can_check = prior is not None or is_checked(votes, truth).sum() >= MIN_ROWS
    if can_check and votes.n_classes > 1:
        averaged = gibbs_posterior(votes, prior=prior, truth=truth, seed=seed)
        model.probabilities_, model.confusion_ = averaged
    return model


def _log_likelihood(votes: Votes, model: DawidSkene | None, truth: IntArray | None) -> FloatArray:
    """Return log P(votes of a row | label); known true labels rule out all others."""
    likelihood = log_vote_likelihood(votes, None if model is None else model.confusion_)
    known = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    return np.asarray(np.log(np.maximum(with_truth(known, truth), MIN_PROBABILITY**2)))


def _calibrated_posterior(
    votes: Votes,
    model: DawidSkene,
    predicted: FloatArray | None,
    nearest: IntArray | None,
    truth: IntArray | None,
    n_folds: int,
    seed: int,
) -> tuple[FloatArray, float]:
    """Return p(label | votes, features) calibrated on held-out votes, and its temperature."""
    prior = model.class_prior_ if predicted is None else predicted
    log_prior = np.log(np.maximum(prior, MIN_PROBABILITY))
    held_out = model.held_out_likelihoods(votes, n_folds, seed)
    temperature = held_out_temperature(votes, vote_likelihoods(votes, model.confusion_), log_prior)
    # In-sample confusions are optimistic, out-of-fold ones are fitted to fewer votes.
    temperature = float(np.sqrt(temperature * held_out_temperature(votes, held_out, log_prior)))
    belief = model.probabilities_.copy()
    known = np.zeros(votes.n_rows, dtype=bool) if truth is None else truth >= 0
    belief[known] = vote_posterior(votes, model.confusion_, log_prior)[known]
    logs = np.log(np.maximum(belief, MIN_PROBABILITY))
    calibrated = softmax(logs / temperature)
    is_single = votes.counts == 1
    if predicted is not None and nearest is not None and is_single.any():
        confusion = model.confusion_
        n_checked = is_checked(votes, truth).sum()
        if n_checked < MIN_ROWS:  # only similar rows can check the votes
            shares = votes.first_choices().shares()
            accuracy = single_vote_accuracy(shares, nearest, is_single, SHARED_ACCURACY)
            confusion = np.broadcast_to(
                one_coin_confusion(accuracy, votes.n_classes), confusion.shape
            )
        own = single_vote_temperature(votes, confusion, predicted, belief)
        if n_checked >= MIN_ROWS:
            own = float(np.sqrt(temperature * own))
        calibrated[is_single] = softmax(logs[is_single] / own)
    # Rows without votes rest on the classifier alone, which is calibrated already.
    calibrated[votes.counts == 0] = belief[votes.counts == 0]
    return calibrated, temperature

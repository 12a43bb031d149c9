"""What votes and features say together: annotators and a classifier judge each other in turn.

Every probability of the classifier about a row comes from a model that did not see the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.core.selective import belief_with_errors, hidden_errors, n_predictable_candidates
from groupnoise.votes.apart import foretold_apart, n_trainings
from groupnoise.votes.averaged import averaged_over_annotators
from groupnoise.votes.ballots import Votes, is_checked
from groupnoise.votes.classifiers import (
    MAX_KERNEL_ROWS,
    Fit,
    KeptAnswers,
    calibrate_by_votes,
    held_out_temperature,
    likeliest,
    out_of_fold,
    single_vote_temperature,
    trainings,
)
from groupnoise.votes.dawid_skene import (
    MIN_PROBABILITY,
    SHARED_ACCURACY,
    DawidSkene,
    coins,
    log_vote_likelihood,
    softmax,
    vote_likelihoods,
    vote_posterior,
    with_truth,
)
from groupnoise.votes.features import (
    N_NEIGHBOURS,
    heed_neighbours,
    nearest_voted,
    single_vote_accuracy,
)

COOLING = np.geomspace(1.02, 8.0, 100)
HEEDED = (1.0, 0.5, 0.25)
"""How much of the doubt that annotators profess may be taken over, besides none."""
ENDS_IN_USE, MIN_IN_USE = (0.01, 0.99), 0.05
"""Quantiles between which confidences are said to lie, and how far apart these must be."""
VOTE_ROUNDS, CANDIDATE_ROUNDS = 2, 3
"""How often annotators, or candidates, and classifiers are learned from each other."""
GUESSED = 0.1
"""Part of an even share of all votes from which on a label counts wholly as one that is guessed."""
MIN_ROWS = 20
"""Rows with votes below which no classifier is trained: a fold would hold next to nothing."""


@dataclass(frozen=True)
class Belief:
    """What is believed of the true labels.

    `probabilities` (n_rows, n_classes): p(label | votes, features), calibrated on votes that were
        held out; certain where the true label is known.
    `unanswered` (n_rows, n_classes): the same as if no row's own true label were known.
    `predicted` (n_rows, n_classes): p(label | features) from models that did not see the row; None
        without features.
    `model`: the annotators; None where candidates are taken to hold the truth.
    `temperature`: what log probabilities were divided by.
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


def believe(
    votes: Votes,
    features: FloatArray | None,
    *,
    is_candidates: bool = False,
    truth: IntArray | None = None,
    n_folds: int = 5,
    n_rounds: int | None = None,
    fit: Fit | Sequence[Fit] | None = None,
    seed: int = 0,
    kept: KeptAnswers | None = None,
    on_progress: ProgressCallback | None = None,
) -> Belief:
    """Weigh votes and features against each other.

    Result: probabilities of every row, those without votes included where there are features.
    `features` (n_rows, n_features): the rows; without them votes stand alone.
    `is_candidates`: whether each row's votes are a set that is taken to hold the truth.
    `truth`: True labels of some rows as positions in `votes.class_names`, -1 where unknown.
    `n_folds`: parts of the rows; each is answered by a model trained on the others.
    `n_rounds`: how often annotators and classifier are learned from each other; by default
        `CANDIDATE_ROUNDS` of candidates, whose rounds all answer, and `VOTE_ROUNDS` of votes.
    `fit`: trains the classifier; of several, the one under which held-out votes are likeliest is
        taken, or all of them averaged. By default Max-Matching, as `trainings` says.
    `kept`: where finished trainings are kept, and found after an interruption.
    `on_progress`: told after each training how many of them are `done`, of `total`.
    """
    if n_rounds is None:
        n_rounds = CANDIDATE_ROUNDS if is_candidates else VOTE_ROUNDS
    if not is_candidates:
        votes = heed_confidences(votes, truth)
    model = None if is_candidates else _learned(votes, None, truth, seed)
    belief = with_truth(votes.shares(), truth) if model is None else model.probabilities_
    is_taught = votes.counts > 0 if truth is None else (votes.counts > 0) | (truth >= 0)
    predicted: FloatArray | None = None
    nearest: IntArray | None = None
    apart: FloatArray | None = None
    if features is not None and is_taught.sum() >= MIN_ROWS and votes.n_classes > 1:
        n_asked = N_NEIGHBOURS if is_candidates else 2 * N_NEIGHBOURS  # two halves judge votes
        nearest = nearest_voted(features, is_taught, n_asked)
        fits = trainings(fit, features, seed, is_candidates=is_candidates)
        n_apart = 0
        if model is not None and n_rounds > 1 and votes.n_rows <= MAX_KERNEL_ROWS:
            n_apart = n_trainings(n_folds, len(fits))
        done, total = count(1), n_rounds * n_folds * len(fits) + n_apart

        def tell() -> None:
            if on_progress is not None:
                on_progress({"stage": "training", "done": next(done), "total": total})

        rounds = _Rounds(
            votes, truth, is_taught, features, nearest[:, :N_NEIGHBOURS], fits, n_folds, seed,
            kept, tell,
        )  # fmt: skip
        if model is not None and n_apart:
            apart = rounds.apart(model, belief)
        model, belief, predicted = rounds.in_turn(n_rounds, model, belief)
    shown = None if nearest is None else nearest[:, :N_NEIGHBOURS]
    if model is None:
        unanswered = votes.shares()
        if predicted is not None:
            said = log_vote_likelihood(votes, None)
            unanswered = softmax(np.log(np.maximum(predicted, MIN_PROBABILITY)) + said)
            named = with_truth(votes.totals(), truth)[is_taught] > 0
            belief[is_taught] = doubted(belief[is_taught], predicted[is_taught], named)
        return Belief(belief, unanswered, predicted, model, 1.0, shown)
    unanswered, temperature = _cooled(votes, model, predicted, nearest, truth, n_folds, seed)
    if apart is not None:
        other = _learned(votes, apart, truth, seed)
        also, _ = _cooled(votes, other, apart, nearest, truth, n_folds, seed)
        unanswered = (unanswered + also) / 2.0
    answered = with_truth(unanswered, truth)
    return Belief(answered, unanswered, predicted, model, temperature, shown)


@dataclass(frozen=True)
class _Rounds:
    """Rounds in which classifiers and annotators, or candidates, learn from each other.

    `is_taught`: rows with votes or a true label. `neighbours`: similar rows. `tell`: called after
    each training. The rest by the names of the parameters of `believe`.
    """

    votes: Votes
    truth: IntArray | None
    is_taught: BoolArray
    features: FloatArray
    neighbours: IntArray
    fits: Sequence[Fit]
    n_folds: int
    seed: int
    kept: KeptAnswers | None
    tell: Callable[[], None]

    def named(self) -> BoolArray:
        """Return the labels that somebody named, and true ones, shape (n_rows, n_classes)."""
        known = with_truth(np.zeros((self.votes.n_rows, self.votes.n_classes)), self.truth)
        return np.asarray(self.votes.candidates() | (known > 0))

    def in_turn(
        self, n_rounds: int, model: DawidSkene | None, belief: FloatArray
    ) -> tuple[DawidSkene | None, FloatArray, FloatArray]:
        """Return the annotators, what is believed, and P(label | features), after some rounds.

        `model`, `belief`: what votes alone say.
        """
        named, foretold = self.named(), list[FloatArray]()
        for number in range(n_rounds):
            parts = named, self.features, belief, self.n_folds
            raw = [
                out_of_fold(*parts, fit, self.seed + number, kept=self.kept, on_fold=self.tell)
                for fit in self.fits
            ]
            likelihood = _likelihood_with_truth(self.votes, model, self.truth)
            predicted = _foretold(
                raw, likelihood, belief, self.neighbours, self.is_taught, model is None
            )
            if model is not None:
                model = _learned(self.votes, predicted, self.truth, self.seed)
                belief = model.probabilities_
                continue
            foretold.append(predicted)
            if len(foretold) == n_rounds:
                # Later rounds know more, and err more towards what they believe: all answer.
                predicted = np.mean(foretold, axis=0)
            belief = softmax(np.log(np.maximum(predicted, MIN_PROBABILITY)) + likelihood)
        return model, belief, predicted

    def apart(self, model: DawidSkene, belief: FloatArray) -> FloatArray:
        """Return P(label | features) of rounds in which no vote comes back to its own row."""

        def judge(prior: FloatArray) -> tuple[FloatArray, FloatArray]:
            judged = _learned(self.votes, prior, self.truth, self.seed)
            likelihood = _likelihood_with_truth(self.votes, judged, self.truth)
            return likelihood, judged.probabilities_

        likelihood = _likelihood_with_truth(self.votes, model, self.truth)
        return foretold_apart(
            self.named(), self.features, belief, likelihood, self.neighbours, self.is_taught, judge,
            self.fits, n_folds=self.n_folds, seed=self.seed, kept=self.kept, on_training=self.tell,
        )  # fmt: skip


def _learned(
    votes: Votes, prior: FloatArray | None, truth: IntArray | None, seed: int
) -> DawidSkene:
    """Return what annotators are like: the likeliest, or the mean where votes check each other."""
    model = DawidSkene().fit(votes, prior=prior, truth=truth)
    if is_checked(votes, truth).sum() >= MIN_ROWS and votes.n_classes > 1:
        averaged = averaged_over_annotators(votes, prior=prior, truth=truth, seed=seed)
        model.probabilities_, model.confusion_ = averaged
    return model


def _likelihood_with_truth(
    votes: Votes, model: DawidSkene | None, truth: IntArray | None
) -> FloatArray:
    """Return log P(votes of a row | label); a true label rules all others out, for all alike."""
    likelihood = log_vote_likelihood(votes, None if model is None else model.confusion_)
    known = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    return np.asarray(np.log(np.maximum(with_truth(known, truth), MIN_PROBABILITY**2)))


def _foretold(
    raw: Sequence[FloatArray],
    likelihood: FloatArray,
    belief: FloatArray,
    neighbours: IntArray,
    is_taught: BoolArray,
    is_candidates: bool,
) -> FloatArray:
    """Return p(label | features) of the classifiers, tempered by the votes, neighbours heeded."""
    frequency = belief[is_taught].mean(axis=0)
    predicted, _ = likeliest(raw, likelihood, frequency, is_taught)
    predicted = heed_neighbours(predicted, likelihood, neighbours, is_taught)
    if is_candidates:
        # No second vote could tell that neighbours make an answer too sure of itself.
        # (Votes alone on their rows would win over features that know better.)
        predicted, _ = calibrate_by_votes(predicted, likelihood, frequency, is_taught)
    return predicted


def _cooled(
    votes: Votes,
    model: DawidSkene,
    predicted: FloatArray | None,
    nearest: IntArray | None,
    truth: IntArray | None,
    n_folds: int,
    seed: int,
) -> tuple[FloatArray, float]:
    """Return p(label | votes, features) as sure as held-out votes bear out, and its temperature."""
    prior = model.class_prior_ if predicted is None else predicted
    log_prior = np.log(np.maximum(prior, MIN_PROBABILITY))
    held_out = model.held_out_likelihoods(votes, n_folds, seed)
    temperature = held_out_temperature(votes, vote_likelihoods(votes, model.confusion_), log_prior)
    # In sample confusions are flattered, out of fold they know fewer votes than those in use.
    temperature = float(np.sqrt(temperature * held_out_temperature(votes, held_out, log_prior)))
    belief = model.probabilities_.copy()
    known = np.zeros(votes.n_rows, dtype=bool) if truth is None else truth >= 0
    belief[known] = vote_posterior(votes, model.confusion_, log_prior)[known]
    logs = np.log(np.maximum(belief, MIN_PROBABILITY))
    cooled = softmax(logs / temperature)
    is_single = votes.counts == 1
    if predicted is not None and nearest is not None and is_single.any():
        confusion = model.confusion_
        n_checked = is_checked(votes, truth).sum()
        if n_checked < MIN_ROWS:  # nothing but similar rows tells how good votes are
            shares = votes.first_choices().shares()
            accuracy = single_vote_accuracy(shares, nearest, is_single, SHARED_ACCURACY)
            confusion = np.broadcast_to(coins(accuracy, votes.n_classes), confusion.shape)
        own = single_vote_temperature(votes, confusion, predicted, belief)
        if n_checked >= MIN_ROWS:
            own = float(np.sqrt(temperature * own))
        cooled[is_single] = softmax(logs[is_single] / own)
    # Nobody's votes were held out from a row without votes: the classifier speaks alone.
    cooled[votes.counts == 0] = belief[votes.counts == 0]
    return cooled, temperature


def heed_confidences(votes: Votes, truth: IntArray | None) -> Votes:
    """Return votes with as much of the doubt that annotators profess as other votes bear out.

    Who is right in nine votes of ten and calls himself half sure would be heard too little. Given
    its confidence a vote is a draw from a distribution over labels, so likelihoods compare. Who
    does not know guesses among the labels in use: were one that was named once, by a slip, guessed
    as often as others, no guess would be as likely as it is and no doubt be borne out.
    """
    if votes.named is None:
        return votes
    named = votes.named / votes.named.sum(axis=1, keepdims=True)
    in_use = np.minimum(named.mean(axis=0) * votes.n_classes / GUESSED, 1.0).sum()
    doubt = votes.doubt()[:, None]
    stated = 1.0 - votes.n_classes * doubt
    is_said = stated > MIN_PROBABILITY
    plain = np.where(is_said, (votes.weights - doubt) / np.where(is_said, stated, 1.0), named)
    offered, scores = [], []
    for sure in readings_of(stated):
        weights = sure * plain + (1.0 - sure) / in_use
        scale = weights.sum(axis=1, keepdims=True)
        each = replace(votes, weights=weights / scale)
        model = DawidSkene(max_iterations=30).fit(each, truth=truth)
        logits = np.log(model.class_prior_) + log_vote_likelihood(each, model.confusion_)
        offered.append(each)
        scores.append(float(np.logaddexp.reduce(logits, axis=1).sum() + np.log(scale).sum()))
    return offered[int(np.argmax(scores))]


def readings_of(stated: FloatArray) -> list[FloatArray]:
    """Return what confidences may mean: as they are, or by the part of the scale that is in use.

    Who says 0.8 where he is sure and 0.5 where he guesses means more than he says by both. Of each
    all of the doubt may be borne out, or some, or none.
    """
    low, high = np.quantile(stated, ENDS_IN_USE)
    scales = [stated]
    if high - low >= MIN_IN_USE:
        scales += [((stated - low) / (high - low)).clip(0.0, 1.0), (stated / high).clip(0.0, 1.0)]
    heeded = [1.0 - share * (1.0 - each) for each in scales for share in HEEDED]
    return [*heeded, np.ones_like(stated)]


def doubted(belief: FloatArray, predicted: FloatArray, named: BoolArray) -> FloatArray:
    """Return a belief in candidates that expects as many wrong answers as those seen let suppose.

    A model that learned from candidates is wrong towards candidates, and no second vote tells;
    what it answers outside of them is wrong for sure, and can be counted. The more candidates of a
    row the features foretell, the more of its errors are candidates too.

    Of shape (n_rows, n_classes): less sure where that takes it, half by a temperature and half by
    equal chances of all candidates; which candidate is the likeliest stays. `belief` (n_rows,
    n_classes): p(label | candidates, features). `predicted` (n_rows, n_classes): p(label |
    features) from models that did not see the row. `named` (n_rows, n_classes): the candidates;
    the true label alone where it is known.
    """
    rows, best = np.arange(len(belief)), predicted.argmax(axis=1)
    is_inside = named[rows, best]
    inside = rows[is_inside], best[is_inside]
    errors = hidden_errors(predicted, belief, named)
    # Runner-ups understate it where errors hide less often than not; else they tell it themselves.
    more = errors * n_predictable_candidates(predicted, named, by_label=True)
    errors = max(errors, min(more, float((~is_inside).sum())))
    halfway = (errors + float((1.0 - belief[inside]).sum())) / 2.0
    logs = np.where(named, np.log(np.maximum(belief, MIN_PROBABILITY)), -np.inf)
    calm = belief
    for temperature in COOLING:
        if float((1.0 - calm[inside]).sum()) >= halfway:
            break
        calm = softmax(logs / temperature)
    return belief_with_errors(calm, predicted, named, errors)

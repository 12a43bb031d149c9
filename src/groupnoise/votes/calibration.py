"""Calibration without true labels: how sure votes, classifiers and candidates may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.selective import belief_with_errors, hidden_errors, n_predictable_candidates
from groupnoise.votes.data import Votes
from groupnoise.votes.dawid_skene import (
    MIN_PROBABILITY,
    DawidSkene,
    log_vote_likelihood,
    softmax,
)

TEMPERATURES = np.geomspace(0.25, 8.0, 16)
SHARES = np.linspace(0.0, 1.0, 11)
CANDIDATE_TEMPERATURES = np.geomspace(1.02, 8.0, 100)
DOUBT_SHARES = (1.0, 0.5, 0.25)
"""Fractions of the doubt professed by annotators that are tried, besides none."""
CONFIDENCE_QUANTILES, MIN_CONFIDENCE_RANGE = (0.01, 0.99), 0.05
"""Quantiles taken as the ends of the scale of confidences, and their least distance."""
MIN_USE = 0.1
"""Share of votes, relative to an even share, from which a label fully counts as one in use."""


def best_calibrated(
    predicted: Sequence[FloatArray],
    log_likelihood: FloatArray,
    frequency: FloatArray,
    is_voted: BoolArray,
) -> tuple[FloatArray, float]:
    """Return the calibrated predictions of the best classifier, or of the mean of all.

    The best are those under which the votes are likeliest. Returns `tempered` (n_rows, n_classes):
    the probabilities; `share`: how much of them comes from the features. `predicted` (n_rows,
    n_classes): p(label | row) out of fold, by each classifier.
    """
    offered = [*predicted, np.mean(predicted, axis=0)] if len(predicted) > 1 else predicted
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    found, scores = [], []
    for each in offered:
        found.append(calibrate_by_votes(each, log_likelihood, frequency, is_voted))
        predicted_votes = (found[-1][0] * scaled).sum(axis=1)[is_voted]
        scores.append(float(np.log(np.maximum(predicted_votes, MIN_PROBABILITY)).mean()))
    return found[int(np.argmax(scores))]


def calibrate_by_votes(
    predicted: FloatArray, log_likelihood: FloatArray, frequency: FloatArray, is_voted: Any
) -> tuple[FloatArray, float]:
    """Return predictions calibrated by temperature, and by mixing with the label frequencies.

    No true label is needed: the model that predicts a row has not seen the votes on it, so their
    likelihood under the prediction scores it.

    Returns `tempered` (n_rows, n_classes): the probabilities; `share`: how much of them comes from
    the features. `predicted` (n_rows, n_classes): p(label | row) out of fold. `log_likelihood`
    (n_rows, n_classes): log P(votes of the row | label). `frequency`: how frequent each label is.
    """
    logs = np.log(np.maximum(predicted, MIN_PROBABILITY))
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))[is_voted]
    by_frequency = scaled @ frequency
    best = (-np.inf, 1.0, 0.0)
    for temperature in TEMPERATURES:
        by_features = (softmax(logs[is_voted] / temperature) * scaled).sum(axis=1)
        for share in SHARES:
            mixed = share * by_features + (1.0 - share) * by_frequency
            score = float(np.log(np.maximum(mixed, MIN_PROBABILITY)).sum())
            best = max(best, (score, float(temperature), float(share)))
    _, temperature, share = best
    return share * softmax(logs / temperature) + (1.0 - share) * frequency, share


def held_out_temperature(votes: Votes, likelihoods: FloatArray, log_prior: FloatArray) -> float:
    """Return the temperature at which the other votes and the features best predict each vote.

    Annotators make the same errors on hard rows, which their model ignores; so the product of their
    votes is overconfident. Rows with one vote are predicted by their features.

    `likelihoods` (n_votes, n_classes): p(vote | true label). `log_prior`: log P(label) before the
    votes.
    """
    is_paired = votes.counts[votes.rows] > 1
    if not is_paired.any():
        return 1.0
    logs = np.log(likelihoods)
    total = np.broadcast_to(log_prior, (votes.n_rows, votes.n_classes)).copy()
    np.add.at(total, votes.rows, logs)
    others = (total[votes.rows] - logs)[is_paired]
    likelihoods = likelihoods[is_paired]
    choices = [1.0, *TEMPERATURES[TEMPERATURES > 1.0]]
    scores = [
        np.log(np.maximum((softmax(others / t) * likelihoods).sum(axis=1), MIN_PROBABILITY)).mean()
        for t in choices
    ]
    return float(choices[int(np.argmax(scores))])


def single_vote_temperature(
    votes: Votes, confusion: FloatArray, predicted: FloatArray, belief: FloatArray
) -> float:
    """Return the temperature that calibrates rows with one vote.

    A classifier and the neighbours partly repeat each other, so their product is overconfident, and
    a row with one vote has no other evidence. Predictions tempered until the votes are likeliest
    are not, but then a single vote outweighs features that are more accurate. So labels stay, and
    only the expected accuracy is taken from the tempered predictions.

    `confusion` (n_annotators, n_classes, n_classes): of each annotator.
    `predicted` (n_rows, n_classes): p(label | features), weighed by the neighbours. `belief`
    (n_rows, n_classes): p(label | votes, features) that follows from these.
    """
    is_voted, is_single = votes.counts > 0, votes.counts == 1
    likelihood = log_vote_likelihood(votes, confusion)
    frequency = belief[is_voted].mean(axis=0)
    tempered, _ = calibrate_by_votes(predicted, likelihood, frequency, is_voted)
    tempered = softmax(
        np.log(np.maximum(tempered[is_single], MIN_PROBABILITY)) + likelihood[is_single]
    )
    own = belief[is_single]
    expected = float(np.take_along_axis(tempered, own.argmax(axis=1)[:, None], axis=1).mean())
    logs = np.log(np.maximum(own, MIN_PROBABILITY))
    sure = [float(softmax(logs / t).max(axis=1).mean()) for t in TEMPERATURES]
    return float(np.exp(np.interp(-expected, -np.asarray(sure), np.log(TEMPERATURES))))


def calibrate_confidences(votes: Votes, truth: IntArray | None) -> Votes:
    """Return votes with confidences rescaled to fit the other votes.

    An annotator who is right nine times in ten and states a confidence of one half would count too
    little. Given its confidence, a vote is a sample from a distribution over labels, so likelihoods
    can be compared. Guesses go to labels in use: if a label named once by mistake were guessed as
    often as others, guesses would seem too unlikely, and no doubt would ever fit.
    """
    if votes.named is None:
        return votes
    named = votes.named / votes.named.sum(axis=1, keepdims=True)
    in_use = np.minimum(named.mean(axis=0) * votes.n_classes / MIN_USE, 1.0).sum()
    doubt = votes.doubt()[:, None]
    stated = 1.0 - votes.n_classes * doubt
    is_said = stated > MIN_PROBABILITY
    plain = np.where(is_said, (votes.weights - doubt) / np.where(is_said, stated, 1.0), named)
    offered, scores = [], []
    for sure in confidence_scales(stated):
        weights = sure * plain + (1.0 - sure) / in_use
        scale = weights.sum(axis=1, keepdims=True)
        each = replace(votes, weights=weights / scale)
        model = DawidSkene(max_iterations=30).fit(each, truth=truth)
        logits = np.log(model.class_prior_) + log_vote_likelihood(each, model.confusion_)
        offered.append(each)
        scores.append(float(np.logaddexp.reduce(logits, axis=1).sum() + np.log(scale).sum()))
    return offered[int(np.argmax(scores))]


def confidence_scales(stated: FloatArray) -> list[FloatArray]:
    """Return possible meanings of confidences: as stated, or stretched to the range in use.

    An annotator who states 0.8 when sure and 0.5 when guessing uses a part of the scale. Each is
    tried with all of the stated doubt, with some of it, and with none.
    """
    low, high = np.quantile(stated, CONFIDENCE_QUANTILES)
    scales = [stated]
    if high - low >= MIN_CONFIDENCE_RANGE:
        scales += [((stated - low) / (high - low)).clip(0.0, 1.0), (stated / high).clip(0.0, 1.0)]
    rescaled = [1.0 - share * (1.0 - each) for each in scales for share in DOUBT_SHARES]
    return [*rescaled, np.ones_like(stated)]


def expect_hidden_errors(belief: FloatArray, predicted: FloatArray, named: BoolArray) -> FloatArray:
    """Return probabilities of candidates that allow for errors that cannot be seen.

    A model trained on candidates errs towards candidates, and there is no second vote to reveal
    it; predictions outside the candidates are certainly wrong, and can be counted. The better
    features predict the candidates of a row, the more of the errors are candidates too.

    Of shape (n_rows, n_classes): flattened where needed, half by a temperature and half by mixing
    with equal chances of all candidates; the most probable candidate stays the same. `belief`
    (n_rows, n_classes): p(label | candidates, features). `predicted` (n_rows, n_classes): p(label |
    features) from models that did not see the row. `named` (n_rows, n_classes): the candidates; the
    true label alone where it is known.
    """
    rows, best = np.arange(len(belief)), predicted.argmax(axis=1)
    is_inside = named[rows, best]
    inside = rows[is_inside], best[is_inside]
    errors = hidden_errors(predicted, belief, named)
    # Runner-ups underestimate the errors where these are candidates in less than half of all cases.
    more = errors * n_predictable_candidates(predicted, named, by_label=True)
    errors = max(errors, min(more, float((~is_inside).sum())))
    halfway = (errors + float((1.0 - belief[inside]).sum())) / 2.0
    logs = np.where(named, np.log(np.maximum(belief, MIN_PROBABILITY)), -np.inf)
    tempered = belief
    for temperature in CANDIDATE_TEMPERATURES:
        if float((1.0 - tempered[inside]).sum()) >= halfway:
            break
        tempered = softmax(logs / temperature)
    return belief_with_errors(tempered, predicted, named, errors)

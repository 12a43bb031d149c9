"""The model of Dawid and Skene: true labels and the confusion of each annotator, by EM.

An annotator names label l for a row of class k with probability confusion[k, l]. The likelihood of
a vote for several labels is the sum over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.exceptions import DataError
from groupnoise.votes.data import Votes, is_checked

MIN_PROBABILITY = 1e-12
SHARED_ACCURACY = 0.7
"""Prior accuracy of annotators."""
ACCURACY_VOTES = 20.0
"""Pseudo-votes with which the accuracy of all annotators smooths that of one."""
MAX_OVER_NAMED = 2.0
"""Upper bound on the estimated frequency of a label, relative to how often it is named."""
MIN_KNOWN = 0.1
"""Least fraction of the votes that count towards an interval, however doubtful the labels are."""


@dataclass(frozen=True)
class Reliability:
    """Accuracy and confusion of each annotator, with intervals.

    `annotator_names`, `class_names`: annotators and labels.
    `confusion` (n_annotators, n_classes, n_classes): p(said | true) of first choices, whatever
        their confidence; rows of each matrix sum to one.
    `confusion_low`, `confusion_high`: ends of the interval of each entry: Beta, the marginal of the
        Dirichlet posterior.
    `accuracy`, `accuracy_low`, `accuracy_high`: p(said = true) over the classes as frequent as they
        are, and its interval.
    `level`: probability that an interval holds.
    """

    annotator_names: list[str]
    class_names: list[str]
    n_votes: IntArray
    confusion: FloatArray
    confusion_low: FloatArray
    confusion_high: FloatArray
    accuracy: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray
    level: float

    def as_records(self) -> list[dict[str, object]]:
        """Return one plain dictionary per annotator, ready for JSON."""
        return [
            {
                "annotator": name,
                "votes": int(self.n_votes[who]),
                "accuracy": float(self.accuracy[who]),
                "accuracy_interval": [
                    float(self.accuracy_low[who]), float(self.accuracy_high[who])
                ],
                "labels": self.class_names,
                "confusion": self.confusion[who].tolist(),
                "confusion_low": self.confusion_low[who].tolist(),
                "confusion_high": self.confusion_high[who].tolist(),
            }
            for who, name in enumerate(self.annotator_names)
        ]  # fmt: skip


class DawidSkene:
    """Estimate true labels and the confusion of each annotator from votes alone.

    Expectation maximisation in the log domain. Confusions are smoothed towards the confusion that
    all annotators share, made as accurate as each one is; the accuracy of one with few votes is
    that of the others.

    Parameters
    ----------
    smoothing : float, default=4.0
        Votes per class that the shared confusion is worth.
    max_iterations : int, default=100
        Steps of expectation maximisation at most.
    tolerance : float, default=1e-5
        Largest change of a label's probability that counts as none.

    Attributes
    ----------
    probabilities_ : ndarray of shape (n_rows, n_classes)
        P(true label | votes).
    confusion_ : ndarray of shape (n_annotators, n_classes, n_classes)
        P(said | true).
    class_prior_ : ndarray of shape (n_classes,)
        How frequent each label is.
    n_iterations_ : int
        Steps taken.

    Examples
    --------
    >>> entries = [(0, "a", "cat", None), (0, "b", "cat", None), (1, "a", "dog", None)]
    >>> votes = Votes.from_entries(entries, n_rows=2)
    >>> DawidSkene().fit(votes).probabilities_.argmax(axis=1).tolist()
    [0, 1]
    """

    def __init__(
        self, *, smoothing: float = 4.0, max_iterations: int = 100, tolerance: float = 1e-5
    ) -> None:
        self.smoothing = smoothing
        self.max_iterations = max_iterations
        self.tolerance = tolerance

    def fit(
        self, votes: Votes, *, prior: ArrayLike | None = None, truth: IntArray | None = None
    ) -> DawidSkene:
        """Learn from votes.

        Parameters
        ----------
        votes : Votes
            Who said what.
        prior : array-like of shape (n_rows, n_classes), optional
            P(label | row) before the votes, from a classifier that did not see the row's votes;
            by default the same for all rows, and learned.
        truth : int64 ndarray of shape (n_rows,), optional
            True labels as positions in `votes.class_names`, -1 where unknown.

        Returns
        -------
        model : DawidSkene
            This object.
        """
        check_positive("smoothing", self.smoothing)
        check_count("max_iterations", self.max_iterations)
        check_positive("tolerance", self.tolerance)
        if not len(votes):
            raise DataError("there is no vote at all, so there is nothing to learn from.")
        fixed = None if prior is None else _checked_prior(prior, votes)
        shape = (len(votes.annotator_names), votes.n_classes, votes.n_classes)
        # The majority is the start: labels keep their meaning that way.
        belief = votes.totals() + (1.0 if fixed is None else fixed) / votes.n_classes
        belief /= belief.sum(axis=1, keepdims=True)
        belief = with_truth(belief, truth)
        confusion = np.broadcast_to(one_coin_confusion(SHARED_ACCURACY, votes.n_classes), shape)
        self._is_checked = is_checked(votes, truth)[votes.rows]
        self._has_prior = fixed is not None
        all_rows = np.ones(votes.n_rows, dtype=bool)
        # A label that hardly anybody names would else gather the rows on which annotators differ.
        n_named = votes.weights.sum(axis=0) + 1.0
        if votes.named is not None:
            n_named = votes.named.sum(axis=0) + 1.0
        most_frequent = MAX_OVER_NAMED * n_named / n_named.sum()
        for step in range(1, self.max_iterations + 1):
            self.n_iterations_ = step
            confusion = _normalized(self._smoothed(votes, belief, confusion, all_rows))
            frequency = (belief[votes.counts > 0].sum(axis=0) + 1.0) / (
                (votes.counts > 0).sum() + votes.n_classes
            )
            frequency = np.minimum(frequency, most_frequent)
            self.class_prior_ = frequency / frequency.sum()
            log_prior = np.log(self.class_prior_ if fixed is None else fixed)
            updated = with_truth(vote_posterior(votes, confusion, log_prior), truth)
            change = float(np.abs(updated - belief).max())
            belief = updated
            if change < self.tolerance:
                break
        self.probabilities_ = belief
        self.confusion_ = confusion
        return self

    def _smoothed(
        self, votes: Votes, belief: FloatArray, before: FloatArray, teaches: BoolArray
    ) -> FloatArray:
        """Return smoothed counts of votes for l on rows of class k, from the rows in `teaches`."""
        is_taught = teaches[votes.rows]
        # A single vote always agrees with itself: it carries no information on confusions, and
        # labels would drift away from their names.
        counts = expected_counts(votes.take(is_taught & self._is_checked), belief, before)
        shared = counts.sum(axis=0) + self.smoothing * one_coin_confusion(
            SHARED_ACCURACY, votes.n_classes
        )
        shared /= shared.sum(axis=1, keepdims=True)
        towards = confusions_at_accuracy(shared, counts)
        if self._has_prior and not self._is_checked.all():
            towards = self._one_coin_shrinkage(votes.take(is_taught), belief, before, towards)
        return counts + self.smoothing * towards

    def _one_coin_shrinkage(
        self, votes: Votes, belief: FloatArray, before: FloatArray, shared: FloatArray
    ) -> FloatArray:
        """Return the prior mean of confusions where only features can check single votes.

        Features estimate one number per annotator, the accuracy; full confusions would adapt to
        the errors of the features.
        """
        counts = expected_counts(votes, belief, before)
        n_votes = counts.sum(axis=(1, 2))
        agreed = np.trace(counts, axis1=1, axis2=2)
        # Shrink towards the joint accuracy if it is above the prior; if it is below, weak features
        # may be the cause, and would outweigh correct votes.
        shared_accuracy = max(SHARED_ACCURACY, float(agreed.sum() / max(n_votes.sum(), 1.0)))
        accuracy = (agreed + shared_accuracy * ACCURACY_VOTES) / (n_votes + ACCURACY_VOTES)
        n_single = np.bincount(
            votes.annotators, votes.counts[votes.rows] == 1, minlength=len(counts)
        )
        alone = (n_single / np.maximum(n_votes, 1.0))[:, None, None]
        return np.asarray(
            (1.0 - alone) * shared + alone * one_coin_confusion(accuracy, votes.n_classes)
        )

    def held_out_likelihoods(self, votes: Votes, n_folds: int, seed: int) -> FloatArray:
        """Return P(vote | true label) under confusions fitted to the other folds.

        Parameters
        ----------
        votes : Votes
            The votes that `fit` learned from.
        n_folds : int
            Number of parts of the rows.
        seed : int
            Decides the parts.

        Returns
        -------
        likelihoods : ndarray of shape (n_votes, n_classes)
            One row per vote.
        """
        fold = np.random.default_rng(seed).permutation(votes.n_rows) % n_folds
        likelihoods = np.empty((len(votes), votes.n_classes))
        for number in range(n_folds):
            learned = (self.probabilities_, self.confusion_, fold != number)
            is_held = fold[votes.rows] == number
            confusion = _normalized(self._smoothed(votes, *learned))
            likelihoods[is_held] = vote_likelihoods(votes.take(is_held), confusion)
        return likelihoods

    def reliability(
        self, votes: Votes, *, belief: FloatArray | None = None, level: float = 0.95
    ) -> Reliability:
        """Return how often each annotator's first choice is the true label, with intervals.

        The first choice is the label of most weight: a low confidence makes a vote count less in
        the model, but does not excuse an error. A vote for several labels of equal weight is right
        if the true one is among them.

        Parameters
        ----------
        votes : Votes
            The votes that `fit` learned from.
        belief : ndarray of shape (n_rows, n_classes), optional
            P(true label | all evidence), by which votes are judged; by default what `fit` found.
        level : float, default=0.95
            Probability that an interval holds the value; the doubt about the true labels is in it.

        Returns
        -------
        reliability : Reliability
            One confusion per annotator.
        """
        judged = self.probabilities_ if belief is None else belief
        said = votes.first_choices()
        all_rows, confusion = np.ones(votes.n_rows, dtype=bool), self.confusion_
        for _ in range(2):  # first choices decide how votes for several labels are divided
            hits = self._smoothed(said, judged, confusion, all_rows)
            confusion = _normalized(hits)
        low, high = _interval(hits, hits.sum(axis=2, keepdims=True) - hits, level)
        right = np.einsum("k,akk->a", self.class_prior_, confusion)
        n_votes = np.bincount(said.annotators, minlength=len(hits)).astype(np.int64)
        chance = (judged[said.rows] * (said.weights > 0)).sum(axis=1)
        doubt = np.bincount(said.annotators, chance * (1.0 - chance), minlength=len(hits))
        spread = np.maximum(right * (1.0 - right), MIN_PROBABILITY)
        # Votes that may be right or wrong carry less information: missing information.
        n_sure = hits.sum(axis=(1, 2))
        known = 1.0 - doubt / (spread * np.maximum(n_votes, 1))
        n_effective = n_sure * np.maximum(known, MIN_KNOWN)
        ends = _interval(right * n_effective, (1 - right) * n_effective, level)
        return Reliability(
            votes.annotator_names,
            votes.class_names,
            n_votes,
            confusion,
            low,
            high,
            right,
            ends[0],
            ends[1],
            level,
        )


def _interval(hits: FloatArray, misses: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Beta intervals; without any miss, half a miss is assumed."""
    from scipy.stats import beta

    low = beta.ppf(0.5 - level / 2, hits, np.maximum(misses, 0.5))
    high = beta.ppf(0.5 + level / 2, hits, np.maximum(misses, MIN_PROBABILITY))
    return low, high


def _normalized(counts: FloatArray) -> FloatArray:
    """Return P(said | true) of each annotator from how often each said l of k."""
    return np.asarray(counts / counts.sum(axis=2, keepdims=True))


def vote_likelihoods(votes: Votes, confusion: FloatArray) -> FloatArray:
    """Return P(vote | true label) of every vote, shape (n_votes, n_classes)."""
    likelihoods = np.empty((len(votes), votes.n_classes))
    for own, (mine, weights) in zip(confusion, votes.by_annotator, strict=True):
        likelihoods[mine] = weights @ own.T
    return np.maximum(likelihoods, MIN_PROBABILITY)


def log_vote_likelihood(votes: Votes, confusion: FloatArray | None) -> FloatArray:
    """Return log P(votes of a row | label) up to a constant, shape (n_rows, n_classes)."""
    if confusion is None:
        shares = votes.shares()
        shares[votes.counts == 0] = 1.0
        return np.log(np.maximum(shares, MIN_PROBABILITY**2))
    total = np.zeros((votes.n_rows, votes.n_classes))
    np.add.at(total, votes.rows, np.log(vote_likelihoods(votes, confusion)))
    return total


def expected_counts(votes: Votes, belief: FloatArray, confusion: FloatArray) -> FloatArray:
    """Return how often each annotator is expected to have said l of k, (n_annotators, K, K).

    A vote for several labels is divided among them in proportion to the current confusion.
    """
    counts = np.zeros((len(votes.annotator_names), votes.n_classes, votes.n_classes))
    likelihoods = vote_likelihoods(votes, confusion)
    ratios = belief[votes.rows] / likelihoods
    for count, own, (mine, weights) in zip(counts, confusion, votes.by_annotator, strict=True):
        count[:] = own * (ratios[mine].T @ weights)
    return counts


def vote_posterior(votes: Votes, confusion: FloatArray, log_prior: FloatArray) -> FloatArray:
    """Return P(true label | votes), shape (n_rows, n_classes)."""
    logits = np.broadcast_to(log_prior, (votes.n_rows, votes.n_classes)).copy()
    np.add.at(logits, votes.rows, np.log(vote_likelihoods(votes, confusion)))
    return softmax(logits)


def with_truth(belief: FloatArray, truth: IntArray | None) -> FloatArray:
    """Return the belief with certainty in rows whose true label is known."""
    if truth is None:
        return belief
    certain: FloatArray = belief.copy()
    known = np.flatnonzero(truth >= 0)
    certain[known] = 0.0
    certain[known, truth[known]] = 1.0
    return certain


def softmax(logits: FloatArray) -> FloatArray:
    """Return probabilities that are proportional to exp(logits) in each row."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def one_coin_confusion(accuracy: float | FloatArray, n_classes: int) -> FloatArray:
    """Return confusions with uniform errors, shape (..., n_classes, n_classes)."""
    right = np.asarray(accuracy, dtype=np.float64)[..., None, None]
    if n_classes == 1:
        return np.ones_like(right)
    wrong = (1.0 - right) / (n_classes - 1)
    return np.asarray(np.where(np.eye(n_classes, dtype=bool), right, wrong))


def confusions_at_accuracy(shared: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the shared confusion, adjusted to the accuracy of each annotator.

    The relative difficulty of classes and the distribution of errors stay the same. `counts`
    (n_annotators, n_classes, n_classes): how often each is expected to have said l of k.
    """
    right = np.diagonal(shared)
    if len(right) == 1:
        return np.ones_like(counts)
    agreed, n_votes = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=(1, 2))
    together = (agreed.sum() + SHARED_ACCURACY) / (n_votes.sum() + 1.0)
    own = (agreed + ACCURACY_VOTES * together) / (n_votes + ACCURACY_VOTES)
    odds = (right / (1.0 - right)) * (own / (1.0 - own) * (1.0 - together) / together)[:, None]
    own_right = odds / (1.0 + odds)
    others = shared * ((1.0 - own_right) / (1.0 - right))[:, :, None]
    return np.asarray(np.where(np.eye(len(right), dtype=bool), own_right[:, :, None], others))


def _checked_prior(prior: ArrayLike, votes: Votes) -> FloatArray:
    values = np.asarray(prior, dtype=np.float64)
    if values.shape != (votes.n_rows, votes.n_classes):
        raise DataError(
            f"prior has shape {values.shape}; {(votes.n_rows, votes.n_classes)} is needed."
        )
    values = np.maximum(values, MIN_PROBABILITY)
    return np.asarray(values / values.sum(axis=1, keepdims=True))

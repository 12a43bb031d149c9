"""Label posteriors averaged over the confusions of annotators, by Gibbs sampling.

Where two annotators disagree and nothing else tells them apart, both are equally likely to be
right; a maximum-likelihood fit declares one of them right and is overconfident. Sampling confusions
from their posterior and averaging over the samples avoids that.

The annotator model: with a probability called skill an annotator knows the label of a row;
otherwise the vote is a guess, drawn from how often this annotator names each label. An annotator
who always gives the same label has no skill, and such votes carry no information.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.votes.data import Votes, coincidences, is_checked
from groupnoise.votes.dawid_skene import (
    MIN_PROBABILITY,
    expected_counts,
    softmax,
    vote_likelihoods,
    with_truth,
)

SKILLS = np.linspace(0.025, 0.975, 20)
SKILL, SKILL_ROWS = 0.6, 8.0
"""Prior mean of the skill of annotators, and the number of rows this prior counts as."""
GUESS_VOTES, GUESS_VOTES_PER_LABEL = 20.0, 2.0
"""Pseudo-votes per label of the prior on guesses: at least, and per number of labels."""
SHARED_VOTES = 4.0
"""Pseudo-votes with which the label frequencies of all annotators smooth those of one."""
FREQUENCY_WEIGHT = 0.5
"""Weight of the prior on label frequencies, as a fraction of the rows."""
MIN_GRADES, MAX_GRADES = 3, 11
MIN_DISAGREEMENTS, MAX_DISTANCE_RATIO, CONSTANT_SHARE = 20, 0.85, 0.9
"""For labels to count as grades: disagreeing votes there must be, and how close they must lie in
relation to chance. Annotators with more than this share of one label are left out of the test."""
NEAR_GUESS_SHARE, GRADE_SKILL, GRADE_GUESS_VOTES = 0.9, 0.4, 60.0
"""For grades: share of guesses that are near the true grade, the prior skill (one grade off is
usual), and pseudo-votes of the prior on guesses."""
MAX_SWEEPS, BURN_IN, MIN_SWEEPS = 220, 20, 50
"""Sweeps of the sampler at most, those discarded at the beginning, and sweeps of large tables."""
MAX_OPERATIONS = 1e8
"""Numbers that all sweeps may compute together."""
CELLS_AT_ONCE = 1 << 16
"""Entries of the table of counts by skills that are in memory at a time."""


def gibbs_posterior(
    votes: Votes, *, prior: FloatArray | None = None, truth: IntArray | None = None, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return P(true label | votes) and the confusion of each annotator, averaged over all samples.

    Of shapes (n_rows, n_classes) and (n_annotators, n_classes, n_classes). `prior` (n_rows,
    n_classes): P(label | row) from features; by default the same for all rows, and sampled.
    `truth`: true labels as positions, -1 where unknown.
    """
    in_use: BoolArray = np.asarray(votes.named_labels().any(axis=0))
    if truth is not None:
        in_use[truth[truth >= 0]] = True
    if not in_use.all():
        return _without_unused_labels(votes, prior, truth, seed, in_use)
    generator = np.random.default_rng(seed)
    checked = votes.take(is_checked(votes, truth)[votes.rows])
    all_counts, checked_counts = VoteCounter(votes), VoteCounter(checked)
    frequencies = _label_frequencies(votes)
    annotator_prior = _AnnotatorPrior(frequencies, grade_similarity(votes), generator)
    confusion = annotator_prior.expected(np.full(len(frequencies), annotator_prior.skill))
    is_voted = votes.counts > 0
    # The median: annotators who name one label all the time must not make it frequent.
    frequency = np.median(frequencies, axis=0)
    log_prior = np.log(frequency / frequency.sum())
    pseudo_counts = 1.0 + FREQUENCY_WEIGHT * is_voted.sum() * frequency / frequency.sum()
    if prior is not None:
        log_prior = np.log(np.maximum(prior, MIN_PROBABILITY))
    belief = with_truth(all_counts.posterior(confusion, log_prior), truth)
    n_sweeps = _count_sweeps(votes)
    total, mean = np.zeros_like(belief), np.zeros_like(confusion)
    for sweep in range(n_sweeps):
        drawn = _sample_labels(belief, generator)
        counts = checked_counts.counts(drawn, confusion)
        # Votes that only features can check tell the skill of an annotator, but not the confusions.
        judged = counts if prior is None else all_counts.counts(drawn, confusion)
        confusion = annotator_prior.draw(counts, judged)
        if prior is None:
            n_drawn = np.bincount(drawn[is_voted], minlength=votes.n_classes)
            shares = generator.standard_gamma(n_drawn + pseudo_counts)
            log_prior = np.log(np.maximum(shares / shares.sum(), MIN_PROBABILITY))
        belief = with_truth(all_counts.posterior(confusion, log_prior), truth)
        if sweep >= BURN_IN:
            total += belief
            mean += confusion
    return total / (n_sweeps - BURN_IN), mean / (n_sweeps - BURN_IN)


def _without_unused_labels(
    votes: Votes, prior: FloatArray | None, truth: IntArray | None, seed: int, in_use: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior where some labels are named by nobody: no row has these."""
    kept = np.flatnonzero(in_use)
    weights = votes.weights[:, kept]
    fewer = replace(
        votes,
        weights=weights / weights.sum(axis=1, keepdims=True),
        named=None if votes.named is None else votes.named[:, kept],
        class_names=[votes.class_names[k] for k in kept],
    )
    place = np.cumsum(in_use) - 1
    belief, confusion = gibbs_posterior(
        fewer,
        prior=None if prior is None else prior[:, kept],
        truth=None if truth is None else np.where(truth >= 0, place[truth], -1),
        seed=seed,
    )
    every = np.full((votes.n_rows, votes.n_classes), MIN_PROBABILITY)
    every[:, kept] = belief
    confusions = np.tile(np.eye(votes.n_classes), (len(confusion), 1, 1))
    confusions[np.ix_(np.arange(len(confusion)), kept, kept)] = confusion
    return every, np.maximum(confusions, MIN_PROBABILITY)


class VoteCounter:
    """Counts of votes by annotator, true label and label; fast if each vote is one label."""

    def __init__(self, votes: Votes) -> None:
        from scipy import sparse

        self.votes = votes
        is_plain = len(votes) > 0 and bool((votes.weights.max(axis=1) == 1.0).all())
        self.said: IntArray | None = votes.weights.argmax(axis=1) if is_plain else None
        places = votes.rows, np.arange(len(votes))
        shape = (votes.n_rows, len(votes))
        self.by_row = sparse.csr_matrix((np.ones(len(votes)), places), shape=shape)

    def posterior(self, confusion: FloatArray, log_prior: FloatArray) -> FloatArray:
        """Return P(true label | votes), shape (n_rows, n_classes)."""
        if self.said is None:
            each = np.log(vote_likelihoods(self.votes, confusion))
        else:
            said = np.log(np.maximum(confusion, MIN_PROBABILITY)).transpose(0, 2, 1)
            each = said[self.votes.annotators, self.said]
        return softmax(self.by_row @ each + log_prior)

    def counts(self, labels: IntArray, confusion: FloatArray) -> FloatArray:
        """Return how often each annotator said l of rows of class k, given the true labels."""
        if self.said is None:
            return expected_counts(self.votes, np.eye(confusion.shape[1])[labels], confusion)
        parts = self.votes.annotators, labels[self.votes.rows], self.said
        cells = np.ravel_multi_index(parts, confusion.shape)
        counted = np.bincount(cells, minlength=confusion.size).astype(np.float64)
        return counted.reshape(confusion.shape)


class _AnnotatorPrior:
    """Prior on the confusions of annotators: their skill, and how they guess."""

    def __init__(
        self, frequencies: FloatArray, near: FloatArray | None, generator: np.random.Generator
    ) -> None:
        n_people, n_classes = frequencies.shape
        self.guess = np.broadcast_to(frequencies[:, None, :], (n_people, n_classes, n_classes))
        if near is not None:
            close = frequencies[:, None, :] * near
            # Annotators who always name one label do so however far off it is.
            close /= close.sum(axis=2, keepdims=True)
            self.guess = NEAR_GUESS_SHARE * close + (1.0 - NEAR_GUESS_SHARE) * self.guess
        self.generator = generator
        self.guess_votes = max(
            GUESS_VOTES if near is None else GRADE_GUESS_VOTES, GUESS_VOTES_PER_LABEL * n_classes
        )
        self.skill = SKILL if near is None else GRADE_SKILL

    def expected(self, skill: FloatArray) -> FloatArray:
        """Return P(said | true) at a given skill, shape (n_annotators, n_classes, n_classes)."""
        share = skill[:, None, None]
        return np.asarray(share * np.eye(self.guess.shape[1]) + (1.0 - share) * self.guess)

    def draw(self, counts: FloatArray, judged: FloatArray) -> FloatArray:
        """Return a sample of the confusions, given how often each annotator said l of k.

        `judged`: these counts of all votes that tell the skill of annotators.
        """
        from scipy.special import gammaln

        who, true, said = np.nonzero(judged)
        seen = judged[who, true, said]
        guess = self.guess[who, true, said]
        is_right = true == said
        scores = np.zeros((len(counts), len(SKILLS)))
        at_once = max(1, CELLS_AT_ONCE // max(1, len(who)))
        begins = np.flatnonzero(np.diff(who, prepend=-1))  # entries are ordered by annotator
        for start in range(0, len(SKILLS) if len(who) else 0, at_once):
            skill = SKILLS[start : start + at_once, None]
            pseudo_counts = self.guess_votes * (skill * is_right + (1.0 - skill) * guess)
            gain = gammaln(pseudo_counts + seen) - gammaln(pseudo_counts)
            some = np.add.reduceat(gain, begins, axis=1)
            scores[who[begins], start : start + at_once] = some.T
        scores += SKILL_ROWS * (
            self.skill * np.log(SKILLS) + (1.0 - self.skill) * np.log(1.0 - SKILLS)
        ) - np.log(SKILLS * (1.0 - SKILLS))
        # Gumbel-max trick: the largest log probability plus noise is a sample.
        skills = SKILLS[(scores + self.generator.gumbel(size=scores.shape)).argmax(axis=1)]
        drawn = self.generator.standard_gamma(counts + self.guess_votes * self.expected(skills))
        drawn = np.maximum(drawn, MIN_PROBABILITY)
        return np.asarray(drawn / drawn.sum(axis=2, keepdims=True))


def _label_frequencies(votes: Votes) -> FloatArray:
    """Return how often each annotator names each label, shape (n_annotators, n_classes)."""
    said = np.zeros((len(votes.annotator_names), votes.n_classes))
    np.add.at(said, votes.annotators, votes.weights)
    together = said.sum(axis=0) + 1.0
    said += SHARED_VOTES * together / together.sum()
    return np.asarray(said / said.sum(axis=1, keepdims=True))


def grade_similarity(votes: Votes) -> FloatArray | None:
    """Return the similarity of labels if they are grades, shape (n_classes, n_classes), else None.

    Grades are whole numbers, and differing votes on the same row lie nearer to each other than
    differing votes on any rows.
    """
    names = votes.class_names
    are_whole = all(name.removeprefix("-").isdecimal() for name in names)
    if not MIN_GRADES <= len(names) <= MAX_GRADES or not are_whole:
        return None
    place = np.argsort(np.argsort([int(name) for name in names]))
    apart = np.abs(place[:, None] - place)
    # Annotators who always name one label are as far off as chance.
    varies = _label_frequencies(votes).max(axis=1) < CONSTANT_SHARE
    together = coincidences(votes.take(varies[votes.annotators]).first_choices())
    said = together.sum(axis=1)
    by_chance = np.outer(said, said)
    np.fill_diagonal(together, 0.0)
    np.fill_diagonal(by_chance, 0.0)
    if together.sum() < MIN_DISAGREEMENTS or by_chance.sum() <= 0:
        return None
    far, expected = ((each * apart).sum() / each.sum() for each in (together, by_chance))
    return np.exp(-0.5 * apart**2.0) if far < MAX_DISTANCE_RATIO * expected else None


def _sample_labels(belief: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return one label per row, sampled from its posterior."""
    rising = belief.cumsum(axis=1)
    drawn = (rising < generator.random((len(belief), 1)) * rising[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, belief.shape[1] - 1))


def _count_sweeps(votes: Votes) -> int:
    """Return the number of sweeps: large tables need fewer, as their samples differ little."""
    each = votes.n_classes * (len(votes) + votes.n_classes * len(votes.annotator_names))
    return int(np.clip(MAX_OPERATIONS / each, MIN_SWEEPS, MAX_SWEEPS))

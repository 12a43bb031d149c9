"""Labels averaged over all that annotators may be like, by the votes they gave.

Two annotators who differ are both right by the same chance until something tells them apart; the
likeliest of all explanations takes one of them to be right and is far too sure. So annotators are
drawn again and again from what the votes leave open (Gibbs sampling), and every draw answers.

An annotator who knows a row, by a chance that is his skill, says its label; else he says what he
says anyway. Who always says one thing has no skill, and his votes then tell nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.votes.ballots import Votes, coincidences, is_checked
from groupnoise.votes.dawid_skene import (
    MIN_PROBABILITY,
    expected_counts,
    softmax,
    vote_likelihoods,
    with_truth,
)

SKILLS = np.linspace(0.025, 0.975, 20)
SKILL, SKILL_ROWS = 0.6, 8.0
"""Skill of annotators before any vote was seen, and the rows that this is worth."""
EVENLY, OF_EACH = 20.0, 2.0
"""Votes per label that it is worth, at least and by the number of labels, to suppose that who does
not know says what he says anyway."""
HABIT = 4.0
"""Votes that what all say together is worth in what one says anyway."""
AS_SAID = 0.5
"""Part of the rows that it is worth to suppose that labels are as frequent as annotators say."""
MIN_GRADES, MAX_GRADES = 3, 11
MIN_DIFFERENT, NEARER, CONSTANT = 20, 0.85, 0.9
"""Votes that must differ to tell whether labels are grades, how much nearer they must lie, and the
share of one label from which on votes tell nothing of it."""
CLOSE, SKILL_OF_GRADES, EVENLY_OF_GRADES = 0.9, 0.4, 60.0
"""Of grades: part of what somebody says of one he does not know that is near it; the skill before
any vote was seen, for one grade off is usual; and what it is worth to suppose these."""
SWEEPS, FIRST, LEAST = 220, 20, 50
"""Draws, those at the beginning that do not answer, and draws of the largest tables."""
WORK = 1e8
"""Numbers that all draws may take together."""
CELLS_AT_ONCE = 1 << 16
"""Cells of counts under all skills that are held at a time."""


def averaged_over_annotators(
    votes: Votes, *, prior: FloatArray | None = None, truth: IntArray | None = None, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return P(true label | votes) and the mean confusion of each annotator, over all draws.

    Of shapes (n_rows, n_classes) and (n_annotators, n_classes, n_classes). `prior` (n_rows,
    n_classes): P(label | row) from features; by default the same for all rows, and drawn. `truth`:
    True labels as positions, -1 where unknown.
    """
    in_use: BoolArray = np.asarray(votes.named_labels().any(axis=0))
    if truth is not None:
        in_use[truth[truth >= 0]] = True
    if not in_use.all():
        return _of_labels_in_use(votes, prior, truth, seed, in_use)
    generator = np.random.default_rng(seed)
    taught = votes.take(is_checked(votes, truth)[votes.rows])
    everything, teaching = _Counted(votes), _Counted(taught)
    habits = _habits(votes)
    ability = _Abilities(habits, nearness(votes), generator)
    confusion = ability.expected(np.full(len(habits), ability.skill))
    is_voted = votes.counts > 0
    # Who says one label all the time makes it no more frequent than most others say it is.
    frequency = np.median(habits, axis=0)
    log_prior = np.log(frequency / frequency.sum())
    supposed = 1.0 + AS_SAID * is_voted.sum() * frequency / frequency.sum()
    if prior is not None:
        log_prior = np.log(np.maximum(prior, MIN_PROBABILITY))
    belief = with_truth(everything.posterior(confusion, log_prior), truth)
    n_sweeps = _n_sweeps(votes)
    total, mean = np.zeros_like(belief), np.zeros_like(confusion)
    for sweep in range(n_sweeps):
        drawn = _draw(belief, generator)
        counts = teaching.counts(drawn, confusion)
        # A vote that features alone check teaches how skilled who gave it is, not what he confuses.
        judged = counts if prior is None else everything.counts(drawn, confusion)
        confusion = ability.draw(counts, judged)
        if prior is None:
            n_drawn = np.bincount(drawn[is_voted], minlength=votes.n_classes)
            shares = generator.standard_gamma(n_drawn + supposed)
            log_prior = np.log(np.maximum(shares / shares.sum(), MIN_PROBABILITY))
        belief = with_truth(everything.posterior(confusion, log_prior), truth)
        if sweep >= FIRST:
            total += belief
            mean += confusion
    return total / (n_sweeps - FIRST), mean / (n_sweeps - FIRST)


def _of_labels_in_use(
    votes: Votes, prior: FloatArray | None, truth: IntArray | None, seed: int, in_use: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the same where some labels are named by nobody, which are no rows' then."""
    kept = np.flatnonzero(in_use)
    weights = votes.weights[:, kept]
    fewer = replace(
        votes,
        weights=weights / weights.sum(axis=1, keepdims=True),
        named=None if votes.named is None else votes.named[:, kept],
        class_names=[votes.class_names[k] for k in kept],
    )
    place = np.cumsum(in_use) - 1
    belief, confusion = averaged_over_annotators(
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


class _Counted:
    """Votes, counted by who said what of which label; one label each is the quick case."""

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
        """Return how often each annotator said l of k, if labels are these."""
        if self.said is None:
            return expected_counts(self.votes, np.eye(confusion.shape[1])[labels], confusion)
        parts = self.votes.annotators, labels[self.votes.rows], self.said
        cells = np.ravel_multi_index(parts, confusion.shape)
        counted = np.bincount(cells, minlength=confusion.size).astype(np.float64)
        return counted.reshape(confusion.shape)


class _Abilities:
    """What annotators may be like: their skills, and what they say where they know nothing."""

    def __init__(
        self, habits: FloatArray, near: FloatArray | None, generator: np.random.Generator
    ) -> None:
        n_people, n_classes = habits.shape
        self.aside = np.broadcast_to(habits[:, None, :], (n_people, n_classes, n_classes))
        if near is not None:
            close = habits[:, None, :] * near
            # Who always says one thing says it however far off it is.
            close /= close.sum(axis=2, keepdims=True)
            self.aside = CLOSE * close + (1.0 - CLOSE) * self.aside
        self.generator = generator
        self.evenly = max(EVENLY if near is None else EVENLY_OF_GRADES, OF_EACH * n_classes)
        self.skill = SKILL if near is None else SKILL_OF_GRADES

    def expected(self, skill: FloatArray) -> FloatArray:
        """Return P(said | true) of annotators of some skill, shape (n_annotators, K, K)."""
        share = skill[:, None, None]
        return np.asarray(share * np.eye(self.aside.shape[1]) + (1.0 - share) * self.aside)

    def draw(self, counts: FloatArray, judged: FloatArray) -> FloatArray:
        """Return confusions, drawn by how often each annotator said l of k.

        `judged`: the same of all votes that tell how skilled annotators are.
        """
        from scipy.special import gammaln

        who, true, said = np.nonzero(judged)
        seen = judged[who, true, said]
        aside = self.aside[who, true, said]
        is_right = true == said
        scores = np.zeros((len(counts), len(SKILLS)))
        at_once = max(1, CELLS_AT_ONCE // max(1, len(who)))
        begins = np.flatnonzero(np.diff(who, prepend=-1))  # cells are told annotator by annotator
        for start in range(0, len(SKILLS) if len(who) else 0, at_once):
            skill = SKILLS[start : start + at_once, None]
            supposed = self.evenly * (skill * is_right + (1.0 - skill) * aside)
            gain = gammaln(supposed + seen) - gammaln(supposed)
            some = np.add.reduceat(gain, begins, axis=1)
            scores[who[begins], start : start + at_once] = some.T
        scores += SKILL_ROWS * (
            self.skill * np.log(SKILLS) + (1.0 - self.skill) * np.log(1.0 - SKILLS)
        ) - np.log(SKILLS * (1.0 - SKILLS))
        # With Gumbel noise on log probabilities the largest is a draw.
        skills = SKILLS[(scores + self.generator.gumbel(size=scores.shape)).argmax(axis=1)]
        drawn = self.generator.standard_gamma(counts + self.evenly * self.expected(skills))
        drawn = np.maximum(drawn, MIN_PROBABILITY)
        return np.asarray(drawn / drawn.sum(axis=2, keepdims=True))


def _habits(votes: Votes) -> FloatArray:
    """Return how often each annotator says each label, shape (n_annotators, n_classes)."""
    said = np.zeros((len(votes.annotator_names), votes.n_classes))
    np.add.at(said, votes.annotators, votes.weights)
    together = said.sum(axis=0) + 1.0
    said += HABIT * together / together.sum()
    return np.asarray(said / said.sum(axis=1, keepdims=True))


def nearness(votes: Votes) -> FloatArray | None:
    """Return how near labels are to each other if they are grades, shape (n_classes, n_classes).

    Grades are whole numbers, and votes on one row that differ lie nearer to each other than such
    votes on any rows. None where labels are no grades.
    """
    names = votes.class_names
    are_whole = all(name.removeprefix("-").isdecimal() for name in names)
    if not MIN_GRADES <= len(names) <= MAX_GRADES or not are_whole:
        return None
    place = np.argsort(np.argsort([int(name) for name in names]))
    apart = np.abs(place[:, None] - place)
    # Who always says one thing is as far off as chance has it.
    varies = _habits(votes).max(axis=1) < CONSTANT
    together = coincidences(votes.take(varies[votes.annotators]).first_choices())
    said = together.sum(axis=1)
    by_chance = np.outer(said, said)
    np.fill_diagonal(together, 0.0)
    np.fill_diagonal(by_chance, 0.0)
    if together.sum() < MIN_DIFFERENT or by_chance.sum() <= 0:
        return None
    far, expected = ((each * apart).sum() / each.sum() for each in (together, by_chance))
    return np.exp(-0.5 * apart**2.0) if far < NEARER * expected else None


def _draw(belief: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return one label per row, drawn by what is believed."""
    rising = belief.cumsum(axis=1)
    drawn = (rising < generator.random((len(belief), 1)) * rising[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(drawn, belief.shape[1] - 1))


def _n_sweeps(votes: Votes) -> int:
    """Return how many draws are worth their time: where there is much to go by, few differ."""
    each = votes.n_classes * (len(votes) + votes.n_classes * len(votes.annotator_names))
    return int(np.clip(WORK / each, LEAST, SWEEPS))

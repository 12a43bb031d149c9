"""What features say of rows whose own votes had no part in it, not even by way of other rows.

After one round a row's votes have taught what is believed of similar rows; in the next these teach
the model that answers about it. So its votes come back to it, and look borne out by features.
Here nothing goes back to the votes of the fold that is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.votes.classifiers import Fit, KeptAnswers, learned_answers, likeliest
from groupnoise.votes.features import heed_neighbours

MIN_FOLDS, MAX_FOLDS = 4, 5
"""Two folds are left out at a time: of fewer little is left to learn from, and more cost much."""
Judge = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From P(label | features): log P(votes of a row | label), and P(label | votes, features)."""


def n_trainings(n_folds: int, n_fits: int) -> int:
    """Return how many models `foretold_apart` trains."""
    n_folds = min(n_folds, MAX_FOLDS)
    return n_fits * (n_folds * (n_folds - 1) // 2 + n_folds) if n_folds >= MIN_FOLDS else 0


def foretold_apart(
    named: BoolArray,
    features: FloatArray,
    belief: FloatArray,
    likelihood: FloatArray,
    nearest: IntArray,
    is_taught: BoolArray,
    judge: Judge,
    fits: Sequence[Fit],
    *,
    n_folds: int,
    seed: int,
    kept: KeptAnswers | None = None,
    on_training: Callable[[], None] | None = None,
) -> FloatArray:
    """Return P(label | features) after two rounds without the votes of a row's own fold.

    Of shape (n_rows, n_classes). Models that saw neither of two folds answer about both; with what
    they say of the rest, the votes of the rest are weighed once more and teach the model of a fold.
    How sure all of it is, is still chosen by the likelihood of all votes: a few numbers.

    `named`, `belief` (n_rows, n_classes): labels that somebody named, and what the votes alone make
    of them. `likelihood` (n_rows, n_classes): log P(votes of a row | label) by the same. `nearest`
    (n_rows, n_neighbours): similar rows. `is_taught`: rows with votes or a true label. `judge`:
    learns the annotators again, and tells what follows.
    """
    n_rows, n_classes = belief.shape
    rows, n_folds = np.arange(n_rows), min(n_folds, MAX_FOLDS)
    generator = np.random.default_rng(seed)
    order = generator.permutation(n_rows)
    best = np.where(is_taught, belief.argmax(axis=1), n_classes)
    fold = np.empty(n_rows, dtype=np.int64)
    fold[order[np.argsort(best[order], kind="stable")]] = rows % n_folds

    def ask(weights: FloatArray, training: BoolArray, held: IntArray, fit: Fit) -> FloatArray:
        parts = named, features, weights, np.flatnonzero(training), held
        answers = learned_answers(*parts, fit, kept)
        if on_training is not None:
            on_training()
        return answers

    # Answers [k] about all rows come from models that saw neither a row's own fold nor fold k.
    without = [np.zeros((n_folds, n_rows, n_classes)) for _ in fits]
    for fit, answers in zip(fits, without, strict=True):
        for one, other in combinations(range(n_folds), 2):
            is_held = (fold == one) | (fold == other)
            held = np.flatnonzero(is_held)
            said = ask(belief, ~is_held, held, fit)
            for left_out in (one, other):
                is_own = fold[held] == left_out
                answers[left_out, held[~is_own]] = said[~is_own]
                answers[left_out, held[is_own]] += said[is_own] / (n_folds - 1)

    # All folds on top of each other; a row is judged in its own alone.
    own = fold * n_rows + rows
    is_own = np.zeros(n_folds * n_rows, dtype=bool)
    is_own[own] = True
    is_judged = is_own & np.tile(is_taught, n_folds)
    stacked = [each.reshape(-1, n_classes) for each in without]
    frequency = belief[is_taught].mean(axis=0)
    first, _ = likeliest(stacked, np.tile(likelihood, (n_folds, 1)), frequency, is_judged)
    of_fold = np.concatenate([nearest + number * n_rows for number in range(n_folds)])
    believed = np.where(is_own[:, None], first, _weighed(first, likelihood))
    first = heed_neighbours(
        first, np.tile(likelihood, (n_folds, 1)), of_fold, is_judged, believed=believed
    )
    likelihood, belief = judge(first[own])
    believed = _weighed(first, likelihood)
    raw = [np.zeros((n_rows, n_classes)) for _ in fits]
    for fit, about in zip(fits, raw, strict=True):
        for number in range(n_folds):
            held = np.flatnonzero(fold == number)
            weights = believed[number * n_rows : (number + 1) * n_rows]
            about[held] = ask(weights, fold != number, held, fit)
    second, _ = likeliest(raw, likelihood, belief[is_taught].mean(axis=0), is_taught)
    return heed_neighbours(second, likelihood, of_fold[own], is_taught, believed=believed)


def _weighed(stacked: FloatArray, likelihood: FloatArray) -> FloatArray:
    """Return what is believed of all rows in every fold, from what features say and the votes."""
    scaled = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    weighed = stacked * np.tile(scaled, (len(stacked) // len(scaled), 1))
    return np.asarray(
        weighed / np.maximum(weighed.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    )

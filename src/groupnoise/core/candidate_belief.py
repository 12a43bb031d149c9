"""Which candidate is the true label: what a model, and its errors that can be seen, let suppose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, FloatArray

MAX_FORETOLD = 2.0
"""Candidates of a row that features foretell, from which on more of them are wrong than true."""
DOUBT_BEGINS, DOUBT_ENDS = 1.5, 3.5
"""Where the model's preference among candidates begins to be doubted, and where it counts nothing;
chosen on Lost and MSRCv2."""


def belief_in_candidates(
    probabilities: FloatArray, candidates: BoolArray, truth: NDArray[np.int64] | None = None
) -> FloatArray:
    """Return how likely each candidate is the true label.

    If wrong candidates do not depend on which label is true, the probabilities of the candidates
    relative to each other stay as the model gives them; where the truth is known it stands.

    Of shape (n_rows, n_classes): rows sum to one. `probabilities` (n_rows, n_classes): of held-out
    rows. `truth`: the column of the true label, -1 where it is not known.
    """
    inside = np.where(candidates, np.maximum(probabilities, 1e-12), 0.0)
    belief: FloatArray = inside / inside.sum(axis=1, keepdims=True)
    if truth is not None:
        known = truth >= 0
        belief[known] = truth[known, None] == np.arange(belief.shape[1])
    return belief


def hidden_errors(probabilities: FloatArray, belief: FloatArray, candidates: BoolArray) -> float:
    """Return how many rows are answered wrong by a label that is a candidate all the same.

    An answer outside the candidates is wrong, and can be counted. A wrong answer is taken to be a
    candidate as often as the runner-up is where the answer is one and the runner-up is wrong,
    doubtful rows counting more: with this chance q, errors that cannot be seen are to those that
    can as q to 1 - q.

    An expected number of rows. `probabilities` (n_rows, n_classes): of held-out rows. `belief`
    (n_rows, n_classes): how likely each candidate is the true label. `candidates` (n_rows,
    n_classes): their candidate labels; the true one alone where it is known.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    rows = np.arange(len(order))
    covered, next_covered = candidates[rows, order[:, 0]], candidates[rows, order[:, 1]]
    doubt = (1.0 - probabilities[rows, order[:, 0]]) * covered
    wrong = doubt * (1.0 - belief[rows, order[:, 1]])  # weight of a runner-up that is not true
    chance = float((wrong * next_covered).sum() / max(wrong.sum(), 1e-12))
    hideable = float((covered & (candidates.sum(axis=1) > 1)).sum())
    seen = float((~covered).sum())
    return min(hideable, seen * chance / max(1.0 - chance, 1e-12))


def belief_with_errors(
    belief: FloatArray, probabilities: FloatArray, candidates: BoolArray, errors: float
) -> FloatArray:
    """Return a belief that expects at least so many wrong answers among the candidates.

    Of shape (n_rows, n_classes): the belief, mixed with equal chances of all candidates as far as
    that takes. `belief` (n_rows, n_classes): how likely each candidate is the true label.
    `probabilities` (n_rows, n_classes): what decides the answers. `candidates` (n_rows, n_classes):
    the candidate labels.
    """
    even = candidates / candidates.sum(axis=1, keepdims=True)
    rows, best = np.arange(len(belief)), probabilities.argmax(axis=1)
    covered = candidates[rows, best]
    believed, most = (float((1.0 - each[rows, best])[covered].sum()) for each in (belief, even))
    if errors <= believed or most <= believed:
        return belief
    share = min(1.0, (errors - believed) / (most - believed))
    mixed: FloatArray = (1.0 - share) * belief + share * even
    return mixed


def foretold_candidates(probabilities: FloatArray, candidates: BoolArray) -> float:
    """Return how many candidates of a row the features foretell, on average.

    Where wrong candidates have nothing to do with the features, the labels that the model ranks
    last are candidates as often as any wrong label is, and what stands above that in the ranks
    before is the true label: one in each row. More than one says that the model has learned which
    labels become candidates together, so that it can be sure of a wrong one.

    About 1 where the assumption holds. `probabilities` (n_rows, n_classes): of held-out rows.
    `candidates` (n_rows, n_classes): their candidate labels.
    """
    n_classes = probabilities.shape[1]
    order = np.argsort(-probabilities, axis=1, kind="stable")
    by_rank = np.take_along_axis(candidates, order, axis=1).mean(axis=0)
    by_chance = float(by_rank[n_classes // 2 :].mean())
    if by_chance >= 1.0:
        return 1.0
    return float((by_rank.sum() - n_classes * by_chance) / (1.0 - by_chance))


def belief_if_foretold(belief: FloatArray, candidates: BoolArray, foretold: float) -> FloatArray:
    """Return a belief that prefers no candidate where features foretell too many of them.

    Of shape (n_rows, n_classes): the belief as it is up to `DOUBT_BEGINS`, equal chances of all
    candidates from `DOUBT_ENDS` on, and a mixture in between. `belief` (n_rows, n_classes): how
    likely each candidate is the true label. `candidates` (n_rows, n_classes): the candidate labels.
    """
    share = min(1.0, max(0.0, (foretold - DOUBT_BEGINS) / (DOUBT_ENDS - DOUBT_BEGINS)))
    if share == 0.0:
        return belief
    mixed: FloatArray = (1.0 - share) * belief
    mixed += share * candidates / candidates.sum(axis=1, keepdims=True)
    return mixed

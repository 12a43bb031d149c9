"""Which rows to ask about: those whose answer is expected to change most, and not twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from groupnoise.core.arrays import FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice, check_count
from groupnoise.core.scaling import Scaler

STRATEGIES = ("change", "margin", "random")
MAX_POOL = 2_000
"""Rows among which "change" looks: the most doubtful ones of larger data."""
NEAR = 0.5
"""Rows nearer than this part of the mean distance are taken to be alike."""


def choose_questions(
    belief: FloatArray,
    rows: NDArray[np.float64],
    n: int = 10,
    *,
    strategy: str = "change",
    random_state: RandomState = 0,
) -> IntArray:
    """Return the rows to ask about, the first first.

    Parameters
    ----------
    belief : ndarray of shape (n_rows, n_classes)
        How likely each label is the true one; rows of which one label is sure are left out.
    rows : ndarray of shape (n_rows, n_features)
        Their features, which tell what rows are alike.
    n : int, default=10
        How many.
    strategy : {"change", "margin", "random"}, default="change"
        "change": an answer is expected to change the belief by sum p (1 - p), and that of other
        rows in proportion as they are alike in features and in the labels in question; what an
        answer has settled is not counted again. "margin": the least difference between the two
        likeliest labels. "random": whichever.
    random_state : int, generator or None, default=0
        Draws the rows of "random".

    Returns
    -------
    int64 ndarray of shape (at most n,)
        Positions of rows.
    """
    check_count("n", n)
    check_choice("strategy", strategy, STRATEGIES)
    doubt = (belief * (1.0 - belief)).sum(axis=1)
    open_rows = np.flatnonzero(doubt > 1e-6)
    if not len(open_rows):
        return np.empty(0, dtype=np.int64)
    if strategy == "random":
        drawn = generator_from(random_state).permutation(open_rows)[:n]
        return np.asarray(drawn, dtype=np.int64)
    if strategy == "margin":
        top = np.sort(belief[open_rows], axis=1)[:, -2:]
        order = np.argsort(top[:, 1] - top[:, 0], kind="stable")
        return np.asarray(open_rows[order][:n], dtype=np.int64)
    pool = open_rows[np.argsort(-doubt[open_rows], kind="stable")[:MAX_POOL]]
    scaled = Scaler("standard").fit(rows)(rows[pool]).astype(np.float64)
    distances = euclidean_distances(scaled)
    width = max(NEAR * float(distances.mean()), 1e-12)
    in_question = belief[pool] * (1.0 - belief[pool])
    lengths = np.linalg.norm(in_question, axis=1, keepdims=True)
    in_question = in_question / np.maximum(lengths, 1e-12)
    alike = np.exp(-((distances / width) ** 2) / 2) * (in_question @ in_question.T)
    np.fill_diagonal(alike, 1.0)
    left = doubt[pool].copy()
    chosen: list[int] = []
    for _ in range(min(n, len(pool))):
        gain = alike @ left * doubt[pool]
        gain[chosen] = -1.0
        best = int(gain.argmax())
        chosen.append(best)
        left *= 1.0 - alike[best]
    return np.asarray(pool[chosen], dtype=np.int64)

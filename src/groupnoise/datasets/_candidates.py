"""Drawing wrong candidate labels beside the right one, evenly or as look-alikes."""

from __future__ import annotations

import numpy as np

from groupnoise._typing import BoolArray, FloatArray, IntArray


def draw_candidates(
    truth: IntArray,
    n_distractors: IntArray,
    affinity: FloatArray,
    generator: np.random.Generator,
) -> BoolArray:
    """Return candidate sets that hold the truth and a given number of distractors per row.

    Parameters
    ----------
    truth : int64 ndarray of shape (n_rows,)
        The right label of each row.
    n_distractors : int64 ndarray of shape (n_rows,)
        How many wrong labels each row receives; at most the number of classes less one.
    affinity : float ndarray of shape (n_classes, n_classes)
        Row `y` says how readily each other class is taken for `y`; the diagonal is ignored.
    generator : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    bool ndarray of shape (n_rows, n_classes)
    """
    n_rows, n_classes = len(truth), len(affinity)
    rows = np.arange(n_rows)
    # Adding Gumbel noise to log weights and keeping the largest draws without replacement.
    keys = np.log(affinity)[truth] + generator.gumbel(size=(n_rows, n_classes))
    keys[rows, truth] = -np.inf
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    candidates: BoolArray = rank < n_distractors[:, None]
    candidates[rows, truth] = True
    return candidates


def uniform_affinity(n_classes: int) -> FloatArray:
    """Every wrong class is as likely as any other."""
    return np.ones((n_classes, n_classes))

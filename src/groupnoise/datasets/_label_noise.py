"""Planted label noise: single labels flipped to wrong ones, false labels put beside right ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from groupnoise._checks import check_choice, check_count, check_fraction
from groupnoise._random import RandomState, generator_from
from groupnoise._typing import BoolArray, IntArray
from groupnoise.datasets._candidates import checked_truth, draw_candidates, uniform_affinity
from groupnoise.exceptions import ParameterError

KINDS = ("symmetric", "pairwise")


def flip_labels(
    truth: ArrayLike,
    n_classes: int,
    *,
    rate: float,
    kind: str = "symmetric",
    random_state: RandomState = None,
) -> IntArray:
    """Replace a share of the labels by wrong ones.

    Parameters
    ----------
    truth : array-like of int, shape (n_rows,)
        The right label of each row.
    n_classes : int
        How many classes there are.
    rate : float
        The share of rows that receive a wrong label, exact up to rounding.
    kind : {"symmetric", "pairwise"}, default "symmetric"
        Any other class with equal chance, or always the next class (the last becomes the first),
        as when every class has one that it is mistaken for.
    random_state : int, numpy generator or None
        Decides which rows, and which wrong label.

    Returns
    -------
    int64 ndarray of shape (n_rows,)

    Examples
    --------
    >>> flip_labels([0, 1, 2, 0], 3, rate=1.0, kind="pairwise").tolist()
    [1, 2, 0, 1]
    """
    labels = checked_truth(truth, n_classes)
    check_fraction("rate", rate)
    check_choice("kind", kind, KINDS)
    generator = generator_from(random_state)
    wrong = generator.permutation(len(labels))[: round(rate * len(labels))]
    step = 1 if kind == "pairwise" else generator.integers(1, n_classes, size=len(wrong))
    noisy: IntArray = labels.copy()
    noisy[wrong] = (labels[wrong] + step) % n_classes
    return noisy


def add_false_labels(
    truth: ArrayLike, n_classes: int, *, n_false: int, random_state: RandomState = None
) -> BoolArray:
    """Put a given number of false labels beside each right one, drawn evenly.

    Parameters
    ----------
    truth : array-like of int, shape (n_rows,)
        The right label of each row or bag.
    n_classes : int
        How many classes there are.
    n_false : int
        How many false labels each receives.
    random_state : int, numpy generator or None
        Decides the draw.

    Returns
    -------
    bool ndarray of shape (n_rows, n_classes)
        Candidate labels; `n_false + 1` in each row.

    Examples
    --------
    >>> add_false_labels([0, 2], 4, n_false=2, random_state=0).sum(axis=1).tolist()
    [3, 3]
    """
    labels = checked_truth(truth, n_classes)
    check_count("n_false", n_false, least=0)
    if n_false >= n_classes:
        raise ParameterError(
            f"n_false must be below the number of classes ({n_classes}); got {n_false}."
        )
    counts = np.full(len(labels), n_false)
    return draw_candidates(
        labels, counts, uniform_affinity(n_classes), generator_from(random_state)
    )

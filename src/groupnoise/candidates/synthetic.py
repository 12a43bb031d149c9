"""Synthetic noise: false candidates beside the true label, flipped labels, and digits with both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice, check_count, check_fraction
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import PartialLabelDataset, split_rows

Part = Literal["all", "train", "validation", "test"]
PARTS = ("train", "validation", "test")

N_DIGITS = 10
LOOK_ALIKES = ((1, 7), (3, 8), (4, 9), (0, 6), (2, 3), (5, 9))
LOOK_ALIKE_WEIGHT = 8.0
KINDS = ("symmetric", "pairwise")


def add_candidates(
    truth: ArrayLike,
    n_classes: int,
    *,
    epsilon: float,
    tau: int,
    correlated: bool = False,
    random_state: RandomState = None,
) -> tuple[BoolArray, IntArray]:
    """Surround true labels with wrong ones, as in the paper's study of group noise in PLL.

    Parameters
    ----------
    truth : array-like of int, shape (n_rows,)
        The right label of each row.
    n_classes : int
        How many classes there are.
    epsilon : float
        The share of rows that are partially labelled; the others keep the truth alone.
    tau : int
        The greatest number of candidates of a row, the truth included. A partially labelled
        row has 2 to `tau` of them, each number equally often.
    correlated : bool, default=False
        Give each class one partner that is drawn about as often as all others together, as
        when two labels are habitually confused. False draws wrong labels evenly.
    random_state : int, numpy generator or None, default=None
        Decides the draw.

    Returns
    -------
    candidates : bool ndarray of shape (n_rows, n_classes)
    truth : int64 ndarray of shape (n_rows,)

    Examples
    --------
    >>> candidates, truth = add_candidates([0, 1, 2, 0], 3, epsilon=0.5, tau=2, random_state=0)
    >>> sorted(candidates.sum(axis=1).tolist())
    [1, 1, 2, 2]
    """
    labels = check_truth(truth, n_classes)
    check_fraction("epsilon", epsilon)
    check_count("tau", tau, least=2)
    if tau > n_classes:
        raise ParameterError(f"tau ({tau}) is more than there are classes ({n_classes}).")
    generator = generator_from(random_state)
    n_rows = len(labels)
    n_distractors = np.zeros(n_rows, dtype=np.int64)
    ambiguous = generator.permutation(n_rows)[: round(epsilon * n_rows)]
    n_distractors[ambiguous] = generator.integers(1, tau, size=len(ambiguous))
    affinity = (
        _pairwise_affinity(n_classes, generator) if correlated else uniform_affinity(n_classes)
    )
    return draw_candidates(labels, n_distractors, affinity, generator), labels


def replace_candidates(dataset: PartialLabelDataset, **noise: Any) -> PartialLabelDataset:
    """Replace a data set's candidate labels by drawn ones.

    Every row's truth must be known. `noise`: as `add_candidates` takes it.
    """
    if dataset.truth is None or (dataset.truth < 0).any():
        raise DataError(
            f"the true label of every row of {dataset.name} must be known to draw candidates; "
            "drop the rows without one."
        )
    candidates, truth = add_candidates(dataset.truth, len(dataset.class_names), **noise)
    return replace(dataset, candidates=candidates, truth=truth)


def draw_candidates(
    truth: IntArray, n_distractors: IntArray, affinity: FloatArray, generator: np.random.Generator
) -> BoolArray:
    """Return candidate sets that hold the truth and a given number of distractors per row.

    Of shape (n_rows, n_classes). `truth`: the right label of each row. `n_distractors`: how many
    wrong labels each row receives; at most the number of classes less one. `affinity` (n_classes,
    n_classes): row `y` says how readily each other class is taken for `y`; the diagonal is ignored.
    `generator`: source of the draws.
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


def check_truth(truth: ArrayLike, n_classes: int) -> IntArray:
    """Return true labels as integers after refusing any that is no class."""
    check_count("n_classes", n_classes, least=2)
    labels = np.asarray(truth)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) == 0:
        raise DataError(
            f"truth must be a row of whole numbers, one per row; got dtype {labels.dtype}, "
            f"shape {labels.shape}."
        )
    outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(outside):
        raise DataError(
            f"truth must lie between 0 and {n_classes - 1}; row {outside[0]} has "
            f"{labels[outside[0]]}."
        )
    return labels.astype(np.int64)


def _pairwise_affinity(n_classes: int, generator: np.random.Generator) -> FloatArray:
    """Link the classes in one random ring; each is confused with its successor."""
    ring = generator.permutation(n_classes)
    affinity = uniform_affinity(n_classes)
    affinity[ring, np.roll(ring, -1)] = max(n_classes - 2, 1)
    return affinity


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
    kind : {"symmetric", "pairwise"}, default="symmetric"
        Any other class with equal chance, or always the next class (the last becomes the first),
        as when every class has one that it is mistaken for.
    random_state : int, numpy generator or None, default=None
        Decides which rows, and which wrong label.

    Returns
    -------
    int64 ndarray of shape (n_rows,)

    Examples
    --------
    >>> flip_labels([0, 1, 2, 0], 3, rate=1.0, kind="pairwise").tolist()
    [1, 2, 0, 1]
    """
    labels = check_truth(truth, n_classes)
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
    random_state : int, numpy generator or None, default=None
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
    labels = check_truth(truth, n_classes)
    check_count("n_false", n_false, least=0)
    if n_false >= n_classes:
        raise ParameterError(
            f"n_false must be below the number of classes ({n_classes}); got {n_false}."
        )
    counts = np.full(len(labels), n_false)
    return draw_candidates(
        labels, counts, uniform_affinity(n_classes), generator_from(random_state)
    )


@dataclass(frozen=True)
class DigitPool:
    """Digits of one part of the data: images (n, 8, 8) in [0, 1], and labels."""

    images: FloatArray
    labels: IntArray

    @property
    def features(self) -> FloatArray:
        """The images as rows of 64 grey values."""
        return self.images.reshape(len(self.images), -1)

    def subset(self, rows: IntArray) -> DigitPool:
        """Return some of the digits."""
        return DigitPool(self.images[rows], self.labels[rows])


@cache
def _all_digits() -> DigitPool:
    """Return all digits; their file is text, and is read once."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return DigitPool(digits.images.astype(np.float32) / 16, digits.target.astype(np.int64))


def digit_pool(part: Part) -> DigitPool:
    """Return the digits of a part; the parts are disjoint and the same in every run.

    The seed is fixed on purpose: pools that moved with `random_state` would let a digit be in
    the training bags of one call and in the test bags of the next.
    """
    pool = _all_digits()
    if part == "all":
        return pool.subset(np.arange(len(pool.labels)))  # a copy: the caller may write to it
    rows = split_rows(len(pool.labels), (0.6, 0.2, 0.2), random_state=0)
    return pool.subset(rows[PARTS.index(part)])


def load_digit_candidates(
    *,
    n_distractors: int | tuple[int, int] = (1, 3),
    ambiguous_rate: float = 1.0,
    correlated: bool = True,
    part: Part = "all",
    random_state: RandomState = None,
) -> PartialLabelDataset:
    """Give every handwritten digit a set of candidate labels, one of them right.

    Parameters
    ----------
    n_distractors : int or (int, int), default=(1, 3)
        How many wrong labels an ambiguous row carries, or their least and greatest number.
    ambiguous_rate : float, default=1.0
        The share of rows that carry wrong labels at all.
    correlated : bool, default=True
        Draw look-alikes (3 and 8, 4 and 9, 1 and 7, ...) more often than other digits, as an
        annotator in doubt would. False draws evenly.
    part : {"all", "train", "validation", "test"}, default="all"
        Which digits to return; the three parts are disjoint and do not depend on the seed.
    random_state : int, numpy generator or None, default=None
        Decides the candidates.

    Returns
    -------
    PartialLabelDataset
        Features are the 64 grey values in [0, 1].

    Examples
    --------
    >>> digits = load_digit_candidates(n_distractors=2, random_state=0)
    >>> digits.candidates.shape, int(digits.candidates.sum(axis=1).max())
    ((1797, 10), 3)
    """
    least, most = n_distractors if isinstance(n_distractors, tuple) else (n_distractors,) * 2
    check_count("n_distractors", least, least=0)
    check_count("n_distractors", most, least=least)
    if most >= N_DIGITS:
        raise ParameterError(f"n_distractors must be below {N_DIGITS}; got {n_distractors!r}.")
    check_fraction("ambiguous_rate", ambiguous_rate)
    check_choice("part", part, ("all", *PARTS))

    generator = generator_from(random_state)
    pool = digit_pool(part)
    counts = generator.integers(least, most, endpoint=True, size=len(pool.labels))
    counts[generator.random(len(counts)) >= ambiguous_rate] = 0
    affinity = uniform_affinity(N_DIGITS)
    if correlated:
        for one, other in LOOK_ALIKES:
            affinity[one, other] = affinity[other, one] = LOOK_ALIKE_WEIGHT
    return PartialLabelDataset(
        name="digit candidates",
        features=pool.features,
        candidates=draw_candidates(pool.labels, counts, affinity, generator),
        class_names=[str(label) for label in range(N_DIGITS)],
        truth=pool.labels,
        images=pool.images,
    )

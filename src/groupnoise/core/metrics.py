"""Figures of merit: arrays in, one number out; and the reliability of probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the fraction of rows whose predicted label is the true one.

    >>> accuracy(["cat", "dog"], ["cat", "cat"])
    0.5
    """
    right, given = _paired_rows(truth, predicted)
    return float(np.mean(right == given))


def accuracy_within(truth: ArrayLike, predicted: ArrayLike, tolerance: float) -> float:
    """Return the fraction of rows predicted within `tolerance` of the true number.

    FG-NET's MAE3 and MAE5 are this with tolerances of 3 and 5 years.

    >>> accuracy_within([30, 40], [33, 44], tolerance=3)
    0.5
    """
    check_positive("tolerance", tolerance, allow_zero=True)
    right, given = _paired_rows(truth, predicted)
    return float(np.mean(np.abs(right.astype(np.float64) - given) <= tolerance))


def covering_rate(candidates: ArrayLike, predicted: ArrayLike) -> float:
    """Return the fraction of rows whose predicted label is one of their candidates.

    It needs no true label, so it can choose among models where none is known.

    >>> covering_rate([[True, True, False], [False, True, False]], [1, 2])
    0.5
    """
    table = _candidate_table(candidates)
    labels = np.asarray(predicted, dtype=np.int64)
    if labels.shape != (len(table),):
        raise DataError(
            f"{counted(len(table), 'rows')} of candidates came with {labels.shape} predictions."
        )
    return float(np.mean(table[np.arange(len(table)), labels]))


def approximated_accuracy(candidates: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the accuracy expected if the model were right about the candidates' chances.

    A row whose most probable label lies among its candidates counts with that label's part of
    the probability of all candidates; any other row counts nothing. Like the covering rate it
    needs no true label, but it does not reward a model for large candidate sets alone.

    Parameters
    ----------
    candidates : bool array-like of shape (n_rows, n_classes)
        The candidate labels of each row.
    probabilities : array-like of shape (n_rows, n_classes)
        Predicted class probabilities; the first of equal largest ones is the prediction.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> approximated_accuracy([[True, True, False]], [[0.5, 0.25, 0.25]])
    0.6666666666666666
    """
    table = _candidate_table(candidates)
    chances = np.asarray(probabilities, dtype=np.float64)
    if chances.shape != table.shape:
        raise DataError(
            f"candidates have shape {table.shape} and probabilities {chances.shape}; "
            "they must agree."
        )
    rows = np.arange(len(table))
    predicted = chances.argmax(axis=1)
    among_candidates = np.where(table, chances, 0.0)
    total = among_candidates.sum(axis=1)
    hit = among_candidates[rows, predicted]
    return float(np.mean(np.divide(hit, total, out=np.zeros_like(hit), where=total > 0)))


def hit_at_k(n_better: ArrayLike, n_tied: ArrayLike, k: int = 10) -> float:
    """Return the expected fraction of targets among the first `k`, tied items in random order.

    With `b` items better than the target and `t` others tied with it, the target's position is
    uniform over `b, ..., b + t`, so it is among the first `k` with chance
    `clip(k - b, 0, t + 1) / (t + 1)`. Neither the lucky nor the unlucky order is assumed.

    Parameters
    ----------
    n_better, n_tied : int array-like of shape (n_rows,)
        How many other candidates score above, and exactly as high as, the target.
    k : int, default=10
        Length of the list.

    Returns
    -------
    float
        Between 0 and 1, the mean over rows.

    Examples
    --------
    >>> hit_at_k([0, 9, 30], [0, 1, 0], k=10)
    0.5
    """
    return float(np.mean(hit_per_row(n_better, n_tied, k)))


def ndcg_at_k(n_better: ArrayLike, n_tied: ArrayLike, k: int = 10) -> float:
    """Return the expected NDCG@k of one relevant target, tied items in random order.

    The target at position `r` (from 0) gains `1 / log2(r + 2)` if `r < k`; the gain is averaged
    exactly over the positions a tie allows, which differs from the gain at the mean position.

    Parameters
    ----------
    n_better, n_tied : int array-like of shape (n_rows,)
        How many other candidates score above, and exactly as high as, the target.
    k : int, default=10
        Length of the list.

    Returns
    -------
    float
        Between 0 and 1, the mean over rows.

    Examples
    --------
    >>> round(ndcg_at_k([0, 1], [0, 0]), 4), round(ndcg_at_k([0, 0], [1, 1]), 4)
    (0.8155, 0.8155)
    """
    return float(np.mean(ndcg_per_row(n_better, n_tied, k)))


def hit_per_row(n_better: ArrayLike, n_tied: ArrayLike, k: int) -> FloatArray:
    """Return for each row the chance of the target to be among the first `k`; see `hit_at_k`."""
    better, tied = _rank_counts(n_better, n_tied, k)
    return np.clip(k - better, 0, tied + 1) / (tied + 1)


def ndcg_per_row(n_better: ArrayLike, n_tied: ArrayLike, k: int) -> FloatArray:
    """Return for each row the expected discounted gain of the target; see `ndcg_at_k`."""
    return _expected_value(n_better, n_tied, 1.0 / np.log2(np.arange(k) + 2))


def reciprocal_rank_per_row(n_better: ArrayLike, n_tied: ArrayLike, k: int) -> FloatArray:
    """Return for each row the expected reciprocal rank of the target."""
    return _expected_value(n_better, n_tied, 1.0 / np.arange(1, k + 1))


def _expected_value(n_better: ArrayLike, n_tied: ArrayLike, values: FloatArray) -> FloatArray:
    """Return the mean of the values at the positions that each target may have."""
    k = len(values)
    better, tied = _rank_counts(n_better, n_tied, k)
    before = np.concatenate([[0.0], np.cumsum(values)])  # (k + 1,)
    block = before[np.minimum(better + tied + 1, k)] - before[np.minimum(better, k)]
    return block / (tied + 1)


def _paired_rows(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    right, given = np.asarray(truth), np.asarray(predicted)
    if right.ndim != 1 or right.shape != given.shape:
        raise DataError(
            f"true labels have shape {right.shape} and predictions {given.shape}; "
            "one of each per row is needed."
        )
    if len(right) == 0:
        raise DataError("0 rows were given; at least one is needed.")
    return right, given


def _candidate_table(candidates: ArrayLike) -> BoolArray:
    table = np.asarray(candidates).astype(bool)
    if table.ndim != 2 or len(table) == 0:
        raise DataError(
            f"candidates must be a table (rows, classes) of at least one row; got {table.shape}."
        )
    return table


def _rank_counts(n_better: ArrayLike, n_tied: ArrayLike, k: int) -> tuple[IntArray, IntArray]:
    check_count("k", k)
    return _paired_rows(n_better, n_tied)


class ReliabilityBins(NamedTuple):
    """Predictions sorted into bins by the probability they claim.

    `claimed`: mean probability of the predicted class in each bin, NaN where the bin is empty.
    `right`: fraction of predictions that came true, NaN where the bin is empty.
    `counts`: how many predictions fell into each bin.
    """

    claimed: FloatArray
    right: FloatArray
    counts: IntArray


def reliability(truth: ArrayLike, probabilities: ArrayLike, n_bins: int = 15) -> ReliabilityBins:
    """Return how often predictions came true beside how often they claimed to.

    `probabilities` (n_rows, n_classes): predicted class probabilities; the first of equal largest
    ones is the prediction. `n_bins`: bins of equal width over [0, 1].

    >>> found = reliability([0, 1], [[0.8, 0.2], [0.9, 0.1]], n_bins=2)
    >>> found.claimed[1].round(2).item(), found.right[1].item(), found.counts.tolist()
    (0.85, 0.5, [0, 2])
    """
    check_count("n_bins", n_bins)
    labels, table = np.asarray(truth), np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or len(table) == 0 or labels.shape != (len(table),):
        raise DataError(
            f"true classes have shape {labels.shape} and probabilities {table.shape}; a class and "
            "a row of probabilities per row are needed."
        )
    confidence = table.max(axis=1)
    is_right = table.argmax(axis=1) == labels
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0

    def means(values: FloatArray) -> FloatArray:
        sums = np.bincount(bins, weights=values, minlength=n_bins)
        averages: FloatArray = np.full(n_bins, np.nan)
        np.divide(sums, counts, out=averages, where=filled)
        return averages

    return ReliabilityBins(means(confidence), means(is_right), counts)


def expected_calibration_error(
    truth: ArrayLike, probabilities: ArrayLike, n_bins: int = 15
) -> float:
    """Return how far claimed probabilities lie from what came true, on average over predictions.

    Parameters
    ----------
    truth : int array-like of shape (n_rows,)
        The true class index of each row.
    probabilities : array-like of shape (n_rows, n_classes)
        Predicted class probabilities.
    n_bins : int, default=15
        Number of equal bins of the largest probability.

    Returns
    -------
    float
        Between 0 and 1; 0 is perfectly calibrated.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1], [[0.8, 0.2], [0.9, 0.1]], n_bins=2), 2)
    0.35
    """
    claimed, right, counts = reliability(truth, probabilities, n_bins)
    filled = counts > 0
    gap = np.abs(claimed[filled] - right[filled])
    return float(np.average(gap, weights=counts[filled]))

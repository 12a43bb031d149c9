"""Calibration: whether predictions that claim a probability of .8 come true in eight of ten."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from groupnoise._checks import check_count
from groupnoise._typing import FloatArray, IntArray
from groupnoise.exceptions import DataError


class Reliability(NamedTuple):
    """Predictions sorted into bins by the probability they claim.

    Attributes
    ----------
    claimed : ndarray of shape (n_bins,)
        Mean probability of the predicted class in each bin, NaN where the bin is empty.
    right : ndarray of shape (n_bins,)
        Share of predictions that came true, NaN where the bin is empty.
    counts : int64 ndarray of shape (n_bins,)
        How many predictions fell into each bin.
    """

    claimed: FloatArray
    right: FloatArray
    counts: IntArray


def reliability(truth: ArrayLike, probabilities: ArrayLike, n_bins: int = 15) -> Reliability:
    """Return how often predictions came true beside how often they claimed to.

    Parameters
    ----------
    truth : int array-like of shape (n_rows,)
        The true class of each row.
    probabilities : array-like of shape (n_rows, n_classes)
        Predicted class probabilities; the first of equal largest ones is the prediction.
    n_bins : int
        Bins of equal width over [0, 1].

    Examples
    --------
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

    return Reliability(means(confidence), means(is_right), counts)


def expected_calibration_error(
    truth: ArrayLike, probabilities: ArrayLike, n_bins: int = 15
) -> float:
    """Return how far claimed probabilities lie from what came true, on average over predictions.

    Parameters
    ----------
    truth, probabilities, n_bins
        As for :func:`reliability`.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1], [[0.8, 0.2], [0.9, 0.1]], n_bins=2), 2)
    0.35
    """
    claimed, right, counts = reliability(truth, probabilities, n_bins)
    filled = counts > 0
    gap = np.abs(claimed[filled] - right[filled])
    return float(np.average(gap, weights=counts[filled]))

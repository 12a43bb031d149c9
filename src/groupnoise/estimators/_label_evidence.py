"""What is known of a label apart from the label itself: neighbours, held-out predictions, noise.

All of it is out of sample: the evidence about a row never uses that row's own label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import FloatArray, IntArray

FLOOR = 0.02
"""Added to each probability before two kinds of evidence are multiplied, so that neither can
rule a label out alone."""
DOUBT = 1e-3
"""The least probability of any label before the noise is taken into account."""

Predict = Callable[[IntArray, IntArray], FloatArray]
"""Trains on some rows and returns P(label | row) of others, shape (n_held, n_classes)."""


def stratified_folds(
    labels: IntArray, n_folds: int, generator: np.random.Generator
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows to train on and the rows held out, each row held out once.

    Every class is dealt out evenly; a class with fewer rows than folds is missing in some.
    """
    order = generator.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[by_class] = np.arange(len(labels)) % n_folds
    for number in range(n_folds):
        held = np.flatnonzero(fold == number)
        if len(held):
            yield np.flatnonzero(fold != number), held


def cross_fit(
    predict: Predict,
    labels: IntArray,
    n_classes: int,
    n_folds: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return P(label | row) from models that never saw the row, shape (n_rows, n_classes)."""
    probabilities = np.zeros((len(labels), n_classes))
    for training, held in stratified_folds(labels, n_folds, generator):
        probabilities[held] = predict(training, held)
    return probabilities


def nearest_rows(features: NDArray[Any], n_neighbors: int) -> IntArray:
    """Return the rows nearest to each row, itself left out, shape (n_rows, n_neighbors)."""
    from sklearn.neighbors import NearestNeighbors

    n_asked = min(n_neighbors, len(features) - 1)
    found = NearestNeighbors(n_neighbors=n_asked).fit(features)
    # Asked without rows, scikit-learn leaves each row out of its own neighbourhood.
    neighbours: IntArray = found.kneighbors(return_distance=False)
    return neighbours


def combine(first: FloatArray, second: FloatArray) -> FloatArray:
    """Multiply two kinds of evidence about the same rows, each (n_rows, n_classes)."""
    return normalised((first + FLOOR) * (second + FLOOR))


def estimate_noise(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """Estimate P(given label | true label) from out-of-sample probabilities.

    A row is counted under the likeliest of the labels it holds with more than that label's usual
    confidence: the mean probability of the label among the rows that carry it (the confident
    joint of Northcutt, Jiang and Chuang, 2021). The counts are then scaled to the number of times
    each label was given.

    Parameters
    ----------
    probabilities : float ndarray of shape (n_rows, n_classes)
        P(label | row), out of sample.
    labels : int64 ndarray of shape (n_rows,)
        The label each row carries.

    Returns
    -------
    float ndarray of shape (n_classes, n_classes)
        Row `true` sums to one over the given labels.
    """
    n_classes = probabilities.shape[1]
    given = np.bincount(labels, minlength=n_classes)
    own = probabilities[np.arange(len(labels)), labels]
    usual = np.bincount(labels, own, n_classes) / np.maximum(given, 1)
    confident = (probabilities >= usual) & (given > 0)
    believed = np.where(confident, probabilities, -1.0).argmax(axis=1)
    counted = confident.any(axis=1)
    joint = np.zeros((n_classes, n_classes))
    np.add.at(joint, (believed[counted], labels[counted]), 1.0)
    # One imagined row per class on the diagonal, one spread over all: no estimate is certain.
    joint += np.eye(n_classes) + 1.0 / n_classes
    joint *= given / joint.sum(axis=0)
    return normalised(joint + np.finfo(float).tiny)


def posterior(probabilities: FloatArray, labels: IntArray, noise: FloatArray) -> FloatArray:
    """Return P(true label | row, given label), shape (n_rows, n_classes).

    Parameters
    ----------
    probabilities : float ndarray of shape (n_rows, n_classes)
        Evidence for each label, out of sample.
    labels : int64 ndarray of shape (n_rows,)
        The label each row carries.
    noise : float ndarray of shape (n_classes, n_classes)
        P(given label | true label).
    """
    return normalised((probabilities + DOUBT) * noise.T[labels])


def normalised(weights: FloatArray) -> FloatArray:
    """Return rows scaled to sum to one."""
    result: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return result

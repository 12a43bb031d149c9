"""What is known of a label apart from the label itself: neighbours, held-out predictions, noise.

All of it is out of sample: the evidence about a row never uses that row's own label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import FloatArray, IntArray

FLOOR = 0.02
"""Added to each probability before two kinds of evidence are multiplied, so that neither can
rule a label out alone."""
DOUBT = 1e-3
"""The least probability of any label before the noise is taken into account."""

N_NOISE_STEPS = 20
"""How often the noise and the true labels are estimated from each other; more changes little."""
N_SPREADING_STEPS = 3
"""How often what is believed of a row is passed on to its neighbours."""

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
    """Return the rows at the least angle to each row, itself left out, (n_rows, n_neighbors)."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    n_asked = min(n_neighbors, len(features) - 1)
    # Rows of unit length: their distances are ordered like their angles.
    found = NearestNeighbors(n_neighbors=n_asked).fit(normalize(features))
    # Asked without rows, scikit-learn leaves each row out of its own neighbourhood.
    neighbours: IntArray = found.kneighbors(return_distance=False)
    return neighbours


class Belief(NamedTuple):
    """What is believed of the true labels.

    Attributes
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        P(true label | row, given label).
    noise : ndarray of shape (n_classes, n_classes)
        P(given label | true label).
    """

    probabilities: FloatArray
    noise: FloatArray


def believe(
    given: IntArray,
    before: FloatArray,
    predicted: FloatArray | None,
    neighbours: IntArray | None,
) -> Belief:
    """Weigh predictions, neighbours and the given labels against each other.

    Parameters
    ----------
    given : int64 ndarray of shape (n_rows,)
        The label each row carries.
    before : float ndarray of shape (n_rows, n_classes)
        What was believed so far; the given labels themselves in the beginning.
    predicted : float ndarray of shape (n_rows, n_classes), optional
        P(label | row) of models that did not see the row.
    neighbours : int64 ndarray of shape (n_rows, n_neighbors), optional
        Near rows, which vote with what is believed of them. One of the two must be given.
    """
    if neighbours is None:
        if predicted is None:
            raise ValueError("predictions or neighbours are needed")
        return _with_noise(predicted, given)
    belief = Belief(before, np.eye(before.shape[1]))
    for _ in range(N_SPREADING_STEPS):
        votes = belief.probabilities[neighbours].mean(axis=1)
        belief = _with_noise(votes if predicted is None else combine(predicted, votes), given)
    return belief


def _with_noise(evidence: FloatArray, given: IntArray) -> Belief:
    noise = estimate_noise(evidence, given)
    return Belief(posterior(evidence, given, noise), noise)


def combine(first: FloatArray, second: FloatArray) -> FloatArray:
    """Multiply two kinds of evidence about the same rows, each (n_rows, n_classes)."""
    return normalised((first + FLOOR) * (second + FLOOR))


def estimate_noise(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """Estimate P(given label | true label) from out-of-sample probabilities.

    Noise and true labels are estimated from each other in turn (expectation maximisation), from
    the counts of confident rows onwards.

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
    given = np.eye(n_classes)[labels]
    # Imagined rows, spread over all labels with half of one more on the diagonal: an estimate
    # from few rows is never certain.
    imagined = np.eye(n_classes) / 2 + 1.0 / n_classes
    noise = _confident_noise(probabilities, labels)
    for _ in range(N_NOISE_STEPS):
        noise = normalised(posterior(probabilities, labels, noise).T @ given + imagined)
    return noise


def _confident_noise(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """Count rows under the likeliest of the labels that they hold with more than usual confidence.

    Usual is the mean probability of a label among the rows that carry it: the confident joint of
    Northcutt, Jiang and Chuang (2021), scaled to the number of times each label was given.
    """
    n_classes = probabilities.shape[1]
    given = np.bincount(labels, minlength=n_classes)
    own = probabilities[np.arange(len(labels)), labels]
    usual = np.bincount(labels, own, n_classes) / np.maximum(given, 1)
    confident = (probabilities >= usual) & (given > 0)
    believed = np.where(confident, probabilities, -1.0).argmax(axis=1)
    counted = confident.any(axis=1)
    joint = np.eye(n_classes) + 1.0 / n_classes
    np.add.at(joint, (believed[counted], labels[counted]), 1.0)
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

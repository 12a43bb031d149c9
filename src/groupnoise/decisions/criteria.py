"""What held-out groups say of a model without a single true label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from groupnoise.core.arrays import BoolArray, FloatArray, blocks
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import approximated_accuracy, covering_rate, hit_at_k, ndcg_at_k
from groupnoise.exceptions import DataError

MIN_CHANCE = 1e-12
TOP = 10
SCORES_AT_ONCE = 1 << 25
"""Scores of windows held at a time: 128 MB in single precision."""


class GroupCriteria(NamedTuple):
    """Three figures of merit that need no true label; larger is better.

    Attributes
    ----------
    log_likelihood : float
        The mean log probability a model gives to what is known of each group.
    covering_rate : float
        How often its answer agrees with what is known: that an instance's label is one of its
        bag's, beyond what chance gives; that a row's label is one of its candidates; that the
        next click is among the first ten items (HIT@10 over the catalogue).
    approximated_accuracy : float
        How often its answer would be right if its own chances were; for clicks NDCG@10.
    """

    log_likelihood: float
    covering_rate: float
    approximated_accuracy: float


def bag_criteria(model: Any, bags: Groups, labels: BoolArray) -> GroupCriteria:
    """Judge a classifier of instances by bags: the labels of a bag are candidates of each instance.

    Instances whose true label is none of the bag's (background) agree by chance alone. A model
    that prefers frequent labels would gain by that, so the covering rate is counted beyond what
    it would be with the bags' labels in random order. A label of a bag counts as likely as its
    best instance: the mean would reward a model for what most of a bag is.

    Parameters
    ----------
    model : fitted MaxMatchingMILClassifier
        Or anything else with `predict_proba` and `background_proba` of instances.
    bags : Groups
        Bags the model has not seen.
    labels : bool ndarray of shape (n_bags, n_classes)
        What each bag is labelled with, in the order of the model's classes.

    Returns
    -------
    GroupCriteria
        Log likelihood, covering rate and approximated accuracy.
    """
    chances = model.predict_proba(bags.objects)  # (n_instances, n_classes)
    outside = model.background_proba(bags.objects)[:, None]
    best = np.maximum.reduceat(chances * (1.0 - outside), bags.offsets[:-1])  # (n_bags, n_classes)
    candidates = np.repeat(labels, bags.sizes, axis=0)
    answers = chances.argmax(axis=1)
    by_chance = labels.mean(axis=0)[answers].mean()
    return GroupCriteria(
        _mean_log(best[labels]),
        covering_rate(candidates, answers) - float(by_chance),
        approximated_accuracy(candidates, chances),
    )


def candidate_criteria(model: Any, X: ArrayLike, candidates: BoolArray) -> GroupCriteria:
    """Judge a classifier of rows by candidate labels: how likely its answer is one of them.

    Parameters
    ----------
    model : fitted MaxMatchingPartialLabelClassifier
        Or anything else with `predict_proba` of rows.
    X : array-like of shape (n_rows, n_features)
        Rows the model has not seen.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Their candidate labels, in the order of the model's classes.

    Returns
    -------
    GroupCriteria
        Log likelihood, covering rate and approximated accuracy.
    """
    chances = model.predict_proba(X)
    return GroupCriteria(
        _mean_log(np.where(candidates, chances, 0.0).sum(axis=1)),
        covering_rate(candidates, chances.argmax(axis=1)),
        approximated_accuracy(candidates, chances),
    )


def history_criteria(model: Any, windows: Groups) -> GroupCriteria:
    """Judge a recommender by next clicks: how likely, and how far up, was the one that came.

    Parameters
    ----------
    model : fitted MaxMatchingRecommender
        Or anything else whose `scores` of all `n_items_` items are logits.
    windows : Groups
        Windows of item indices the model has not seen, with their targets.

    Returns
    -------
    GroupCriteria
        Log likelihood, HIT@10 and NDCG@10 over the catalogue.
    """
    if windows.targets is None:
        raise DataError("history_criteria needs windows with their next clicks as targets.")
    parts = []
    step = max(1, SCORES_AT_ONCE // model.n_items_)
    for first in range(0, len(windows), step):
        part = windows.subset(np.arange(first, min(first + step, len(windows))))
        scores = np.asarray(model.scores(part))  # (n_windows, n_items)
        target = np.take_along_axis(scores, np.asarray(part.targets)[:, None], axis=1)
        log_likelihood = target[:, 0] - _log_sums(scores)
        n_tied = (scores == target).sum(axis=1) - 1
        parts.append((log_likelihood, (scores > target).sum(axis=1), n_tied))
    log_likelihood, n_better, n_tied = map(np.concatenate, zip(*parts, strict=True))
    return GroupCriteria(
        float(np.mean(log_likelihood)),
        hit_at_k(n_better, n_tied, k=TOP),
        ndcg_at_k(n_better, n_tied, k=TOP),
    )


def _log_sums(scores: FloatArray) -> FloatArray:
    """Return the log of the summed exponentials of each row, in double precision."""
    return np.concatenate(
        [logsumexp(part.astype(np.float64), axis=1) for _, part in blocks(scores)]
    )


def _mean_log(chances: FloatArray) -> float:
    return float(np.mean(np.log(np.maximum(chances, MIN_CHANCE))))

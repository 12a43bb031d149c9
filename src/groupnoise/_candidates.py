"""Candidate labels (partial-label learning) in every form users hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._label_sets import holds_plain_labels, read_label_sets
from groupnoise._typing import BoolArray
from groupnoise.exceptions import DataError, EmptyGroupError


def read_candidates(candidates: Any, classes: Any = None) -> tuple[BoolArray, NDArray[Any]]:
    """Read the candidate labels of each row.

    Parameters
    ----------
    candidates : array-like, sparse matrix or sequence
        A 0/1 matrix of shape (n_rows, n_classes), dense or sparse; a sequence of sets, lists or
        tuples of labels; or plain labels, each the only candidate of its row.
    classes : array-like of shape (n_classes,), optional
        The labels a fitted model knows. Without them they are taken from the candidates.

    Returns
    -------
    indicator : bool ndarray of shape (n_rows, n_classes)
        True where a label is a candidate; at least one per row.
    classes : ndarray of shape (n_classes,)
        The label each column stands for.

    Raises
    ------
    EmptyGroupError
        If a row has no candidate.
    UnknownTargetError
        If a label is not among the `classes` given.
    DataError
        If the input cannot be read, or holds a single class.

    Examples
    --------
    >>> indicator, classes = read_candidates([{"ann", "bob"}, {"bob"}])
    >>> classes.tolist(), indicator.tolist()
    (['ann', 'bob'], [[True, True], [False, True]])
    """
    indicator, found = read_label_sets(candidates, name="candidates", classes=classes)
    empty = np.flatnonzero(~indicator.any(axis=1))
    if len(empty):
        raise EmptyGroupError(
            f"{len(empty)} of {len(indicator)} rows have no candidate label, the first is row "
            f"{empty[0]}; give each row at least one, or drop it."
        )
    return indicator, found


def answered_right(predicted: NDArray[Any], y: Any, classes: NDArray[Any]) -> BoolArray:
    """Tell which rows were answered with their true label, or with one of their candidates.

    Parameters
    ----------
    predicted : ndarray of shape (n_rows,)
        Labels a model answered with.
    y : array-like, sparse matrix or sequence
        True labels, or candidates in any form :func:`read_candidates` takes. A true label the
        model never saw is answered wrong: a part of a cross-validation may lack it.
    classes : ndarray of shape (n_classes,)
        The labels the model knows.

    Returns
    -------
    bool ndarray of shape (n_rows,)

    Examples
    --------
    >>> answered_right(np.array(["ann", "bob"]), ["ann", "cleo"], np.array(["ann", "bob"])).tolist()
    [True, False]
    """
    if holds_plain_labels(y):
        truth = np.asarray(y)
        refuse_unequal_rows(predicted, truth)
        return np.asarray(predicted == truth, dtype=bool)
    candidates, _ = read_candidates(y, classes)
    refuse_unequal_rows(predicted, candidates)
    answers, _ = read_candidates(predicted, classes)
    return np.asarray((candidates & answers).any(axis=1))


def refuse_unequal_rows(rows: Any, indicator: NDArray[Any]) -> None:
    """Raise if candidates were given for another number of rows than there are."""
    if len(rows) != len(indicator):
        raise DataError(
            f"X has {len(rows)} rows, but candidates were given for {len(indicator)}; "
            "found input variables with inconsistent numbers of samples."
        )

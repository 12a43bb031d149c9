"""find_label_issues: which single labels are wrong, from labels and held-out probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise._candidates import read_candidates
from groupnoise._checks import check_count, check_features
from groupnoise._scaling import Scaler
from groupnoise._typing import BoolArray, FloatArray, IntArray
from groupnoise.estimators._label_evidence import Belief, believe, nearest_rows, normalised
from groupnoise.exceptions import DataError


class LabelIssues(NamedTuple):
    """What is believed of each label.

    Attributes
    ----------
    quality : ndarray of shape (n_rows,)
        P(the given label is the true one); the smallest are the first to look at.
    is_issue : bool ndarray of shape (n_rows,)
        True where another label is likelier than the given one.
    suggested : ndarray of shape (n_rows,)
        The likeliest label.
    noise_matrix : ndarray of shape (n_classes, n_classes)
        P(given label | true label).
    """

    quality: FloatArray
    is_issue: BoolArray
    suggested: NDArray[Any]
    noise_matrix: FloatArray

    def ranked(self) -> IntArray:
        """Return the rows with an issue, the worst first."""
        order = np.argsort(self.quality, kind="stable")
        rows: IntArray = order[self.is_issue[order]]
        return rows


def find_label_issues(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    X: ArrayLike | None = None,
    n_neighbors: int = 10,
) -> LabelIssues:
    """Find wrong labels from out-of-sample probabilities, of any classifier.

    Parameters
    ----------
    labels : array-like of shape (n_rows,)
        The given labels.
    probabilities : array-like of shape (n_rows, n_classes)
        P(label | row) from models that did not see the row in training, as
        `sklearn.model_selection.cross_val_predict` gives them.
    classes : array-like of shape (n_classes,), optional
        The label of each column; the labels that occur, sorted, by default.
    X : array-like of shape (n_rows, n_features), optional
        Features in which near rows are alike. With them the labels of the neighbours speak too.
    n_neighbors : int, default 10
        How many neighbours are asked.

    Returns
    -------
    LabelIssues
        The quality of each label, what is an issue, and what to put in its place.

    Examples
    --------
    >>> labels = ["fox", "fox", "fox", "owl", "owl", "fox"]
    >>> probabilities = [[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 3
    >>> issues = find_label_issues(labels, probabilities)
    >>> issues.ranked().tolist(), issues.suggested[5].item()
    ([5], 'owl')
    """
    given, known = read_single_labels(labels, classes)
    table = check_features("probabilities", probabilities)
    if table.shape != (len(given), len(known)):
        raise DataError(
            f"probabilities has shape {table.shape}; {len(given)} labels of {len(known)} classes "
            f"need ({len(given)}, {len(known)})."
        )
    if (table < 0).any() or not (table.sum(axis=1) > 0).all():
        raise DataError("probabilities must not be negative, and no row may be all zero.")
    neighbours = None
    if X is not None:
        check_count("n_neighbors", n_neighbors)
        rows = check_features("X", X)
        if len(rows) != len(given):
            raise DataError(f"X has {len(rows)} rows, but there are {len(given)} labels.")
        neighbours = nearest_rows(Scaler("standard").fit(rows)(rows), n_neighbors)
    belief = believe(given, np.eye(len(known))[given], normalised(table), neighbours)
    return judge_labels(belief, given, known)


def judge_labels(belief: Belief, given: IntArray, classes: NDArray[Any]) -> LabelIssues:
    """Return what is believed of the given labels, which are columns of `classes`."""
    best = belief.probabilities.argmax(axis=1)
    return LabelIssues(
        quality=belief.probabilities[np.arange(len(given)), given],
        is_issue=best != given,
        suggested=classes[best],
        noise_matrix=belief.noise,
    )


def read_single_labels(y: Any, classes: Any = None) -> tuple[IntArray, NDArray[Any]]:
    """Return the column of each row's only label, and the classes; refuse several labels."""
    indicator, known = read_candidates(y, classes)
    several = np.flatnonzero(indicator.sum(axis=1) > 1)
    if len(several):
        raise DataError(
            f"row {several[0]} has {indicator[several[0]].sum()} labels, but single labels are "
            "wanted; sets of candidates go to MaxMatchingPartialLabelClassifier."
        )
    return indicator.argmax(axis=1), known

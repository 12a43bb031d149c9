"""Detection of wrong labels from neighbours and out-of-sample predictions; audit of candidates.

The evidence about a row never uses that row's own label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.audit.evidence import Findings, choice_columns, class_columns, object_posterior
from groupnoise.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    first_equal_rows,
    stratified_folds,
)
from groupnoise.core.checks import check_count, check_features
from groupnoise.core.label_sets import read_candidate_sets
from groupnoise.core.scaling import Scaler
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import PartialLabelDataset

FLOOR = 0.02
"""Added to probabilities before two kinds of evidence are multiplied: neither alone excludes a
label."""
DOUBT = 1e-3
"""Minimum probability of a label before the noise matrix is applied."""

N_NOISE_STEPS = 20
"""Of expectation maximization for the noise matrix."""
N_SPREADING_STEPS = 3
"""Iterations of label propagation to neighbours."""

Predict = Callable[[IntArray, IntArray], FloatArray]
"""Trains on some rows and returns P(label | row) of others, shape (n_held, n_classes)."""


def cross_fit(
    predict: Predict, labels: IntArray, n_classes: int, n_folds: int, generator: np.random.Generator
) -> FloatArray:
    """Return P(label | row) from models that never saw the row, shape (n_rows, n_classes)."""
    probabilities = np.zeros((len(labels), n_classes))
    folds = stratified_folds(labels, n_folds, generator)
    for number in np.unique(folds):
        held = np.flatnonzero(folds == number)
        probabilities[held] = predict(np.flatnonzero(folds != number), held)
    return probabilities


def nearest_rows(features: NDArray[Any], n_neighbors: int) -> IntArray:
    """Return the rows at the least angle to each row, itself left out, (n_rows, n_neighbors)."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    n_asked = min(n_neighbors, len(features) - 1)
    # Rows of unit length: their distances are ordered like their angles.
    found = NearestNeighbors(n_neighbors=n_asked).fit(normalize(features))
    # Asked without rows, scikit-learn leaves each row out of its own neighbourhood.
    return found.kneighbors(return_distance=False)


class LabelPosterior(NamedTuple):
    """Posterior of the true labels.

    `probabilities` (n_rows, n_classes): p(true label | row, given label).
    `noise` (n_classes, n_classes): p(given label | true label).
    """

    probabilities: FloatArray
    noise: FloatArray


def combine_evidence(
    given: IntArray, before: FloatArray, predicted: FloatArray | None, neighbours: IntArray | None
) -> LabelPosterior:
    """Combine predictions, neighbours and the given labels into a posterior.

    `given`: label of each row. `before` (n_rows, n_classes): previous posterior; one-hot at first.
    `predicted` (n_rows, n_classes): out-of-sample P(label | row). `neighbours` (n_rows,
    n_neighbors): rows that vote with their posterior. At least one of the two is needed.
    """
    if neighbours is None:
        if predicted is None:
            raise ValueError("predictions or neighbours are needed")
        return _with_noise(predicted, given)
    belief = LabelPosterior(before, np.eye(before.shape[1]))
    for _ in range(N_SPREADING_STEPS):
        votes = belief.probabilities[neighbours].mean(axis=1)
        belief = _with_noise(
            votes if predicted is None else multiply_evidence(predicted, votes), given
        )
    return belief


def _with_noise(evidence: FloatArray, given: IntArray) -> LabelPosterior:
    noise = estimate_noise(evidence, given)
    return LabelPosterior(label_posterior(evidence, given, noise), noise)


def multiply_evidence(first: FloatArray, second: FloatArray) -> FloatArray:
    """Multiply two kinds of evidence about the same rows, each (n_rows, n_classes)."""
    return normalized((first + FLOOR) * (second + FLOOR))


def estimate_noise(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """Estimate P(given label | true label) from out-of-sample probabilities.

    Noise and true labels are estimated from each other in turn (expectation maximisation), from
    the counts of confident rows onwards.

    Of shape (n_classes, n_classes): row `true` sums to one over the given labels. `probabilities`:
    of shape (n_rows, n_classes). `labels`: the label each row carries.
    """
    n_classes = probabilities.shape[1]
    given = np.eye(n_classes)[labels]
    # Pseudo-counts: an estimate from few rows is never certain.
    imagined = np.eye(n_classes) / 2 + 1.0 / n_classes
    noise = _confident_noise(probabilities, labels)
    for _ in range(N_NOISE_STEPS):
        noise = normalized(label_posterior(probabilities, labels, noise).T @ given + imagined)
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
    return normalized(joint + np.finfo(float).tiny)


def label_posterior(probabilities: FloatArray, labels: IntArray, noise: FloatArray) -> FloatArray:
    """Return P(true label | row, given label), shape (n_rows, n_classes).

    `probabilities` (n_rows, n_classes): evidence for each label, out of sample. `labels`: the label
    each row carries. `noise`: of shape (n_classes, n_classes).
    """
    return normalized((probabilities + DOUBT) * noise.T[labels])


def normalized(weights: FloatArray) -> FloatArray:
    """Return rows scaled to sum to one."""
    return weights / weights.sum(axis=1, keepdims=True)


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
        """Return the rows with an issue, the worst first.

        Returns
        -------
        int64 ndarray
            Row numbers.
        """
        order = np.argsort(self.quality, kind="stable")
        return order[self.is_issue[order]]


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
    n_neighbors : int, default=10
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
            f"probabilities has shape {table.shape}; {counted(len(given), 'labels')} of "
            f"{counted(len(known), 'classes')} "
            f"need ({len(given)}, {len(known)})."
        )
    if (table < 0).any() or not (table.sum(axis=1) > 0).all():
        raise DataError("probabilities must not be negative, and no row may be all zero.")
    neighbours = None
    if X is not None:
        check_count("n_neighbors", n_neighbors)
        rows = check_features("X", X)
        if len(rows) != len(given):
            raise DataError(
                f"X has {counted(len(rows), 'rows')}, but there are {len(given)} labels."
            )
        neighbours = nearest_rows(Scaler("standard").fit(rows)(rows), n_neighbors)
    belief = combine_evidence(given, np.eye(len(known))[given], normalized(table), neighbours)
    return judge_labels(belief, given, known)


def judge_labels(belief: LabelPosterior, given: IntArray, classes: NDArray[Any]) -> LabelIssues:
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
    indicator, known = read_candidate_sets(y, classes)
    several = np.flatnonzero(indicator.sum(axis=1) > 1)
    if len(several):
        raise DataError(
            f"row {several[0]} has {indicator[several[0]].sum()} labels, but single labels are "
            "wanted; sets of candidates go to MaxMatchingPartialLabelClassifier."
        )
    return indicator.argmax(axis=1), known


class PartialLabelSource:
    """Audit source of candidate labels: each row is a group, each candidate an object."""

    setting = "pll"

    def __init__(self, dataset: PartialLabelDataset) -> None:
        self.dataset = dataset
        self.group_counts: IntArray = np.ones(len(dataset.features), dtype=np.int64)
        self.object_counts: IntArray = dataset.candidates.sum(axis=1, dtype=np.int64)
        self.strata: IntArray = self.object_counts
        self.clusters = first_equal_rows(dataset.features)
        self._decided: Any = None

    def __len__(self) -> int:
        return len(self.dataset.features)

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Labels, which are the objects here."""
        labels = np.asarray(self.dataset.class_names)
        return {"object": labels, "suggested": labels}

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted to `rows`; only the first call decides "auto"."""
        from sklearn.base import clone  # loads for seconds, and readers come by here

        candidates = self.dataset.candidates[rows].astype(np.int64)
        unfitted = self._decided if self._decided is not None else estimator
        model = clone(unfitted).fit(self.dataset.features[rows], candidates)
        if self._decided is None and hasattr(model, "decided"):
            self._decided = model.decided()
        return model

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a model on rows it has not seen."""
        columns = class_columns(model.classes_, self.dataset.class_names)
        candidates = self._as_known(model, rows, columns)
        model.calibrate(self.dataset.features[rows], candidates, only_if_better=False)

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return the findings of a model on `rows`."""
        features, candidates = self.dataset.features[rows], self.dataset.candidates[rows]
        columns = class_columns(model.classes_, self.dataset.class_names)
        known = self._as_known(model, rows, columns)
        selected = model.select(features, known)

        def in_order(values: Any) -> Any:
            """Reorder values of candidates from the model's classes to the data's."""
            table = np.zeros(known.shape)
            table[known] = values
            return table[:, columns][candidates]

        found = object_posterior(in_order(selected.scores), selected.offsets)
        log_weight = in_order(selected.log_weight)
        fits = model.predict_proba(features)[:, columns]  # (n_rows, n_classes)
        row, label = np.nonzero(candidates)
        credibility = np.minimum((fits * candidates).sum(axis=1), 1.0)
        outside = np.where(candidates, 0.0, fits)
        baseline = outside.max(axis=1)
        is_chosen = np.zeros(len(label), dtype=np.int64)
        is_chosen[found.chosen] = 1
        return Findings(
            {
                "source": rows,
                "target": rows,
                "size": self.object_counts[rows],
                "object": label[found.chosen],
                **choice_columns(found, selected.offsets[:-1], log_weight),
                "doubt": 1.0 - credibility,
                "suspicion": baseline,
                "suggested": np.where(baseline > 0, outside.argmax(axis=1), -1),
            },
            {
                "source": rows[row],
                "position": np.arange(len(label))
                - np.repeat(selected.offsets[:-1], self.object_counts[rows]),
                "object": label,
                "responsibility": found.responsibility,
                "times_chosen": is_chosen,
                "noise": 1.0 - fits[row, label],
            },
        )

    def _as_known(self, model: Any, rows: IntArray, columns: IntArray) -> BoolArray:
        """Return the candidates in the order of the model's classes."""
        known = np.zeros((len(rows), len(model.classes_)), dtype=bool)
        known[:, columns] = self.dataset.candidates[rows]
        return known

"""PALOC: one-vs-one machines vote, one-vs-rest machines on top of them decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_positive
from groupnoise.core.docstrings import inherit_docstring


@dataclass(frozen=True)
class KernelMachines:
    """Support vector machines with an RBF kernel on shared rows.

    Sharing the rows means one kernel matrix for all fits, and predictions of all machines as one
    matrix product.

    `rows` (n_rows, n_features): the training rows of all machines.
    `weights` (n_rows, n_machines): signed dual weights; zero where a row is no support vector of a
        machine.
    `intercepts`: their constants.
    `gamma`: kernel width.
    """

    rows: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    gamma: FloatArray

    @classmethod
    def fit(
        cls,
        rows: FloatArray,
        problems: Iterable[tuple[BoolArray, BoolArray]],
        *,
        penalty: float,
        gamma: float | None,
    ) -> tuple[KernelMachines, FloatArray]:
        """Fit one machine per problem, a pair of masks (rows that take part, positive rows).

        A problem with one side only gets a constant answer, one without rows the answer 0.

        Returns `machines`: the fitted machines; `outputs` (n_rows, n_machines): their decision
        values on the training rows, which the kernel at hand gives for free.
        """
        width = _default_gamma(rows) if gamma is None else gamma
        kernel = rbf_kernel(rows, gamma=width)  # (n_rows, n_rows)
        columns, intercepts = [], []
        for takes_part, is_positive in problems:
            chosen = np.flatnonzero(takes_part)
            answers = is_positive[chosen]
            column = np.zeros(len(rows))
            if answers.any() and not answers.all():
                machine = SVC(C=penalty, kernel="precomputed")
                machine.fit(kernel[np.ix_(chosen, chosen)], answers)
                column[chosen[machine.support_]] = machine.dual_coef_[0]
                intercepts.append(machine.intercept_[0])
            else:
                intercepts.append(2.0 * answers[0] - 1.0 if len(answers) else 0.0)
            columns.append(column)
        machines = cls(rows, np.stack(columns, axis=1), np.array(intercepts), np.array(width))
        return machines, kernel @ machines.weights + machines.intercepts

    def decide(self, rows: FloatArray) -> FloatArray:
        """Return the decision value of each machine, shape (n_rows, n_machines)."""
        kernel = rbf_kernel(rows, self.rows, gamma=float(self.gamma))
        return np.asarray(kernel @ self.weights + self.intercepts)


def _default_gamma(rows: FloatArray) -> float:
    """Return scikit-learn's width: one over the number of features times their variance."""
    return float(1 / (rows.shape[1] * max(rows.var(), 1e-12)))


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class PALOCClassifier(PartialLabelClassifier):
    r"""Partial-label learning by binary decomposition.

    1. For every pair of labels (j, k) a support vector machine with an RBF kernel separates the
       rows with j but not k among their candidates from those with k but not j.
    2. The label with most votes of these machines, if it is a candidate of a training row,
       becomes the only one of that row.
    3. For every label a second machine separates the rows resolved to it from those that exclude
       it, on the features joined with the signs of all pair machines. A row that still holds the
       label among others is left out.
    4. Prediction: :math:`\arg\max_j\; votes_j + \mu \, \mathbb{1}[\text{machine } j \text{ says
       yes}]`.

    All machines of a stage share one kernel matrix and predict together as one matrix product:
    the same result in a small part of the time. Memory is the square of the number of rows.

    Parameters
    ----------
    penalty : float, default=1.0
        The cost C of a margin violation in every machine.
    gamma : float, optional
        Kernel width; one over (features times variance) if not given, as in scikit-learn.
    rest_weight : float, default=10.0
        The factor mu.

    References
    ----------
    X. Wu and M.-L. Zhang, "Towards enabling binary decomposition for partial label learning",
    IJCAI 2018.

    Examples
    --------
    >>> model = PALOCClassifier()
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    penalty: float = 1.0
    gamma: float | None = None
    rest_weight: float = 10.0

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("penalty", self.penalty)
        check_positive("rest_weight", self.rest_weight, allow_zero=True)
        if self.gamma is not None:
            check_positive("gamma", self.gamma)
        n_classes = candidates.shape[1]
        self.pair_machines_, outputs = KernelMachines.fit(
            rows,
            (
                (candidates[:, j] != candidates[:, k], candidates[:, j])
                for j, k in combinations(range(n_classes), 2)
            ),
            penalty=self.penalty,
            gamma=self.gamma,
        )
        resolved = resolve_by_votes(count_votes(outputs, n_classes), candidates)
        is_single = resolved.sum(axis=1) == 1
        self.rest_machines_, _ = KernelMachines.fit(
            np.hstack([rows, np.sign(outputs)]),
            ((is_single | ~resolved[:, j], resolved[:, j]) for j in range(n_classes)),
            penalty=self.penalty,
            gamma=self.gamma,
        )

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        outputs = self.pair_machines_.decide(rows)  # (n_rows, n_pairs)
        says_yes = self.rest_machines_.decide(np.hstack([rows, np.sign(outputs)])) > 0
        return count_votes(outputs, len(self.classes_)) + self.rest_weight * says_yes

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            f"{stage}.{name}": value
            for stage, machines in (("pair", self.pair_machines_), ("rest", self.rest_machines_))
            for name, value in vars(machines).items()
        }

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        names = [field.name for field in fields(KernelMachines)]
        self.pair_machines_, self.rest_machines_ = (
            KernelMachines(**{name: arrays[f"{stage}.{name}"] for name in names})
            for stage in ("pair", "rest")
        )


def count_votes(outputs: FloatArray, n_classes: int) -> FloatArray:
    """Return the votes each class gets from the pair machines.

    Of shape (n_rows, n_classes). `outputs` (n_rows, n_classes * (n_classes - 1) / 2): decision
    values of the pairs (0, 1), (0, 2), ..., positive for the first of a pair. `n_classes`: how many
    classes there are.
    """
    pairs = list(combinations(range(n_classes), 2))
    first, second = np.zeros((2, len(pairs), n_classes))
    for row, (j, k) in enumerate(pairs):
        first[row, j] = second[row, k] = 1.0
    return np.asarray((outputs > 0) @ first + (outputs < 0) @ second)


def resolve_by_votes(votes: FloatArray, candidates: BoolArray) -> BoolArray:
    """Reduce candidates to the class with most votes where that class is one of them."""
    winner = np.eye(candidates.shape[1], dtype=bool)[votes.argmax(axis=1)]
    is_candidate = (winner & candidates).any(axis=1, keepdims=True)
    return np.where(is_candidate, winner, candidates)

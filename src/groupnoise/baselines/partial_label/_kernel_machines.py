"""Many binary support vector machines over one kernel matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from groupnoise._typing import BoolArray, FloatArray


@dataclass(frozen=True)
class KernelMachines:
    """Support vector machines with an RBF kernel on shared rows.

    Sharing the rows means one kernel matrix for all fits, and predictions of all machines as one
    matrix product.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features)
        The training rows of all machines.
    weights : ndarray of shape (n_rows, n_machines)
        Signed dual weights; zero where a row is no support vector of a machine.
    intercepts : ndarray of shape (n_machines,)
        Their constants.
    gamma : ndarray of shape ()
        Kernel width.
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

        Returns
        -------
        machines : KernelMachines
            The fitted machines.
        outputs : ndarray of shape (n_rows, n_machines)
            Their decision values on the training rows, which the kernel at hand gives for free.
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

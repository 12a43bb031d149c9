"""CLPL: the convex loss that averages over the candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from groupnoise._checks import check_choice, check_count, check_positive
from groupnoise._typing import BoolArray, FloatArray
from groupnoise.baselines.partial_label._linear import LinearPartialLabelClassifier, with_constant


@dataclass(kw_only=True, eq=False, repr=False)
class CLPLClassifier(LinearPartialLabelClassifier):
    r"""Convex learning from partial labels, with linear scores :math:`g_a(x) = w_a x + b_a`.

    .. math::
        \frac1n \sum_i \Big[ \psi\Big(\frac{1}{|S_i|} \sum_{a \in S_i} g_a(x_i)\Big)
        + \sum_{a \notin S_i} \psi(-g_a(x_i)) \Big] + \frac\lambda2 \|W\|^2

    The candidates' scores are *averaged*; summing them, as one public port does, is another loss.

    Parameters
    ----------
    regularization : float, default=1e-3
        The factor lambda; the constant :math:`b` is not penalised.
    surrogate : {"squared_hinge", "logistic"}, default="squared_hinge"
        The decreasing convex function psi.
    max_iterations : int, default=300
        Of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (n_classes,)
        The constants.

    References
    ----------
    T. Cour, B. Sapp and B. Taskar, "Learning from partial labels", JMLR 12, 2011.

    Examples
    --------
    >>> model = CLPLClassifier().fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    regularization: float = 1e-3
    surrogate: str = "squared_hinge"
    max_iterations: int = 300

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("regularization", self.regularization, allow_zero=True)
        check_choice("surrogate", self.surrogate, ("squared_hinge", "logistic"))
        check_count("max_iterations", self.max_iterations)
        inputs = with_constant(rows)
        shape = (inputs.shape[1], candidates.shape[1])

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            per_row, slope = clpl_loss(inputs @ weights, candidates, self.surrogate)
            penalised = np.vstack([weights[:-1], np.zeros((1, shape[1]))])
            loss = per_row.mean() + self.regularization / 2 * np.sum(penalised**2)
            gradient = inputs.T @ slope / len(inputs) + self.regularization * penalised
            return float(loss), gradient.ravel()

        solution = minimize(
            objective,
            np.zeros(shape[0] * shape[1]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iterations},
        )
        self._keep(solution.x.reshape(shape).T)


def clpl_loss(
    scores: FloatArray, candidates: BoolArray, surrogate: str
) -> tuple[FloatArray, FloatArray]:
    """Return the loss of each row, shape (n_rows,), and its slope in the scores.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        The class scores g.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Candidate labels, at least one per row.
    surrogate : {"squared_hinge", "logistic"}
        The function psi.
    """
    share = candidates / candidates.sum(axis=1, keepdims=True)  # (n_rows, n_classes)
    inside, inside_slope = _surrogate((scores * share).sum(axis=1), surrogate)
    outside, outside_slope = _surrogate(-scores, surrogate)
    loss = inside + np.where(candidates, 0.0, outside).sum(axis=1)
    slope = share * inside_slope[:, None] - np.where(candidates, 0.0, outside_slope)
    return loss, slope


def _surrogate(margin: FloatArray, name: str) -> tuple[FloatArray, FloatArray]:
    """Return psi of the margins and its derivative."""
    if name == "logistic":
        return np.logaddexp(0.0, -margin), -expit(-margin)
    violation = np.maximum(0.0, 1 - margin)
    return violation**2, -2 * violation

"""The linear partial-label baselines: PL-SVM, CLPL and logistic regression on soft labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.words import inherit_docstring


class LinearPartialLabelClassifier(PartialLabelClassifier):
    """Scores :math:`W x + b`; a subclass finds the weights and passes them to `_keep`."""

    _fitted_arrays = ("coef_", "intercept_")

    coef_: FloatArray
    intercept_: FloatArray

    def _keep(self, weights: FloatArray) -> None:
        """Take over weights of shape (n_classes, n_features + 1), the constant last."""
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows @ self.coef_.T + self.intercept_)


def with_constant(rows: FloatArray) -> FloatArray:
    """Return the rows with a column of ones added at the end."""
    return np.hstack([rows, np.ones((len(rows), 1))])


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class PLSVMClassifier(LinearPartialLabelClassifier):
    r"""Partial-label support vector machine with linear scores :math:`w_y x`.

    .. math::
        \frac\lambda2 \|W\|^2 + \frac1n \sum_i \Big[ 1 - \Big(\max_{y \in S_i} w_y x_i
        - \max_{y \notin S_i} w_y x_i\Big) \Big]_+

    The loss is not convex. It is minimised by stochastic subgradients with steps
    :math:`1/(\lambda t)` and projection onto the ball of radius :math:`1/\sqrt\lambda`
    (Pegasos), over small batches; the result is the mean of the weights over the second half of
    the steps.

    Parameters
    ----------
    regularization : float, default=1e-2
        The factor lambda. Tune it: a bad value costs twenty points of accuracy and more.
    max_epochs : int, default=50
        Passes over the rows.
    batch_size : int, default=16
        Rows per step.
    random_state : int, generator or None, default=None
        Decides the order of the rows and the initial weights.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (n_classes,)
        The weights of a constant feature, penalised like the others.

    References
    ----------
    N. Nguyen and R. Caruana, "Classification with partial labels", KDD 2008.
    S. Shalev-Shwartz, Y. Singer, N. Srebro and A. Cotter, "Pegasos: primal estimated
    sub-gradient solver for SVM", Mathematical Programming 127, 2011.

    Examples
    --------
    >>> model = PLSVMClassifier(random_state=0)
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    regularization: float = 1e-2
    max_epochs: int = 50
    batch_size: int = 16
    random_state: RandomState = None

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("regularization", self.regularization)
        check_count("max_epochs", self.max_epochs)
        check_count("batch_size", self.batch_size)
        generator = generator_from(self.random_state)
        inputs = with_constant(rows)
        radius = 1 / np.sqrt(self.regularization)
        # Random, not zero: at zero all labels tie and every row would choose its first candidate.
        weights = generator.normal(scale=1e-3, size=(candidates.shape[1], inputs.shape[1]))
        batches = [
            batch
            for _ in range(self.max_epochs)
            for batch in _batches(generator.permutation(len(inputs)), self.batch_size)
        ]
        mean, n_averaged = np.zeros_like(weights), 0
        for step, batch in enumerate(batches, start=1):
            _, slope = plsvm_loss(inputs[batch] @ weights.T, candidates[batch])
            gradient = self.regularization * weights + slope.T @ inputs[batch] / len(batch)
            weights = weights - gradient / (self.regularization * step)
            weights *= min(1.0, radius / max(np.linalg.norm(weights), 1e-300))
            if 2 * step > len(batches):
                n_averaged += 1
                mean += (weights - mean) / n_averaged
        self._keep(mean)


def plsvm_loss(scores: FloatArray, candidates: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the hinge loss of each row, shape (n_rows,), and a subgradient in the scores.

    A row of which every label is a candidate has no margin to keep: its loss is zero.

    `scores` (n_rows, n_classes): the class scores. `candidates` (n_rows, n_classes): candidate
    labels, at least one per row.
    """
    every = np.arange(len(scores))
    best_inside = np.where(candidates, scores, -np.inf).argmax(axis=1)
    best_outside = np.where(candidates, -np.inf, scores).argmax(axis=1)
    margin = scores[every, best_inside] - scores[every, best_outside]
    loss = np.where(candidates.all(axis=1), 0.0, np.maximum(0.0, 1 - margin))
    slope = np.zeros_like(scores)
    violated = np.flatnonzero(loss > 0)
    slope[violated, best_inside[violated]] = -1.0
    slope[violated, best_outside[violated]] = 1.0
    return loss, slope


def _batches(order: IntArray, size: int) -> list[IntArray]:
    return [order[start : start + size] for start in range(0, len(order), size)]


@inherit_docstring
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

    `scores` (n_rows, n_classes): the class scores g. `candidates` (n_rows, n_classes): candidate
    labels, at least one per row. `surrogate` (one of "squared_hinge", "logistic"): the function
    psi.
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


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class SoftLabelClassifier(LinearPartialLabelClassifier):
    r"""Multinomial logistic regression in which every candidate counts in equal parts.

    .. math::
        \frac1{2C} \|W\|^2 - \sum_i \frac1{|S_i|} \sum_{y \in S_i} \log p_y(x_i), \qquad
        p = \mathrm{softmax}(W x + b)

    It never makes up its mind between candidates. It is what a person tries first.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the regularization, as in :class:`sklearn.linear_model.LogisticRegression`.
    max_iterations : int, default=300
        Steps of the optimizer at most.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (n_classes,)
        The constants, which are not regularized.

    Examples
    --------
    >>> model = SoftLabelClassifier()
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    C: float = 1.0
    max_iterations: int = 300

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("C", self.C)
        check_count("max_iterations", self.max_iterations)
        extended = with_constant(rows)
        soft = candidates / candidates.sum(axis=1, keepdims=True)
        shape = (candidates.shape[1], extended.shape[1])

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            log_proba = log_softmax(extended @ weights.T, axis=1)
            penalized = weights / self.C
            penalized[:, -1] = 0.0
            loss = 0.5 * float((penalized * weights).sum()) - float((soft * log_proba).sum())
            gradient = (np.exp(log_proba) - soft).T @ extended + penalized
            return loss, gradient.ravel()

        options = {"maxiter": self.max_iterations}
        found = minimize(
            objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options
        )
        self._keep(found.x.reshape(shape))

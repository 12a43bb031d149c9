"""SURE: kernel regression onto confidences that retrain themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.docstrings import inherit_docstring


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class SUREClassifier(PartialLabelClassifier):
    r"""Self-guided retraining of label confidences with a Gaussian kernel.

    .. math::
        \min_{W, b, P} \sum_i \Big( \|W \phi(x_i) + b - p_i\|^2 - \lambda \|p_i\|_\infty \Big)
        + \beta \|W\|^2

    over confidences :math:`p_i` that are non-negative, zero outside the candidates and sum to
    one. The two blocks are minimised in turn: kernel ridge regression for W and b, whose
    factorisation is shared by all rounds; and for each row the projection of its output, raised by
    :math:`\lambda/2` at the best candidate, onto the simplex of its candidates, which is the exact
    minimum.

    Parameters
    ----------
    sharpness : float, default=0.3
        The factor lambda: how much a confident row is rewarded.
    regularization : float, default=0.05
        The factor beta.
    kernel_scale : float, default=1.0
        Width of the kernel in units of the mean distance between training rows.
    max_iterations : int, default=30
        Rounds at the most; fewer if the confidences stay as they are.

    References
    ----------
    L. Feng and B. An, "Partial label learning with self-guided retraining", AAAI 2019.

    Examples
    --------
    >>> model = SUREClassifier()
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    _fitted_arrays = ("rows_", "width_", "dual_coef_", "intercept_")

    sharpness: float = 0.3
    regularization: float = 0.05
    kernel_scale: float = 1.0
    max_iterations: int = 30

    def _learn(self, rows: FloatArray, candidates: BoolArray) -> None:
        check_positive("sharpness", self.sharpness, allow_zero=True)
        check_positive("regularization", self.regularization)
        check_positive("kernel_scale", self.kernel_scale)
        check_count("max_iterations", self.max_iterations)
        distances = euclidean_distances(rows)
        self.rows_ = rows
        self.width_ = np.array(self.kernel_scale * max(distances.mean(), 1e-12))
        kernel = _gaussian(distances, self.width_)
        factor = cho_factor(kernel + self.regularization * np.eye(len(rows)))
        ones_solved = cho_solve(factor, np.ones(len(rows)))
        confidence = candidates / candidates.sum(axis=1, keepdims=True)
        for _ in range(self.max_iterations):
            # Ridge with a free constant: the dual weights of every class sum to zero.
            solved = cho_solve(factor, confidence)
            self.intercept_ = solved.sum(axis=0) / ones_solved.sum()
            self.dual_coef_ = solved - np.outer(ones_solved, self.intercept_)
            outputs = kernel @ self.dual_coef_ + self.intercept_
            before, confidence = confidence, sharpened(outputs, candidates, self.sharpness)
            if np.abs(confidence - before).max() < 1e-4:
                break

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        kernel = _gaussian(euclidean_distances(rows, self.rows_), self.width_)
        return np.asarray(kernel @ self.dual_coef_ + self.intercept_)

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the confidences nearest to the outputs: they are fitted to lie on the simplex."""
        return sharpened(scores, np.ones(scores.shape, dtype=bool), 0.0)


def sharpened(outputs: FloatArray, candidates: BoolArray, sharpness: float) -> FloatArray:
    r"""Return the minimiser of :math:`\|p - q\|^2 - \lambda \max_j p_j` on each row's simplex.

    The minimiser keeps the order of q, so its largest entry stands at the best candidate; the
    reward is then linear there, and the problem a projection onto the simplex.

    `outputs`: of shape (n_rows, n_classes). `candidates` (n_rows, n_classes): where p may differ
    from zero.
    """
    raised = np.where(candidates, outputs, -np.inf)
    raised[np.arange(len(raised)), raised.argmax(axis=1)] += sharpness / 2
    descending = -np.sort(-raised, axis=1)
    rank = np.arange(1, raised.shape[1] + 1)
    # Outside the candidates stands -inf, which never enters the support of the projection.
    excess = (np.cumsum(np.where(np.isfinite(descending), descending, 0.0), axis=1) - 1) / rank
    support = (descending > excess).sum(axis=1)
    threshold = excess[np.arange(len(raised)), support - 1]
    return np.asarray(np.maximum(raised - threshold[:, None], 0.0))


def _gaussian(distances: FloatArray, width: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-((distances / width) ** 2) / 2))

"""PL-SVM: the margin between the best candidate and the best other label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groupnoise._checks import check_count, check_positive
from groupnoise._random import RandomState, generator_from
from groupnoise._typing import BoolArray, FloatArray, IntArray
from groupnoise.baselines.partial_label._linear import LinearPartialLabelClassifier, with_constant


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
    random_state : int, generator or None
        Decides the order of the rows and the first weights.

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

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        The class scores.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Candidate labels, at least one per row.
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

"""Logistic regression of instances: under the label of their bag, and MILR, pooled softly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from groupnoise.bags.baselines.base import BagClassifier
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring

_LARGEST_EXPONENT = 500.0
"""Beyond it a sum of exponentials may overflow, so that the largest is taken off first."""


class LinearBagClassifier(BagClassifier):
    """Log odds of instances that are linear in their features."""

    _fitted_arrays = (*BagClassifier._fitted_arrays, "coef_", "intercept_")
    coef_: FloatArray
    intercept_: FloatArray

    def _instance_logits(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        return np.asarray(expit(self._instance_logits(rows)))


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MILRClassifier(LinearBagClassifier):
    r"""Multiple-instance logistic regression.

    With :math:`o_{ij} = \sigma(w x_{ij} + b)` the probability of an instance, a bag has

    .. math:: o_i = \frac{\sum_j o_{ij} e^{\alpha o_{ij}}}{\sum_j e^{\alpha o_{ij}}}, \qquad
        \min_{w, b} \frac{1}{2n} \sum_i (y_i - o_i)^2 + \frac\lambda2 \|w\|^2

    by L-BFGS from several random starts, of which the best is kept. Models of the same name in
    other packages differ: one averages the instances, another is an EM algorithm with a lasso.

    Parameters
    ----------
    softmax_strength : float, default=2.5
        The factor alpha: 0 is the mean of the instances, large values their maximum.
    regularization : float, default=1e-4
        The factor lambda; the constant b is not penalised.
    n_starts : int, default=3
        Random starts of each binary problem.
    max_iterations : int, default=200
        Of L-BFGS.
    random_state : int, generator or None, default=None
        Decides the starts.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        The weights; one binary problem for two classes, else one per class.
    intercept_ : ndarray of shape (n_problems,)
        The constants.

    References
    ----------
    S. Ray and M. Craven, "Supervised versus multiple instance learning: an empirical
    comparison", ICML 2005.
    B. Settles, M. Craven and S. Ray, "Multiple-instance active learning", NIPS 2008.

    Examples
    --------
    >>> bags = [[[0.1], [5.0]], [[0.1], [0.0]], [[5.1], [0.2]], [[0.3], [0.0]]]
    >>> model = MILRClassifier(random_state=0).fit(bags, ["owl", "none", "owl", "none"])
    >>> model.predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    softmax_strength: float = 2.5
    regularization: float = 1e-4
    n_starts: int = 3
    max_iterations: int = 200
    random_state: RandomState = None

    def _learn(self, bags: Groups, answers: BoolArray) -> None:
        check_positive("softmax_strength", self.softmax_strength, allow_zero=True)
        check_positive("regularization", self.regularization, allow_zero=True)
        check_count("n_starts", self.n_starts)
        check_count("max_iterations", self.max_iterations)
        generator = generator_from(self.random_state)
        weights = np.stack(
            [self._solve(bags, answer.astype(np.float64), generator) for answer in answers.T]
        )
        self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]

    def _solve(
        self, bags: Groups, answer: FloatArray, generator: np.random.Generator
    ) -> FloatArray:
        """Return the best weights, constant last, for one binary problem."""

        def objective(weights: FloatArray) -> tuple[float, FloatArray]:
            logits = bags.objects @ weights[:-1] + weights[-1]
            loss, slope = milr_loss(logits, bags.offsets, answer, self.softmax_strength)
            penalty = self.regularization / 2 * np.sum(weights[:-1] ** 2)
            gradient = np.append(slope @ bags.objects, slope.sum())
            gradient[:-1] += self.regularization * weights[:-1]
            return loss + penalty, gradient

        width = bags.objects.shape[1]
        starts = generator.normal(scale=1 / np.sqrt(width), size=(self.n_starts, width + 1))
        solutions = [
            minimize(
                objective,
                start,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iterations},
            )
            for start in starts
        ]
        return np.asarray(min(solutions, key=lambda solution: solution.fun).x)

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        instances = self._instance_probabilities(bags.objects)
        return soft_maximum(instances, bags.offsets, self.softmax_strength)[0]


def soft_maximum(
    probabilities: FloatArray, offsets: IntArray, strength: float
) -> tuple[FloatArray, FloatArray]:
    """Return the softmax-weighted mean of each bag, and the weight of each instance in it.

    `probabilities` (n_instances, ...): of the instances, bag after bag. `offsets`: where each bag
    begins. `strength`: the factor alpha.
    """
    sizes = np.diff(offsets)
    shifted = probabilities
    if strength > _LARGEST_EXPONENT:
        largest = np.maximum.reduceat(probabilities, offsets[:-1], axis=0)
        shifted = probabilities - np.repeat(largest, sizes, axis=0)
    raised = np.exp(strength * shifted)
    weight = raised / np.repeat(np.add.reduceat(raised, offsets[:-1], axis=0), sizes, axis=0)
    return np.add.reduceat(weight * probabilities, offsets[:-1], axis=0), weight


def milr_loss(
    logits: FloatArray, offsets: IntArray, answer: FloatArray, strength: float
) -> tuple[float, FloatArray]:
    """Return half the mean squared error of the bags and its slope in the instance logits.

    `logits`: of the instances, bag after bag. `offsets`: where each bag begins. `answer`: 1 for
    positive bags, 0 for negative ones. `strength`: the factor alpha.
    """
    probabilities = np.asarray(expit(logits))
    pooled, weight = soft_maximum(probabilities, offsets, strength)
    sizes = np.diff(offsets)
    error = pooled - answer
    pooled_slope = weight * (1 + strength * (probabilities - np.repeat(pooled, sizes)))
    slope = np.repeat(error, sizes) * pooled_slope * probabilities * (1 - probabilities)
    return float(0.5 * np.mean(error**2)), slope / len(answer)


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class InstanceLRClassifier(LinearBagClassifier):
    """Logistic regression on single instances, each under the labels of its bag.

    A bag counts as its average instance: the log odds of its instances are averaged.

    Parameters
    ----------
    inverse_regularization : float, default=1.0
        scikit-learn's C.
    max_iterations : int, default=1000
        Of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        The weights; one binary problem for two classes, else one per class.
    intercept_ : ndarray of shape (n_problems,)
        The constants.

    Examples
    --------
    >>> bags = [[[0.1], [5.0]], [[0.1], [0.0]], [[5.1], [4.2]], [[0.3], [0.0]]]
    >>> model = InstanceLRClassifier().fit(bags, ["owl", "none", "owl", "none"])
    >>> model.predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    inverse_regularization: float = 1.0
    max_iterations: int = 1000

    def _learn(self, bags: Groups, answers: BoolArray) -> None:
        from sklearn.linear_model import LogisticRegression

        check_positive("inverse_regularization", self.inverse_regularization)
        check_count("max_iterations", self.max_iterations)
        coef, intercept = [], []
        for answer in answers.T:
            inherited = np.repeat(answer, bags.sizes)
            if inherited.all() or not inherited.any():  # nothing to tell apart
                coef.append(np.zeros(bags.objects.shape[1]))
                intercept.append(10.0 if inherited.all() else -10.0)
                continue
            solver = LogisticRegression(C=self.inverse_regularization, max_iter=self.max_iterations)
            solver.fit(bags.objects, inherited)
            coef.append(solver.coef_[0])
            intercept.append(solver.intercept_[0])
        self.coef_, self.intercept_ = np.stack(coef), np.array(intercept)

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        total = np.add.reduceat(self._instance_logits(bags.objects), bags.offsets[:-1], axis=0)
        return np.asarray(expit(total / np.asarray(bags.sizes)[:, None]))

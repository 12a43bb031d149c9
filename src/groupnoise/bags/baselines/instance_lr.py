"""Logistic regression of instances that inherit the label of their bag: what one tries first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from groupnoise.bags.baselines.base import BagClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class InstanceLRClassifier(BagClassifier):
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

    _fitted_arrays = (*BagClassifier._fitted_arrays, "coef_", "intercept_")

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

    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        return np.asarray(expit(rows @ self.coef_.T + self.intercept_))

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        logits = bags.objects @ self.coef_.T + self.intercept_
        total = np.add.reduceat(logits, bags.offsets[:-1], axis=0)
        return np.asarray(expit(total / np.asarray(bags.sizes)[:, None]))

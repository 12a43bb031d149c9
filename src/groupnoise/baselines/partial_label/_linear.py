"""What the linear partial-label baselines share: scores from one weight vector per class."""

from __future__ import annotations

import numpy as np

from groupnoise._typing import FloatArray
from groupnoise.baselines.partial_label._base import PartialLabelClassifier


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

"""Members that see a bag as a whole: mean, spread and range of its instances under a kernel.

What they learn is a ridge regression in the space of a Gaussian kernel. It is solved in closed
form, and so is what it would say of every fold had it not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

MAX_SUPPORT = 1_500
"""Bags that a kernel is made of; the work grows with their cube."""
WIDTHS = (0.5, 2.0)
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)
_PARTS = ("centre", "spread", "support", "coefficients", "constant")


def bag_statistics(rows: NDArray[Any], offsets: IntArray) -> FloatArray:
    """Return mean, standard deviation, minimum and maximum of the features of each bag.

    Of shape (n_bags, 4 * n_features). `rows` (n_rows, n_features): scaled instances, bag after bag.
    `offsets`: where each bag begins.
    """
    wide = np.asarray(rows, dtype=np.float64)
    starts, sizes = offsets[:-1], np.diff(offsets)[:, None]
    mean = np.add.reduceat(wide, starts) / sizes
    square = np.add.reduceat(wide**2, starts) / sizes
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    least, greatest = np.minimum.reduceat(wide, starts), np.maximum.reduceat(wide, starts)
    return np.hstack([mean, spread, least, greatest])


@dataclass(frozen=True)
class StatisticsModel:
    """A kernel regression of labels on the statistics of bags.

    `width`: squared distances are multiplied by it and divided by their median.
    `centre`, `spread`: what standardises the statistics.
    `support` (n_support, n_statistics): standardised statistics of training bags, divided by the
        root of the median distance.
    `coefficients` (n_support, n_named): how much each speaks for each label.
    `constant`: added to all.
    """

    width: float
    centre: FloatArray
    spread: FloatArray
    support: FloatArray
    coefficients: FloatArray
    constant: FloatArray

    def __call__(self, rows: NDArray[Any], offsets: IntArray) -> FloatArray:
        """Return what is said of each label in each bag, about -1 to 1, (n_bags, n_named)."""
        statistics = (bag_statistics(rows, offsets) - self.centre) / self.spread
        kernel = np.exp(-self.width * square_distances(statistics, self.support))
        return kernel @ self.coefficients + self.constant

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned."""
        return {name: getattr(self, name) for name in _PARTS}

    @classmethod
    def from_arrays(cls, width: float, arrays: Mapping[str, NDArray[Any]]) -> StatisticsModel:
        """Return what :meth:`arrays` told of."""
        return cls(width, *(arrays[name] for name in _PARTS))


class StatisticsKernel:
    """Bags under the kernel of their statistics, ready for any ridge.

    `rows` (n_rows, n_features): scaled instances, bag after bag.
    `offsets`: where each bag begins.
    `width`: of the kernel: see :class:`StatisticsModel`.
    """

    def __init__(self, rows: NDArray[Any], offsets: IntArray, width: float) -> None:
        statistics = bag_statistics(rows, offsets)
        self.width = width
        self.centre, spread = statistics.mean(axis=0), statistics.std(axis=0)
        varies = spread > 1e-6 * (1.0 + np.abs(self.centre))
        # Statistics that never vary say nothing; dividing by infinity leaves them at zero.
        self.spread = np.where(varies, spread, np.inf)
        self.support = (statistics - self.centre) / self.spread
        distances = square_distances(self.support, self.support)
        above = distances[np.triu_indices(len(distances), 1)]
        median = float(np.median(above)) if len(above) else 1.0
        self.unit = np.sqrt(median) if median > 0 else 1.0
        kernel = np.exp(-width * distances / self.unit**2)
        self.values, self.vectors = np.linalg.eigh(kernel)

    def _solver(self, ridge: float) -> FloatArray:
        """Return what makes coefficients of targets; a constant is taken out of them first."""
        inverse = (self.vectors / (np.maximum(self.values, 0.0) + ridge)) @ self.vectors.T
        total = inverse.sum(axis=0)
        return inverse - np.outer(total, total) / total.sum()

    def held_out(self, labels: BoolArray, folds: IntArray, ridge: float) -> FloatArray:
        """Return what a model without a fold says of it, for every fold, (n_bags, n_named).

        `folds`: the fold of each bag; bags of a negative number are never held out and stay at
        zero. `ridge`: added to the diagonal of the kernel.
        """
        targets = 2.0 * labels - 1.0
        solver = self._solver(ridge)
        coefficients = solver @ targets
        said = np.zeros_like(targets)
        for fold in np.unique(folds[folds >= 0]):
            held = np.flatnonzero(folds == fold)
            # Leaving rows out of a ridge regression changes their residuals by a linear map.
            residual = np.linalg.solve(solver[np.ix_(held, held)], coefficients[held])
            said[held] = targets[held] - residual
        return said

    def fit(self, labels: BoolArray, ridge: float) -> StatisticsModel:
        """Return the model of all bags."""
        targets = 2.0 * labels - 1.0
        coefficients = self._solver(ridge) @ targets
        kernel = (self.vectors * np.maximum(self.values, 0.0)) @ self.vectors.T
        constant = (targets - kernel @ coefficients - ridge * coefficients).mean(axis=0)
        spread = self.spread * self.unit
        return StatisticsModel(
            self.width, self.centre, spread, self.support / self.unit, coefficients, constant
        )


def square_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the squared distance of each row to each other, (n_left, n_right)."""
    lengths = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return np.maximum(lengths - 2.0 * left @ right.T, 0.0)

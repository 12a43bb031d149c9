"""Forests that are grown on candidate labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.trees import FLOOR, MAX_DRAWN, TreesEncoder, grown_tree, joined_trees

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

N_TREES = 100
"""Trees that answer."""
N_TURNS = 3
N_TRIED = 50
"""Trees of a turn, which only say what rows they did not see may be."""


def grow_trees(
    rows: NDArray[np.float32],
    candidates: BoolArray,
    *,
    extra: bool = False,
    trust: FloatArray | None = None,
    row_weights: FloatArray | None = None,
    generator: np.random.Generator,
) -> tuple[TreesEncoder, list[float]]:
    """Grow a forest whose answers are the logits of the labels.

    Trees are grown on responsibilities, and trees that did not see a row say what the
    responsibilities of its candidates are; the two take turns.

    Result: the forest, and the mean squared error of each turn on rows that trees did not see.
    `extra`: whether thresholds are drawn instead of sought.
    `trust` (n_rows, n_classes): trust in each candidate; alike by default.
    """
    trust = candidates.astype(np.float64) if trust is None else np.where(candidates, trust, 0.0)
    weights = np.ones(len(rows)) if row_weights is None else np.maximum(row_weights, 1e-6)
    growing = Growing(np.ascontiguousarray(rows), weights, extra, generator)
    shares = trust / trust.sum(axis=1, keepdims=True)
    errors = []
    # Rows were checked long ago; checking a few again takes longer than growing a tree on them.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for _ in range(N_TURNS):
            unseen = growing.answers_of_others(shares)
            errors.append(float(((unseen - shares) ** 2).sum(axis=1).mean()))
            shares = trust * (unseen + FLOOR / trust.shape[1])
            shares /= shares.sum(axis=1, keepdims=True)
        trees = [growing.tree(shares, growing.draw()) for _ in range(N_TREES)]
    return joined_trees(trees, rows.shape[1]), errors


@dataclass
class Growing:
    """What all trees of a forest are grown with."""

    rows: NDArray[np.float32]
    weights: FloatArray
    extra: bool
    generator: np.random.Generator

    def __post_init__(self) -> None:
        # Seeded again for every tree, which is far quicker than to make it again.
        self._state = np.random.RandomState()

    def answers_of_others(self, shares: FloatArray) -> FloatArray:
        """Return the mean answer of trees that did not see a row, of all where each saw it."""
        total, counts = np.zeros(shares.shape), np.zeros(len(self.rows))
        for _ in range(N_TRIED):
            drawn = self.draw()
            others = np.flatnonzero(drawn == 0)
            if len(others):
                tree = self.tree(shares, drawn)
                answers = tree.predict(self.rows[others], check_input=False)
                total[others] += answers.reshape(len(others), -1)
                counts[others] += 1
        everywhere = np.average(shares, axis=0, weights=self.weights)
        return np.where(counts[:, None] > 0, total / np.maximum(counts, 1.0)[:, None], everywhere)

    def draw(self) -> FloatArray:
        """Return how much each row counts in one tree: rows are drawn with replacement."""
        n_rows = len(self.weights)
        drawn = self.generator.integers(n_rows, size=min(n_rows, MAX_DRAWN))
        return np.bincount(drawn, minlength=n_rows) * self.weights

    def tree(self, shares: FloatArray, drawn: FloatArray) -> DecisionTreeRegressor:
        """Return one tree on the rows that were drawn, each split on some of the features."""
        used = np.flatnonzero(drawn)
        self._state.seed(int(self.generator.integers(2**31)))
        return grown_tree(
            self.rows[used],
            shares[used],
            drawn[used],
            extra=self.extra,
            min_leaf=1,
            random_state=self._state,
        )

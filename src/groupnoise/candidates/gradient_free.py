"""Encoders fitted without gradients: kernel ridge regression, and forests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax
from sklearn import config_context
from sklearn.metrics.pairwise import euclidean_distances

from groupnoise.candidates.baselines.kernels import sharpened
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.kernels import KernelEncoder
from groupnoise.core.threads import threads_to_solve
from groupnoise.core.trees import FLOOR, MAX_DRAWN, TreesEncoder, grow_tree, join_trees

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

MAX_EXACT = 4_000
"""Maximum rows of an exact solution, with every row as a landmark."""
N_LANDMARKS = 1_500
"""Random landmarks of larger data."""
SHARPNESS = 0.3
MAX_ITERATIONS = 30
TOLERANCE = 1e-3
"""Change of responsibilities at convergence."""
GAINS = (2.0, 4.0, 6.0, 9.0, 13.0, 20.0)
GAIN_CORRECTION = 1.4
"""Factor for training on all rows instead of one half: on generated tables of 150 to 240 rows the
best temperature at the gain of the halves was near 0.7."""
DOUBT = 0.02
"""Weight of the uniform distribution while the gain is chosen."""


@threads_to_solve(MAX_EXACT)
def fit_kernel(
    encoder: KernelEncoder,
    rows: NDArray[np.float32],
    candidates: BoolArray,
    *,
    scale: float = 1.0,
    ridge: float = 0.05,
    trust: FloatArray | None = None,
    row_weights: FloatArray | None = None,
    generator: np.random.Generator,
) -> list[float]:
    """Fit kernel ridge regression whose outputs are the logits of the labels.

    Alternates between regression on responsibilities and responsibilities from the regression, as
    SURE (Feng and An, AAAI 2019). The outputs lie near zero and one; the gain that turns them into
    logits is the one at which one half of the rows predicts the candidates of the other best.

    Result: mean squared error of each iteration.
    `encoder`: with as many landmarks as :func:`count_landmarks` says.
    `scale`: width of the kernel in units of the mean distance between rows.
    `trust` (n_rows, n_classes): trust in each candidate; alike by default.
    """
    rows = rows.astype(np.float64)
    n_rows, n_landmarks = len(rows), len(encoder.landmarks)
    chosen = np.arange(n_rows)
    if n_landmarks < n_rows:
        chosen = np.sort(generator.permutation(n_rows)[:n_landmarks])
    distances = euclidean_distances(rows, rows[chosen])
    width = max(scale * float(distances.mean()), 1e-12)
    # The constant kernel on top gives every label a constant of its own.
    kernel = np.exp(-((distances / width) ** 2) / 2) + 1.0
    trust = candidates.astype(np.float64) if trust is None else np.where(candidates, trust, 0.0)
    counts = np.ones(n_rows) if row_weights is None else np.maximum(row_weights, 1e-6)

    def solve(part: IntArray) -> tuple[FloatArray, list[float]]:
        columns = np.arange(n_landmarks) if n_landmarks < n_rows else part
        weights, errors = _alternate(
            kernel[np.ix_(part, columns)],
            kernel[np.ix_(chosen[columns], columns)] if n_landmarks < n_rows else None,
            candidates[part],
            trust[part],
            counts[part],
            ridge,
        )
        every = np.zeros((n_landmarks, candidates.shape[1]))
        every[columns] = weights
        return every, errors

    half = generator.permutation(n_rows) % 2
    outputs = np.empty(candidates.shape)
    for side in (0, 1):
        weights, _ = solve(np.flatnonzero(half != side))
        outputs[half == side] = kernel[half == side] @ weights
    weights, errors = solve(np.arange(n_rows))
    weights *= GAIN_CORRECTION * best_gain(outputs, candidates)
    encoder.landmarks.copy_(torch.from_numpy(rows[chosen]))
    encoder.width.fill_(width)
    encoder.weight.copy_(torch.from_numpy(weights))
    encoder.bias.copy_(torch.from_numpy(weights.sum(axis=0)))
    return errors


def count_landmarks(n_rows: int) -> int:
    """Return the number of landmarks for `n_rows` rows."""
    return n_rows if n_rows <= MAX_EXACT else N_LANDMARKS


def best_gain(outputs: FloatArray, candidates: BoolArray) -> float:
    """Return the factor of held-out outputs that makes their candidates most likely."""

    def likelihood(gain: float) -> float:
        inside = (softmax(gain * outputs, axis=1) * candidates).sum(axis=1)
        return float(np.log((1 - DOUBT) * inside + DOUBT / candidates.shape[1]).mean())

    return max(GAINS, key=likelihood)


def _alternate(
    kernel: FloatArray,
    between: FloatArray | None,
    candidates: BoolArray,
    trust: FloatArray,
    counts: FloatArray,
    ridge: float,
) -> tuple[FloatArray, list[float]]:
    """Return the weights of the landmarks and the error of each iteration."""
    solve = _solver(kernel, between, counts, ridge)
    responsibility = trust / trust.sum(axis=1, keepdims=True)
    errors: list[float] = []
    for _ in range(MAX_ITERATIONS):
        outputs = kernel @ solve(responsibility)
        errors.append(float(np.average(((outputs - responsibility) ** 2).sum(axis=1))))
        before = responsibility
        responsibility = sharpened(outputs, candidates, SHARPNESS) * trust
        responsibility /= responsibility.sum(axis=1, keepdims=True)
        if np.abs(responsibility - before).max() < TOLERANCE:
            break
    return solve(responsibility), errors


def _solver(
    kernel: FloatArray, between: FloatArray | None, counts: FloatArray, ridge: float
) -> Callable[[FloatArray], FloatArray]:
    """Return what maps responsibilities to weights of landmarks.

    `between` is the kernel between landmarks; None says that every row is one.
    """
    if between is None:
        whole = cho_factor(kernel + np.diag(ridge / counts))
        return lambda target: np.asarray(cho_solve(whole, target))
    weighted = kernel * counts[:, None]
    normal = kernel.T @ weighted + ridge * between
    # Landmarks that nearly coincide leave the matrix singular to rounding.
    normal.flat[:: len(normal) + 1] += 1e-9 * math.sqrt(len(kernel)) * np.trace(normal)
    factor = cho_factor(normal)
    return lambda target: np.asarray(cho_solve(factor, weighted.T @ target))


N_TREES = 100
"""Trees of the final forest."""
N_ITERATIONS = 3
N_TREES_PER_ITERATION = 50
"""For out-of-bag estimates only."""


def grow_trees(
    rows: NDArray[np.float32],
    candidates: BoolArray,
    *,
    extra: bool = False,
    trust: FloatArray | None = None,
    row_weights: FloatArray | None = None,
    generator: np.random.Generator,
) -> tuple[TreesEncoder, list[float]]:
    """Grow a forest whose outputs are the logits of the labels.

    Alternates between trees on responsibilities and responsibilities from out-of-bag trees.

    Result: the forest, and the out-of-bag mean squared error of each iteration.
    `extra`: draw thresholds at random.
    `trust` (n_rows, n_classes): trust in each candidate; equal by default.
    """
    trust = candidates.astype(np.float64) if trust is None else np.where(candidates, trust, 0.0)
    weights = np.ones(len(rows)) if row_weights is None else np.maximum(row_weights, 1e-6)
    growing = ForestBuilder(np.ascontiguousarray(rows), weights, extra, generator)
    shares = trust / trust.sum(axis=1, keepdims=True)
    errors = []
    # Validating the rows again would take longer than growing a tree.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for _ in range(N_ITERATIONS):
            unseen = growing.out_of_bag_shares(shares)
            errors.append(float(((unseen - shares) ** 2).sum(axis=1).mean()))
            shares = trust * (unseen + FLOOR / trust.shape[1])
            shares /= shares.sum(axis=1, keepdims=True)
        trees = [growing.tree(shares, growing.draw()) for _ in range(N_TREES)]
    return join_trees(trees, rows.shape[1]), errors


@dataclass
class ForestBuilder:
    """Grows the trees of one forest."""

    rows: NDArray[np.float32]
    weights: FloatArray
    extra: bool
    generator: np.random.Generator

    def __post_init__(self) -> None:
        # Reseeded for every tree, which is much faster than a new one.
        self._state = np.random.RandomState()

    def out_of_bag_shares(self, shares: FloatArray) -> FloatArray:
        """Return the mean out-of-bag prediction of each row, the overall mean if it has none."""
        total, counts = np.zeros(shares.shape), np.zeros(len(self.rows))
        for _ in range(N_TREES_PER_ITERATION):
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
        """Return the weight of each row in a bootstrap sample."""
        n_rows = len(self.weights)
        drawn = self.generator.integers(n_rows, size=min(n_rows, MAX_DRAWN))
        return np.bincount(drawn, minlength=n_rows) * self.weights

    def tree(self, shares: FloatArray, drawn: FloatArray) -> DecisionTreeRegressor:
        """Return one tree on a bootstrap sample."""
        used = np.flatnonzero(drawn)
        self._state.seed(int(self.generator.integers(2**31)))
        return grow_tree(
            self.rows[used],
            shares[used],
            drawn[used],
            extra=self.extra,
            min_leaf=1,
            random_state=self._state,
        )

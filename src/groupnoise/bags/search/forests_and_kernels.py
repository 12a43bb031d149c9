"""Members trained without gradients: forests of instances, and kernels between whole bags.

Forests: instances inherit the label of their bag. Trees need no scaling, so skewed columns, codes
and columns of different kinds can be used as they are. Each tree is grown on bags drawn with
replacement; like other members, a forest is scored on bags that its copy has not seen.

Whole-bag kernels: a bag is represented by the mean, standard deviation and range of its instances.
Kernel ridge regression has a closed form, and so do its out-of-fold predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from torch import Tensor

from groupnoise.bags.search.members import RANDOM_TREES, BagProblem, Batch
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.core.encoders import unit_vectors
from groupnoise.core.model import MatchingModel
from groupnoise.core.quantifier import Segments
from groupnoise.core.threads import threads_to_solve
from groupnoise.core.trees import MAX_DRAWN, TreesEncoder, grow_tree, join_trees, log_frequencies

N_TREES = 100
"""Trees of the final forest, from all copies."""
MIN_TREES = 40
"""Minimum trees of a copy, so that its scores resemble those of the final forest."""
MIN_LEAF = 5
"""Minimum instances of a leaf: smaller leaves would only identify bags."""
DOUBT = 0.01
"""Weight of the uniform distribution in every leaf."""
MAX_KEPT = 60_000
"""Maximum instances that trees are grown on; of longer data equally many of each bag."""
BLOCK_ROWS = 8_192


class ForestBatch(Batch):
    """Copies of a forest grown on different bags; the counterpart of :class:`MemberBatch`.

    `problem`: positive and negative bags. `settings`: the members, which are alike. `generator`:
    seeds the trees.
    """

    @cached_property
    def encoder(self) -> TreesEncoder:
        """The trees of all copies, one copy after the other; none before they are grown."""
        return TreesEncoder(self.width, 0, 0, 0, 2)

    @property
    def n_trees(self) -> int:
        """The number of trees of a copy."""
        return max(MIN_TREES, -(-N_TREES // self.n_copies))

    def train(self, report: ProgressCallback | None = None) -> ForestBatch:
        """Grow all copies, or restore them where they were saved."""
        del report  # this takes too little time for progress reports
        saves = self._saves()
        if saves is not None and saves.restore(self):
            return self
        seed = int(torch.randint(2**31 - 1, (), generator=self.generator))
        generator, state = np.random.default_rng(seed), np.random.RandomState()
        rows, segments = self._kept
        kept, group, sizes = rows.numpy(), segments.group.numpy(), segments.sizes.numpy()
        inherited = self.problem.labels[group, 0].astype(np.float64)
        trees = []
        # Rows were checked before; checking them again takes longer than growing a tree.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            for copy in range(self.n_copies):
                seen = np.flatnonzero(self.bag_weights[:, copy].numpy())
                for _ in range(self.n_trees):
                    if saves is not None:
                        saves.check_stop()
                    drawn = generator.choice(seen, len(seen))
                    drawn = drawn[: max(1, int((np.cumsum(sizes[drawn]) <= MAX_DRAWN).sum()))]
                    counts = np.bincount(drawn, minlength=len(sizes))
                    used = np.flatnonzero(counts[group])
                    state.seed(int(generator.integers(2**31)))
                    trees.append(
                        grow_tree(
                            kept[used],
                            inherited[used],
                            (counts / sizes)[group[used]],
                            extra=self.settings[0].encoder == RANDOM_TREES,
                            min_leaf=MIN_LEAF,
                            random_state=state,
                        )
                    )
        self.encoder = join_trees(trees, kept.shape[1])
        positive = self.encoder.leaves * (1.0 - DOUBT) + 0.5 * DOUBT
        self.encoder.leaves = torch.cat([positive, 1.0 - positive], dim=1)
        if saves is not None:
            saves.save(self)
        return self

    @cached_property
    def _kept(self) -> tuple[Tensor, Segments]:
        """The instances that trees are grown on, and their bags."""
        segments = self.problem.segments
        if isinstance(self.rows, Tensor) and len(self.rows) <= MAX_KEPT:
            return self.rows, segments
        most = max(1, MAX_KEPT // len(segments.sizes))
        parts = []
        for bag in range(len(segments.sizes)):
            rows = self.rows_of(torch.tensor([bag]))
            parts.append(rows[torch.randperm(len(rows), generator=self.generator)[:most]])
        return torch.cat(parts), Segments(torch.tensor([len(each) for each in parts]))

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of rows under every model, (n_rows, n_models, 1)."""
        if rows is self._kept[0]:
            return self._logits_of_kept
        return self._logits(rows)

    @cached_property
    def _logits_of_kept(self) -> Tensor:
        """Cached, as both held-out predictions and the shift of averaging need them."""
        return self._logits(self._kept[0])

    def _logits(self, rows: Tensor) -> Tensor:
        parts = []
        for part in rows.split(BLOCK_ROWS):
            frequencies = self.encoder.answers(part)
            frequencies = frequencies.view(len(part), self.n_copies, self.n_trees, 2).mean(2)
            log_p = log_frequencies(frequencies)
            parts.append(log_p[..., :1] - log_p[..., 1:])
        return torch.cat(parts).repeat(1, len(self.settings), 1)

    @staticmethod
    def averaged(logits: Tensor) -> Tensor:
        """Return the logits of all copies together, (n_rows, 1, 1)."""
        return logits.sigmoid().mean(1, keepdim=True).logit()

    @cached_property
    def trained_logits(self) -> tuple[Tensor, BagProblem]:
        """Logits of the instances that trees were grown on, and their bags."""
        rows, segments = self._kept
        problem = BagProblem(segments, self.problem.labels, self.problem.has_negative)
        return self.logits(rows), problem

    def model(self, number: int) -> MatchingModel:
        """Return a model of trees from all copies, free target last."""
        del number  # members are alike
        taken = torch.arange(self.n_trees) < -(-N_TREES // self.n_copies)
        return forest_model(self.encoder.some(taken.repeat(self.n_copies).nonzero().flatten()))

    def _origins(self) -> Iterator[Tensor]:
        yield from (self.problem.segments.sizes, torch.from_numpy(self.problem.labels))
        yield from (self.bag_weights, self.generator.get_state())

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the sizes and the arrays of the trees."""
        arrays = {name: tensor.numpy() for name, tensor in self.encoder.state_dict().items()}
        return {"trees": self.encoder.sizes()}, arrays

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore packed trees."""
        encoder = TreesEncoder.of_sizes(content["trees"], self.encoder.n_features, 2)
        state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        encoder.load_state_dict(state)
        self.encoder = encoder


def forest_model(encoder: TreesEncoder) -> MatchingModel:
    """Return a model whose f gives the logits themselves: g is one unit vector per target."""
    return MatchingModel(encoder, unit_vectors(2), n_targets=2).eval()


MAX_SUPPORT = 1_500
"""Maximum bags of a kernel; the work grows with their cube."""
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
    `centre`, `spread`: mean and standard deviation of the statistics.
    `support` (n_support, n_statistics): standardised statistics of training bags, divided by the
        root of the median distance.
    `coefficients` (n_support, n_named): of the regression on each label.
    `constant`: its intercepts.
    """

    width: float
    centre: FloatArray
    spread: FloatArray
    support: FloatArray
    coefficients: FloatArray
    constant: FloatArray

    def __call__(self, rows: NDArray[Any], offsets: IntArray) -> FloatArray:
        """Return a prediction of each label in each bag, about -1 to 1, (n_bags, n_named)."""
        statistics = (bag_statistics(rows, offsets) - self.centre) / self.spread
        kernel = np.exp(-self.width * square_distances(statistics, self.support))
        return kernel @ self.coefficients + self.constant

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays by name."""
        return {name: getattr(self, name) for name in _PARTS}

    @classmethod
    def from_arrays(cls, width: float, arrays: Mapping[str, NDArray[Any]]) -> StatisticsModel:
        """Return the model of the arrays of :meth:`arrays`."""
        return cls(width, *(arrays[name] for name in _PARTS))


class StatisticsKernel:
    """The decomposed kernel matrix of bag statistics, from which any ridge is solved quickly.

    `rows` (n_rows, n_features): scaled instances, bag after bag.
    `offsets`: where each bag begins.
    `width`: of the kernel: see :class:`StatisticsModel`.
    """

    @threads_to_solve(MAX_SUPPORT)
    def __init__(self, rows: NDArray[Any], offsets: IntArray, width: float) -> None:
        statistics = bag_statistics(rows, offsets)
        self.width = width
        self.centre, spread = statistics.mean(axis=0), statistics.std(axis=0)
        varies = spread > 1e-6 * (1.0 + np.abs(self.centre))
        # Dividing by infinity sets statistics that do not vary to zero.
        self.spread = np.where(varies, spread, np.inf)
        self.support = (statistics - self.centre) / self.spread
        distances = square_distances(self.support, self.support)
        above = distances[np.triu_indices(len(distances), 1)]
        median = float(np.median(above)) if len(above) else 1.0
        self.unit = np.sqrt(median) if median > 0 else 1.0
        kernel = np.exp(-width * distances / self.unit**2)
        self.values, self.vectors = np.linalg.eigh(kernel)

    def _solver(self, ridge: float) -> FloatArray:
        """Return the matrix that maps targets to coefficients, with an intercept accounted for."""
        inverse = (self.vectors / (np.maximum(self.values, 0.0) + ridge)) @ self.vectors.T
        total = inverse.sum(axis=0)
        return inverse - np.outer(total, total) / total.sum()

    @threads_to_solve(MAX_SUPPORT)
    def held_out(self, labels: BoolArray, folds: IntArray, ridge: float) -> FloatArray:
        """Return out-of-fold predictions, (n_bags, n_named).

        `folds`: the fold of each bag; bags of a negative number are never held out and stay at
        zero. `ridge`: added to the diagonal of the kernel.
        """
        targets = 2.0 * labels - 1.0
        solver = self._solver(ridge)
        coefficients = solver @ targets
        predictions = np.zeros_like(targets)
        for fold in np.unique(folds[folds >= 0]):
            held = np.flatnonzero(folds == fold)
            # Leaving rows out of a ridge regression changes their residuals by a linear map.
            residual = np.linalg.solve(solver[np.ix_(held, held)], coefficients[held])
            predictions[held] = targets[held] - residual
        return predictions

    @threads_to_solve(MAX_SUPPORT)
    def fit(self, labels: BoolArray, ridge: float) -> StatisticsModel:
        """Return the model fitted to all bags."""
        targets = 2.0 * labels - 1.0
        coefficients = self._solver(ridge) @ targets
        kernel = (self.vectors * np.maximum(self.values, 0.0)) @ self.vectors.T
        constant = (targets - kernel @ coefficients - ridge * coefficients).mean(axis=0)
        spread = self.spread * self.unit
        return StatisticsModel(
            self.width, self.centre, spread, self.support / self.unit, coefficients, constant
        )


def square_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the squared distances between rows of two matrices, (n_left, n_right)."""
    lengths = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return np.maximum(lengths - 2.0 * left @ right.T, 0.0)

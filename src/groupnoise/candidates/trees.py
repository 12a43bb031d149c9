"""TreesEncoder: labels scored by a forest of trees that was grown on candidate labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
from torch import Tensor, nn

from groupnoise.core.arrays import BoolArray, FloatArray

N_TREES = 100
"""Trees that answer."""
N_TURNS = 3
N_TRIED = 50
"""Trees of a turn, which only say what rows they did not see may be."""
MAX_DRAWN = 10_000
"""Rows that one tree is grown on at most."""
ROWS_PER_LEAF = 2_000
"""Every so many rows a leaf must hold one more, so that files stay small."""
MAX_DEPTH = 40
"""No row walks further, whatever a file says."""
FLOOR = 1e-3
"""What a label that no leaf knows is given, shared by all labels."""


class TreesEncoder(nn.Module):
    """The mean of the leaves that a row falls into, as logits.

    Every node asks whether a feature is at most a threshold. A child that is no node is a leaf: -1
    is the first, -2 the second.
    """

    def __init__(
        self, n_features: int, n_trees: int, n_nodes: int, n_leaves: int, dim: int
    ) -> None:
        super().__init__()
        self.n_features = n_features
        self.roots: Tensor
        self.feature: Tensor
        self.threshold: Tensor
        self.following: Tensor
        self.leaves: Tensor
        self.register_buffer("roots", torch.zeros(n_trees, dtype=torch.int64))
        self.register_buffer("feature", torch.zeros(n_nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(n_nodes))
        self.register_buffer("following", torch.zeros(n_nodes, 2, dtype=torch.int64))
        self.register_buffer("leaves", torch.zeros(n_leaves, dim))

    @classmethod
    def of_sizes(cls, sizes: Mapping[str, Any], n_features: int, dim: int) -> TreesEncoder:
        """Return an empty encoder as large as :meth:`sizes` says."""
        n_trees, n_nodes, n_leaves = (
            int(sizes[f"n_{each}"]) for each in ("trees", "nodes", "leaves")
        )
        return cls(n_features, n_trees, n_nodes, n_leaves, dim)

    def sizes(self) -> dict[str, int]:
        """Return what its arrays cannot be made without."""
        n_trees, n_nodes, n_leaves = map(len, (self.roots, self.feature, self.leaves))
        return {"n_trees": n_trees, "n_nodes": n_nodes, "n_leaves": n_leaves}

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Refuse nodes of a file that lead nowhere."""
        super()._load_from_state_dict(*arguments)
        errors: list[str] = arguments[-1]
        if errors or self.roots.is_meta:
            return
        n_nodes, n_leaves = len(self.feature), len(self.leaves)
        for name, least, limit in (
            ("feature", 0, self.n_features),
            ("following", -n_leaves, n_nodes),
            ("roots", -n_leaves, n_nodes),
        ):
            numbers = getattr(self, name)
            if numbers.numel() and not least <= int(numbers.min()) <= int(numbers.max()) < limit:
                errors.append(f"{name} of the trees must lie between {least} and {limit - 1}.")

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_features) to (n, dim)."""
        place = self.roots.expand(len(inputs), -1)
        for _ in range(MAX_DEPTH):
            asks = place >= 0
            if not asks.any():
                break
            node = place.clamp(min=0)
            above = inputs.gather(1, self.feature[node]) > self.threshold[node]
            place = torch.where(asks, self.following[node, above.long()], place)
        mean = self.leaves[-1 - place.clamp(max=-1)].mean(dim=1)
        return torch.log(mean + FLOOR / mean.shape[1])


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
    return _joined(trees, rows.shape[1]), errors


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
        kind = ExtraTreeRegressor if self.extra else DecisionTreeRegressor
        used = np.flatnonzero(drawn)
        self._state.seed(int(self.generator.integers(2**31)))
        tree = kind(
            max_features="sqrt",
            max_depth=MAX_DEPTH,
            min_samples_leaf=1 + len(used) // ROWS_PER_LEAF,
            random_state=self._state,
        )
        weights = drawn[used]
        return tree.fit(self.rows[used], shares[used], sample_weight=weights, check_input=False)


def _joined(trees: list[DecisionTreeRegressor], n_features: int) -> TreesEncoder:
    """Return trees as tables: nodes that ask, numbered through all trees, and leaves below zero."""
    roots, features, thresholds, children, leaves = [], [], [], [], []
    n_nodes = n_leaves = 0
    for each in trees:
        tree = each.tree_
        asks = tree.children_left >= 0
        # Where a node of this tree lies among all nodes or leaves.
        place = np.where(
            asks, n_nodes + np.cumsum(asks) - 1, -1 - (n_leaves + np.cumsum(~asks) - 1)
        )
        roots.append(place[0])
        features.append(tree.feature[asks])
        thresholds.append(tree.threshold[asks])
        sides = [tree.children_left[asks], tree.children_right[asks]]
        children.append(place[np.stack(sides, axis=1)])
        leaves.append(tree.value[~asks].reshape(int((~asks).sum()), -1))
        n_nodes, n_leaves = n_nodes + int(asks.sum()), n_leaves + int((~asks).sum())
    exact = np.concatenate(thresholds)
    threshold = exact.astype(np.float32)
    # The largest float that is not above: inputs are floats, so that the same ones are at most it.
    threshold = np.where(threshold > exact, np.nextafter(threshold, -np.inf), threshold)
    values = np.concatenate(leaves)
    encoder = TreesEncoder(n_features, len(trees), n_nodes, n_leaves, values.shape[1])
    encoder.roots.copy_(torch.as_tensor(np.array(roots)))
    encoder.feature.copy_(torch.as_tensor(np.concatenate(features)))
    encoder.threshold.copy_(torch.as_tensor(threshold.astype(np.float32)))
    encoder.following.copy_(torch.as_tensor(np.concatenate(children)))
    encoder.leaves.copy_(torch.as_tensor(values))
    return encoder

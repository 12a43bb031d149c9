"""TreesEncoder: targets scored by a forest of trees, kept as plain tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise.core.arrays import FloatArray

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

MAX_DRAWN = 10_000
"""Maximum rows of a tree."""
ROWS_PER_LEAF = 2_000
"""The minimum leaf size grows by one per this many rows, which bounds the size of files."""
MAX_DEPTH = 40
"""Bound of the descent, whatever a file contains."""
FLOOR = 1e-3
"""Additive smoothing of leaf frequencies, shared by all targets."""


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
        mean = self.answers(inputs).mean(dim=1)
        return log_frequencies(mean)

    def answers(self, inputs: Tensor) -> Tensor:
        """Return the leaf of every tree that each row falls into, (n, n_trees, dim)."""
        n_rows, n_trees = len(inputs), len(self.roots)
        found = self.roots.new_full((n_rows * n_trees,), -1)
        # Who still walks: which row it is of which tree, where it stands, where its row begins.
        walker = torch.arange(len(found), device=found.device)
        place = self.roots.repeat(n_rows)
        start = walker.div(max(n_trees, 1), rounding_mode="floor") * inputs.shape[1]
        values, sides = inputs.reshape(-1), self.following.t().reshape(-1)
        for _ in range(MAX_DEPTH):
            asks = place >= 0
            found[walker[~asks]] = place[~asks]
            walker, place, start = walker[asks], place[asks], start[asks]
            if not len(walker):
                break
            above = values[start + self.feature[place]] > self.threshold[place]
            place = sides[place + len(self.feature) * above]
        is_leaf = place < 0
        found[walker[is_leaf]] = place[is_leaf]
        return self.leaves[-1 - found].view(n_rows, n_trees, self.leaves.shape[1])

    def some(self, trees: Tensor) -> TreesEncoder:
        """Return a forest of some of the trees, known by their numbers."""
        roots = self.roots[trees]
        is_node = torch.zeros(len(self.feature), dtype=torch.bool)
        is_leaf = torch.zeros(len(self.leaves), dtype=torch.bool)
        reached = roots
        while len(reached):
            nodes = reached[reached >= 0]
            is_node[nodes] = True
            is_leaf[-1 - reached[reached < 0]] = True
            reached = self.following[nodes].flatten()
        number = torch.cat([-is_leaf.cumsum(0).flip(0), is_node.cumsum(0) - 1])
        sizes = int(is_node.sum()), int(is_leaf.sum())
        part = TreesEncoder(self.n_features, len(trees), *sizes, self.leaves.shape[1])
        part.roots.copy_(number[roots + len(is_leaf)])
        part.feature.copy_(self.feature[is_node])
        part.threshold.copy_(self.threshold[is_node])
        part.following.copy_(number[self.following[is_node] + len(is_leaf)])
        part.leaves.copy_(self.leaves[is_leaf])
        return part


def log_frequencies(shares: Tensor) -> Tensor:
    """Return log frequencies of targets, (n, ..., dim), with additive smoothing."""
    return torch.log(shares + FLOOR / shares.shape[-1])


def grow_tree(
    rows: NDArray[np.float32],
    shares: FloatArray,
    weights: FloatArray,
    *,
    extra: bool,
    min_leaf: int,
    random_state: np.random.RandomState,
) -> DecisionTreeRegressor:
    """Return one tree with random feature subsets; rows must be validated already.

    `weights`: sample weights. `extra`: draw thresholds at random. `min_leaf`: minimum rows of a
    leaf, before `ROWS_PER_LEAF`.
    """
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor  # answers do without

    kind = ExtraTreeRegressor if extra else DecisionTreeRegressor
    tree = kind(
        max_features="sqrt",
        max_depth=MAX_DEPTH,
        min_samples_leaf=min_leaf + len(rows) // ROWS_PER_LEAF,
        random_state=random_state,
    )
    return tree.fit(rows, shares, sample_weight=weights, check_input=False)


def join_trees(trees: Sequence[DecisionTreeRegressor], n_features: int) -> TreesEncoder:
    """Pack trees into one encoder; nodes are numbered from 0, leaves from -1 downwards."""
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

"""Small ragged data and models in float64 for the tests of the core."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import settings, strategies as st

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.batching import GroupBatch
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import MatchingModel

LOUD = 99.0
"""What padding is filled with: a leak then shows."""

ragged_sizes = st.lists(st.integers(1, 5), min_size=1, max_size=5)
"""Sizes of a few groups, groups of one included."""

seeds = st.integers(0, 2**16)

steady = settings(max_examples=40, deadline=None, derandomize=True)
"""The same examples in every run, and no clock: a busy machine is not a failure."""


def offsets_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


def id_groups(sizes, *, n_ids, n_targets, seed=0):
    """Groups of integer ids, repeated ids included, with targets."""
    generator = np.random.default_rng(seed)
    return Groups(
        generator.integers(n_ids, size=sum(sizes)),
        offsets_of(sizes),
        generator.integers(n_targets, size=len(sizes)),
    )


def id_batch(sizes, *, n_ids, n_targets, seed=0) -> GroupBatch:
    groups = id_groups(sizes, n_ids=n_ids, n_targets=n_targets, seed=seed)
    return collate(groups, np.arange(len(groups)))


def ragged_tensor(sizes, width, *, seed=0, pad_to=None, fill=LOUD):
    """Random rows of groups, padded with `fill`.

    Returns values of shape (groups, size, width) and the mask (groups, size). The real values
    depend on the sizes, width and seed alone, not on the padding.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(sum(sizes), width, generator=generator, dtype=torch.float64)
    mask = torch.arange(pad_to or max(sizes)) < torch.tensor(sizes).unsqueeze(-1)
    values = torch.full((*mask.shape, width), fill, dtype=torch.float64)
    values[mask] = rows
    return values, mask


def table_model(
    *, n_objects, n_targets, dim=3, shared=False, has_bias=False, sparse=False, seed=0
) -> MatchingModel:
    """Embedding tables for objects and targets; `shared` makes them one and the same."""
    generator = torch.Generator().manual_seed(seed)
    n_rows = max(n_objects, n_targets) if shared else n_objects
    objects = EmbeddingEncoder(n_rows, dim, std=1.0, sparse=sparse, generator=generator)
    targets = (
        objects
        if shared
        else EmbeddingEncoder(n_targets, dim, std=1.0, sparse=sparse, generator=generator)
    )
    model = MatchingModel(
        objects, targets, n_targets=n_targets, has_bias=has_bias, sparse=sparse
    ).double()
    if model.bias is not None:
        torch.nn.init.normal_(model.bias, generator=generator)
    return model


def real_rows(values, mask):
    """The real rows of each group as nested lists of scalars, as `reference` takes them."""
    return [
        [values[row, place] for place in range(values.shape[1]) if mask[row, place]]
        for row in range(len(mask))
    ]


def gradients(loss, leaves):
    """Gradients of a scalar by each leaf, zeros where a leaf played no part."""
    found = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
    return [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]

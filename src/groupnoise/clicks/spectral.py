"""Initial item vectors from a click log: items that lead to the same items start out alike.

Most items of a catalogue are clicked a handful of times: too few for vectors that start at random
to find their place before they fit the noise. The leading eigenvectors of the normalized matrix of
items clicked together place every item by its neighbours, their neighbours and so on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel

START_NORM = 2.0
"""Root mean square norm of the vectors, and the longest that one may then keep: eigenvectors can
sit on a few items alone, which would begin too sure of themselves."""
SMOOTHING = 1.0
"""Added to how often an item was clicked with others; keeps rare items near the origin."""
BLOCK_PAIRS = 1 << 22
"""Pairs of clicks counted at a time, so that memory follows the matrix and not the log."""


class SpectralStart(NamedTuple):
    """Where training begins.

    `vectors` (n_items, dim): dot products say how close two items are in a log. Zero for items
        without neighbours, and in the columns that a catalogue smaller than `dim` leaves over.
    `bias`: what closeness leaves out: how common an item is.
    """

    vectors: NDArray[np.float32]
    bias: NDArray[np.float32]


def start_among_neighbours(
    model: MatchingModel, windows: Groups, *, rate: float, generator: np.random.Generator
) -> None:
    """Move the tables of an item model to where :func:`spectral_start` places its items.

    `model`: tables of item vectors; of a split table, the rows that this worker holds are moved.
    """
    dim: int = model.object_encoder.weight.shape[1]  # type: ignore[index,assignment]
    start = spectral_start(windows, model.n_targets, dim, rate=rate, generator=generator)
    for table in {model.object_encoder, model.target_encoder}:
        table.weight.data.copy_(torch.from_numpy(start.vectors[model.own_ids]))  # type: ignore[operator]
    if model.bias is not None:
        model.bias.data[:, 0] = torch.from_numpy(start.bias[model.own_ids])


def spectral_start(
    windows: Groups, n_items: int, dim: int, *, rate: float, generator: np.random.Generator
) -> SpectralStart:
    """Place the items of a log by which are clicked together.

    `windows`: clicked items in time order, each group with the next click as target. `n_items`:
    size of the catalogue. `dim`: width of the vectors. `rate`: how fast a pair counts less with
    each click between its two. `generator`: decides where the search for eigenvectors begins.
    """
    together = clicked_together(windows, n_items, rate)
    degree = np.asarray(together.sum(axis=1)).ravel() + SMOOTHING
    scale = sparse.diags_array(degree**-0.5)
    # Eigenvalues lie in [-1, 1]; moved to [0, 1], the largest in size are the largest.
    walk = 0.5 * (scale @ together @ scale + sparse.eye_array(n_items))
    n_vectors = min(dim, n_items)
    basis, values, _ = randomized_svd(
        walk, n_vectors, n_iter=6, random_state=int(generator.integers(1 << 31))
    )
    vectors = basis * np.sqrt(np.maximum(2.0 * values - 1.0, 0.0))
    vectors[np.diff(together.indptr) == 0] = 0.0
    vectors *= START_NORM / max(float(np.sqrt((vectors**2).sum(axis=1).mean())), 1e-12)
    norms = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    vectors *= np.minimum(START_NORM / np.maximum(norms, 1e-12), 1.0)
    table = np.zeros((n_items, dim), dtype=np.float32)
    table[:, :n_vectors] = vectors
    # P(y | x) is the normalized count times the root of degree(y) / degree(x).
    return SpectralStart(table, 0.5 * np.log(degree).astype(np.float32))


def clicked_together(windows: Groups, n_items: int, rate: float) -> sparse.csr_array:
    """Return how much each pair of items was clicked together, symmetric, (n_items, n_items)."""
    total = sparse.csr_array((n_items, n_items))
    starts = np.arange(0, windows.n_objects, BLOCK_PAIRS)
    cuts = np.unique(np.searchsorted(windows.offsets[:-1], starts))
    cuts = cuts[cuts < len(windows)]
    for first, last in zip(cuts, [*cuts[1:], len(windows)], strict=True):
        block = windows.subset(slice(first, last))
        behind = np.repeat(block.offsets[1:], block.sizes) - 1 - np.arange(block.n_objects)
        pairs = (block.objects, np.repeat(np.asarray(block.targets), block.sizes))
        weights = np.exp(-rate * behind)
        total = total + sparse.coo_array((weights, pairs), shape=(n_items, n_items)).tocsr()
    return sparse.csr_array(total + total.T)

"""Initial item vectors from a click log: items that lead to the same items start out alike.

Most items of a catalogue are clicked a handful of times: too few for vectors that start at random
to find their place before they fit the noise. The leading eigenvectors of the normalized matrix of
items clicked together place every item by its neighbours, their neighbours and so on.

Leading eigenvectors of the Gram matrix of sparse rows are found by subspace iteration: the search
of a randomized singular value decomposition, with what symmetry spares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils.extmath import randomized_svd

from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.threads import threads_to_solve

START_NORM = 2.0
"""Root mean square norm of the vectors, and the longest that one may then keep: eigenvectors can
sit on a few items alone, which would begin too sure of themselves."""
SMOOTHING = 1.0
"""Added to how often an item was clicked with others; keeps rare items near the origin."""
BLOCK_PAIRS = 1 << 22
"""Pairs of clicks counted at a time, so that memory follows the matrix and not the log."""
OVERSAMPLING = 10
N_ITERATIONS = 4
DENSE_SHARE = 0.05
"""A Gram matrix with more entries than this share of all is multiplied faster as a dense one."""
COLUMNS_AT_ONCE = 128
"""Of a sparse product, so that what is read again is still near the processor."""


class SpectralVectors(NamedTuple):
    """Where training begins.

    `vectors` (n_items, dim): dot products say how close two items are in a log. Zero for items
        without neighbours, and in the columns that a catalogue smaller than `dim` leaves over.
    `bias`: what closeness leaves out: how common an item is.
    """

    vectors: NDArray[np.float32]
    bias: NDArray[np.float32]


def init_spectral(
    model: MatchingModel, windows: Groups, *, rate: float, generator: np.random.Generator
) -> None:
    """Move the tables of an item model to where :func:`spectral_vectors` places its items.

    `model`: tables of item vectors; of a split table, the rows that this worker holds are moved.
    """
    dim: int = model.object_encoder.weight.shape[1]  # type: ignore[index,assignment]
    start = spectral_vectors(windows, model.n_targets, dim, rate=rate, generator=generator)
    for table in {model.object_encoder, model.target_encoder}:
        table.weight.data.copy_(torch.from_numpy(start.vectors[model.own_ids]))  # type: ignore[operator]
    if model.bias is not None:
        model.bias.data[:, 0] = torch.from_numpy(start.bias[model.own_ids])


def spectral_vectors(
    windows: Groups, n_items: int, dim: int, *, rate: float, generator: np.random.Generator
) -> SpectralVectors:
    """Place the items of a log by which are clicked together."""
    together = cooccurrence_matrix(windows, n_items, rate)
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
    return SpectralVectors(table, 0.5 * np.log(degree).astype(np.float32))


def cooccurrence_matrix(windows: Groups, n_items: int, rate: float) -> sparse.csr_array:
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


Matrix = NDArray[Any]


def gram_eigenvectors(rows: sparse.csr_array, rank: int, seed: int) -> tuple[Matrix, Matrix]:
    """Return the leading eigenvectors and eigenvalues of the Gram matrix of some rows.

    Returns `vectors` (n_items, rank): each with its largest entry above zero; `values`: falling.
    `rows` (n_rows, n_items): its Gram matrix is that of its columns. `rank`: how many; at most
    n_items.
    """
    n_items = rows.shape[1]
    product = _product(rows)
    n_vectors = min(rank + OVERSAMPLING, n_items)
    start = np.random.RandomState(seed).normal(size=(n_items, n_vectors))
    basis = start.astype(rows.dtype)
    with threads_to_solve(n_items):
        for _ in range(2 * N_ITERATIONS):
            basis = linalg.lu(product(basis), permute_l=True, check_finite=False)[0]
        basis = _orthonormal_basis(product(basis))
        image = product(basis).astype(np.float64)
        squares, turn = linalg.eigh(image.T @ image, check_finite=False)
    falling = slice(None, -rank - 1, -1)
    vectors = basis @ turn[:, falling].astype(basis.dtype)
    largest = np.abs(vectors).argmax(axis=0)
    vectors *= np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors, np.sqrt(np.maximum(squares[falling], 0.0)).astype(basis.dtype)


def _product(rows: sparse.csr_array) -> Callable[[Matrix], Matrix]:
    """Return the product with the Gram matrix in the form that costs least."""
    turned = rows.T.tocsr()
    gram = turned @ rows
    if gram.nnz > DENSE_SHARE * gram.shape[0] ** 2:
        dense = gram.toarray()
        return lambda values: dense @ values
    factors = [rows, turned] if 2 * rows.nnz < gram.nnz else [gram.tocsr()]

    def multiply(values: Matrix) -> Matrix:
        result = np.empty_like(values)
        for first in range(0, values.shape[1], COLUMNS_AT_ONCE):
            part = np.ascontiguousarray(values[:, first : first + COLUMNS_AT_ONCE])
            for factor in factors:
                part = factor @ part
            result[:, first : first + COLUMNS_AT_ONCE] = part
        return result

    return multiply


def _orthonormal_basis(values: Matrix) -> Matrix:
    """Return an orthonormal basis of what the columns span."""
    wide = values.astype(np.float64)
    try:
        factor = linalg.cholesky(wide.T @ wide, check_finite=False)
        basis = linalg.solve_triangular(factor, wide.T, trans="T", check_finite=False).T
        is_exact = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max() < 1e-6
    except linalg.LinAlgError:
        is_exact = False
    if not is_exact:  # columns that hardly differ
        basis = linalg.qr(wide, mode="economic", check_finite=False)[0]
    return np.ascontiguousarray(basis, dtype=values.dtype)

"""Leading eigenvectors of Gram matrices of sparse rows, by subspace iteration.

The search is that of a randomized singular value decomposition, with what symmetry spares: a
product with the rows and their transpose where they hold fewer entries than their Gram matrix, and
an eigenvalue problem as small as the rank in place of the decomposition of a wide matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

OVERSAMPLING = 10
N_ITERATIONS = 4
DENSE_SHARE = 0.05
"""A Gram matrix with more entries than this share of all is multiplied faster as a dense one."""
COLUMNS_AT_ONCE = 128
"""Of a sparse product, so that what is read again is still near the processor."""

Matrix = NDArray[Any]


def leading_of_gram(rows: sparse.csr_array, rank: int, seed: int) -> tuple[Matrix, Matrix]:
    """Return the leading eigenvectors and eigenvalues of the Gram matrix of some rows.

    Returns `vectors` (n_items, rank): each with its largest entry above zero; `values`: falling.
    `rows` (n_rows, n_items): its Gram matrix is that of its columns. `rank`: how many; at most
    n_items. `seed`: decides where the search begins.
    """
    n_items = rows.shape[1]
    product = _product(rows)
    n_vectors = min(rank + OVERSAMPLING, n_items)
    start = np.random.RandomState(seed).normal(size=(n_items, n_vectors))
    basis = start.astype(rows.dtype)
    for _ in range(2 * N_ITERATIONS):
        basis = linalg.lu(product(basis), permute_l=True, check_finite=False)[0]
    basis = _orthonormal(product(basis))
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


def _orthonormal(values: Matrix) -> Matrix:
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

"""Least-squares baselines on the user-item matrix: EASE, exact and in blocks, and ALS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from groupnoise.clicks.baselines.base import ItemToItemBaseline
from groupnoise.clicks.baselines.counting import (
    baskets,
    item_counts,
    stored_table,
    table_arrays,
)
from groupnoise.core.arrays import FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.threads import threads_to_solve
from groupnoise.core.words import inherit_docstring
from groupnoise.io.folders.array_folder import (
    FLOATS,
    INTEGERS,
    check_numbers,
    check_positions,
    require_array,
)

_BLOCK_ENTRIES = 1 << 22


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class EASERecommender(ItemToItemBaseline):
    r"""Embarrassingly shallow autoencoder: a ridge regression of each item on all others.

    With X the 0/1 table of users and items and :math:`P = (X^\top X + \lambda I)^{-1}`,

    .. math:: s(y \mid X) = \sum_{x \in X} B_{xy}, \qquad B_{xy} = -P_{xy} / P_{yy},\ B_{yy} = 0.

    Parameters
    ----------
    ridge : float, default=250.0
        Lambda.
    max_items : int, default=16384
        The most items the regression is solved for, the most clicked ones: time grows with the
        third power of their number and memory with the second. Items beyond score 0.

    Attributes
    ----------
    weights_ : float32 ndarray of shape (n_kept, n_kept)
        B of the items that are kept.
    kept_ : int64 ndarray of shape (n_kept,)
        Their indices, ascending.

    References
    ----------
    .. [1] H. Steck. Embarrassingly shallow autoencoders for sparse data. WWW 2019.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["tea", "rye"], ["oat", "rye"]]
    >>> EASERecommender(ridge=1.0).fit(log).recommend([["tea"]], top=1)[0].tolist()
    [['jam']]
    """

    _learned = "weights_"

    weights_: NDArray[np.float32] = field(init=False)
    kept_: IntArray = field(init=False)

    ridge: float = 250.0
    max_items: int = 16_384

    def _check_parameters(self) -> None:
        check_positive("ridge", self.ridge)
        check_count("max_items", self.max_items)

    def _learn(self, training: Groups) -> None:
        by_clicks = np.argsort(-self.popularity_, kind="stable")
        self.kept_ = np.sort(by_clicks[: self.max_items])
        users = baskets(training, self.n_items_)[:, self.kept_]
        # Single precision halves the memory; the ridge keeps the matrix far from singular.
        gram = (users.T @ users).toarray().astype(np.float32)
        gram[np.diag_indices_from(gram)] += np.float32(self.ridge)
        with threads_to_solve(len(gram)):
            factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
            inverse, _ = linalg.lapack.spotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        self.weights_ = inverse / -np.diag(inverse)
        self.weights_[np.diag_indices_from(self.weights_)] = 0.0

    def _score_all(self, histories: Groups) -> FloatArray:
        clicked = item_counts(histories, self.n_items_)
        # In double precision the product would first copy all weights.
        clicked.data = np.ones(clicked.nnz, dtype=np.float32)
        scores = np.zeros((len(histories), self.n_items_), dtype=np.float32)
        scores[:, self.kept_] = clicked[:, self.kept_] @ self.weights_
        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights_, "kept": self.kept_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        kept = require_array(arrays, "kept", types=INTEGERS, shape=(None,))
        self.weights_ = require_array(arrays, "weights", types=FLOATS, shape=(len(kept), len(kept)))
        check_numbers("weights", self.weights_)
        check_positions("kept", kept, self.n_items_)
        self.kept_ = kept


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class ALSRecommender(ItemToItemBaseline):
    r"""Matrix factorisation of implicit feedback by alternating least squares.

    Users and items are vectors that minimise

    .. math::
        \sum_{u, y} c_{uy} (r_{uy} - p_u^\top q_y)^2
        + \lambda \Big(\sum_u \lVert p_u \rVert^2 + \sum_y \lVert q_y \rVert^2\Big),

    with r = 1 and c = 1 + alpha where u clicked y, and r = 0 and c = 1 elsewhere. A history is
    answered with the vector that solves for its own clicks, so that users need not be known.

    Parameters
    ----------
    dim : int, default=64
        Width of the vectors.
    ridge : float, default=100.0
        Lambda.
    alpha : float, default=10.0
        How much more a click counts than its absence.
    max_epochs : int, default=15
        Passes over users and items.
    random_state : int, generator or None, default=None
        Decides the initial vectors.

    Attributes
    ----------
    vectors_ : float32 ndarray of shape (n_items, dim)
        q of every item.

    References
    ----------
    .. [1] Y. Hu, Y. Koren, C. Volinsky. Collaborative filtering for implicit feedback datasets.
       ICDM 2008.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["oat", "rye"], ["oat", "rye"]]
    >>> model = ALSRecommender(dim=4, ridge=1.0, random_state=0).fit(log)
    >>> model.recommend([["tea"]], top=1)[0].tolist()
    [['jam']]
    """

    _learned = "vectors_"

    vectors_: NDArray[np.float32] = field(init=False)

    dim: int = 64
    ridge: float = 100.0
    alpha: float = 10.0
    max_epochs: int = 15
    random_state: RandomState = None

    def _check_parameters(self) -> None:
        check_count("dim", self.dim)
        check_count("max_epochs", self.max_epochs)
        check_positive("ridge", self.ridge)
        check_positive("alpha", self.alpha)

    def _learn(self, training: Groups) -> None:
        users = baskets(training, self.n_items_)
        items = users.T.tocsr()
        generator = generator_from(self.random_state)
        vectors = generator.normal(scale=0.1, size=(self.n_items_, self.dim)).astype(np.float32)
        for _ in range(self.max_epochs):
            user_vectors = self._solved(users.indptr, users.indices, vectors)
            vectors = self._solved(items.indptr, items.indices, user_vectors)
        self.vectors_ = vectors

    def _solved(
        self, offsets: IntArray, columns: IntArray, vectors: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the least-squares vector of each row given the vectors of its columns."""
        solved = np.zeros((len(offsets) - 1, self.dim), dtype=np.float32)
        common = vectors.T @ vectors + np.float32(self.ridge) * np.eye(self.dim, dtype=np.float32)
        for rows, entries in _by_size(np.asarray(offsets, dtype=np.int64), self.dim):
            neighbours = vectors[columns[entries]]  # (rows, size, dim)
            gram = common + np.float32(self.alpha) * np.matmul(
                neighbours.transpose(0, 2, 1), neighbours
            )
            target = np.float32(1 + self.alpha) * neighbours.sum(axis=1)
            solved[rows] = np.linalg.solve(gram, target[..., None])[..., 0]
        return solved

    def _score_all(self, histories: Groups) -> FloatArray:
        clicked = item_counts(histories, self.n_items_)
        user_vectors = self._solved(clicked.indptr, clicked.indices, self.vectors_)
        return np.asarray(user_vectors @ self.vectors_.T)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"vectors": self.vectors_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.vectors_ = require_array(
            arrays, "vectors", types=FLOATS, shape=(self.n_items_, self.dim)
        )
        check_numbers("vectors", self.vectors_)


def _by_size(offsets: IntArray, dim: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield non-empty rows of equal size and the indices of their entries, block by block."""
    sizes = np.diff(offsets)
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        step = max(1, _BLOCK_ENTRIES // (dim * max(size, dim)))
        for begin in range(0, len(rows), step):
            block = rows[begin : begin + step]
            yield block, offsets[block, None] + np.arange(size)


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class BlockEASERecommender(ItemToItemBaseline):
    r"""EASE solved block by block, in memory that follows the catalogue and not its square.

    The columns B of EASE for a block of items J are those of the regression among S, the items of
    J and those clicked with them most: with :math:`P = (X_S^\top X_S + \lambda I)^{-1}`,

    .. math:: s(y \mid X) = \sum_{x \in X \cap S} B_{xy}, \qquad B_{xy} = -P_{xy} / P_{yy},

    of which the largest weights of each item are kept (a sparse approximation in the manner of
    Steck's Markov random fields). Items are put in blocks with those clicked together with them.
    Where `block_neighbors` reaches the whole catalogue and all weights are kept this is EASE.

    Parameters
    ----------
    ridge : float, default=250.0
        Lambda.
    block_size : int, default=1024
        Items whose weights are solved for at once.
    block_neighbors : int, default=3072
        Further items in the regression of a block, those clicked with its items most.
    n_weights : int, default=256
        The most weights that are kept for an item, the largest by absolute value.

    Attributes
    ----------
    weights_ : float32 csr_array of shape (n_items, n_items)
        B; the weight of click x for item y stands at (x, y).

    References
    ----------
    .. [1] H. Steck. Embarrassingly shallow autoencoders for sparse data. WWW 2019.
    .. [2] H. Steck. Markov random fields for collaborative filtering. NeurIPS 2019.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["tea", "rye"], ["oat", "rye"]]
    >>> BlockEASERecommender(ridge=1.0).fit(log).recommend([["tea"]], top=1)[0].tolist()
    [['jam']]
    """

    _learned = "weights_"

    weights_: sparse.csr_array = field(init=False)

    ridge: float = 250.0
    block_size: int = 1024
    block_neighbors: int = 3072
    n_weights: int = 256

    def _check_parameters(self) -> None:
        check_positive("ridge", self.ridge)
        for name in ("block_size", "block_neighbors", "n_weights"):
            check_count(name, getattr(self, name))

    def _learn(self, training: Groups) -> None:
        users = baskets(training, self.n_items_)
        gram = sparse.csr_array(users.T @ users).astype(np.float32)
        rows, columns, values = [], [], []
        for block in item_blocks(gram, self.block_size):
            inputs = block_inputs(gram, block, self.block_neighbors)
            kept, weights = self._solved(gram, block, inputs)
            rows.append(inputs[kept].ravel())
            columns.append(np.repeat(block, kept.shape[1]))
            values.append(weights.ravel())
        row, column, value = (np.concatenate(part) for part in (rows, columns, values))
        is_nonzero = value != 0.0
        self.weights_ = sparse.csr_array(
            (value[is_nonzero], (row[is_nonzero], column[is_nonzero])),
            shape=gram.shape,
            dtype=np.float32,
        )

    def _solved(
        self, gram: sparse.csr_array, block: IntArray, inputs: IntArray
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the inputs with the largest weights for each item of a block, and the weights."""
        dense = gram[inputs][:, inputs].toarray()
        dense[np.diag_indices_from(dense)] += np.float32(self.ridge)
        at = np.searchsorted(inputs, block)
        units = np.zeros((len(inputs), len(block)), dtype=np.float32)
        units[at, np.arange(len(block))] = 1.0
        with threads_to_solve(len(dense)):
            factor = linalg.cho_factor(dense, lower=True, overwrite_a=True, check_finite=False)
            inverse = linalg.cho_solve(factor, units, overwrite_b=True, check_finite=False)
        weights = (inverse / -inverse[at, np.arange(len(block))]).T  # (block, inputs)
        weights[np.arange(len(block)), at] = 0.0
        n_kept = min(self.n_weights, len(inputs))
        kept = np.argpartition(-np.abs(weights), n_kept - 1, axis=1)[:, :n_kept]
        return kept, np.take_along_axis(weights, kept, axis=1)

    def _score_all(self, histories: Groups) -> FloatArray:
        clicked = item_counts(histories, self.n_items_)
        clicked.data = np.ones(clicked.nnz, dtype=np.float32)
        return np.asarray((clicked @ self.weights_).toarray())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return table_arrays(self.weights_)

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.weights_ = stored_table(arrays, self.n_items_)


def item_blocks(gram: sparse.csr_array, size: int) -> list[IntArray]:
    """Group items into blocks with those they are clicked together with.

    Result: ascending indices; every item stands in one block. `gram` (n_items, n_items): users who
    clicked both of two items. `size`: items of a block; the last may have fewer.
    """
    order = sparse.csgraph.reverse_cuthill_mckee(sparse.csr_matrix(gram), symmetric_mode=True)
    order = np.asarray(order, dtype=np.int64)
    return [np.sort(order[begin : begin + size]) for begin in range(0, len(order), size)]


def block_inputs(gram: sparse.csr_array, block: IntArray, n_neighbors: int) -> IntArray:
    """Return the items of a block and those clicked with them most, ascending.

    `gram` (n_items, n_items): users who clicked both of two items.
    """
    counts = np.asarray(gram[block].sum(axis=0)).ravel()
    counts[block] = -1.0
    rest = np.argsort(-counts, kind="stable")[: len(counts) - len(block)]
    return np.union1d(block, rest[:n_neighbors])

"""EASE for large catalogues: every block of items is regressed on the items clicked with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from groupnoise.clicks.baselines.base import ItemToItemBaseline
from groupnoise.clicks.baselines.counting import baskets, item_counts
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.array_folder import (
    FLOATS,
    INTEGERS,
    check_numbers,
    check_positions,
    stored_array,
)


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
        told = value != 0.0
        self.weights_ = sparse.csr_array(
            (value[told], (row[told], column[told])), shape=gram.shape, dtype=np.float32
        )

    def _solved(
        self, gram: sparse.csr_array, block: IntArray, inputs: IntArray
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return which inputs weigh most for each item of a block, and their weights."""
        dense = gram[inputs][:, inputs].toarray()
        dense[np.diag_indices_from(dense)] += np.float32(self.ridge)
        at = np.searchsorted(inputs, block)
        units = np.zeros((len(inputs), len(block)), dtype=np.float32)
        units[at, np.arange(len(block))] = 1.0
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

    def _item_similarity(self, indices: IntArray) -> FloatArray:
        return self._score_all(Groups(indices, np.arange(len(indices) + 1)))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "values": self.weights_.data,
            "columns": self.weights_.indices.astype(np.int64),
            "offsets": self.weights_.indptr.astype(np.int64),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_popularity()
        values = stored_array(arrays, "values", types=FLOATS, shape=(None,))
        columns = stored_array(arrays, "columns", types=INTEGERS, shape=(len(values),))
        offsets = stored_array(arrays, "offsets", types=INTEGERS, shape=(self.n_items_ + 1,))
        check_numbers("values", values)
        check_positions("columns", columns, self.n_items_)
        if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
            raise DataError("offsets do not divide the weights into rows.")
        shape = (self.n_items_, self.n_items_)
        self.weights_ = sparse.csr_array((values, columns, offsets), shape=shape)


def item_blocks(gram: sparse.csr_array, size: int) -> list[IntArray]:
    """Put items in blocks with those clicked together with them.

    Result: ascending indices; every item stands in one block. `gram` (n_items, n_items): users who
    clicked both of two items. `size`: items of a block; the last may have fewer.
    """
    order = sparse.csgraph.reverse_cuthill_mckee(sparse.csr_matrix(gram), symmetric_mode=True)
    order = np.asarray(order, dtype=np.int64)
    return [np.sort(order[begin : begin + size]) for begin in range(0, len(order), size)]


def block_inputs(gram: sparse.csr_array, block: IntArray, n_neighbors: int) -> IntArray:
    """Return the items of a block and those clicked with them most, ascending.

    `gram` (n_items, n_items): users who clicked both of two items. `n_neighbors`: the most further
    items.
    """
    counts = np.asarray(gram[block].sum(axis=0)).ravel()
    counts[block] = -1.0
    rest = np.argsort(-counts, kind="stable")[: len(counts) - len(block)]
    return np.union1d(block, rest[:n_neighbors])

"""Counting recommenders: an item-item table of co-occurrence, and its reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.baselines.base import ItemToItemBaseline
from groupnoise.clicks.recommender import last_items
from groupnoise.clicks.scoring import MIN_SIMILARITY
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_choice
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups
from groupnoise.io.array_folder import (
    FLOATS,
    INTEGERS,
    check_numbers,
    check_offsets,
    check_positions,
    stored_array,
)

SCOPES = ("last", "group")
FULL_SHARE = 0.1
MAX_FULL_ENTRIES = 1 << 26
"""Half a gigabyte in double precision."""

_TIE_BREAK = MIN_SIMILARITY / 10
"""Weight of popularity beside a similarity: enough to order ties, too little to do more."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class CountingRecommender(ItemToItemBaseline):
    """Score by rows of a sparse item-item table, popularity deciding between equals.

    Parameters
    ----------
    scope : {"group", "last"}, default="group"
        Sum over the clicks of the history, or look at the last one alone.
    """

    _learned = "similarity_"
    _least_similarity = MIN_SIMILARITY

    scope: str = "group"
    similarity_: sparse.csr_array = field(init=False)

    def _check_parameters(self) -> None:
        check_choice("scope", self.scope, SCOPES)

    def _score_all(self, histories: Groups) -> FloatArray:
        if self.scope == "last":
            similarity = self.similarity_[last_items(histories)]
        else:
            trusted = self._trusted(histories)
            similarity = trusted @ self._table_for(trusted.nnz)
        scores: FloatArray = (
            similarity if isinstance(similarity, np.ndarray) else (similarity.toarray())
        )
        scores += _TIE_BREAK * self.popularity_ / (self.popularity_.max() + 1)
        return scores

    def _table_for(self, n_clicks: int) -> Any:
        """Return the similarities laid out as is best for a product with that many clicks.

        Sums are made in the same order either way. Where most pairs of items are similar and
        clicks are many, rows of a full table are added several times faster.
        """
        table = self.similarity_
        n_entries = self.n_items_**2
        is_full = table.nnz > FULL_SHARE * n_entries and n_entries <= MAX_FULL_ENTRIES
        return table.toarray() if is_full and n_clicks > self.n_items_ else table

    def _trusted(self, histories: Groups) -> sparse.csr_array:
        """Return how much each item of each history counts, shape (n_groups, n_items)."""
        return item_counts(histories, self.n_items_)

    def _scores_after(self, items: IntArray) -> FloatArray:
        return self._after_one_click(items)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        table = self.similarity_
        return {"values": table.data, "columns": table.indices, "offsets": table.indptr}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_popularity()
        n_items = self.n_items_
        values = stored_array(arrays, "values", types=FLOATS, shape=(None,))
        columns = stored_array(arrays, "columns", types=INTEGERS, shape=values.shape)
        offsets = stored_array(arrays, "offsets", types=INTEGERS, shape=(n_items + 1,))
        # scipy looks nothing of this up, and would follow it out of its own memory.
        check_positions("columns", columns, n_items)
        check_offsets("offsets", offsets, len(columns))
        check_numbers("values", values)
        self.similarity_ = sparse.csr_array((values, columns, offsets), shape=(n_items, n_items))


def item_counts(groups: Groups, n_items: int) -> sparse.csr_array:
    """Return how often each group holds each item, shape (n_groups, n_items)."""
    # Narrow indices make the products below a quarter faster.
    index = sparse.get_index_dtype(maxval=max(groups.n_objects, n_items))
    counts = sparse.csr_array(
        (np.ones(groups.n_objects), groups.objects.astype(index), groups.offsets.astype(index)),
        shape=(len(groups), n_items),
    )
    counts.sum_duplicates()
    return counts


def baskets(training: Groups, n_items: int) -> sparse.csr_array:
    """Return a 0/1 table of who clicked what: one row per history, or per window and target."""
    table = item_counts(training, n_items)
    if training.targets is not None:
        rows = np.arange(len(training) + 1)
        table = table + item_counts(Groups(training.targets, rows), n_items)
    table.data[:] = 1.0
    return table


def column_products(
    columns: sparse.csr_array, table: sparse.csr_array, first: int = 0
) -> sparse.csr_array:
    """Return the inner products of some columns of a table with all; no item goes with itself.

    `columns` (n_columns, n_rows): consecutive columns of the table, laid out as rows. `table`: of
    shape (n_rows, n_items). `first`: which column of the table the first of `columns` is.
    """
    products = columns @ table
    items = np.arange(first, first + products.shape[0], dtype=products.indices.dtype)
    rows = np.repeat(items, np.diff(products.indptr))
    products.data[rows == products.indices] = 0.0
    return products


@inherit_docstring
class CooccurrenceRecommender(CountingRecommender):
    r"""Rank items by how many histories they share with the clicks at hand.

    With :math:`c(x, y)` the number of training histories that hold both items,

    .. math::
        s(y \mid X) = c(x_{\text{last}}, y) \quad\text{or}\quad
        s(y \mid X) = \sum_{x \in X} c(x, y),

    and popularity deciding between equal counts. The first form is the reading of the paper's
    "Pop" that agrees with its figures; the second has no parameter either and is hard to beat.

    Attributes
    ----------
    similarity_ : sparse array of shape (n_items, n_items)
        The counts :math:`c`, zero on the diagonal.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["tea", "rye"], ["oat", "rye"]]
    >>> CooccurrenceRecommender().fit(log).recommend([["tea"]], top=2)[0].tolist()
    [['jam', 'rye']]
    """

    def _learn(self, training: Groups) -> None:
        table = baskets(training, self.n_items_)
        self.similarity_ = column_products(table.T.tocsr(), table)

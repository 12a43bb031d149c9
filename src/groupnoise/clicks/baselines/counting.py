"""Counting recommenders: item-item tables of co-occurrence counts or cosine similarities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from groupnoise.clicks.baselines.base import ItemToItemBaseline
from groupnoise.clicks.evidence.model import gains_by_block, hold_out_last
from groupnoise.clicks.recommender import last_items
from groupnoise.clicks.scoring import MIN_SIMILARITY, SCOPES
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.exceptions import ParameterError
from groupnoise.io.folders.array_folder import (
    FLOATS,
    INTEGERS,
    check_numbers,
    check_offsets,
    check_positions,
    require_array,
)

FULL_SHARE = 0.1
MAX_FULL_ENTRIES = 1 << 26
"""Half a gigabyte in double precision."""

_TIE_BREAK = MIN_SIMILARITY / 10
"""Weight of popularity beside a similarity: enough to order ties, too little to do more."""
WEIGHTINGS = ("none", "tf-idf", "bm25")
DECAYS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
"""What "auto" chooses from."""
_BM25_SATURATION = 1.2
_BM25_LENGTH_SHARE = 0.75
_BLOCK_ITEMS = 1024


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
            clicks = self._click_weights(histories)
            similarity = clicks @ self._table_for(clicks.nnz)
        scores: FloatArray = (
            similarity if isinstance(similarity, np.ndarray) else (similarity.toarray())
        )
        scores += _TIE_BREAK * self.popularity_ / (self.popularity_.max() + 1)
        return scores

    def _table_for(self, n_clicks: int) -> Any:
        """Return the similarities, dense where that makes a product with so many clicks faster.

        Sums are made in the same order either way. Where most pairs of items are similar and
        clicks are many, rows of a dense table are added several times faster.
        """
        table = self.similarity_
        n_entries = self.n_items_**2
        is_full = table.nnz > FULL_SHARE * n_entries and n_entries <= MAX_FULL_ENTRIES
        return table.toarray() if is_full and n_clicks > self.n_items_ else table

    def _click_weights(self, histories: Groups) -> sparse.csr_array:
        """Return the weight of each item of each history, shape (n_groups, n_items)."""
        return item_counts(histories, self.n_items_)

    def _scores_after(self, items: IntArray) -> FloatArray:
        return self._after_one_click(items)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return table_arrays(self.similarity_)

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.similarity_ = stored_table(arrays, self.n_items_)


def table_arrays(table: sparse.csr_array) -> dict[str, NDArray[Any]]:
    """Return a sparse table as arrays; see :func:`stored_table`."""
    return {"values": table.data, "columns": table.indices, "offsets": table.indptr}


def stored_table(arrays: Mapping[str, NDArray[Any]], n_items: int) -> sparse.csr_array:
    """Return a sparse table of items by items from arrays of a file that may hold anything."""
    values = require_array(arrays, "values", types=FLOATS, shape=(None,))
    columns = require_array(arrays, "columns", types=INTEGERS, shape=values.shape)
    offsets = require_array(arrays, "offsets", types=INTEGERS, shape=(n_items + 1,))
    # scipy checks none of this, and would read beyond its memory.
    check_positions("columns", columns, n_items)
    check_offsets("offsets", offsets, len(columns))
    check_numbers("values", values)
    return sparse.csr_array((values, columns, offsets), shape=(n_items, n_items))


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
    """Return the binary user-item matrix: one row per history, or per window and target."""
    table = item_counts(training, n_items)
    if training.targets is not None:
        rows = np.arange(len(training) + 1)
        table = table + item_counts(Groups(training.targets, rows), n_items)
    table.data[:] = 1.0
    return table


def column_products(
    columns: sparse.csr_array, table: sparse.csr_array, first: int = 0
) -> sparse.csr_array:
    """Return the inner products of some columns of a matrix with all, zero on the diagonal.

    `columns` (n_columns, n_rows): consecutive columns of `table`, transposed. `table` (n_rows,
    n_items). `first`: the index of the first of `columns` in `table`.
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


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class ItemCFRecommender(CountingRecommender):
    r"""Rank items by their cosine similarity to the clicks at hand.

    With :math:`r_x` the column of item x in the (weighted) table of users and items,

    .. math::
        s(y \mid X) = \sum_{x \in X} \cos(r_x, r_y) \, [y \in N_k(x)],

    where :math:`N_k(x)` holds the k items most similar to x; BM25 weights are compared by their
    inner product instead, because they already account for popularity. Of equally similar items
    the more popular one is ranked first, and kept first as a neighbour; then the lower index.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        Neighbours kept for each item; None keeps all.
    weighting : {"none", "tf-idf", "bm25"}, default="none"
        What a click counts: one; less if its user clicks on everything (inverse document
        frequency, a user being a word of the item); or that, saturating for items with many
        clicks.
    n_recent : int or None, default=None
        How many of the latest clicks are summed over; None means all.
    decay : float or "auto", default=0.0
        How much less a click counts, on log scale, with each click that came after it. "auto"
        takes what ranks the held-out last clicks of up to 2000 histories best; 0 where fewer than
        20 can spare a click, and for ready-made windows.

    Attributes
    ----------
    similarity_ : sparse array of shape (n_items, n_items)
        Row x holds the cosines with the neighbours of x.
    decay_ : float
        The decay that is used.

    References
    ----------
    .. [1] B. Sarwar, G. Karypis, J. Konstan, J. Riedl. Item-based collaborative filtering
       recommendation algorithms. WWW 2001.
    .. [2] G. Linden, B. Smith, J. York. Amazon.com recommendations: item-to-item collaborative
       filtering. IEEE Internet Computing 7(1), 2003.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["tea", "rye"], ["oat", "rye"]]
    >>> ids, cosine = ItemCFRecommender().fit(log).similar_items(["jam"], top=1)
    >>> ids.tolist(), cosine.astype(float).round(3).tolist()
    ([['tea']], [[0.816]])
    """

    n_neighbors: int | None = None
    weighting: str = "none"
    n_recent: int | None = None
    decay: float | str = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("weighting", self.weighting, WEIGHTINGS)
        if self.n_neighbors is not None:
            check_count("n_neighbors", self.n_neighbors)
        if self.n_recent is not None:
            check_count("n_recent", self.n_recent)
        if isinstance(self.decay, str):
            check_choice("decay", self.decay, ("auto",))
        else:
            check_positive("decay", self.decay, allow_zero=True)

    def _click_weights(self, histories: Groups) -> sparse.csr_array:
        if self.n_recent is None and not self.decay_:
            return super()._click_weights(histories)
        n_later = np.repeat(histories.offsets[1:], histories.sizes) - 1
        n_later = n_later - np.arange(histories.n_objects)
        weights = np.exp(-self.decay_ * n_later)
        if self.n_recent is not None:
            weights[n_later >= self.n_recent] = 0.0
        return sparse.csr_array(
            (weights, np.asarray(histories.objects), histories.offsets),
            shape=(len(histories), self.n_items_),
        )

    def _learn(self, training: Groups) -> None:
        self.decay_ = self._best_decay(training) if self.decay == "auto" else float(self.decay)
        users = _weighted(baskets(training, self.n_items_), self.weighting)
        if self.weighting != "bm25":  # a cosine would cancel the saturation of an item
            squares = np.bincount(users.indices, users.data**2, minlength=self.n_items_)
            users.data /= np.sqrt(squares)[users.indices]
        columns = users.T.tocsr()
        if self.n_neighbors is None:
            self.similarity_ = column_products(columns, users)
            return
        # Dropping far items block by block keeps the full table out of memory.
        nearest = [
            _nearest(
                column_products(columns[start : start + _BLOCK_ITEMS], users, first=start),
                self.n_neighbors,
                self.popularity_,
            )
            for start in range(0, self.n_items_, _BLOCK_ITEMS)
        ]
        self.similarity_ = sparse.vstack(nearest, format="csr")

    def _best_decay(self, training: Groups) -> float:
        """Return the decay that ranks held-out last clicks best."""
        held_out = None
        if training.targets is None and self.scope == "group":
            held_out = hold_out_last(training, np.random.default_rng(0))
        if held_out is None:
            return 0.0
        trial = clone(self).set_params(decay=0.0)
        trial.fit(held_out.training, item_ids=np.arange(self.n_items_))
        means = []
        for decay in DECAYS:
            trial.decay_ = decay
            means.append(gains_by_block(trial._score_all, held_out.queries, self.n_items_).mean())
        return DECAYS[int(np.argmax(means))]

    def _write_artifact(
        self, path: Path | str, n_neighbours: int, described: dict[str, Any]
    ) -> str:
        if self.decay_ or self.n_recent is not None:
            raise ParameterError(
                "an artifact of neighbours counts all clicks of a history alike; fit with "
                "decay=0 and n_recent=None to export."
            )
        return super()._write_artifact(path, n_neighbours, described)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), "decay": np.array([self.decay_])}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        decay = require_array(arrays, "decay", types=FLOATS, shape=(1,))
        check_numbers("decay", decay)
        self.decay_ = float(decay[0])


def _weighted(users: sparse.csr_array, weighting: str) -> sparse.csr_array:
    """Return the binary user-item matrix with TF-IDF or BM25 weights."""
    if weighting == "none":
        return users
    n_items = users.shape[1]
    clicks_of_user = np.diff(users.indptr)
    # One is added so that a user who clicked on every item still counts a little.
    idf = np.log(n_items / clicks_of_user) + 1.0
    users.data *= np.repeat(idf, clicks_of_user)
    if weighting == "bm25":
        clicks_on_item = np.bincount(users.indices, minlength=n_items)
        relative = clicks_on_item / clicks_on_item.mean()
        length = 1 - _BM25_LENGTH_SHARE + _BM25_LENGTH_SHARE * relative
        saturation = (_BM25_SATURATION + 1) / (1 + _BM25_SATURATION * length)
        users.data *= saturation[users.indices]
    return users


def _nearest(
    similarity: sparse.csr_array, n_neighbors: int, popularity: FloatArray
) -> sparse.csr_array:
    """Keep the largest entries of each row; ties go to the popular item, then the lower index."""
    values, columns = similarity.data, similarity.indices
    least = np.repeat(_least_kept(similarity, n_neighbors), np.diff(similarity.indptr))
    above = np.flatnonzero(values > least)
    n_free = n_neighbors - np.diff(np.searchsorted(above, similarity.indptr))
    # Sorting the few entries tied with the last neighbour costs far less than sorting all.
    tied = np.flatnonzero(values == least)
    rows = np.searchsorted(similarity.indptr, tied, side="right") - 1
    tied = tied[np.lexsort((columns[tied], -popularity[columns[tied]], rows))]
    position = np.arange(len(tied)) - np.searchsorted(rows, rows)
    kept = np.sort(np.concatenate([above, tied[position < n_free[rows]]]))
    offsets = np.searchsorted(kept, similarity.indptr)
    return sparse.csr_array((values[kept], columns[kept], offsets), shape=similarity.shape)


def _least_kept(similarity: sparse.csr_array, n_neighbors: int) -> FloatArray:
    """Return the smallest similarity each row keeps, 0 for rows that keep all."""
    least = np.zeros(similarity.shape[0])
    values = similarity.data.copy()
    bounds = similarity.indptr
    crowded = np.flatnonzero(np.diff(bounds) > n_neighbors)
    for row, start, stop in zip(crowded, bounds[crowded], bounds[crowded + 1], strict=True):
        part = values[start:stop]
        part.partition(len(part) - n_neighbors)
        least[row] = part[-n_neighbors]
    return least

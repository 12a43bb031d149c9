"""Recommenders that also find similar items."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from groupnoise.clicks.items.catalogue import top_k
from groupnoise.clicks.recommender import BLOCK_ENTRIES, Recommender
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_count
from groupnoise.exceptions import UnknownTargetError


class ItemToItemRecommender(Recommender):
    """A recommender that also finds similar items."""

    _least_similarity: ClassVar[float] = -np.inf
    """Items that score less are not similar."""

    def similar_items(self, item_ids: ArrayLike, top: int = 10) -> tuple[NDArray[Any], FloatArray]:
        """Return the items that best follow a click on each of `item_ids` alone, best first.

        An exported artifact (`similar`) and a service (`/v1/similar`) answer the same items with
        the same scores.

        Parameters
        ----------
        item_ids : array-like of shape (n,)
            Ids of known items.
        top : int, default=10
            How many to return; never the item itself, and never more than the catalogue holds.

        Returns
        -------
        ids : ndarray of shape (n, min(top, n_items_))
        scores : ndarray of shape (n, min(top, n_items_))
            Of a model of vectors what `recommend` scores after this click; of models that count,
            similarities; of all others P(item | click).

        Raises
        ------
        UnknownTargetError
            If an item was never seen in training.
        """
        check_is_fitted(self)
        check_count("top", top)
        top = min(top, self.n_items_)
        requested = np.atleast_1d(np.asarray(item_ids))
        indices = self.catalogue_.indices_of(requested)
        if (indices < 0).any():
            unknown = requested[indices < 0][0].item()
            raise UnknownTargetError(f"item {unknown!r} is not in the catalogue of this model.")
        best = np.empty((len(indices), top), dtype=np.int64)
        values = np.empty((len(indices), top), dtype=np.float32)
        size = max(1, BLOCK_ENTRIES // self.n_items_)
        for start in range(0, len(indices), size):
            block = indices[start : start + size]
            rows = slice(start, start + len(block))
            scores = self._scores_after(block)
            scores[scores < self._least_similarity] = -np.inf
            best[rows], values[rows] = top_k(scores, top, (np.arange(len(block)), block))
        return self.catalogue_.ids_at(best), values

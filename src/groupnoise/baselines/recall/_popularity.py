"""Global popularity: the same list for everyone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import FloatArray
from groupnoise.baselines.recall._base import BaselineRecommender
from groupnoise.groups import Groups


class PopularityRecommender(BaselineRecommender):
    r"""Rank items by how often they were clicked, whatever the history.

    .. math:: s(y) = \#\{\text{clicks on } y\}

    Every personal method should beat it; that it comes close is common and worth knowing.

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        Item ids in index order.
    popularity_ : float ndarray of shape (n_items,)
        Clicks on each item.

    Examples
    --------
    >>> model = PopularityRecommender().fit([["tea", "jam"], ["jam", "rye"]])
    >>> ids, scores = model.recommend([["tea"]], top=2)
    >>> ids.tolist(), scores.tolist()
    ([['jam', 'rye']], [[2.0, 1.0]])
    """

    def _learn(self, training: Groups) -> None:
        """Learn nothing beyond the popularity every recommender counts."""

    def _score_all(self, histories: Groups) -> FloatArray:
        return np.broadcast_to(self.popularity_, (len(histories), self.n_items_))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        # Popularity itself is restored for every recommender.
        self._check_popularity()

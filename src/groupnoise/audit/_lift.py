"""Lift: how much likelier an earlier click makes a later one than its popularity alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupnoise._typing import FloatArray, IntArray
from groupnoise.groups import Groups

BLOCK_ENTRIES = 1 << 22
"""Logits held at a time."""


class ItemLift:
    """P(later item | earlier item) / P(later item), from the vectors of a fitted recommender.

    Parameters
    ----------
    model : MaxMatchingRecommender
        Fitted.
    known_items : int64 ndarray of shape (n_items,)
        The model's index of each item of the data.
    """

    def __init__(self, model: Any, known_items: IntArray) -> None:
        self.known_items = known_items
        self._query, self._target, bias = model.item_vectors()
        clicks = model.popularity_ + 1.0  # an item that was never a target is rare, not impossible
        self._level = _log_normaliser(self._query, self._target, bias)
        self._gain = bias - np.log(clicks / clicks.sum())

    def __call__(self, earlier: IntArray, later: IntArray) -> FloatArray:
        """Return the lift of each pair of item indices of the model, shape of `earlier`."""
        logit = np.einsum("nd,nd->n", self._query[earlier], self._target[later])
        lift: FloatArray = np.exp(logit + self._gain[later] - self._level[earlier])
        return lift

    def of_pairs(
        self, items: IntArray, objects: IntArray, target: IntArray, sizes: IntArray
    ) -> FloatArray:
        """Return the lift of the target of each group by each of its objects.

        Parameters
        ----------
        items : int64 ndarray of shape (n_clicks,)
            The clicks.
        objects : int64 ndarray of shape (n_objects,)
            Which clicks the groups hold, groups one after the other.
        target, sizes : int64 ndarray of shape (n_groups,)
            Which click each group leads to, and how many it holds.
        """
        return self(items[objects], items[np.repeat(target, sizes)])

    def support(self, clicks: Groups, reach: int) -> FloatArray:
        """Return the mean lift between each click and those around it, shape (n_clicks,).

        Parameters
        ----------
        clicks : Groups
            Histories of item indices of the model.
        reach : int
            How many clicks to either side are looked at. A click without any gets a support of
            one, which speaks neither for nor against it.
        """
        total, n_pairs = np.zeros(clicks.n_objects), np.zeros(clicks.n_objects)
        history = clicks.group_of_object
        for distance in range(1, min(reach, int(clicks.sizes.max()) - 1) + 1):
            first = np.flatnonzero(history[:-distance] == history[distance:])
            lift = self(clicks.objects[first], clicks.objects[first + distance])
            for side in (first, first + distance):  # no click occurs twice on one side
                total[side] += lift
                n_pairs[side] += 1
        support: FloatArray = np.divide(total, n_pairs, out=np.ones_like(total), where=n_pairs > 0)
        return support


def _log_normaliser(query: FloatArray, target: FloatArray, bias: FloatArray) -> FloatArray:
    """Return log sum exp of the logits of each item with all items, block by block."""
    level = np.empty(len(query))
    size = max(1, BLOCK_ENTRIES // len(target))
    for start in range(0, len(query), size):
        logits = query[start : start + size] @ target.T + bias
        peak = logits.max(axis=1, keepdims=True)
        level[start : start + size] = np.log(np.exp(logits - peak).sum(axis=1)) + peak[:, 0]
    return level

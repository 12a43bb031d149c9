"""How far what a service is asked and answers has moved from what its model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import Recalled
from groupnoise.recall.reference import (
    best_scores,
    item_bins,
    population_stability,
    score_reference,
)

MAX_PENDING = 2000
"""Histories that wait to be counted; what comes beyond until then is passed over."""
WINDOW = 20_000.0
"""Counts beyond this are halved, so that old ones fade."""
MIN_COUNT = 200
"""Counts below this say nothing."""


class Drift:
    """Counts what one version is asked and answers.

    To watch costs a request next to nothing: it is put on a list, and counted when someone asks.

    Parameters
    ----------
    model : RecallModel
        The version.
    """

    def __init__(self, model: RecallModel) -> None:
        self._items = model.items
        self._bins = item_bins(model)
        self._reference = score_reference(model.manifest)
        self._clicks: dict[str, FloatArray] = {
            name: np.zeros(len(each.shares)) for name, each in self._bins.items()
        }
        n_bins = 0 if self._reference is None else len(self._reference[1])
        self._scores: FloatArray = np.zeros(n_bins)
        self._n_pending = 0
        self._pending: list[tuple[Sequence[Sequence[Any]], Recalled]] = []

    def observe(
        self, histories: Sequence[Sequence[Any]], options: RecallOptions, recalled: Recalled
    ) -> None:
        """Remember a request and its answer; filters move scores, so only plain ones count."""
        if self._n_pending >= MAX_PENDING or options != RecallOptions(top=options.top):
            return
        self._n_pending += len(histories)
        self._pending.append((histories, recalled))

    def shifts(self) -> dict[str, float]:
        """Return the population stability index of clicks and of scores, where enough came."""
        pending, self._pending, self._n_pending = self._pending, [], 0
        if pending:
            flat = [item for histories, _ in pending for history in histories for item in history]
            positions = self._items.positions_of(flat)
            known = positions[positions >= 0]
            for name, each in self._bins.items():
                self._clicks[name] = _added(self._clicks[name], each.bin_of[known])
            if self._reference is not None:
                scores = np.concatenate([best_scores(recalled) for _, recalled in pending])
                numbers = np.searchsorted(self._reference[0], scores, side="right")
                self._scores = _added(self._scores, numbers)
        found = {
            name: population_stability(each.shares, self._clicks[name])
            for name, each in self._bins.items()
            if self._clicks[name].sum() >= MIN_COUNT
        }
        if self._reference is not None and self._scores.sum() >= MIN_COUNT:
            found["score"] = population_stability(self._reference[1], self._scores)
        return found


def _added(counts: FloatArray, numbers: Any) -> FloatArray:
    total = counts + np.bincount(numbers, minlength=len(counts))
    return np.asarray(total / 2 if total.sum() > WINDOW else total)

"""Ranks of targets from scores of all histories for a few items at a time."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

SLICE = 248
"""Items at a time: at most 255, so that a count fits a byte, which is the fastest to add up."""


class ScoresBySlice(Protocol):
    """Scores of rows for a slice of the items."""

    def scores(self, items: slice, rows: IntArray | None = None) -> FloatArray:
        """Return scores, higher is better, shape (n_rows, n_items of the slice).

        `rows`: the rows to score; all if not given.
        """
        ...  # pragma: no cover


class SlicedRanks(NamedTuple):
    """Ranks, and which of them hold.

    `n_better`, `n_tied`: how many items beat, and equal, the target; the target itself is not
        counted.
    `is_settled`: whether both passes gave the target the same score to the last bit. A product of
        few rows may be rounded otherwise than one of many; such a row must be ranked another way.
    """

    n_better: IntArray
    n_tied: IntArray
    is_settled: BoolArray


def rank_by_slices(
    slices: ScoresBySlice, targets: IntArray, n_items: int, excluded: tuple[IntArray, IntArray]
) -> SlicedRanks:
    """Count the items above, and level with, the target of each row.

    `targets`: the item to rank in each row. `n_items`: the size of the catalogue. `excluded`:
    (rows, items) that are no candidates; the target of each row among them.
    """
    n_rows = len(targets)
    parts = [slice(first, min(first + SLICE, n_items)) for first in range(0, n_items, SLICE)]
    holders = _by_part(targets, len(parts))
    wanted = np.empty(n_rows, dtype=np.float32)
    for items, rows in zip(parts, holders, strict=True):
        if len(rows):
            scores = slices.scores(items, rows)
            wanted[rows] = scores[np.arange(len(rows)), targets[rows] - items.start]
    better, tied = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    is_settled = np.ones(n_rows, dtype=bool)
    row_of, item_of = excluded
    for items, rows, pairs in zip(parts, holders, _by_part(item_of, len(parts)), strict=True):
        scores = slices.scores(items)
        better += np.add.reduce(scores > wanted[:, None], axis=1, dtype=np.uint8)
        tied += np.add.reduce(scores == wanted[:, None], axis=1, dtype=np.uint8)
        is_settled[rows] = scores[rows, targets[rows] - items.start] == wanted[rows]
        row = row_of[pairs]
        removed = scores[row, item_of[pairs] - items.start]
        better -= np.bincount(row[removed > wanted[row]], minlength=n_rows)
        tied -= np.bincount(row[removed == wanted[row]], minlength=n_rows)
    return SlicedRanks(better, tied, is_settled)


def _by_part(items: IntArray, n_parts: int) -> list[IntArray]:
    """Return the places of the items that lie in each part."""
    order = np.argsort(items, kind="stable")
    cuts = np.searchsorted(items[order], SLICE * np.arange(1, n_parts))
    return np.split(order, cuts)

"""Excluded items and negatives of a ranking, and ranks from scores by slices of items."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Protocol

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError

SLICE = 248
"""Items at a time: at most 255, so that a count fits a byte, which is the fastest sum."""


class ScoresBySlice(Protocol):
    """Scores of rows for a slice of the items."""

    def scores(self, items: slice, rows: IntArray | None = None) -> FloatArray:
        """Return scores, higher is better, shape (n_rows, n_items of the slice)."""
        ...  # pragma: no cover


class SlicedRanks(NamedTuple):
    """Ranks, and which of them hold.

    `n_better`, `n_tied`: how many items beat, and equal, the target; the target itself is not
        counted.
    `is_settled`: whether both passes gave the target the same score to the last bit. A product of
        few rows may be rounded differently; such a row must be ranked another way.
    """

    n_better: IntArray
    n_tied: IntArray
    is_settled: BoolArray


def rank_by_slices(
    slices: ScoresBySlice, targets: IntArray, n_items: int, excluded: tuple[IntArray, IntArray]
) -> SlicedRanks:
    """Count the items above, and level with, the target of each row.

    `excluded`: (rows, items) that are no candidates; the target of each row among them.
    """
    n_rows = len(targets)
    parts = [slice(first, min(first + SLICE, n_items)) for first in range(0, n_items, SLICE)]
    rows_by_slice = _positions_by_slice(targets, len(parts))
    target_scores = np.empty(n_rows, dtype=np.float32)
    for items, rows in zip(parts, rows_by_slice, strict=True):
        if len(rows):
            scores = slices.scores(items, rows)
            target_scores[rows] = scores[np.arange(len(rows)), targets[rows] - items.start]
    better, tied = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    is_settled = np.ones(n_rows, dtype=bool)
    row_of, item_of = excluded
    for items, rows, pairs in zip(
        parts,
        rows_by_slice,
        _positions_by_slice(item_of, len(parts)),
        strict=True,
    ):
        scores = slices.scores(items)
        better += np.add.reduce(scores > target_scores[:, None], axis=1, dtype=np.uint8)
        tied += np.add.reduce(scores == target_scores[:, None], axis=1, dtype=np.uint8)
        is_settled[rows] = scores[rows, targets[rows] - items.start] == target_scores[rows]
        row = row_of[pairs]
        removed = scores[row, item_of[pairs] - items.start]
        better -= np.bincount(row[removed > target_scores[row]], minlength=n_rows)
        tied -= np.bincount(row[removed == target_scores[row]], minlength=n_rows)
    return SlicedRanks(better, tied, is_settled)


def _positions_by_slice(items: IntArray, n_parts: int) -> list[IntArray]:
    """Return the indices of the items that lie in each slice."""
    order = np.argsort(items, kind="stable")
    cuts = np.searchsorted(items[order], SLICE * np.arange(1, n_parts))
    return np.split(order, cuts)


class Exclusions:
    """The distinct items that no target is ranked among, row after row in item order.

    A target in its own history is ranked among all items: among unseen ones alone it would be the
    only one that was seen.

    `histories`: for each row the clicks before the target; None ranks all among unseen items.
    `seen`: for each row the items that are no candidates.
    `targets`: the item to rank in each row, which is no candidate beside itself.
    `n_items`: the size of the catalogue; other items are left out.
    """

    def __init__(
        self, histories: Groups | None, seen: Groups, targets: IntArray, n_items: int
    ) -> None:
        if len(seen) != len(targets):
            raise DataError(
                f"{counted(len(targets), 'rows')} came with seen items of "
                f"{counted(len(seen), 'rows')}."
            )
        own = np.arange(len(targets)) * n_items + targets
        known = (seen.objects >= 0) & (seen.objects < n_items)
        keys = np.unique(seen.group_of_object[known] * n_items + seen.objects[known])
        self.seen = np.divmod(keys, n_items)
        """Rows and items that are not recommended."""
        if histories is not None:
            keys = keys[~clicked_before(histories, targets)[self.seen[0]]]
        self.rows, self.items = np.divmod(np.union1d(keys, own), n_items)
        self.offsets = np.searchsorted(self.rows, np.arange(len(targets) + 1))

    def subset(self, kept: IntArray) -> Exclusions:
        """Return those of some rows, ascending, renumbered."""
        part = copy(self)
        part.rows, part.items = _of_rows(kept, self.rows, self.items)
        part.seen = _of_rows(kept, *self.seen)
        part.offsets = np.searchsorted(part.rows, np.arange(len(kept) + 1))
        return part


def clicked_before(histories: Groups, targets: IntArray) -> BoolArray:
    """Tell for each row whether the clicks before its target hold it."""
    found = np.zeros(len(targets), dtype=np.bool_)
    row = histories.group_of_object
    found[row[histories.objects == targets[row]]] = True
    return found


def _of_rows(kept: IntArray, rows: IntArray, items: IntArray) -> tuple[IntArray, IntArray]:
    is_kept = np.isin(rows, kept)
    return np.searchsorted(kept, rows[is_kept]), items[is_kept]


def draw_negatives(
    excluded: Exclusions, n_items: int, n_negatives: int, generator: np.random.Generator
) -> IntArray:
    """Draw distinct items of each row's complement, shape (n_rows, n_negatives)."""
    n_rows = len(excluded.offsets) - 1
    n_excluded = np.diff(excluded.offsets)
    n_left = n_items - n_excluded
    if n_left.min() < n_negatives:
        row = int(n_left.argmin())
        raise DataError(
            f"row {row} leaves {n_left[row]} of {counted(n_items, 'items')} to draw "
            f"{counted(n_negatives, 'negatives')} "
            "from; ask for fewer negatives or use protocol='full'."
        )
    # Floyd's sampling, all rows at once: exact and of fixed length, unlike rejection.
    ranks = np.empty((n_rows, n_negatives), dtype=np.int64)
    for column in range(n_negatives):
        last = n_left - n_negatives + column
        draw = generator.integers(last + 1)
        repeated = (ranks[:, :column] == draw[:, None]).any(axis=1)
        ranks[:, column] = np.where(repeated, last, draw)
    # The item of rank p in a complement is p plus the number of excluded items not above it: the
    # j-th excluded item (from 0) is below rank p when its value less j does not exceed p.
    j = np.arange(len(excluded.items)) - excluded.offsets[excluded.rows]
    steps = excluded.rows * n_items + excluded.items - j
    keys = np.arange(n_rows)[:, None] * n_items + ranks
    below = np.searchsorted(steps, keys, side="right") - excluded.offsets[:-1, None]
    return ranks + below

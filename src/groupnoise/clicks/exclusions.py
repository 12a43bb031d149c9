"""Items that are no candidates in a ranking, and negatives drawn from all others."""

from __future__ import annotations

from copy import copy

import numpy as np

from groupnoise.core.arrays import IntArray
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError


class Exclusions:
    """The distinct items that are no candidates in each row, row after row in item order.

    `seen`: for each row the items that are no candidates.
    `targets`: the item to rank in each row, which is no candidate beside itself.
    `n_items`: the size of the catalogue; other items are left out.
    """

    def __init__(self, seen: Groups, targets: IntArray, n_items: int) -> None:
        if len(seen) != len(targets):
            raise DataError(f"{len(targets)} rows came with seen items of {len(seen)} rows.")
        known = (seen.objects >= 0) & (seen.objects < n_items)
        keys = seen.group_of_object[known] * n_items + seen.objects[known]
        own = np.arange(len(targets)) * n_items + targets
        # A target is never its own competitor, seen or not; a list may hold it if it was not.
        keys, counts = np.unique(np.concatenate([keys, own]), return_counts=True)
        self.is_seen = np.ones(len(keys), dtype=np.bool_)
        at_target = np.searchsorted(keys, own)
        self.is_seen[at_target] = counts[at_target] > 1
        self.rows, self.items = np.divmod(keys, n_items)
        self.offsets = np.searchsorted(self.rows, np.arange(len(targets) + 1))

    def subset(self, kept: IntArray) -> Exclusions:
        """Return those of some rows, in rising order, numbered anew."""
        part = copy(self)
        is_kept = np.isin(self.rows, kept)
        part.rows, part.items = np.searchsorted(kept, self.rows[is_kept]), self.items[is_kept]
        part.is_seen = self.is_seen[is_kept]
        part.offsets = np.searchsorted(part.rows, np.arange(len(kept) + 1))
        return part


def draw_negatives(
    excluded: Exclusions, n_items: int, n_negatives: int, generator: np.random.Generator
) -> IntArray:
    """Draw distinct items of each row's complement.

    Of shape (n_rows, n_negatives). `excluded`: what may not be drawn. `n_items`: the size of the
    catalogue. `n_negatives`: how many to draw for each row. Raises DataError if a row leaves too
    few items.
    """
    n_rows = len(excluded.offsets) - 1
    n_excluded = np.diff(excluded.offsets)
    n_left = n_items - n_excluded
    if n_left.min() < n_negatives:
        row = int(n_left.argmin())
        raise DataError(
            f"row {row} leaves {n_left[row]} of {n_items} items to draw {n_negatives} negatives "
            "from; ask for fewer negatives or use protocol='full'."
        )
    # Floyd's sampling, all rows at once: exact and of fixed length, unlike rejection.
    places = np.empty((n_rows, n_negatives), dtype=np.int64)
    for column in range(n_negatives):
        last = n_left - n_negatives + column
        draw = generator.integers(last + 1)
        repeated = (places[:, :column] == draw[:, None]).any(axis=1)
        places[:, column] = np.where(repeated, last, draw)
    # Place p of a complement is item p plus the number of excluded items not above it: the j-th
    # excluded item (from 0) lies below place p when its value less j does not exceed p.
    j = np.arange(len(excluded.items)) - excluded.offsets[excluded.rows]
    steps = excluded.rows * n_items + excluded.items - j
    keys = np.arange(n_rows)[:, None] * n_items + places
    below = np.searchsorted(steps, keys, side="right") - excluded.offsets[:-1, None]
    return places + below

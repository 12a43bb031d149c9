"""What a caller may ask of a recall: how many items, scored how, and which are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.recall.items import ItemId, ItemTable
from groupnoise.recall.rankers import Method, Ranking


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """One way of recalling; hashable, so that equal requests can be answered together.

    Attributes
    ----------
    top : int
        How many items per history.
    method : {"mm+", "mm"}
        Score by all clicks, or by the last alone.
    exclude_seen : bool
        Leave out the items of the history itself.
    allow, deny : tuple of item ids
        Recall only these, or never these; unknown ids are passed over. An empty `allow` allows
        every item.
    categories : tuple of str
        Recall only from these categories; empty means all.
    per_category : int, optional
        At most this many items of one category.
    """

    top: int = 10
    method: Method = "mm+"
    exclude_seen: bool = True
    allow: tuple[ItemId, ...] = ()
    deny: tuple[ItemId, ...] = ()
    categories: tuple[str, ...] = ()
    per_category: int | None = None

    def __post_init__(self) -> None:
        check_count("top", self.top)
        check_choice("method", self.method, ("mm+", "mm"))
        if self.per_category is not None:
            check_count("per_category", self.per_category)


class ItemFilter:
    """The options of one recall, resolved against the items of one artifact.

    Attributes
    ----------
    candidates : int64 ndarray, optional
        The only positions that may be recalled, ascending; None means all.
    n_excluded : int
        How many items, beyond those seen, may fall out of a ranking.
    """

    def __init__(self, options: RecallOptions, items: ItemTable) -> None:
        self._options = options
        self._items = items
        denied = items.positions_of(options.deny)
        self._denied = np.unique(denied[denied >= 0])
        self.candidates = self._candidates()
        if self.candidates is not None:
            self.candidates = np.setdiff1d(self.candidates, self._denied, assume_unique=True)
            self._denied = self._denied[:0]
        self.n_excluded = len(self._denied)
        if options.per_category is not None:
            items.in_categories([])  # refuses where the artifact has none

    def _candidates(self) -> IntArray | None:
        options, candidates = self._options, None
        if options.allow:
            allowed = np.unique(self._items.positions_of(options.allow))
            candidates = allowed[allowed >= 0]
        if options.categories:
            members = self._items.in_categories(options.categories)
            candidates = members if candidates is None else np.intersect1d(candidates, members)
        return candidates

    def apply(self, ranking: Ranking, histories: Sequence[IntArray]) -> Ranking:
        """Return the ranking without what the options leave out, cut to `top`."""
        positions, scores = ranking
        keep = positions >= 0
        if self._options.exclude_seen:
            keep &= ~_is_seen(positions, histories)
        if len(self._denied):
            keep &= ~np.isin(positions, self._denied)
        if self._options.per_category is not None:
            keep = self._within_cap(positions, keep, self._options.per_category)
        keep &= np.cumsum(keep, axis=1) <= self._options.top
        order = np.argsort(~keep, axis=1, kind="stable")[:, : self._options.top]
        kept = np.take_along_axis(keep, order, axis=1)
        return (
            np.where(kept, np.take_along_axis(positions, order, axis=1), -1),
            np.where(kept, np.take_along_axis(scores, order, axis=1), -np.inf).astype(np.float32),
        )

    def _within_cap(self, positions: IntArray, keep: BoolArray, cap: int) -> BoolArray:
        codes = self._items.category_codes
        assert codes is not None  # the constructor refused this filter otherwise
        capped: BoolArray = keep.copy()
        for row, chosen in zip(positions, capped, strict=True):
            columns = np.flatnonzero(chosen)
            of_row = codes[row[columns]]
            order = np.argsort(of_row, kind="stable")
            starts = np.searchsorted(of_row[order], of_row[order], side="left")
            chosen[columns[order[np.arange(len(order)) - starts >= cap]]] = False
        return capped


def _is_seen(positions: IntArray, histories: Sequence[IntArray]) -> BoolArray:
    longest = max((len(history) for history in histories), default=0)
    seen = np.full((len(histories), longest), -2, dtype=np.int64)
    for row, history in enumerate(histories):
        seen[row, : len(history)] = history
    is_seen = np.zeros(positions.shape, dtype=bool)
    for column in range(longest):
        is_seen |= positions == seen[:, column, None]
    return is_seen

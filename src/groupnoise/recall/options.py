"""What a caller may ask of a recall: how many items, scored how, and which are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groupnoise.clicks.scoring import SCOPES
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.recall.items import ItemId, ItemTable
from groupnoise.recall.search import Eligible, Ranking


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """One way of recalling; hashable, so that equal requests can be answered together.

    Attributes
    ----------
    top : int, default=10
        How many items per history.
    scope : {"group", "last"}, optional
        Score by the latest clicks that make a group, or by the last click alone; by default as
        the model was trained.
    exclude_seen : bool, default=True
        Leave out the items of the history itself.
    allow, deny : tuple of item ids, default=()
        Recall only these, or never these; unknown ids are passed over. An empty `allow` allows
        every item.
    categories : tuple of str, default=()
        Recall only from these categories; empty means all.
    per_category : int, optional
        At most this many items of one category.
    """

    top: int = 10
    scope: str | None = None
    exclude_seen: bool = True
    allow: tuple[ItemId, ...] = ()
    deny: tuple[ItemId, ...] = ()
    categories: tuple[str, ...] = ()
    per_category: int | None = None

    def __post_init__(self) -> None:
        check_count("top", self.top)
        if self.scope is not None:
            check_choice("scope", self.scope, SCOPES)
        if self.per_category is not None:
            check_count("per_category", self.per_category)

    @property
    def n_ids(self) -> int:
        """Ids and names in all lists, and items in an answer: how much there is to look up."""
        return self.top + len(self.allow) + len(self.deny) + len(self.categories)


class ItemFilter:
    """The options of one recall, resolved against the items of one artifact.

    Parameters
    ----------
    options : RecallOptions
        What is asked.
    items : ItemTable
        The items there are.

    Attributes
    ----------
    candidates : int64 ndarray, optional
        The only positions that may be recalled, ascending; None means all.
    denied : int64 ndarray
        Positions that may not be recalled; none of them is a candidate.
    """

    def __init__(self, options: RecallOptions, items: ItemTable) -> None:
        self._options = options
        self._items = items
        denied = items.positions_of(options.deny)
        self.denied = np.unique(denied[denied >= 0])
        self.candidates = self._candidates()
        if self.candidates is not None:
            self.candidates = np.setdiff1d(self.candidates, self.denied, assume_unique=True)
            self.denied = self.denied[:0]
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

    def eligible(self, histories: Sequence[IntArray]) -> Eligible:
        """Return which items may answer each history of positions."""
        seen = histories if self._options.exclude_seen else None
        return Eligible(self.candidates, self.denied, seen)

    def capped(self, ranking: Ranking) -> Ranking:
        """Return the best `top` of a ranking of which no category holds more than its share.

        An item of several categories counts in each of them.
        """
        options = self._options
        assert options.per_category is not None
        positions, scores = (
            np.full((len(ranking[0]), options.top), fill) for fill in (-1, -np.inf)
        )
        for row, (found, values) in enumerate(zip(*ranking, strict=True)):
            n_taken: Counter[int] = Counter()
            column = 0
            for position, value in zip(found.tolist(), values.tolist(), strict=True):
                if position < 0 or column == options.top:
                    break
                codes = self._items.codes_of(position)
                if all(n_taken[code] < options.per_category for code in codes):
                    n_taken.update(codes)
                    positions[row, column], scores[row, column] = position, value
                    column += 1
        return positions.astype(np.int64), scores.astype(np.float32)

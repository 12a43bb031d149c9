"""Options of a recall: how many items, how they are scored, and which are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial, reduce
from typing import Any

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.clicks.scoring import SCOPES
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_count, check_fraction
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError
from groupnoise.recall.items import CATEGORY, ItemId, ItemTable
from groupnoise.recall.lists import ItemList
from groupnoise.recall.search import Eligible, Ranking

MAX_DEPTH = 16
MAX_VALUES = 10_000
"""Values that all conditions of a filter may name together."""
_EXAMPLE = '{"category": "kitchen", "not": {"brand": ["Acme", "Bolt"]}}'

Filter = tuple[str, Any]
"""("and" or "or", filters), ("not", filter), or (attribute, values): hashable, once checked."""
POOL = 5
"""Times `top`: the number of best items that are reranked for diversity."""
MAX_INTERESTS = 20
MAX_LISTED = 1 << 20
MAX_DENIED = 1000
"""Denied items above which the remaining candidates are listed instead."""

SimilarityOf = Callable[[IntArray], FloatArray]
"""Maps positions of items, (n,), to their pairwise similarity, (n, n)."""
MAX_INTEREST_SIMILARITY = 0.5
"""Cosine above which two clicks belong to one interest."""


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """Options of a recall; hashable, so that equal requests can be answered together.

    Attributes
    ----------
    top : int, default=10
        How many items per history; per interest if `interests` is given.
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
    filter : mapping, optional
        What attributes an item must have, such as `{"brand": ["Acme", "Bolt"], "not": {"category":
        "tools"}}`: of several values one is enough, several names must all hold; `and` and `or`
        hold lists of filters.
    allow_lists, deny_lists : tuple of ItemList, default=()
        Recall only what is on all of the first, and nothing that is on any of the second.
    per_category : int, optional
        At most this many items of one category.
    max_per : mapping of str to int, default=()
        For attributes, how many items may share a value.
    diversity : float, default=0.0
        From 0, the order of the scores, to 1: how much dissimilarity to what is ranked before
        counts (maximal marginal relevance among the best `POOL` times `top` items).
    min_score : float, optional
        Leave out matching scores below this; popularity is none.
    interests : int, optional
        Answer with the best `top` items for each of up to this many interests of a history, with
        the click that represents each.
    """

    top: int = 10
    scope: str | None = None
    exclude_seen: bool = True
    allow: tuple[ItemId, ...] = ()
    deny: tuple[ItemId, ...] = ()
    categories: tuple[str, ...] = ()
    filter: Any = None
    allow_lists: tuple[ItemList, ...] = ()
    deny_lists: tuple[ItemList, ...] = ()
    per_category: int | None = None
    max_per: Any = ()
    diversity: float = 0.0
    min_score: float | None = None
    interests: int | None = None

    def __post_init__(self) -> None:
        check_count("top", self.top)
        if self.scope is not None:
            check_choice("scope", self.scope, SCOPES)
        if self.per_category is not None:
            check_count("per_category", self.per_category)
        if self.filter is not None:
            object.__setattr__(self, "filter", parse_filter(self.filter))
        if self.max_per != ():
            caps = tuple(sorted(dict(self.max_per).items()))
            for attribute, most in caps:
                check_count(f"max_per {attribute}", most)
            object.__setattr__(self, "max_per", caps)
        if self.diversity:
            check_fraction("diversity", self.diversity)
        if self.min_score is not None and not np.isfinite(self.min_score):
            raise ParameterError(f"min_score must be a number; got {self.min_score}.")
        if self.interests is not None:
            check_count("interests", self.interests)
            if self.interests > MAX_INTERESTS:
                raise ParameterError(
                    f"interests must be at most {MAX_INTERESTS}; got {self.interests}."
                )

    @property
    def caps(self) -> dict[str, int]:
        """How many items may share a value, for each attribute that has a cap."""
        of_category = {} if self.per_category is None else {CATEGORY: self.per_category}
        return {**of_category, **dict(self.max_per)}

    @property
    def n_ids(self) -> int:
        """Number of ids, names and items to look up beside the scoring."""
        is_plain = not (self.filter or self.allow_lists or self.deny_lists or self.diversity)
        n_listed = len(self.allow) + len(self.deny) + len(self.categories)
        return self.top + n_listed if is_plain and not self.interests else MAX_LISTED

    def as_record(self) -> dict[str, Any]:
        """Return the options as JSON can hold them, lists by their digests.

        Returns
        -------
        dict
            One entry per option.
        """
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("allow_lists", "deny_lists"):
            record[name] = [(each.name, each.digest) for each in record[name]]
        return record


class ItemFilter:
    """The options of one recall, resolved against the items of one artifact.

    `options`: the options.
    `candidates`: the only positions that may be recalled, ascending; None means all.
    `denied`: positions that may not be recalled; none of them is a candidate.
    """

    def __init__(self, options: RecallOptions, items: ItemTable) -> None:
        self._options = options
        self._items = items
        denied = items.positions_of(options.deny)
        denied = np.unique(denied[denied >= 0])
        for each in options.deny_lists:
            denied = np.union1d(denied, each.positions(items))
        self.denied = denied
        self.candidates = self._candidates()
        if self.candidates is None and len(denied) > MAX_DENIED:
            self.candidates = np.arange(len(items))
        if self.candidates is not None:
            self.candidates = np.setdiff1d(self.candidates, self.denied, assume_unique=True)
            self.denied = self.denied[:0]
        self._codes = {name: set(items.codes_of_attribute(name).values()) for name in options.caps}

    def _candidates(self) -> IntArray | None:
        options, items = self._options, self._items
        parts = [each.positions(items) for each in options.allow_lists]
        if options.allow:
            allowed = np.unique(items.positions_of(options.allow))
            parts.append(allowed[allowed >= 0])
        if options.categories:
            parts.append(items.in_categories(options.categories))
        if options.filter is not None:
            parts.append(np.flatnonzero(items_matching(options.filter, items)))
        return reduce(partial(np.intersect1d, assume_unique=True), parts) if parts else None

    def eligible(self, histories: Sequence[IntArray]) -> Eligible:
        """Return which items may answer each history of positions."""
        seen = histories if self._options.exclude_seen else None
        return Eligible(self.candidates, self.denied, seen)

    @property
    def needs_reranking(self) -> bool:
        """Whether caps or diversity change the order of the scores."""
        return bool(self._codes) or self._options.diversity > 0

    def rerank(self, ranking: Ranking, similarity_of: SimilarityOf) -> Ranking:
        """Return the `top` items of a ranking under caps and diversity.

        An item of several categories counts in each of them.
        """
        options = self._options
        positions = np.full((len(ranking[0]), options.top), -1, dtype=np.int64)
        scores = np.full((len(ranking[0]), options.top), -np.inf, dtype=np.float32)
        for row, (found, values) in enumerate(zip(*ranking, strict=True)):
            found = found[found >= 0]
            codes = [self._items.codes_of(position) for position in found.tolist()]
            caps = [
                ([[code for code in each if code in known] for each in codes], options.caps[name])
                for name, known in self._codes.items()
            ]
            chosen = rerank(
                values[: len(found)].astype(np.float64),
                similarity_of(found) if options.diversity else None,
                caps,
                diversity=options.diversity,
                n=options.top,
            )
            positions[row, : len(chosen)] = found[chosen]
            scores[row, : len(chosen)] = values[chosen]
        return positions, scores


def parse_filter(given: Any) -> Filter:
    """Return a filter in its hashable form; anything else is refused.

    `given`: names attributes with the value, or the values of which one is enough, that an item
    must have; several names must all hold. `and` and `or` hold lists of filters, `not` holds one.

    Examples
    --------
    >>> parse_filter({"category": "kitchen", "not": {"brand": ["Acme", "Bolt"]}})
    ('and', (('category', ('kitchen',)), ('not', ('brand', ('Acme', 'Bolt')))))
    """
    if isinstance(given, tuple):
        return given  # checked before
    checked = _check_filter(given, 1)
    n_values = _n_values(checked)
    if n_values > MAX_VALUES:
        raise ParameterError(
            f"filter names {counted(n_values, 'values')}; at most {MAX_VALUES} are looked up."
        )
    return checked


def _check_filter(given: Any, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise ParameterError(f"filter is nested deeper than {MAX_DEPTH} levels.")
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f"filter must be an object such as {_EXAMPLE}; got {_short(given)}.")
    parts = tuple(_check_condition(str(name), value, depth) for name, value in given.items())
    return parts[0] if len(parts) == 1 else ("and", parts)


def _check_condition(name: str, value: Any, depth: int) -> Filter:
    if name == "not":
        return ("not", _check_filter(value, depth + 1))
    if name in ("and", "or"):
        if not isinstance(value, list) or not value:
            raise ParameterError(f"filter: {name!r} needs a list of filters; got {_short(value)}.")
        return (name, tuple(_check_filter(part, depth + 1) for part in value))
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, str) for one in values):
        raise ParameterError(
            f"filter: {_short(name)} needs a text or a list of texts; got {_short(value)}."
        )
    return (name, tuple(values))


def _n_values(checked: Filter) -> int:
    name, value = checked
    if name == "not":
        return _n_values(value)
    return sum(map(_n_values, value)) if name in ("and", "or") else len(value)


def _short(value: Any) -> str:
    return repr(value)[:40]


def items_matching(checked: Filter, items: ItemTable) -> BoolArray:
    """Return which items match a filter, shape (n_items,); unknown names are refused."""
    name, value = checked
    if name == "not":
        return ~items_matching(value, items)
    if name in ("and", "or"):
        combine = np.logical_and if name == "and" else np.logical_or
        return np.asarray(combine.reduce([items_matching(part, items) for part in value]))
    return items.having(name, value)


def rerank(
    scores: FloatArray,
    similarity: FloatArray | None,
    caps: Sequence[tuple[Sequence[Sequence[int]], int]],
    *,
    diversity: float,
    n: int,
) -> list[int]:
    """Rerank items by maximal marginal relevance; return the indices of the best `n`.

    Each step takes the item with the greatest (1 - diversity) * relevance - diversity * similarity,
    where relevance is the score, scaled to reach from 0 to 1 over the items, and similarity that to
    the most similar item taken already; an item whose cap is reached is passed over.

    `scores`: best first. `similarity` (n_items, n_items): between items; needed for diversity.
    `caps`: the codes of each item under one attribute, and how many items may share one.
    `diversity`: from 0, the order of the scores, to 1, as dissimilar as possible.

    Examples
    --------
    >>> like = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> rerank(np.array([3.0, 2.9, 2.0]), like, [], diversity=0.6, n=2)
    [0, 2]
    >>> rerank(np.array([3.0, 2.9, 2.0]), None, [([[0], [0], [1]], 1)], diversity=0.0, n=2)
    [0, 2]
    """
    spread = scores[0] - scores[-1] if len(scores) else 0.0
    gain = (1.0 - diversity) * ((scores - scores[-1]) / spread if spread > 0 else 0.0 * scores)
    nearest = np.zeros(len(scores))
    is_open = np.ones(len(scores), dtype=bool)
    n_taken = [Counter[int]() for _ in caps]
    taken: list[int] = []
    while len(taken) < n and is_open.any():
        worth = np.where(is_open, gain - diversity * nearest, -np.inf)
        best = int(worth.argmax())
        is_open[best] = False
        if any(
            counts[code] >= most
            for counts, (codes, most) in zip(n_taken, caps, strict=True)
            for code in codes[best]
        ):
            continue
        for counts, (codes, _) in zip(n_taken, caps, strict=True):
            counts.update(codes[best])
        taken.append(best)
        if similarity is not None:
            nearest = np.maximum(nearest, similarity[best])
    return taken


def representative_clicks(
    clicks: IntArray, weights: FloatArray | None, similarity: FloatArray | None, n: int
) -> IntArray:
    """Return a representative click of each interest of a history, the strongest first.

    Clicks are taken by weight, the latest first among equals, if they are dissimilar to all taken
    before.

    `clicks`: positions of distinct items, oldest first. `weights`: p(click | history); NaN, and
    None, where the model has none. `similarity` (n_clicks, n_clicks): between the clicks; None
    where the model has no vectors.
    """
    strength = np.zeros(len(clicks)) if weights is None else np.nan_to_num(weights, nan=-1.0)
    order = np.lexsort((-np.arange(len(clicks)), -strength))
    taken: list[int] = []
    for click in order.tolist():
        if len(taken) == n:
            break
        if similarity is None or not (similarity[click, taken] > MAX_INTEREST_SIMILARITY).any():
            taken.append(click)
    return clicks[taken]


def strongest_interest(found: IntArray, scores: Float32Array) -> BoolArray:
    """Return where each item belongs to the interest that scores it highest.

    Of shape (n_interests, n). `found` (n_interests, n): positions found for each interest, -1 where
    none is. `scores` (n_interests, n): their scores; of equal ones the first interest counts.

    Examples
    --------
    >>> found = np.array([[7, 8], [8, -1]])
    >>> strongest_interest(found, np.array([[3.0, 1.0], [2.0, -np.inf]], dtype=np.float32)).tolist()
    [[True, False], [True, False]]
    """
    order = np.lexsort((np.repeat(np.arange(len(found)), found.shape[1]), -scores.ravel()))
    _, first = np.unique(found.ravel()[order], return_index=True)
    is_best = np.zeros(found.size, dtype=bool)
    is_best[order[first]] = True
    return is_best.reshape(found.shape) & (found >= 0)

"""A recall model: ranks and explains items for histories of item ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.clicks.scoring import MIN_SIMILARITY
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import as_histories
from groupnoise.core.words import inherit_docstring
from groupnoise.exceptions import ModelFileError, UnknownTargetError
from groupnoise.recall.items import ItemId, ItemTable
from groupnoise.recall.options import POOL, ItemFilter, RecallOptions, strongest_interest
from groupnoise.recall.rankers import Explanation, Ranker, VectorRanker
from groupnoise.recall.recalled import Click, OneRecalled, Reasons, Recalled, noise_flags
from groupnoise.recall.search import Eligible, Ranking, empty_ranking

MAX_QUICK = 1 << 18
"""Numbers in the vectors of a model that stays in the processor's cache."""
MAX_FILTERS = 32
"""Options whose resolved filters are cached; one may hold 10 000 ids."""


@inherit_docstring
@dataclass(frozen=True)
class RecallModel:
    """The items of an artifact and their ranker.

    Attributes
    ----------
    items : ItemTable
        Ids, titles, categories, popularity.
    ranker : Ranker
        Scores items for histories.
    manifest : dict
        The manifest of the artifact: version, kind, card, index.
    """

    items: ItemTable
    ranker: Ranker
    manifest: dict[str, Any] = field(default_factory=dict)
    _filters: dict[RecallOptions, ItemFilter] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def version(self) -> str:
        """The digest that names this artifact."""
        return str(self.manifest.get("version", ""))

    @cached_property
    def is_quick(self) -> bool:
        """Whether answering a single history is faster than batching it with others.

        The vectors of a larger model do not fit the cache and are better read once per batch.
        """
        ranker = self.ranker
        if not isinstance(ranker, VectorRanker) or not ranker.is_exact:
            return False
        return ranker.vectors.targets.size <= MAX_QUICK

    def clicks_used(self, scope: str | None = None) -> str:
        """Describe the clicks that are used, such as "the last 5 clicks".

        Parameters
        ----------
        scope : {"group", "last"}, optional
            As in :class:`RecallOptions`; by default as the model was trained.

        Returns
        -------
        str
        """
        return self.ranker.clicks_used(scope)

    @property
    def card(self) -> dict[str, Any]:
        """The model card: name, data, metrics, date."""
        card = self.manifest.get("card")
        return dict(card) if isinstance(card, dict) else {}

    def recall(
        self, histories: Sequence[Sequence[ItemId]], options: RecallOptions | None = None
    ) -> Recalled:
        """Return the best items for each history of item ids, oldest click first.

        Unknown ids are passed over and reported; a history without a known id is answered by
        popularity, under the same filters.

        Parameters
        ----------
        histories : sequence of sequences of item ids
            Clicks, oldest first.
        options : RecallOptions, optional
            How many items, which of them, and by which clicks.

        Returns
        -------
        Recalled
            One row per history.
        """
        known, unknown = self._resolve(histories)
        return self.recall_positions(known, unknown, options or RecallOptions())

    def recall_one(self, history: Sequence[ItemId], top: int) -> OneRecalled:
        """Return the best items for one history with default options.

        Parameters
        ----------
        history : sequence of item ids
            Clicks, oldest first.
        top : int
            How many items.

        Returns
        -------
        OneRecalled
            What :meth:`recall` returns for it, in less time where the catalogue is small.
        """
        if isinstance(self.ranker, VectorRanker):
            clicks = self.items.position_list(history)
            if clicks and min(clicks) >= 0:
                found = self.ranker.rank_one(clicks, top, clicks)
                if found is not None:
                    return OneRecalled(*found, [], False)
        recalled = self.recall([history], RecallOptions(top=top))
        positions, scores = recalled.row(0)
        is_popular = bool(recalled.from_popularity[0])
        return OneRecalled(positions.tolist(), scores.tolist(), recalled.unknown[0], is_popular)

    def recall_positions(
        self, known: Sequence[IntArray], unknown: list[list[Any]], options: RecallOptions
    ) -> Recalled:
        """Return the best items for histories of item positions, already looked up.

        Parameters
        ----------
        known : sequence of int64 ndarray
            Positions of the known clicks of each history, oldest first.
        unknown : list of list
            The ids of each history that the model does not know.

        Returns
        -------
        Recalled
            One row per history.
        """
        chosen = self._filter(options)
        led_by = None
        if not known:
            return Recalled(*empty_ranking(0, options.top), np.zeros(0, dtype=bool), unknown)
        if options.interests is None:
            positions, scores = self._rank_filtered(known, known, options, chosen)
        else:
            positions, scores, led_by = self._recall_interests(known, options)
        from_popularity = np.array([len(history) == 0 for history in known], dtype=bool)
        if options.min_score is not None:
            is_low = (scores < options.min_score) & ~from_popularity[:, None]
            positions, scores = np.where(is_low, -1, positions), np.where(is_low, -np.inf, scores)
        return Recalled(positions, scores, from_popularity, unknown, led_by)

    def _rank_filtered(
        self,
        known: Sequence[IntArray],
        seen: Sequence[IntArray],
        options: RecallOptions,
        chosen: ItemFilter,
    ) -> Ranking:
        """Return the `top` items for histories; `seen` are the items excluded for each."""
        n_eligible = len(self.items) if chosen.candidates is None else len(chosen.candidates)
        eligible = chosen.eligible(seen)
        if chosen.needs_reranking:
            return self._rerank(known, n_eligible, options, chosen, eligible)
        positions, scores = self._rank(known, min(options.top, n_eligible), options.scope, eligible)
        return _pad_columns(positions, options.top, -1), _pad_columns(scores, options.top, -np.inf)

    def _recall_interests(
        self, known: Sequence[IntArray], options: RecallOptions
    ) -> tuple[IntArray, Float32Array, IntArray]:
        """Return the best items for each interest of each history, and the clicks behind them."""
        assert options.interests is not None
        width = options.interests * options.top
        positions, scores = empty_ranking(len(known), width)
        led_by = np.full_like(positions, -1)
        for row, history in enumerate(known):
            clicks = self.ranker.interests(history, options.interests)
            parts = [clicks[number : number + 1] for number in range(len(clicks))] or [history]
            if len(parts) > 1:
                each_options = replace(options, top=width, scope="last")
            else:
                each_options = options
            item_filter = self._filter(each_options)
            seen = [history] * len(parts)
            found, values = self._rank_filtered(parts, seen, each_options, item_filter)
            is_strongest = strongest_interest(found, values)
            begin = 0
            for number in range(len(parts)):
                is_kept = is_strongest[number]
                is_kept &= np.cumsum(is_kept) <= options.top
                end = begin + int(is_kept.sum())
                positions[row, begin:end] = found[number][is_kept]
                scores[row, begin:end] = values[number][is_kept]
                led_by[row, begin:end] = clicks[number] if len(clicks) else -1
                begin = end
        return positions, scores, led_by

    def _filter(self, options: RecallOptions) -> ItemFilter:
        """Return the options resolved against the items, cached: most requests have equal ones."""
        chosen = self._filters.get(options)
        if chosen is None:
            chosen = ItemFilter(options, self.items)
            if len(self._filters) >= MAX_FILTERS:
                self._filters.clear()
            self._filters[options] = chosen
        return chosen

    def _rerank(
        self,
        known: Sequence[IntArray],
        n_eligible: int,
        options: RecallOptions,
        chosen: ItemFilter,
        eligible: Eligible,
    ) -> Ranking:
        """Rank under caps and diversity; histories that lack items get more candidates."""
        positions, scores = empty_ranking(len(known), options.top)
        rows, reach = np.arange(len(known)), min(POOL * options.top, n_eligible)
        while len(rows):
            histories = [known[row] for row in rows.tolist()]
            ranking = self._rank(histories, reach, options.scope, eligible.take(rows))
            positions[rows], scores[rows] = chosen.rerank(ranking, self.ranker.similarity)
            if reach == n_eligible:
                break
            rows, reach = rows[positions[rows, -1] < 0], min(4 * reach, n_eligible)
        return positions, scores

    def check_known(self, item: ItemId) -> None:
        """Refuse an unknown item id.

        Parameters
        ----------
        item : int or str
            An item id.

        Raises
        ------
        UnknownTargetError
            If the model does not know it.
        """
        if self.items.positions_of([item])[0] < 0:
            raise UnknownTargetError(f"the model knows no item {item!r}.")

    def similar(self, item: ItemId, *, top: int = 10) -> Recalled:
        """Return the items that best follow a click on one item alone, as `similar_items` does.

        Returns
        -------
        Recalled
            One row.

        Raises
        ------
        UnknownTargetError
            If the model does not know the item.
        """
        self.check_known(item)
        return self.recall([[item]], self.options_of_similar(top))

    def options_of_similar(self, top: int) -> RecallOptions:
        """Return the options of :meth:`similar`.

        Returns
        -------
        RecallOptions
            By that item alone; items that only popularity ranks are left out.
        """
        is_counted = self.manifest.get("kind") == "neighbours"
        return RecallOptions(
            top=top, scope="last", min_score=MIN_SIMILARITY if is_counted else None
        )

    def explain(
        self,
        history: Sequence[ItemId],
        positions: IntArray,
        *,
        scope: str | None = None,
        led_by: IntArray | None = None,
    ) -> Reasons:
        """Return the contribution of each click of a history to the items at `positions`.

        Parameters
        ----------
        positions : int64 ndarray of shape (n_items,)
            Positions of recalled items in the item table.
        scope : {"group", "last"}, optional
            Which clicks are used; by default as the model was trained.
        led_by : int64 ndarray of shape (n_items,), optional
            Of an answer with interests the click that each item was scored by; see
            :meth:`Recalled.clicks_behind`.

        Returns
        -------
        Reasons
            The known clicks, and the contribution of each to each item.
        """
        known = self._resolve([history])[0][0]
        if len(known) == 0:
            return Reasons(clicks=[], shares=np.zeros((0, len(positions))))
        explanation = self.ranker.explain(known, positions, scope=scope)
        if led_by is not None and len(positions):
            explanation = self._explain_interests(explanation, known, positions, led_by)
        ids = self.items.ids_of(known)
        if explanation.weights is None:
            return Reasons([Click(item, None, None) for item in ids], explanation.shares)
        flags: list[bool | None] = [None] * len(ids)
        if explanation.is_judged:
            flags = noise_flags(explanation.weights).tolist()
        clicks = [
            Click(item, None, None) if np.isnan(weight) else Click(item, weight, is_noise)
            for item, weight, is_noise in zip(ids, explanation.weights.tolist(), flags, strict=True)
        ]
        return Reasons(clicks, explanation.shares)

    def _explain_interests(
        self, explanation: Explanation, known: IntArray, positions: IntArray, led_by: IntArray
    ) -> Explanation:
        """Return an explanation with the shares of items that were scored by one click each."""
        shares = np.zeros((len(known), len(positions)))
        for click in np.unique(led_by):
            row, items = np.flatnonzero(known == click)[-1], np.flatnonzero(led_by == click)
            alone = self.ranker.explain(known[row : row + 1], positions[items], scope="last")
            shares[row, items] = alone.shares[0]
        weights = explanation.weights
        if weights is not None and not explanation.is_judged:
            weights = shares.mean(axis=1)
        return replace(explanation, shares=shares, weights=weights)

    def _resolve(
        self, histories: Sequence[Sequence[ItemId]]
    ) -> tuple[list[IntArray], list[list[Any]]]:
        """Look up all ids at once; return known positions and unknown ids per history."""
        histories = [list(history) for history in as_histories(histories)]
        flat = [item for history in histories for item in history]
        found = self.items.positions_of(flat)
        known, unknown, begin = [], [], 0
        for history in histories:
            positions = found[begin : begin + len(history)]
            known.append(positions[positions >= 0])
            unknown.append([history[where] for where in np.flatnonzero(positions < 0).tolist()])
            begin += len(history)
        return known, unknown

    def _rank(
        self, known: Sequence[IntArray], n: int, scope: str | None, eligible: Eligible
    ) -> Ranking:
        positions, scores = empty_ranking(len(known), n)
        has_clicks = np.array([len(history) > 0 for history in known], dtype=bool)
        rows = np.flatnonzero(has_clicks)
        if n and len(rows):
            positions[rows], scores[rows] = self.ranker.rank(
                [known[row] for row in rows.tolist()], n, scope=scope, eligible=eligible.take(rows)
            )
            # The vectors of a memory-mapped artifact were not checked when it was opened.
            if not (scores < np.inf).all():
                raise ModelFileError("the artifact scores an item with NaN or beyond all numbers.")
        if n and not has_clicks.all():
            popular = self.items.popular_order
            if eligible.candidates is not None:
                popular = popular[np.isin(popular, eligible.candidates)]
            popular = popular[: n + len(eligible.denied)]
            popular = popular[~np.isin(popular, eligible.denied)][:n]
            positions[~has_clicks, : len(popular)] = popular
            scores[~has_clicks, : len(popular)] = self.items.popularity[popular]
        return positions, scores


def _pad_columns(values: Any, width: int, fill: float) -> Any:
    if values.shape[1] == width:
        return values
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)

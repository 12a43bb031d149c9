"""Dropping clicks by rule (rare users and items, repeats), and planting stray ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice, check_count, check_fraction
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import ClickDataset

REPEAT_RULES = ("keep", "merge_adjacent", "keep_first")


def keep_core(clicks: ClickDataset, *, per_user: int = 5, per_item: int = 5) -> ClickDataset:
    """Drop users and items with few clicks until every one left has enough (the k-core).

    Result: items are renumbered; `notes` counts the users, items and clicks dropped. `per_user`,
    `per_item`: the fewest clicks a user, and an item, must keep; 1 asks for nothing.
    """
    check_count("per_user", per_user)
    check_count("per_item", per_item)
    users, items = clicks.histories.group_of_object, clicks.histories.objects
    kept = np.ones(len(items), dtype=np.bool_)
    while True:
        user_counts = np.bincount(users[kept], minlength=len(clicks.histories))
        item_counts = np.bincount(items[kept], minlength=clicks.n_items)
        still = kept & (user_counts[users] >= per_user) & (item_counts[items] >= per_item)
        if still.sum() == kept.sum():
            break
        kept = still
    if not kept.any():
        raise DataError(
            f"no click is left when every user needs {per_user} and every item {per_item}; "
            "ask for fewer."
        )
    core = _restrict(clicks, kept)
    return replace(
        core,
        notes={
            **clicks.notes,
            "core_users_dropped": len(clicks.histories) - len(core.histories),
            "core_items_dropped": clicks.n_items - core.n_items,
            "core_clicks_dropped": int((~kept).sum()),
        },
    )


def merge_repeats(clicks: ClickDataset, rule: str = "merge_adjacent") -> ClickDataset:
    """Merge clicks of a user on the same item.

    Result: the same users and items; `notes['repeats_merged']` counts the clicks dropped. `rule`:
    `merge_adjacent` makes one click of several in a row; `keep_first` leaves each item once in a
    history, where it came first; `keep` changes nothing.
    """
    check_choice("rule", rule, REPEAT_RULES)
    if rule == "keep":
        return clicks
    users, items = clicks.histories.group_of_object, clicks.histories.objects
    if rule == "merge_adjacent":
        kept = np.ones(len(items), dtype=np.bool_)
        kept[1:] = (items[1:] != items[:-1]) | (users[1:] != users[:-1])
    else:
        kept = np.zeros(len(items), dtype=np.bool_)
        kept[np.unique(users * clicks.n_items + items, return_index=True)[1]] = True
    merged = _restrict(clicks, kept)
    return replace(merged, notes={**clicks.notes, "repeats_merged": int((~kept).sum())})


def _restrict(clicks: ClickDataset, kept: BoolArray) -> ClickDataset:
    """Keep some clicks; users and items left without any go, and items are renumbered."""
    counts = np.bincount(clicks.histories.group_of_object[kept], minlength=len(clicks.histories))
    items, objects = np.unique(clicks.histories.objects[kept], return_inverse=True)
    has_clicks = counts > 0
    return replace(
        clicks,
        histories=Groups(objects, np.concatenate([[0], np.cumsum(counts[has_clicks])])),
        item_ids=clicks.item_ids[items],
        user_ids=clicks.user_ids[has_clicks],
        titles=None if clicks.titles is None else [clicks.titles[item] for item in items],
        categories=(
            None if clicks.categories is None else [clicks.categories[item] for item in items]
        ),
        is_stray=None if clicks.is_stray is None else clicks.is_stray[kept],
        source_rows=None if clicks.source_rows is None else clicks.source_rows[kept],
        timestamps=None if clicks.timestamps is None else clicks.timestamps[kept],
    )


def add_stray_clicks(
    dataset: ClickDataset, rate: float, *, random_state: RandomState = None
) -> ClickDataset:
    """Plant clicks that have nothing to do with the user, drawn by the items' popularity.

    A stray click is put before an existing one, at any place with equal chance, so the last
    click of every history stays the user's own.

    Result: with `is_stray`; `notes["stray_clicks_added"]` counts the planted ones. `dataset`: the
    log; clicks already marked as stray stay marked. `rate`: the share of planted clicks in the
    result, below 1. `random_state`: decides items and places.

    Examples
    --------
    >>> from groupnoise.clicks import make_shop
    >>> shop = make_shop(20, 40, stray_rate=0.0, random_state=0)
    >>> round(float(add_stray_clicks(shop, 0.25, random_state=0).is_stray.mean()), 2)
    0.25
    """
    check_fraction("rate", rate)
    if rate == 1:
        raise ParameterError("rate must be below 1: the users' own clicks are kept.")
    generator = generator_from(random_state)
    histories = dataset.histories
    n_clicks = histories.n_objects
    n_stray = round(rate / (1 - rate) * n_clicks)
    before = np.sort(generator.integers(n_clicks, size=n_stray))
    items = generator.choice(histories.objects, size=n_stray)  # a random click: by popularity

    was_stray = dataset.is_stray if dataset.is_stray is not None else np.zeros(n_clicks, dtype=bool)
    added_per_user = np.bincount(histories.group_of_object[before], minlength=len(histories))
    offsets = histories.offsets + np.concatenate([[0], np.cumsum(added_per_user)])
    notes: dict[str, Any] = {**dataset.notes, "stray_clicks_added": n_stray}
    if "follows" in notes:
        new_position = np.arange(n_clicks) + np.searchsorted(before, np.arange(n_clicks), "right")
        notes["follows"] = np.insert(
            _moved_causes(notes["follows"], histories, new_position, offsets), before, -1
        )
    return replace(
        dataset,
        histories=Groups(np.insert(histories.objects, before, items), offsets),
        is_stray=np.insert(was_stray, before, True),
        notes=notes,
        source_rows=None,
        timestamps=None,
    )


def _moved_causes(
    follows: IntArray, histories: Groups, new_position: IntArray, new_offsets: IntArray
) -> IntArray:
    """Renumber the places clicks follow from after other clicks were put between them."""
    user = histories.group_of_object
    has_cause = follows >= 0
    cause = histories.offsets[user] + np.maximum(follows, 0)
    return np.where(has_cause, new_position[cause] - new_offsets[user], -1)

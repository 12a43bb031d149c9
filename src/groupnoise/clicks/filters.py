"""Dropping clicks by rule: those of rare users and items, and repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import BoolArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
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

"""What a click log holds, and what is odd about it."""

from __future__ import annotations

import numpy as np

from groupnoise.io.datasets import ClickDataset
from groupnoise.io.description import (
    Description,
    DescriptionDraft,
    count_oddity,
    histogram_of_sizes,
)

CLICKS_TO_BE_TESTED = {"leave_one_out": 3, "authors": 7, "paper": 14}
"""Clicks a user needs to be held out by each protocol of `split_clicks`, at groups of 5."""


def describe_clicks(dataset: ClickDataset) -> Description:
    """Return lengths, popularity, notes and oddities of histories."""
    histories, lengths = dataset.histories, dataset.histories.sizes
    n_clicks_of = np.bincount(histories.objects, minlength=dataset.n_items)
    pairs = histories.group_of_object * dataset.n_items + histories.objects
    busiest = np.sort(n_clicks_of)[::-1][: max(1, dataset.n_items // 100)]
    draft = DescriptionDraft()
    draft.facts |= {
        "users": len(histories),
        "items": dataset.n_items,
        "clicks": histories.n_objects,
        "clicks per user, mean": float(lengths.mean()),
        "clicks per item, mean": float(n_clicks_of.mean()),
        "clicks on the busiest 1 % of items, share": float(busiest.sum() / histories.n_objects),
        "clicks on an item the user clicked before": len(pairs) - len(np.unique(pairs)),
    }
    if dataset.is_stray is not None:
        draft.facts["stray clicks, share"] = float(dataset.is_stray.mean())
    for protocol, least in CLICKS_TO_BE_TESTED.items():
        n_short = int((lengths < least).sum())
        draft.facts[f"users never tested under `{protocol}` (fewer than {least} clicks)"] = n_short
    for key, value in dataset.notes.items():
        if isinstance(value, (int, float, str)):
            draft.facts[key.replace("_", " ")] = value
    draft.histograms += [
        histogram_of_sizes("Clicks per user", lengths),
        histogram_of_sizes("Clicks per item", n_clicks_of),
    ]
    draft.oddities += [
        *count_oddity(lengths == 1, "user", "with a single click, too few for any group"),
        *count_oddity(n_clicks_of == 0, "item", "without a click"),
    ]
    if dataset.titles is not None:
        without_title = np.array([not title.strip() for title in dataset.titles])
        draft.oddities += count_oddity(without_title, "item", "without a title")
    return draft.finish(dataset.name, "rs")

"""Click logs at a chosen level of noise: clicks planted that nobody meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise._checks import check_fraction
from groupnoise._random import RandomState, generator_from
from groupnoise._typing import IntArray
from groupnoise.datasets._containers import ClickDataset
from groupnoise.exceptions import ParameterError
from groupnoise.groups import Groups


def add_stray_clicks(
    dataset: ClickDataset, rate: float, *, random_state: RandomState = None
) -> ClickDataset:
    """Plant clicks that have nothing to do with the user, drawn by the items' popularity.

    A stray click is put before an existing one, at any place with equal chance, so the last
    click of every history stays the user's own.

    Parameters
    ----------
    dataset : ClickDataset
        The log; clicks already marked as stray stay marked.
    rate : float
        The share of planted clicks in the result, below 1.
    random_state : int, numpy generator or None
        Decides items and places.

    Returns
    -------
    ClickDataset
        With `is_stray`; `notes["stray_clicks_added"]` counts the planted ones.

    Examples
    --------
    >>> from groupnoise.datasets import make_shop
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
        new_place = np.arange(n_clicks) + np.searchsorted(before, np.arange(n_clicks), "right")
        notes["follows"] = np.insert(
            _moved_causes(notes["follows"], histories, new_place, offsets), before, -1
        )
    return replace(
        dataset,
        histories=Groups(np.insert(histories.objects, before, items), offsets),
        is_stray=np.insert(was_stray, before, True),
        notes=notes,
    )


def _moved_causes(
    follows: IntArray, histories: Groups, new_place: IntArray, new_offsets: IntArray
) -> IntArray:
    """Renumber the places clicks follow from after other clicks were put between them."""
    user = histories.group_of_object
    has_cause = follows >= 0
    cause = histories.offsets[user] + np.maximum(follows, 0)
    return np.where(has_cause, new_place[cause] - new_offsets[user], -1)

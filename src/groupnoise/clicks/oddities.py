"""What a log looks like that was probably read otherwise than it was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.words import counted
from groupnoise.io.datasets import ClickDataset

MAX_SHARE, MIN_USERS = 0.2, 20
"""Clicks of one user beyond which it hardly is one, of so many users or more."""
MIN_PAIRS, IN_ORDER = 100, 0.95
"""Of so many neighbouring clicks or more, the share in the order of ids that is no chance."""


def oddities_of(clicks: ClickDataset) -> Iterator[str]:
    """Yield a sentence for each sign that users or the order of clicks are not what they seem."""
    histories = clicks.histories
    sizes = histories.sizes
    most = int(sizes.argmax())
    if len(sizes) >= MIN_USERS and sizes[most] > MAX_SHARE * histories.n_objects:
        yield (
            f"user {clicks.user_ids[most]!s} has {sizes[most]} of {histories.n_objects} clicks; if "
            "that stands for all whom nobody knows, name a column of sessions with --user, or drop "
            "these rows"
        )
    if clicks.timestamps is None:
        items, group = np.asarray(histories.objects), histories.group_of_object
        steps = np.diff(items)[np.diff(group) == 0]
        if len(steps) >= MIN_PAIRS and (steps >= 0).mean() > IN_ORDER:
            yield (
                "the items of each user stand in the order of their ids, which is hardly the order "
                "of the clicks; without a column of times what was clicked last is not known"
            )


def about_foreign_items(asked: NDArray[Any], known: NDArray[Any]) -> str:
    """Say that a model knows none of the items of a log.

    `asked`: the items of the log. `known`: those of the model.

    >>> about_foreign_items(np.array(["a", "b"]), np.array(["x"]))
    "the model knows none of the 2 items of these clicks, such as 'a'; its own are such as 'x'."
    """
    return (
        f"the model knows none of the {counted(len(asked), 'items')} of these clicks, such as "
        f"{asked[0].item()!r}; its own are such as {known[0].item()!r}."
    )

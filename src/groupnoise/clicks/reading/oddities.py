"""Warnings about a log: signs that it was misread, or that clicks were not made by people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.audit import suspicious_users
from groupnoise.core.words import Message, Topic, counted
from groupnoise.io.columns.exclusions import shortened_id_warnings
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.tables.cells import EPOCHS, read_numbers
from groupnoise.io.tables.table import Table

MAX_SHARE, MIN_USERS = 0.2, 20
"""Share of clicks above which one user id is suspicious, in logs of so many users or more."""
MIN_PAIRS, IN_ORDER = 100, 0.95
"""Share of consecutive clicks in the order of ids that is suspicious, from so many pairs on."""
MIN_AGAIN, MIN_REPEATED, MIN_AT_ONCE = 10, 0.05, 0.01
"""Repeated clicks are reported from this count on, and from these shares of all clicks: of repeated
ones, and of those at the same time."""
MIN_PADDED = 0.1
"""Share of padded rows of an array from which on a warning is given."""
SCALES = {1.0: 1.0, 5.0: 3.0, 10.0: 5.0}
"""The lowest positive rating, by the best rating of a scale."""


def low_rating_warnings(table: Table, rating: str | None) -> Iterator[str]:
    """Yield a warning where ratings below the middle of their scale count as clicks."""
    ratings = np.zeros(0) if rating is None else read_numbers(table, rating)
    best = float(ratings.max(initial=0.0))
    bound = SCALES.get(best)
    n_low = 0 if bound is None else int((ratings < bound).sum())
    if n_low and bound is not None:
        yield Message(
            f"{n_low} of {counted(len(ratings), 'rows')} are rated below {bound:g} of {best:g} in "
            f"{rating!r} and count as clicks like all others; --min-rating {bound:g} leaves them "
            "out",
            Topic.CLICKS,
        )


def find_oddities(clicks: ClickDataset, repeats: str = "keep") -> Iterator[str]:
    """Yield a warning for each sign that users, clicks or their order were misread.

    `repeats`: what becomes of clicks on one item; see `merge_repeats`.
    """
    histories = clicks.histories
    sizes = histories.sizes
    most = int(sizes.argmax())
    if len(sizes) >= MIN_USERS and sizes[most] > MAX_SHARE * histories.n_objects:
        yield Message(
            f"user {clicks.user_ids[most]!s} has {sizes[most]} of {histories.n_objects} clicks; if "
            "that id stands for all anonymous users, name a column of sessions with --user, or "
            "drop these rows",
            Topic.CLICKS,
        )
    yield from bot_warnings(clicks)
    for ids, people in ((clicks.user_ids, "users"), (clicks.item_ids, "items")):
        yield from shortened_id_warnings(ids, people)
    yield from _time_warnings(
        np.asarray(clicks.timestamps if clicks.timestamps is not None else ())
    )
    is_next = np.diff(histories.group_of_object) == 0
    steps = np.diff(np.asarray(histories.objects))[is_next]
    n_again, n_at_once = int((steps == 0).sum()), 0
    if clicks.timestamps is not None:
        pauses = np.diff(np.asarray(clicks.timestamps))[is_next]
        n_at_once = int((pauses[steps == 0] == 0).sum())
    shares = np.array([n_again, n_at_once]) / histories.n_objects
    is_often = n_again >= MIN_AGAIN and (shares > (MIN_REPEATED, MIN_AT_ONCE)).any()
    if repeats == "keep" and is_often:
        at_once = f" ({n_at_once} of them at the same time)" if n_at_once else ""
        yield Message(
            f"{n_again} of {counted(histories.n_objects, 'clicks')} repeat the click before them, "
            f"same user and item{at_once}; each counts as a click, unless --repeats merge_adjacent "
            "merges them",
            Topic.CLICKS,
        )
    is_untimed = clicks.timestamps is None and len(steps) >= MIN_PAIRS
    if is_untimed and (_in_order(steps) or _in_order(_numbered_steps(clicks)[is_next])):
        yield Message(
            "the items of each user stand in the order of their ids, which is hardly the order of "
            "the clicks: the model would learn that "
            "order, and last-click metrics would be far too good; name a column of times (`time`, "
            "--time), or shuffle the rows if clicks have no order",
            Topic.ORDER,
        )


def _time_warnings(times: NDArray[Any]) -> Iterator[str]:
    """Yield a warning where timestamps are of two units, or missing."""
    units = [(times >= unit * EPOCHS[0]) & (times < unit * EPOCHS[1]) for unit in (1, 1000)]
    n_seconds, n_milliseconds = (int(each.sum()) for each in units)
    n_before = int((times <= 0).sum())
    if n_seconds and n_milliseconds:
        yield (
            f"{n_milliseconds} of {len(times)} times are milliseconds since 1970 and {n_seconds} "
            "are seconds, so clicks are out of order; write all in one unit, or name other times "
            "(--time)"
        )
    elif n_before and n_seconds + n_milliseconds > len(times) / 2:
        yield (
            f"{n_before} of {len(times)} times are 0 or less while the others are since the year "
            "2000, so these clicks come first; fill them in, drop these rows, or name other times "
            "(--time)"
        )


def padding_message(histories: Any) -> str | None:
    """Return a warning that an id is padding of an array and not an item, if it seems so.

    >>> padding_message(np.array([[3, 4, 0], [5, 0, 0], [3, 5, 4]]))
    'item 0 stands at the end of 2 of 3 histories and nowhere else, as what fills up rows does; it \
is learned as an item: leave it out, as in [row[row != 0] for row in histories]'
    """
    if not isinstance(histories, np.ndarray) or histories.ndim != 2 or histories.size == 0:
        return None
    for value, side in ((0, "end"), (-1, "end"), (0, "beginning"), (-1, "beginning")):
        found = histories == value
        found = found[:, ::-1] if side == "end" else found
        n_rows = int(found[:, 0].sum())
        is_run = (found == np.logical_and.accumulate(found, axis=1)).all()
        if is_run and n_rows > MIN_PADDED * len(found) and not found.all():
            return (
                f"item {value} stands at the {side} of {n_rows} of "
                f"{counted(len(found), 'histories')} and nowhere else, as what fills up rows does; "
                "it is learned as an item: leave it out, as in "
                f"[row[row != {value}] for row in histories]"
            )
    return None


def bot_warnings(clicks: ClickDataset) -> Iterator[str]:
    """Yield a warning of users that click like bots; a log on disk is read in blocks."""
    found = suspicious_users(clicks)
    if len(found["source"]):
        worst, n_others = clicks.user_ids[found["source"][0]], len(found["source"]) - 1
        others = f" (so do {counted(n_others, 'others')})" if n_others else ""
        yield Message(
            f"user {worst!s} clicks unlike people do{others}: {found['why'][0]}; `groupnoise audit "
            "DATA` lists such users, and --clean clean.csv --drop-users with it writes a cleaned "
            "log without them",
            Topic.CLICKS,
        )


def _in_order(steps: NDArray[Any]) -> bool:
    """Tell whether item ids rise, or fall, from click to click more often than by chance."""
    return bool(max((steps >= 0).mean(), (steps <= 0).mean()) > IN_ORDER)


def _numbered_steps(clicks: ClickDataset) -> NDArray[Any]:
    """Return the steps between items whose ids are ordered by the numbers in them: i9, i10."""
    ids = map(str, clicks.item_ids.tolist())
    parts = [
        [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", each)]
        for each in ids
    ]
    ranks = np.empty(len(parts), dtype=np.int64)
    ranks[sorted(range(len(parts)), key=parts.__getitem__)] = np.arange(len(parts))
    return np.diff(ranks[np.asarray(clicks.histories.objects)])


def unknown_items_message(items: NDArray[Any], known: NDArray[Any]) -> str:
    """Return a message that a model knows none of the items of a log.

    `items`: of the log. `known`: those of the model.

    >>> unknown_items_message(np.array(["a", "b"]), np.array(["x"]))
    "the model knows none of the 2 items of these clicks, such as 'a'; its own are such as 'x'."
    """
    return (
        f"the model knows none of the {counted(len(items), 'items')} of these clicks, such as "
        f"{items[0].item()!r}; its own are such as {known[0].item()!r}."
    )


def lost_zeros_message(items: NDArray[Any], known: NDArray[Any]) -> str | None:
    """Return a message that items of a file are unknown because they lost leading zeros, if so.

    `items`: of the log, or of another file. `known`: those of the model.

    >>> lost_zeros_message(np.array([7, 8]), np.array(["007", "8"]))
    "1 of 2 items, such as '7', which the model calls '007', lost the zeros in front; keep ids as \
text where the file is made (dtype=str in pandas)"
    """
    if known.dtype.kind != "U":
        return None
    texts = items.astype(np.str_)
    padded = {each.lstrip("0"): each for each in known.tolist() if each.startswith("0")}
    unknown = texts[~np.isin(texts, known)].tolist()
    stripped = [each for each in unknown if each[:1] != "0" and each in padded]
    if not stripped:
        return None
    return (
        f"{len(stripped)} of {counted(len(items), 'items')}, such as {stripped[0]!r}, which the "
        f"model calls {padded[stripped[0]]!r}, lost the zeros in front; keep ids as text where the "
        "file is made (dtype=str in pandas)"
    )

"""What is odd about a log: read otherwise than it was meant, or clicks that are no choices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.audit import suspicious_users
from groupnoise.core.words import counted
from groupnoise.io.columns.no_features import about_shortened_ids
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.tables.cells import EPOCHS, read_numbers
from groupnoise.io.tables.table import Table

MAX_SHARE, MIN_USERS = 0.2, 20
"""Clicks of one user beyond which it hardly is one, of so many users or more."""
MIN_PAIRS, IN_ORDER = 100, 0.95
"""Of so many neighbouring clicks or more, the share in the order of ids that is no chance."""
MIN_AGAIN, MIN_REPEATED, MIN_AT_ONCE = 10, 0.05, 0.01
"""So many clicks on what the user clicked just before are told of, and these shares of all clicks:
of such ones, and of those at the same time."""
MIN_PADDED = 0.1
"""Share of the rows of an array that are filled up, from which on it is told."""
ABOUT_CLICKS = (
    "count as clicks like all others",
    "counts as a click, unless",
    "audit DATA",
    "for all anonymous users",
)
"""What says that clicks of a log may be no choices of people."""
ORDER_OF_IDS = "the items of each user stand in the order of their ids"
SCALES = {1.0: 1.0, 5.0: 3.0, 10.0: 5.0}
"""From which rating on a row speaks for its item, by the best rating of a scale."""


def about_low_ratings(table: Table, rating: str | None) -> Iterator[str]:
    """Yield a sentence where rows count as clicks though their users did not like the item."""
    ratings = np.zeros(0) if rating is None else read_numbers(table, rating)
    best = float(ratings.max(initial=0.0))
    bound = SCALES.get(best)
    n_low = 0 if bound is None else int((ratings < bound).sum())
    if n_low and bound is not None:
        yield (
            f"{n_low} of {counted(len(ratings), 'rows')} are rated below {bound:g} of {best:g} in "
            f"{rating!r} and count as clicks like all others; --min-rating {bound:g} leaves them "
            "out"
        )


def oddities_of(clicks: ClickDataset, repeats: str = "keep") -> Iterator[str]:
    """Yield a sentence for each sign that users, clicks or their order are not what they seem.

    `repeats`: what becomes of clicks on one item; see `merge_repeats`.
    """
    histories = clicks.histories
    sizes = histories.sizes
    most = int(sizes.argmax())
    if len(sizes) >= MIN_USERS and sizes[most] > MAX_SHARE * histories.n_objects:
        yield (
            f"user {clicks.user_ids[most]!s} has {sizes[most]} of {histories.n_objects} clicks; if "
            "that id stands for all anonymous users, name a column of sessions with --user, or "
            "drop these rows"
        )
    yield from about_bots(clicks)
    for ids, people in ((clicks.user_ids, "users"), (clicks.item_ids, "items")):
        yield from about_shortened_ids(ids, people)
    yield from _about_times(np.asarray(clicks.timestamps if clicks.timestamps is not None else ()))
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
        yield (
            f"{n_again} of {counted(histories.n_objects, 'clicks')} repeat the click before them, "
            f"same user and item{at_once}; each counts as a click, unless --repeats merge_adjacent "
            "merges them"
        )
    is_untimed = clicks.timestamps is None and len(steps) >= MIN_PAIRS
    if is_untimed and (_in_order(steps) or _in_order(_numbered_steps(clicks)[is_next])):
        yield (
            f"{ORDER_OF_IDS}, which is hardly the order of the clicks: the model would learn that "
            "order, and last-click metrics would be far too good; name a column of times (`time`, "
            "--time), or shuffle the rows if clicks have no order"
        )


def _about_times(times: NDArray[Any]) -> Iterator[str]:
    """Yield a sentence where times are of two units, or not known."""
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


def about_padding(histories: Any) -> str | None:
    """Say that an id fills up the rows of an array and is no item, if it does.

    >>> about_padding(np.array([[3, 4, 0], [5, 0, 0], [3, 5, 4]]))
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


def about_bots(clicks: ClickDataset) -> Iterator[str]:
    """Yield a sentence where users click unlike people do; a log on disk is read in blocks."""
    found = suspicious_users(clicks)
    if len(found["source"]):
        worst, n_others = clicks.user_ids[found["source"][0]], len(found["source"]) - 1
        others = f" (so do {counted(n_others, 'others')})" if n_others else ""
        yield (
            f"user {worst!s} clicks unlike people do{others}: {found['why'][0]}; `groupnoise audit "
            "DATA` lists such users, and --clean clean.csv --drop-users with it writes a cleaned "
            "log without them"
        )


def _in_order(steps: NDArray[Any]) -> bool:
    """Tell whether items rise, or fall, from click to click more than chance would have it."""
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


def about_lost_zeros(asked: NDArray[Any], known: NDArray[Any]) -> str | None:
    """Say that items of a file are strange to a model for want of zeros in front, if they are.

    `asked`: the items of the log, or of another file. `known`: those of the model.

    >>> about_lost_zeros(np.array([7, 8]), np.array(["007", "8"]))
    "1 of 2 items, such as '7', which the model calls '007', lost the zeros in front; keep ids as \
text where the file is made (dtype=str in pandas)"
    """
    if known.dtype.kind != "U":
        return None
    written = asked.astype(np.str_)
    spelt = {each.lstrip("0"): each for each in known.tolist() if each.startswith("0")}
    strange = written[~np.isin(written, known)].tolist()
    bare = [each for each in strange if each[:1] != "0" and each in spelt]
    if not bare:
        return None
    return (
        f"{len(bare)} of {counted(len(asked), 'items')}, such as {bare[0]!r}, which the model "
        f"calls {spelt[bare[0]]!r}, lost the zeros in front; keep ids as text where the file is "
        "made (dtype=str in pandas)"
    )

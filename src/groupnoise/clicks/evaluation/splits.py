"""Evaluation protocols of recommenders, and the windows each cuts from a log."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from groupnoise.clicks.windows.cutting import cut_windows, take_windows
from groupnoise.core.arrays import BoolArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import Windows, WindowSplit

CLICK_PROTOCOLS = ("authors", "paper", "leave_one_out")
AUTHORS_SIZE = 5
"""Clicks before the target in a window of the authors' code."""
MIN_PROTOCOL_CLICKS = {"last": 2, "leave_one_out": 3, "authors": AUTHORS_SIZE + 2}
"""Least clicks of a test user, by protocol."""
KINDS = (*MIN_PROTOCOL_CLICKS, "time", "cold_users")
"""Protocols of `fit`, `evaluate`, `compare` and `data describe`."""
WITH_VALIDATION = "+validation"
"""Suffix of a protocol whose validation clicks are trained on too."""
DEFAULT_QUANTILE = 0.9


def split_clicks(
    histories: Groups,
    protocol: str = "authors",
    *,
    size: int = 5,
    min_size: int | None = None,
    random_state: RandomState = None,
) -> WindowSplit:
    """Cut histories into windows and hold some of each user's out.

    Parameters
    ----------
    histories : Groups
        One group of item ids per user, in time order.
    protocol : {'authors', 'paper', 'leave_one_out'}, default='authors'
        - `authors`: sliding windows of `size` clicks and the next. Users with at least `size + 2`
          clicks give their last window to test and the one before it to validation; all other
          windows, also those of shorter users, train. (The authors' code tests likewise, has no
          validation part, and drops the shorter users.)
        - `paper`: disjoint chunks of at most `size + 1`. Users with at least three chunks give a
          random one to test and another to validation; all other chunks train.
        - `leave_one_out`: the last click of users with at least three is the target for test,
          the one before it for validation, every earlier one trains, with up to `size` clicks
          before it as the group.
    size : int, default=5
        The most objects a group may hold.
    min_size : int, optional
        The fewest objects of a training group: `size` for `authors`, otherwise 1, unless given.
        With `authors` a smaller number adds the beginnings of histories as shorter groups.
    random_state : int, numpy generator or None, default=None
        Decides the chunks of `paper`; the other protocols draw nothing.

    Returns
    -------
    split : WindowSplit
        A click is the target of at most one window, so no held-out target is trained on.
        `notes` counts users that are tested, that only train, and that are too short for either.

    Examples
    --------
    >>> from groupnoise import Groups
    >>> split = split_clicks(Groups.from_lists([range(8), range(3)]), size=5, min_size=2)
    >>> split.test.positions.tolist(), split.validation.positions.tolist()
    ([7], [6])
    >>> split.train.users.tolist(), split.train.positions.tolist()
    ([0, 0, 0, 0, 1], [2, 3, 4, 5, 2])
    """
    check_choice("protocol", protocol, CLICK_PROTOCOLS)
    if protocol == "paper":
        windows = cut_windows(histories, "chunks", size=size, min_size=min_size)
        in_validation, in_test = _two_random_windows(windows, generator_from(random_state))
    else:
        if min_size is None:
            min_size = size if protocol == "authors" else 1
        windows = cut_windows(histories, "sliding", size=size, min_size=min_size)
        least_clicks = size + 2 if protocol == "authors" else 3
        from_the_end = histories.sizes[windows.users] - windows.positions
        is_tested = histories.sizes[windows.users] >= least_clicks
        in_validation, in_test = is_tested & (from_the_end == 2), is_tested & (from_the_end == 1)
    in_training = ~in_validation & ~in_test
    _check_parts_not_empty(protocol, in_training, in_test)
    return WindowSplit(
        train=take_windows(windows, in_training),
        validation=take_windows(windows, in_validation),
        test=take_windows(windows, in_test),
        notes=_count_users(protocol, len(histories), windows.users, in_test),
    )


def _two_random_windows(
    windows: Windows, generator: np.random.Generator
) -> tuple[BoolArray, BoolArray]:
    """Mark two distinct random windows of every user with at least three."""
    # Windows come ordered by user: a random order inside each user makes the first two a draw.
    order = np.lexsort((generator.random(len(windows.users)), windows.users))
    counts = np.bincount(windows.users)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_tested = counts[windows.users] >= 3
    in_validation, in_test = np.zeros((2, len(order)), dtype=np.bool_)
    in_validation[order] = rank == 0
    in_test[order] = rank == 1
    return in_validation & is_tested, in_test & is_tested


def _check_parts_not_empty(protocol: str, in_training: BoolArray, in_test: BoolArray) -> None:
    for part, rows in {"test": in_test, "training": in_training}.items():
        if not rows.any():
            raise DataError(
                f"protocol {protocol!r} leaves no {part} window: the histories are too short; "
                "use 'leave_one_out', a smaller size, or more clicks per user."
            )


def _count_users(
    protocol: str, n_users: int, users: IntArray, in_test: BoolArray
) -> dict[str, Any]:
    n_with_windows, n_tested = len(np.unique(users)), int(in_test.sum())
    return {
        "protocol": protocol,
        "users": n_users,
        "users_tested": n_tested,
        "users_training_only": n_with_windows - n_tested,
        "users_too_short": n_users - n_with_windows,
    }


@dataclass(frozen=True)
class ClickProtocol:
    """How a log is divided.

    `kind` (one of "last", "leave_one_out", "authors", "time", "cold_users"): - `last`: the last
        click of every history is the test target; nothing is for validation. - `leave_one_out`: of
        users with three clicks or more the last is the test target and the one before it is for
        validation; all others train. - `authors`: the same for users with seven clicks or more,
        given the five before each. - `time`: clicks up to a timestamp train, later ones are test
        targets. - `cold_users`: a tenth of the users is for testing, a tenth for validation, and
        none of their clicks trains.
    `quantile`: `time`: the share of all clicks that came up to the cut.
    `cut`: `time`: the last timestamp that trains, in the unit of the log; instead of `quantile`.
    `date`: `time`: the first day that does not train, such as 2016-05-31; instead of `quantile`.
    `successive`: `time`, `cold_users`: test every held-out click, not only a user's last.
    `number`: `cold_users`: which draw of the users.
    `trains_validation`: whether validation clicks train too.
    """

    kind: str = "leave_one_out"
    quantile: float | None = None
    cut: float | None = None
    date: str | None = None
    successive: bool = False
    number: int = 0
    trains_validation: bool = False

    @classmethod
    def parse(cls, word: str) -> ClickProtocol:
        """Return the protocol that a word names.

        `word`: `last`, `leave_one_out`, `authors`, `time:0.9`, `time:2016-05-31`,
        `time:1464652800`, `cold_users` or `cold_users:1`; `:successive` may follow the last four,
        and `+validation` all.

        Examples
        --------
        >>> ClickProtocol.parse("time:0.8:successive").quantile
        0.8
        >>> ClickProtocol.parse("leave_one_out+validation").trains_validation
        True
        """
        name, has_suffix, suffix = word.partition("+")
        kind, *parts = name.split(":")
        if kind not in KINDS or (has_suffix and f"{has_suffix}{suffix}" != WITH_VALIDATION):
            raise ParameterError(_unknown_protocol(word))
        successive = bool(parts) and parts[-1] in ("successive", "last")
        target = parts.pop() if successive else "last"
        if len(parts) > 1 or ((parts or successive) and kind not in ("time", "cold_users")):
            raise ParameterError(_unknown_protocol(word))
        found = cls(kind, successive=target == "successive", trains_validation=bool(has_suffix))
        if kind == "time":
            return _with_cut(found, parts[0] if parts else str(DEFAULT_QUANTILE), word)
        if parts and not parts[0].isdigit():
            raise ParameterError(_unknown_protocol(word))
        return replace(found, number=int(parts[0]) if parts else 0)

    @property
    def word(self) -> str:
        """What :meth:`parse` reads as this protocol."""
        word = self.kind
        if self.kind == "time":
            word += f":{self.date or format(self.quantile or self.cut or 0.0, '.10g')}"
        elif self.number:
            word += f":{self.number}"
        word += ":successive" if self.successive else ""
        return word + (WITH_VALIDATION if self.trains_validation else "")


def _with_cut(protocol: ClickProtocol, text: str, word: str) -> ClickProtocol:
    """Return a time split with its cut: a share, a timestamp or a day."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ParameterError(f"{word!r} holds no day of the calendar.") from None
        return replace(protocol, date=text)
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(_unknown_protocol(word)) from None
    if not np.isfinite(number) or number <= 0:
        raise ParameterError(f"the cut of {word!r} must be a share below 1, a moment or a day.")
    if number < 1:
        return replace(protocol, quantile=number)
    return replace(protocol, cut=number)


def _unknown_protocol(word: str) -> str:
    return (
        "a protocol of clicks is last, leave_one_out, authors, time:0.9, time:2016-05-31 or "
        "cold_users, with :successive after the last three and +validation after all; got "
        f"{word!r}."
    )

"""The protocols under which recommenders are judged, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from groupnoise.exceptions import ParameterError

KINDS = ("last", "leave_one_out", "authors", "time", "cold_users")
WITH_VALIDATION = "+validation"
"""Ends the name of a protocol whose validation clicks are trained on as well."""
DEFAULT_QUANTILE = 0.9


@dataclass(frozen=True)
class ClickProtocol:
    """How a log is divided.

    `kind` (one of "last", "leave_one_out", "authors", "time", "cold_users"): - `last`: the last
        click of every history is asked for; nothing is for validation. - `leave_one_out`: of users
        with three clicks or more the last is asked for and the one before it is for validation; all
        others train. - `authors`: the same for users with seven clicks or more, by the five before
        each. - `time`: what happened up to a moment trains, what came later is asked for. -
        `cold_users`: a tenth of the users is asked about, a tenth is for validation, and of neither
        anything trains.
    `quantile`: `time`: the share of all clicks that came up to the cut.
    `cut`: `time`: the last moment that trains, in the unit of the log; instead of `quantile`.
    `date`: `time`: the first day that does not train, such as 2016-05-31; instead of `quantile`.
    `successive`: `time`, `cold_users`: ask for every held-out click, not only for a user's last.
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
        name, plus, rest = word.partition("+")
        kind, *parts = name.split(":")
        if kind not in KINDS or (plus and f"{plus}{rest}" != WITH_VALIDATION):
            raise ParameterError(_about_words(word))
        successive = bool(parts) and parts[-1] in ("successive", "last")
        target = parts.pop() if successive else "last"
        if len(parts) > 1 or ((parts or successive) and kind not in ("time", "cold_users")):
            raise ParameterError(_about_words(word))
        found = cls(kind, successive=target == "successive", trains_validation=bool(plus))
        if kind == "time":
            return _with_cut(found, parts[0] if parts else str(DEFAULT_QUANTILE), word)
        if parts and not parts[0].isdigit():
            raise ParameterError(_about_words(word))
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
    """Return a time split with its cut: a share, a moment or a day."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ParameterError(f"{word!r} holds no day of the calendar.") from None
        return replace(protocol, date=text)
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(_about_words(word)) from None
    if not np.isfinite(number) or number <= 0:
        raise ParameterError(f"the cut of {word!r} must be a share below 1, a moment or a day.")
    if number < 1:
        return replace(protocol, quantile=number)
    return replace(protocol, cut=number)


def _about_words(word: str) -> str:
    return (
        "a protocol of clicks is last, leave_one_out, authors, time:0.9, time:2016-05-31 or "
        "cold_users, with :successive after the last three and +validation after all; got "
        f"{word!r}."
    )

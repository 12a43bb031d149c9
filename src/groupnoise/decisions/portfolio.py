"""Option: one setting of the parameters that are "auto", and how explicit values narrow a list."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from groupnoise.exceptions import ParameterError

AUTO = "auto"
MAX_WAITING = 4.0
"""Wall-clock seconds per second of the budget at most, however busy the machine is."""
SECONDS_OF_UNIT = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Option:
    """One setting worth trying.

    `name`: short and unique in its portfolio, such as "linear, power".
    `parameters`: parameters of the estimator: numbers, texts, None, and sequences and mappings of
        these.
    `why`: what holds of data that this setting suits best, in half a sentence.
    `complexity`: of two settings that held-out data cannot tell apart the one of lower complexity
        is kept.
    `measure`: what its score is, where that is not the criterion of the others.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    complexity: float = 0.0
    measure: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", plain(dict(self.parameters)))


def narrow(options: Sequence[Option], explicit: Mapping[str, Any]) -> list[Option]:
    """Return the options that agree with explicit values.

    One explicit parameter after the other: options that ask for another value are left out; if
    none asks for this value it replaces theirs, since a value outside the portfolio is the
    user's to give. Options that become equal are tried once.

    At least one, in the order of the portfolio. `explicit`: parameters the user set to something
    else than "auto".
    """
    if not options:
        raise ParameterError("a portfolio needs at least one option.")
    left = list(options)
    for name, value in explicit.items():
        wanted = plain(value) if is_plain(value) else value
        agreeing = [each for each in left if each.parameters.get(name, wanted) == wanted]
        left = agreeing or [_with_value(each, name, value) for each in left]
    distinct: dict[str, Option] = {}
    for option in left:
        distinct.setdefault(repr(sorted(option.parameters.items())), option)
    return list(distinct.values())


def _with_value(option: Option, name: str, value: Any) -> Option:
    """Return an option with another value, or without it where JSON cannot hold the value."""
    rest = {key: each for key, each in option.parameters.items() if key != name}
    return replace(option, parameters={**rest, name: value} if is_plain(value) else rest)


def is_plain(value: Any) -> bool:
    """Tell whether a value can stand in JSON."""
    try:
        plain(value)
    except ParameterError:
        return False
    return True


def plain(value: Any) -> Any:
    """Return a value as JSON restores it, with tuples for sequences."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(plain(each) for each in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ParameterError(
        f"a recorded value must be a number, a text, None or a sequence of these; got {value!r}."
    )


def is_auto(value: Any) -> bool:
    """Tell whether a parameter is left to `fit`."""
    return isinstance(value, str) and value == AUTO


def parse_budget(budget: Any, *, default: float | None = None) -> float | None:
    """Return a budget of time in seconds, None where there is no limit.

    `budget`: seconds, or a text such as "90s", "2m" or "1.5h". `default`: what "auto" stands for.

    >>> parse_budget("2m"), parse_budget(30), parse_budget("auto", default=600.0)
    (120.0, 30.0, 600.0)
    """
    if is_auto(budget):
        return default
    if budget is None:
        return None
    seconds = math.nan
    if isinstance(budget, str):
        match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([smh]?)", budget.strip().lower())
        if match:
            seconds = float(match[1]) * SECONDS_OF_UNIT[match[2]]
    elif not isinstance(budget, bool) and hasattr(budget, "__float__"):
        seconds = float(budget)
    if not math.isfinite(seconds) or seconds <= 0:
        raise ParameterError(
            f"budget must be 'auto', or a time greater than zero such as 90, '90s', '2m' or '1h'; "
            f"got {budget!r}."
        )
    return seconds


def spell_budget(seconds: float) -> str:
    """Return seconds as `parse_budget` reads them, rounded up.

    >>> spell_budget(0.2), spell_budget(89), spell_budget(130), spell_budget(9000)
    ('1s', '89s', '3m', '3h')
    """
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1), ("m", 60)) if seconds <= 90 * size), ("h", 3600)
    )
    return f"{max(1, math.ceil(seconds / size))}{unit}"


class Stopwatch:
    """Time spent since construction.

    The smaller of wall-clock and processor time, so that a busy machine does not shorten a search,
    but at least a quarter of the wall-clock time.
    """

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Return the seconds spent."""
        wall = time.monotonic() - self._wall
        return max(min(wall, time.process_time() - self._processor), wall / MAX_WAITING)

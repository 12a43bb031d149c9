"""The word "auto", and the time that deciding may take."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from groupnoise.exceptions import ParameterError

AUTO = "auto"
MAX_WAITING = 4.0
"""Wall-clock seconds per second of the budget at most, however busy the machine is."""
SECONDS_OF_UNIT = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def is_auto(value: Any) -> bool:
    """Tell whether a parameter is left to `fit`.

    True for the word "auto" and nothing else. `value`: the parameter as the user gave it.
    """
    return isinstance(value, str) and value == AUTO


def parse_budget(budget: Any, *, default: float | None = None) -> float | None:
    """Return a budget of time in seconds.

    Seconds, or None where there is no limit. `budget`: seconds, or a text such as "90s", "2m" or
    "1.5h"; None sets no limit. `default`: what "auto" stands for; None, the default, is no limit.

    Examples
    --------
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


class Stopwatch:
    """Time spent on work since it was made.

    Processor time on a busy machine, so that other processes do not decide what is tried;
    wall-clock time where several threads work at once. Waiting counts a quarter at least.
    """

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Return the seconds spent.

        Never more than the clock on the wall says.
        """
        wall = time.monotonic() - self._wall
        return max(min(wall, time.process_time() - self._processor), wall / MAX_WAITING)

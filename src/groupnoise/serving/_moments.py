"""When a click was, as far as the order of a user's clicks needs it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from groupnoise.exceptions import DataError

TIME_COLUMNS = (
    "time", "timestamp", "unixreviewtime", "ts", "datetime", "date", "event_time", "created_at",
    "t_dat",
)  # fmt: skip
"""Names of a time column, the likeliest first: those that the readers of data sets know too."""


def find_time_column(names: Iterable[str]) -> str | None:
    """Return the column that looks like the time, or None."""
    by_lower_name = {name.strip().lower(): name for name in names}
    return next((by_lower_name[name] for name in TIME_COLUMNS if name in by_lower_name), None)


def read_moment(value: Any, place: str, column: str | None) -> float:
    """Return a number as it is and an ISO date as seconds; name the `place` of anything else."""
    moment = _seconds_of(value)
    if moment is None or not math.isfinite(moment):
        raise DataError(
            f"{place}: column {column!r} holds {value!r}, which says no time; write numbers or ISO "
            "dates such as 2024-01-31 10:00:00, or leave the column out of a log in time order."
        )
    return moment


def _seconds_of(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text.replace("/", "-").replace("Z", "+00:00"))
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()

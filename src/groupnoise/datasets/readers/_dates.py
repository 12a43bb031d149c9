"""Whether 01/02/2024 is in January or in February: told by the other dates, never guessed."""

from __future__ import annotations

from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._sources import Report
from groupnoise.datasets.readers._tables import Table
from groupnoise.exceptions import DataError

_TWO_NUMBERS_AND_A_YEAR = r"^\s*(\d{1,2})([/.\-])(\d{1,2})[/.\-]\d{4}(?:\D|$)"


def reads_month_first(table: Table, column: str | None, report: Report) -> bool:
    """Tell whether the dates of a column are written month/day/year.

    Dates of another form, such as 2024-01-31, have the answer False; so have dates with points,
    which are written day first everywhere. Dates that may be read either way are refused.

    Parameters
    ----------
    table : Table
        All rows, or the first ones.
    column : str, optional
        The column of times, if there is one.
    report : callable
        Told of the order that was found.
    """
    if column is None or table.frame.schema[column] != pl.String:
        return False
    cells = table.frame[column].drop_nulls()
    parts = cells.str.extract_groups(_TWO_NUMBERS_AND_A_YEAR).struct.unnest()
    parts.columns = ["first", "mark", "second"]
    if parts.height == 0 or parts["first"].null_count():
        return False
    is_day_first = (parts["first"].cast(pl.Int64) > 12).any() or (parts["mark"] == ".").all()
    is_month_first = bool((parts["second"].cast(pl.Int64) > 12).any())
    if not is_day_first and not is_month_first:
        unclear = cells.filter(parts["first"] != parts["second"])
        if len(unclear) == 0:
            return False
        raise DataError(
            f"{table.origin}: the dates in column {column!r} may be day/month/year or "
            f"month/day/year ({unclear[0]!r} and the others fit both); write them as ISO dates, "
            "such as 2024-01-31."
        )
    order = "day/month/year" if is_day_first else "month/day/year"
    report(f"read the dates in column {column!r} as {order}")
    return not is_day_first


def with_day_first(cells: pl.Series) -> pl.Series:
    """Return month/day/year as day/month/year, the order that the parser of dates knows."""
    return cells.str.replace(r"^\s*(\d{1,2})([/.\-])(\d{1,2})", "${3}${2}${1}")

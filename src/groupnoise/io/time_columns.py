"""Which columns hold times, by their cells alone."""

from __future__ import annotations

import re

import polars as pl

DATE = re.compile(r"\s*\d{4}([-/])\d{2}\1\d{2}([ T]|\s*$)")
DAY_AND_MONTH = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{4}(\D|$)")
EPOCHS = (946_684_800, 2_208_988_800)
"""Seconds since 1970 that begin the years 2000 and 2040: numbers between are taken as times."""
N_LOOKED_AT = 100
"""Cells that tell whether a column holds dates."""


def columns_of_times(frame: pl.DataFrame) -> tuple[list[str], str]:
    """Return the columns that hold times, and what these are: dates, or numbers if there are none.

    `frame`: all rows, or the first few, of columns that play no other part.
    """
    dated = [cells.name for cells in frame if looks_dated(cells)]
    if dated:
        return dated, "dates"
    return [cells.name for cells in frame if _holds_epochs(cells)], "times since 1970"


def looks_dated(cells: pl.Series) -> bool:
    """Tell whether the first cells that are not empty are dates, as text or by their type."""
    if cells.dtype in (pl.Date, pl.Datetime):
        return True
    first = cells.drop_nulls().head(N_LOOKED_AT)
    if first.dtype != pl.String or not len(first):
        return False
    return all(map(DATE.match, first)) or all(map(DAY_AND_MONTH.match, first))


def _holds_epochs(cells: pl.Series) -> bool:
    """Tell whether the first cells are seconds or milliseconds since 1970, of the years we know."""
    if not (cells.dtype.is_numeric() or cells.dtype == pl.String):
        return False
    first = cells.drop_nulls().head(N_LOOKED_AT).cast(pl.Float64, strict=False)
    if not len(first) or first.null_count():
        return False
    return any(first.is_between(*(unit * end for end in EPOCHS)).all() for unit in (1, 1000))

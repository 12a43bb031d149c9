"""Parsing cells as numbers, timestamps, dates and ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import MAX_ID_LENGTH, check_choice
from groupnoise.exceptions import DataError
from groupnoise.io.tables.sources import Report

if TYPE_CHECKING:
    from groupnoise.io.tables.table import Table

DATE_ORDERS = {"dmy": "day/month/year", "mdy": "month/day/year"}
_TWO_NUMBERS_AND_A_YEAR = r"^\s*(\d{1,2})([/.\-])(\d{1,2})[/.\-]\d{4}(?:\D|$)"
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"
"""Whole numbers without leading zeros, so that '007' and '7' stay two ids."""
DATE = re.compile(r"\s*\d{4}([-/])\d{2}\1\d{2}([ T]|\s*$)")
DAY_AND_MONTH = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{4}(\D|$)")
EPOCHS = (946_684_800, 2_208_988_800)
"""Seconds since 1970 that begin the years 2000 and 2040: numbers between are taken as times."""
WRITTEN_OUT = re.compile(
    r"\s*(\d{1,2}\.? [^\W\d]{3,9}\.?,? \d{4}|[^\W\d]{3,9}\.? \d{1,2},? \d{4}"
    r"|\d{1,2}-[^\W\d]{3}-\d{4})"
)
FURTHER_FORMS = (
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d %b %Y %H:%M:%S",
    "%d/%m/%Y %I:%M %p", "%d/%m/%Y %I:%M:%S %p", "%d %b %Y %H:%M:%S %z", "%d/%b/%Y:%H:%M:%S %z",
    "%b %d, %Y %I:%M %p", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y",
)  # fmt: skip
"""Further date formats that are tried."""
COMPACT = (19_000_101, 20_991_231)
"""Range of dates written as 20240131."""
_BOUND = r"^\s*[<>≤≥]=?\s*[+-]?\d[\d.,]*"
"""How laboratories write that a number is below or above what they can measure."""
BOOLEANS = (
    ("true", "false"), ("yes", "no"), ("ja", "nein"), ("oui", "non"), ("wahr", "falsch"),
)  # fmt: skip
N_SAMPLE_CELLS = 100
"""Cells of a column that are examined."""


def detect_date_order(
    table: Table, column: str | None, given: str | None, report: Report
) -> str | None:
    """Return the order in which the dates of a column are written, one of `DATE_ORDERS`.

    None for other formats, such as 2024-01-31. A day beyond the 12th, or points as separators,
    which imply day first, decide. Ambiguous dates are read as `given`, and refused if that is None.

    `table`: all rows, or the first ones. `column`: the column of times, if there is one. `report`:
    told of the order that was found.
    """
    if given is not None:
        check_choice("date_order", given, DATE_ORDERS)
    if column is None or table.frame.schema[column] != pl.String:
        return None
    cells = table.frame[column].drop_nulls()
    parts = cells.str.extract_groups(_TWO_NUMBERS_AND_A_YEAR).struct.unnest()
    parts.columns = ["first", "mark", "second"]
    if parts.height == 0 or parts["first"].null_count():
        return None
    if (parts["first"].cast(pl.Int64) > 12).any() or (parts["mark"] == ".").all():
        order = "dmy"
    elif (parts["second"].cast(pl.Int64) > 12).any():
        order = "mdy"
    elif given is not None or (parts["first"] == parts["second"]).all():
        order = given or "dmy"
    else:
        unclear = cells.filter(parts["first"] != parts["second"])
        raise DataError(
            f"{table.origin}: the dates in column {column!r} may be day/month/year or "
            f"month/day/year ({unclear[0]!r} and the others fit both); say which with "
            "`date_order` (--date-order dmy or mdy)."
        )
    report(f"read the dates in column {column!r} as {DATE_ORDERS[order]}")
    return order


def month_first_to_day_first(cells: pl.Series) -> pl.Series:
    """Return month/day/year as day/month/year, which the date parser expects."""
    return cells.str.replace(r"^\s*(\d{1,2})([/.\-])(\d{1,2})", "${3}${2}${1}")


def read_numbers(table: Table, column: str) -> FloatArray:
    """Return a column as finite numbers, shape (n_rows,)."""
    cells = _scalar_column(table, column)
    text = cells.str.strip_chars() if cells.dtype == pl.String else cells
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count():
        check_decimal_commas(table, [column])
    is_bounded = numbers.is_null() & text.cast(pl.String).str.contains(_BOUND)
    told = partial(_check_cells, table, column, cells)
    half = "write a number in its place, such as half of a lower limit"
    told(is_bounded, "is a limit of detection and no number", half)
    told(numbers.is_null(), "is not a number", "correct or drop that row")
    told(~numbers.is_finite(), "is not finite", "impute or drop that row")
    return numbers.to_numpy()


def holds_dates(table: Table, column: str) -> bool:
    """Tell whether the first cell of a column is text but no number."""
    first = table.frame[column].head(1)
    return bool(first.dtype == pl.String and first.cast(pl.Float64, strict=False).null_count())


def read_timestamps(
    table: Table, column: str, *, are_dates: bool | None = None, month_first: bool = False
) -> NDArray[Any]:
    """Return a column of times, shape (n_rows,): numbers as they are, dates as seconds.

    Whether text is to be read as dates is decided by its first cell unless `are_dates` says it;
    `month_first` is whether `detect_date_order` says "mdy" of the column.
    """
    cells = _scalar_column(table, column)
    if are_dates is None:
        are_dates = holds_dates(table, column)
    if cells.dtype == pl.String and are_dates:
        timestamps = _parse_dates(table, column, cells, month_first)
    elif cells.dtype.is_temporal():
        timestamps = cells
    elif cells.dtype.is_integer():
        return np.asarray(cells.to_numpy(), dtype=np.int64)
    else:
        return read_numbers(table, column)
    return timestamps.cast(pl.Datetime("us")).to_physical().to_numpy() / 1e6


def read_id_cells(table: Table, column: str) -> pl.Series:
    """Return a column of ids: Int64 if all cells are whole numbers, String otherwise."""
    return as_id_cells(table, column, _scalar_column(table, column))


def number_ids(cells: pl.Series) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted ids among the cells and, for each cell, which of them it holds."""
    vocabulary = cells.unique().sort()
    return ids_as_array(vocabulary), index_cells(cells, vocabulary)


def index_cells(cells: pl.Series, vocabulary: pl.Series) -> IntArray:
    """Return the position in a sorted `vocabulary` of every cell, -1 where it is not there."""
    if vocabulary.dtype == pl.Int64 and cells.dtype == pl.Int64 and len(vocabulary):
        ids, requested = vocabulary.to_numpy(), cells.to_numpy()
        span = int(ids[-1]) - int(ids[0]) + 1
        # Ids close together are looked up in a table, several times quicker than by a join.
        if span <= 8 * len(ids) and ids[0] <= requested.min() and requested.max() <= ids[-1]:
            table = np.full(span, -1, dtype=np.int64)
            table[ids - ids[0]] = np.arange(len(ids))
            return table[requested - ids[0]]
    numbered = pl.DataFrame({"id": vocabulary}).with_row_index("code")
    found = pl.DataFrame({"id": cells}).join(
        numbered, on="id", how="left", maintain_order="left", nulls_equal=True
    )
    return found["code"].cast(pl.Int64).fill_null(-1).to_numpy()


def ids_as_array(vocabulary: pl.Series) -> NDArray[Any]:
    """Return ids as an int64 or text array."""
    if vocabulary.dtype.is_integer():
        return np.asarray(vocabulary.to_numpy(), dtype=np.int64)
    return np.array(vocabulary.to_list(), dtype=np.str_)


def as_id_cells(table: Table, column: str, cells: pl.Series) -> pl.Series:
    """Return ids as Int64 cells if all of them are whole numbers, as text cells otherwise."""
    whole: pl.Series
    if cells.dtype.is_integer() and cells.dtype != pl.UInt64:
        whole = cells.cast(pl.Int64)
        return whole
    if cells.dtype.is_float():
        _check_cells(
            table, column, cells, ~cells.is_finite(), "cannot be an id", "fill it or drop that row"
        )
        # Larger whole numbers are not exact as floats, so two ids would become one.
        limit = 2**24 if cells.dtype == pl.Float32 else 2**53
        _check_cells(
            table, column, cells, cells.abs() >= limit, "is too large for a number with a fraction",
            "write the ids as whole numbers or text",
        )  # fmt: skip
        _check_cells(
            table, column, cells, ~(cells == cells.round(0)), "is not a whole number",
            "ids must be text or whole numbers",
        )  # fmt: skip
        whole = cells.cast(pl.Int64)
        return whole
    # Blanks around an id are layout: 'a' and ' a' are the same item.
    text: pl.Series = cells.cast(pl.String).str.strip_chars()
    _check_cells(table, column, cells, text == "", "is blank", "fill it or drop that row")
    if text.str.contains(WHOLE_NUMBER).all():
        whole = text.cast(pl.Int64)
        return whole
    is_odd = (text.str.len_chars() > MAX_ID_LENGTH) | text.str.contains("\x00", literal=True)
    _check_cells(
        table, column, text, is_odd, "cannot be an id",
        f"ids have at most {MAX_ID_LENGTH} characters and no NUL; look for a quotation mark that "
        "is never closed",
    )  # fmt: skip
    return text


def read_features(table: Table, columns: Sequence[str]) -> FloatArray:
    """Return feature rows from numeric columns, or from one column of lists.

    Of shape (n_rows, n_features): float32 if the source was, float64 otherwise.
    """
    if len(columns) == 1 and isinstance(table.frame.schema[columns[0]], (pl.List, pl.Array)):
        return _rows_of_lists(table, columns[0])
    features = np.column_stack([read_numbers(table, column) for column in columns])
    if all(table.frame.schema[column] == pl.Float32 for column in columns):
        return features.astype(np.float32)
    return features


def is_mostly_numeric(table: Table, column: str) -> bool:
    """Tell whether at least half of the filled cells of a column are numbers."""
    cells = table.frame[column]
    if cells.dtype.is_numeric() or cells.dtype == pl.Boolean:
        return True
    if cells.dtype != pl.String:
        return False
    numbers = cells.str.strip_chars().cast(pl.Float64, strict=False)
    n_filled = len(cells) - cells.null_count()
    return n_filled > 0 and bool(2 * (len(cells) - numbers.null_count()) >= n_filled)


def check_decimal_commas(table: Table, columns: Sequence[str]) -> None:
    """Refuse numbers such as 0,5 in columns of text, naming the first."""
    for column in columns:
        cells = table.frame[column]
        if cells.dtype == pl.String:
            is_bad = cells.str.contains(r"^\s*-?\d+,\d+\s*$")
            _check_cells(
                table,
                column,
                cells,
                is_bad,
                "has a comma",
                "say --decimal , if that is a decimal, or write it with a point",
            )


def check_no_empty_cells(table: Table, column: str, cells: pl.Series) -> None:
    """Refuse a column with empty cells, naming the first."""
    if cells.null_count():
        row = int(cells.is_null().arg_true()[0])
        others = more_rows(cells.null_count())
        raise DataError(
            f"{table.locate(row)}: column {column!r} is empty there{others}; fill it or drop such "
            "rows."
        )


def more_rows(n_rows: int) -> str:
    """Return a phrase about further rows, beside the first, to end a clause.

    >>> more_rows(1), more_rows(2), more_rows(5)
    ('', ' and in 1 other row', ' and in 4 other rows')
    """
    return "" if n_rows == 1 else f" and in {n_rows - 1} other row{'s' if n_rows > 2 else ''}"


def _scalar_column(table: Table, column: str) -> pl.Series:
    """Return the cells of a column, refusing nested and empty ones."""
    cells = table.frame[column]
    if cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Object):
        raise DataError(
            f"{table.origin}: column {column!r} holds {cells.dtype} cells where one value per row "
            "is needed."
        )
    check_no_empty_cells(table, column, cells)
    return cells


def _check_cells(
    table: Table, column: str, cells: pl.Series, is_bad: pl.Series, fault: str, remedy: str
) -> None:
    rows = is_bad.arg_true()
    if len(rows):
        row = int(rows[0])
        shown = str(cells[row])
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        others = f" ({len(rows)} such cells)" if len(rows) > 1 else ""
        raise DataError(
            f"{table.locate(row)}: column {column!r} holds {shown!r}, which {fault}{others}; "
            f"{remedy}."
        )


def _parse_dates(table: Table, column: str, cells: pl.Series, month_first: bool) -> pl.Series:
    text = month_first_to_day_first(cells) if month_first else cells
    text = text.str.replace(r"\s*(UTC|GMT)\s*$", "Z")
    try:
        dates: pl.Series = text.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:  # no date format fits even the first cells
        dates = pl.Series([None] * len(cells), dtype=pl.Datetime("us"))
    plain = text.str.strip_chars(" \t[]").str.replace(r"^[A-Za-z]{3}, ", "").str.replace("Z$", "")
    for form in FURTHER_FORMS if dates.is_null().all() else ():
        read = plain.str.to_datetime(form, strict=False, time_unit="us")
        if not read.is_null().all():
            dates = read
            break
    dated = [each.name for each in table.frame if each.name != column and look_like_dates(each)]
    if dated:
        is_hour = dates.is_null() & cells.str.contains(r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*$")
        _check_cells(
            table, column, cells, is_hour, "is a time of the day without its date",
            f"write it behind that in one column, or say --time {dated[0]} to go by days alone",
        )  # fmt: skip
    kind = "month/day/year" if month_first else "a date"
    such = "".join(f" ({each.strip()!r})" for each in cells.filter(dates.is_not_null()).head(1))
    fault = f"is neither a number nor {kind} like the others{such}"
    remedy = "write all times in one form, seconds or YYYY-MM-DD HH:MM:SS"
    _check_cells(table, column, cells, dates.is_null(), fault, remedy)
    return dates


def _rows_of_lists(table: Table, column: str) -> FloatArray:
    cells = table.frame[column]
    check_no_empty_cells(table, column, cells)
    lists = cells.cast(pl.List(pl.Float64), strict=False)
    widths = lists.list.len().to_numpy()
    odd = np.flatnonzero(widths != widths[0])
    if len(odd):
        raise DataError(
            f"{table.locate(int(odd[0]))}: column {column!r} holds {widths[odd[0]]} features where "
            f"the first row has {widths[0]}; rows must share one width."
        )
    flat = lists.explode().to_numpy() if widths[0] else np.empty(0)
    features: FloatArray = np.asarray(flat, dtype=np.float64).reshape(len(cells), int(widths[0]))
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad) or features.shape[1] == 0:
        row = int(bad[0]) if len(bad) else 0
        raise DataError(
            f"{table.locate(row)}: column {column!r} needs a list of finite numbers; "
            "impute or drop that row."
        )
    return features


def find_time_columns(frame: pl.DataFrame) -> tuple[list[str], str]:
    """Return the columns of times and their kind: dates, or else numbers.

    `frame`: all rows, or the first few, of columns that play no other part.
    """
    dated = [cells.name for cells in frame if look_like_dates(cells)]
    if dated:
        return dated, "dates"
    found = [cells for cells in frame if _holds_epochs(cells)]
    is_compact = any(float(cells.drop_nulls()[0]) < EPOCHS[0] for cells in found)
    kind = "days as numbers" if is_compact else "times since 1970"
    return [cells.name for cells in found], kind


def look_like_dates(cells: pl.Series) -> bool:
    """Tell whether the first non-empty cells are dates, as text or by type."""
    if cells.dtype in (pl.Date, pl.Datetime):
        return True
    first = cells.drop_nulls().head(N_SAMPLE_CELLS)
    if first.dtype != pl.String or not len(first):
        return False
    return any(all(map(form.match, first)) for form in (DATE, DAY_AND_MONTH, WRITTEN_OUT))


def holds_times(cells: pl.Series) -> bool:
    """Tell whether the first cells are dates, or times since 1970."""
    return look_like_dates(cells) or _holds_epochs(cells)


def _holds_epochs(cells: pl.Series) -> bool:
    """Tell whether the first cells are seconds or milliseconds since 1970, or dates as numbers."""
    if not (cells.dtype.is_numeric() or cells.dtype == pl.String):
        return False
    first = cells.drop_nulls().head(N_SAMPLE_CELLS).cast(pl.Float64, strict=False)
    if not len(first) or first.null_count():
        return False
    if any(first.is_between(*(unit * end for end in EPOCHS)).all() for unit in (1, 1000)):
        return True
    month, day = first // 100 % 100, first % 100
    are_days = first.is_between(*COMPACT) & month.is_between(1, 12) & day.is_between(1, 31)
    return bool((are_days & (first == first.floor())).all())


def normalize_booleans(cells: pl.Series) -> pl.Series:
    """Return booleans in lower case if their spelling is mixed, other cells unchanged."""
    if cells.dtype != pl.String:
        return cells
    first = cells.head(N_SAMPLE_CELLS).str.to_lowercase().str.strip_chars()
    if not any(first.is_in([*pair, ""]).all() for pair in BOOLEANS):
        return cells
    plain = cells.str.strip_chars().str.to_lowercase()
    is_mixed = plain.n_unique() < cells.str.strip_chars().n_unique()
    return plain if is_mixed and any(plain.is_in([*p, ""]).all() for p in BOOLEANS) else cells

"""Labels in several columns: one indicator column per label, or one label per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.tables.cells import BOOLEANS, read_numbers
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

MARKS = (
    "x", "✓", "✔", "✗", "×", "+", "*", "1", "1.0", "true", "yes", "ja", "oui", "sí", "sì", "sim",
)  # fmt: skip
"""Marks, in lower case, in indicator columns that are empty where the label does not apply."""
_OF_INDICATORS = frozenset({"0", "0.0", *MARKS, *(word for pair in BOOLEANS for word in pair)})
_FRACTION = r"^[+-]?\d*[.,]\d+$"
_NO_CELL = ("", "nan", "none", "null")


def read_indicators(table: Table, columns: Sequence[str]) -> tuple[BoolArray, list[str]]:
    """Return the labels of each row from indicator columns, one per label."""
    indicators = np.column_stack([_indicator(table, column) for column in columns])
    odd = np.argwhere((indicators != 0) & (indicators != 1))
    if len(odd):
        row, column = (int(position) for position in odd[0])
        raise DataError(
            f"{table.locate(row)}: column {columns[column]!r} holds {indicators[row, column]:g} "
            "where an indicator may hold only 0 and 1; write 1 where a row has the label, else 0."
        )
    return indicators.astype(np.bool_), _without_shared_prefix(columns)


def are_single_label_columns(frame: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Tell whether each cell of several columns holds a label, like the top answers of a model.

    Columns of marks are indicators, even if a few cells hold something else.
    """
    if len(columns) < 2 or any(frame.schema[name].is_nested() for name in columns):
        return False
    cells = [_as_text(frame[name]).drop_nulls() for name in columns]
    filled = pl.concat(cells)
    if filled.str.contains(_FRACTION).any():
        return False
    n_marks = int(filled.str.to_lowercase().is_in(_OF_INDICATORS).sum())
    return 2 * n_marks < len(filled) or min(each.n_unique() for each in cells) > 2  # from 0 to 9


def merge_label_columns(
    table: Table, columns: Sequence[str], report: Report
) -> tuple[Table, Sequence[str]]:
    """Return a table in which columns with one label per cell are merged into one of lists.

    Indicator columns stay as they are.
    """
    if not are_single_label_columns(table.frame, columns):
        return table, columns
    name = ", ".join(columns)
    words = pl.DataFrame([_as_text(table.frame[each]) for each in columns])
    lists = words.select(pl.concat_list(pl.all()).list.drop_nulls().alias(name)).to_series()
    report(f"took the cells of the {counted(len(columns), 'columns')} as one label each")
    return replace(table, frame=table.frame.with_columns(lists)), [name]


def _as_text(cells: pl.Series) -> pl.Series:
    """Return cells as text, whole numbers without a fraction, and null for empty cells."""
    if cells.dtype.is_float():
        cells = cells.fill_nan(None)
        if bool((cells == cells.floor()).all()):
            cells = cells.cast(pl.Int64)
    words = cells.cast(pl.String).str.strip_chars()
    return words.set(words.str.to_lowercase().is_in(_NO_CELL).fill_null(True), None)


def _indicator(table: Table, column: str) -> FloatArray:
    """Return a column of 0 and 1, of words such as TRUE and False, or of marks, as numbers."""
    cells = table.frame[column]
    marks = cells.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    if cells.null_count() and marks.is_in(["", *MARKS]).all():
        return (marks != "").to_numpy().astype(np.float64)  # as people tick lists
    if cells.dtype == pl.String:
        words = cells.str.strip_chars().str.to_lowercase()
        for yes, no in BOOLEANS:
            if words.is_in([yes, no]).all() and not words.null_count():
                return (words == yes).to_numpy().astype(np.float64)
    return read_numbers(table, column)


def _without_shared_prefix(columns: Sequence[str]) -> list[str]:
    """Shorten `candidate_cat`, `candidate_dog` to `cat`, `dog`."""
    prefix = columns[0][: columns[0].find("_") + 1]
    if prefix and all(name.startswith(prefix) and name != prefix for name in columns):
        return [name.removeprefix(prefix) for name in columns]
    return list(columns)

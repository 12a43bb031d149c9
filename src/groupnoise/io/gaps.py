"""Numbers that are missing in features: refused together, or filled with medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.sources import Report
from groupnoise.io.tables import Table

MAX_GAPS = 5
"""Columns with missing numbers that a sentence names."""
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
"""How cells say, in lower case, that a number is not known."""


@dataclass
class Fill:
    """What stands in place of numbers that are missing.

    `values`: by column; those of columns that were read are added, so that further files are filled
    alike. `report`: told how many were filled. `how`: with what.
    """

    report: Report
    values: dict[str, float] = field(default_factory=dict)
    how: str = "with the median of the column"

    def into(self, table: Table, columns: Sequence[str]) -> Table:
        """Return the table without gaps in these columns; other cells stay for their reader."""
        filled, n_filled = [], 0
        for column in columns:
            cells = table.frame[column]
            is_gap = _is_gap(cells).to_numpy()
            text = cells.str.strip_chars() if cells.dtype == pl.String else cells
            read = text.cast(pl.Float64, strict=False)
            is_word = read.is_null().to_numpy() & ~is_gap
            if is_word.any() or (is_gap.all() and column not in self.values):
                continue  # words among the numbers, or nothing to go by: its reader says it
            numbers = read.to_numpy().copy()
            if column not in self.values:
                self.values[column] = float(np.median(numbers[~is_gap]))
            if is_gap.any():
                numbers[is_gap] = self.values[column]
                filled.append(pl.Series(column, numbers))
                n_filled += int(is_gap.sum())
        if not filled:
            return table
        many = counted(n_filled, "missing numbers")
        named = _named([cells.name for cells in filled])
        self.report(f"filled {many} in {named} {self.how}")
        return replace(table, frame=table.frame.with_columns(filled))


def fill_of(fill: str | Mapping[str, float] | None, report: Report) -> Fill | None:
    """Return how missing numbers are filled; None where they are refused.

    `fill`: "median", or numbers by column, as an earlier file had them.
    """
    if fill is None or isinstance(fill, Mapping):
        return None if fill is None else Fill(report, dict(fill), "as when the model was fitted")
    if fill != "median":
        raise ParameterError(f"fill (--fill) must be median; got {fill!r}.")
    return Fill(report)


def check_no_gaps(table: Table, columns: Sequence[str]) -> None:
    """Refuse numbers that are missing, naming all columns together.

    What else is odd in a single one its reader says.
    """
    gaps = {column: _is_gap(table.frame[column]) for column in columns}
    gaps = {column: is_gap for column, is_gap in gaps.items() if is_gap.any()}
    is_empty = all(table.frame[column].is_null().any() for column in gaps)
    if not gaps or (len(gaps) == 1 and not is_empty):
        return
    rows = np.flatnonzero(np.logical_or.reduce([each.to_numpy() for each in gaps.values()]))
    others = f", and {counted(len(rows) - 1, 'further rows')}" if len(rows) > 1 else ""
    raise DataError(
        f"{table.locate(int(rows[0]))}{others}: numbers are missing in {_named(list(gaps))}; fill "
        "them with the median of their column (`fill`, --fill median), drop these rows, or name "
        "other columns with `features` (--features)."
    )


def _is_gap(cells: pl.Series) -> pl.Series:
    is_gap = cells.is_null()
    if cells.dtype == pl.String:
        return is_gap | cells.str.strip_chars().str.to_lowercase().is_in(MISSING).fill_null(True)
    return is_gap | cells.is_nan().fill_null(True) if cells.dtype.is_float() else is_gap


def _named(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - MAX_GAPS} more" if len(columns) > MAX_GAPS else ""
    many = "columns" if len(columns) > 1 else "column"
    return f"the {many} {', '.join(map(repr, columns[:MAX_GAPS]))}{more}"

"""Imputing missing numbers, and checking their range against that of the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import polars as pl

from groupnoise.core.arrays import FloatArray
from groupnoise.core.words import Message, Topic, counted
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.feature_ranges import OTHER_UNITS, in_other_units
from groupnoise.io.labels.spellings import MISSING
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

ImputerState: TypeAlias = Mapping[str, float | Sequence[float]]
"""By column the imputed value, or the median, least and greatest value."""
MAX_NAMED = 5
"""Columns listed in a message at most."""
MAX_GAPS = 0.5
"""Share of missing values up to which a column is imputed by default."""
MIN_ROWS = 20
"""Rows from which on a median says what is usual."""
FILL_THEM = "fill them with the median of their column (`fill`, --fill median)"


@dataclass
class Imputer:
    """Imputes missing numbers by the median of their column.

    `values`: imputed values by column; columns that are read are added, for further files.
    `ranges`: the least and greatest value by column. `report`: receives the number of imputed
    cells. `how`: describes the value in messages. `most`, `min_rows`: columns with a larger share
    of missing values, or fewer rows, are not imputed unless their value is known.
    """

    report: Report
    values: dict[str, float] = field(default_factory=dict)
    how: str = "with the median of the column"
    most: float = 1.0
    min_rows: int = 0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def learned(self) -> dict[str, list[float]]:
        """Median, least and greatest value of each column, as stored with a model."""
        return {name: [value, *self.ranges.get(name, ())] for name, value in self.values.items()}

    def learn(self, rows: FloatArray, columns: Sequence[str]) -> None:
        """Store medians and ranges of columns, or report columns outside the stored ranges."""
        if self.ranges:
            self._check_ranges(rows, columns)
        elif len(rows) >= max(1, self.min_rows):
            medians = np.median(rows, axis=0).tolist()
            self.values = dict(zip(columns, medians, strict=True)) | self.values
            low, high = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
            self.ranges = dict(zip(columns, zip(low, high, strict=True), strict=True))

    def _check_ranges(self, rows: FloatArray, columns: Sequence[str]) -> None:
        known = [number for number, column in enumerate(columns) if column in self.ranges]
        names = [columns[number] for number in known]
        low, high = np.array([self.ranges[name] for name in names]).reshape(-1, 2).T
        median = np.array([self.values[name] for name in names])
        rows = rows[:, known]
        for at in np.flatnonzero(in_other_units(rows, low, median, high)):
            here = f"{rows[:, at].min():.4g} to {rows[:, at].max():.4g}"
            sentence = (
                f"column {names[at]!r} goes from {here}, and went from {low[at]:.4g} to "
                f"{high[at]:.4g} where the model learned: {OTHER_UNITS}"
            )
            self.report(Message(sentence, Topic.UNITS))

    def fill_table(self, table: Table, columns: Sequence[str]) -> Table:
        """Return the table with missing numbers of these columns imputed."""
        filled, n_filled = [], dict[str, int]()
        for column in columns:
            cells = table.frame[column]
            is_gap = find_gaps(cells).to_numpy()
            text = cells.str.strip_chars() if cells.dtype == pl.String else cells
            read = text.cast(pl.Float64, strict=False)
            is_word = read.is_null().to_numpy() & ~is_gap
            too_few = is_gap.mean() > self.most or len(cells) < self.min_rows
            if is_word.any() or ((is_gap.all() or too_few) and column not in self.values):
                continue  # text, or too few numbers: the reader raises the error
            numbers = read.to_numpy().copy()
            if column not in self.values:
                self.values[column] = float(np.median(numbers[~is_gap]))
            if is_gap.any():
                numbers[is_gap] = self.values[column]
                filled.append(pl.Series(column, numbers))
                n_filled[column] = int(is_gap.sum())
        self._report_filled(n_filled)
        return replace(table, frame=table.frame.with_columns(filled))

    def fill_rows(self, rows: FloatArray, names: Sequence[str]) -> None:
        """Impute missing features in place; a column without any number stays as it is."""
        n_filled = dict.fromkeys(names, 0)
        for at, name in enumerate(names):
            column = np.array(rows[:, at])
            is_gap = np.isnan(column)
            if name not in self.values and not is_gap.all():
                self.values[name] = float(np.median(column[~is_gap]))
            if is_gap.any() and name in self.values:
                rows[is_gap, at] = self.values[name]
                n_filled[name] = int(is_gap.sum())
        self._report_filled(n_filled)

    def _report_filled(self, n_filled: Mapping[str, int]) -> None:
        if found := [name for name, n_cells in n_filled.items() if n_cells]:
            many = counted(sum(n_filled.values()), "missing numbers")
            self.report(f"filled {many} in {_quoted_columns(found)} {self.how}")


def make_imputer(fill: str | ImputerState | None, report: Report) -> Imputer | None:
    """Return an imputer for `--fill`; None where missing numbers are refused.

    `fill`: "median", "no", or the state of an earlier imputer; None imputes columns with few
    missing numbers.
    """
    if isinstance(fill, Mapping):
        known = {
            name: [float(each)] if isinstance(each, (int, float)) else list(each)
            for name, each in fill.items()
        }
        return Imputer(
            report,
            {name: median for name, (median, *_) in known.items()},
            "as when the model was fitted",
            MAX_GAPS,
            MIN_ROWS,
            {name: (each[1], each[2]) for name, each in known.items() if len(each) > 1},
        )
    if fill is None:
        how = "with the median of the column (--fill no refuses them)"
        return Imputer(report, how=how, most=MAX_GAPS, min_rows=MIN_ROWS)
    if fill not in ("median", "no"):
        raise ParameterError(f"fill (--fill) must be median or no; got {fill!r}.")
    return Imputer(report) if fill == "median" else None


def check_no_gaps(table: Table, columns: Sequence[str], remedy: str = FILL_THEM) -> None:
    """Refuse missing numbers, naming all columns.

    Other faults are left to the reader. `remedy`: what to do.
    """
    gaps = {column: find_gaps(table.frame[column]) for column in columns}
    gaps = {column: is_gap for column, is_gap in gaps.items() if is_gap.any()}
    is_empty = all(table.frame[column].is_null().any() for column in gaps)
    if not gaps or (len(gaps) == 1 and not is_empty):
        return
    rows = np.flatnonzero(np.logical_or.reduce([each.to_numpy() for each in gaps.values()]))
    others = f", and {counted(len(rows) - 1, 'further rows')}" if len(rows) > 1 else ""
    columns_named = _quoted_columns(list(gaps))
    raise DataError(
        f"{table.locate(int(rows[0]))}{others}: numbers are missing in {columns_named}; "
        f"{remedy}, drop these rows, or name other columns with `features` (--features)."
    )


def find_gaps(cells: pl.Series) -> pl.Series:
    """Tell of each cell whether its number is missing."""
    is_gap = cells.is_null()
    if cells.dtype == pl.String:
        return is_gap | cells.str.strip_chars().str.to_lowercase().is_in(["", *MISSING]).fill_null(
            True
        )
    return is_gap | cells.is_nan().fill_null(True) if cells.dtype.is_float() else is_gap


def _quoted_columns(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - MAX_NAMED} more" if len(columns) > MAX_NAMED else ""
    many = "columns" if len(columns) > 1 else "column"
    return f"the {many} {', '.join(map(repr, columns[:MAX_NAMED]))}{more}"

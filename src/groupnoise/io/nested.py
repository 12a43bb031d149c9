"""Cells that hold objects and lists, as JSON and Parquet have them, become columns and rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from groupnoise.core.arrays import IntArray
from groupnoise.io.cells import holds_times
from groupnoise.io.column_names import USUAL_NAMES, plain_name
from groupnoise.io.decimals import with_vectors
from groupnoise.io.sources import Report

MAX_OPENED = 4
"""Columns of parts of objects that a sentence names."""


def plain_cells(frame: pl.DataFrame, report: Report) -> tuple[pl.DataFrame, IntArray | None]:
    """Return a column of each part of objects, and a row of each inner list or object.

    And of each row the one it was in, or None where no list was opened. Lists of equally many lists
    in every row may be pictures, and stay for their reader to refuse.
    """
    frame = _without_objects(with_vectors(frame), report)
    records = [name for name in frame.columns if _holds_records(frame[name])]
    lists = records or [name for name, kind in frame.schema.items() if _holds_rows(kind)]
    if len(lists) != 1:
        return frame, None
    (name,) = lists
    sizes = frame[name].list.len().fill_null(0).to_numpy()
    if not records and len(frame) > 1 and len(set(sizes.tolist())) == 1:
        return frame, None
    rows = np.repeat(np.arange(len(frame)), np.maximum(sizes, 1))
    filled = pl.when(pl.col(name).list.len() > 0).then(pl.col(name))  # else a row of nothing
    inner = frame.select(filled.alias(name)).to_series().explode()
    frame = frame[rows].with_columns(inner)
    what = "object" if records else "list of numbers"
    report(f"made a row of each {what} in the cells of column {name!r}")
    return (_without_objects(frame, report) if records else frame), rows


def _holds_rows(kind: pl.DataType) -> bool:
    """Tell whether cells are lists of lists of numbers, as of all instances of a bag."""
    inner = getattr(kind, "inner", None)
    numbers = getattr(inner, "inner", None)
    return isinstance(kind, pl.List) and numbers is not None and bool(numbers.is_numeric())


def _holds_records(cells: pl.Series) -> bool:
    """Tell whether cells are lists of objects that are rows: of several numbers, or at a time.

    And no lists of labels with a weight each.
    """
    inner = getattr(cells.dtype, "inner", None)
    if not isinstance(cells.dtype, pl.List) or not isinstance(inner, pl.Struct):
        return False
    n_numbers = sum(part.dtype.is_numeric() for part in inner.fields)
    if n_numbers > 1 or any(_is_of_numbers(part.dtype) for part in inner.fields):
        return True
    parts = cells.explode().drop_nulls().struct.unnest()
    return any(holds_times(part) for part in parts)


def _is_of_numbers(kind: object) -> bool:
    inner = getattr(kind, "inner", None)
    return inner is not None and bool(inner.is_numeric())


def _without_objects(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Return columns of objects as a column of each of their parts: `user.id`, `user.country`.

    Objects of numbers alone that are never negative may be weights of labels and stay, unless they
    are called features.
    """
    opened: list[str] = []
    while found := [name for name in frame.columns if _is_record(frame[name])]:
        for name in found:
            parts = frame[name].struct.unnest()
            parts.columns = [f"{name}.{part}" for part in parts.columns]
            if not set(parts.columns).isdisjoint(frame.columns):
                return frame
            at = frame.get_column_index(name)
            frame = frame.select(*frame.columns[:at], *parts, *frame.columns[at + 1 :])
            opened = [each for each in opened if each != name] + parts.columns
    if opened:
        shown = [repr(each) for each in opened[:MAX_OPENED]]
        more = f" and {len(opened) - MAX_OPENED} more" if len(opened) > MAX_OPENED else ""
        report(f"made columns of the parts of objects: {', '.join(shown)}{more}")
    return frame


def _is_record(cells: pl.Series) -> bool:
    """Tell whether cells are objects that say several things, and no weights of labels."""
    if not isinstance(cells.dtype, pl.Struct) or not cells.dtype.fields:
        return False
    if not all(part.dtype.is_numeric() for part in cells.dtype.fields):
        return True
    parts = cells.struct.unnest()
    if plain_name(cells.name) in USUAL_NAMES["features"]:
        return True
    return any((part.drop_nulls() < 0).any() for part in parts)

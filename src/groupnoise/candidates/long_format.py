"""Detection of tables in long format: one row per candidate instead of one row per object."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.columns.cell_guess import WHOLE, holds_vectors
from groupnoise.io.tables.table import Table

MIN_OBJECTS, MIN_MEAN_ROWS = 10, 1.2
"""Minimum objects and mean rows per object."""
MIN_SHARED, MAX_OWN = 2, 2
"""Numeric columns that rows of an object must share, and may differ in (scores and ranks)."""


def check_not_long_format(table: Table, candidates: str, taken: Collection[str]) -> None:
    """Raise if a table seems to be in long format; its rows would be read as certain labels.

    `candidates`: the column, with one label per cell. `taken`: columns that have another role.
    """
    others = [name for name in table.frame.columns if name not in taken and name != candidates]
    flat = [name for name in others if not table.frame.schema[name].is_nested()]
    vectors = [name for name in others if holds_vectors(table.frame[name])]
    frame = table.frame.select(pl.col([*flat, candidates]).cast(pl.String), *vectors)
    numbers = [
        name
        for name in flat
        if frame[name].n_unique() > 1
        and not frame[name].cast(pl.Float64, strict=False).null_count()
    ]
    measured = {name for name in numbers if not frame[name].str.contains(WHOLE).all()}
    for name in sorted(flat, key=measured.__contains__):  # ids tell objects, else what they measure
        n_objects = frame[name].n_unique()
        is_many = n_objects >= MIN_OBJECTS and n_objects * MIN_MEAN_ROWS <= len(frame)
        if not is_many or frame.select(name, candidates).is_duplicated().any():
            continue
        described = [each for each in (*numbers, *vectors) if each != name]
        kinds = frame.group_by(name).agg(pl.col(described).n_unique()) if described else frame
        own = [each for each in described if kinds[each].max() != 1]
        shared = [each for each in described if each not in own]
        is_one = len(shared) >= MIN_SHARED or not set(shared).isdisjoint(vectors)
        if is_one and len(own) <= min(MAX_OWN, len(shared)):
            row = int(frame[name].is_duplicated().arg_max() or 0)
            drop = f".drop(columns={own})" if own else ""
            raise DataError(
                f"{table.locate(row)}: {frame[name][row]!r} in column {name!r} stands on several "
                f"rows with a candidate each, and so do others ({n_objects} objects on "
                f"{len(frame)} rows); put all candidates of an object into one row, as pandas does "
                f"with frame.assign(**{{{candidates!r}: frame.groupby({name!r})[{candidates!r}]"
                f".transform('|'.join)}}).drop_duplicates({name!r}){drop}."
            )

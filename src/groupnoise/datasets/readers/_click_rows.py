"""The clicks of a table: user, item and time of every row that counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from groupnoise._typing import IntArray
from groupnoise.datasets.readers._cells import (
    read_id_cells,
    read_moments,
    read_numbers,
    refuse_empty_cells,
)
from groupnoise.datasets.readers._columns import ClickColumns
from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._tables import Table
from groupnoise.exceptions import DataError


@dataclass(frozen=True)
class ClickRows:
    """Clicks in the order of the source.

    Attributes
    ----------
    users, items : polars.Series
        Ids, Int64 or String.
    moments : polars.Series, optional
        When each click happened; None if the source does not say.
    n_below_rating : int
        How many rows were left out because of their rating.
    """

    users: pl.Series
    items: pl.Series
    moments: pl.Series | None
    n_below_rating: int


def click_rows(
    table: Table,
    columns: ClickColumns,
    min_rating: float | None,
    *,
    times_are_dates: bool | None = None,
    month_first: bool = False,
) -> ClickRows:
    """Return the clicks of a table; rows rated too low are left out and counted."""
    moments = None
    table, n_below = _drop_low_ratings(table, columns.rating, min_rating)
    table = _one_row_per_click(table, columns)
    if columns.time is not None:
        moments = pl.Series(
            read_moments(table, columns.time, are_dates=times_are_dates, month_first=month_first)
        )
    return ClickRows(
        users=read_id_cells(table, columns.user),
        items=read_id_cells(table, columns.item),
        moments=moments,
        n_below_rating=n_below,
    )


def _drop_low_ratings(
    table: Table, rating: str | None, min_rating: float | None
) -> tuple[Table, int]:
    """Leave out rows below the threshold, and return how many they were."""
    if rating is None:
        if min_rating is not None:
            raise DataError(
                f"{table.origin} has no column that looks like the rating, which min_rating needs; "
                "name it with `rating` (--rating)."
            )
        return table, 0
    ratings = read_numbers(table, rating)
    if min_rating is None:
        negative = np.flatnonzero(ratings < 0)
        if len(negative):
            raise DataError(
                f"{table.place(int(negative[0]))}: the rating is negative "
                f"({ratings[negative[0]]:g}); say from which rating on a row counts as a click "
                "with `min_rating` (--min-rating)."
            )
        return table, 0
    kept: IntArray = np.flatnonzero(ratings >= min_rating)
    return table.take(kept), len(table) - len(kept)


def _one_row_per_click(table: Table, columns: ClickColumns) -> Table:
    """Spread a column of item lists, one list per user, over rows."""
    cells = table.frame[columns.item]
    if not isinstance(cells.dtype, (pl.List, pl.Array)):
        return table
    refuse_empty_cells(table, columns.item, cells)
    is_repeated = read_id_cells(table, columns.user).is_duplicated()
    if is_repeated.any():
        row = int(is_repeated.arg_true()[1])
        raise DataError(
            f"{table.place(row)}: user {table.frame[columns.user][row]!r} occurs twice; give each "
            "user one list of items."
        )
    rows = np.repeat(np.arange(len(table)), cells.list.len().to_numpy())
    spread = table.take(rows)
    items = cells.explode(empty_as_null=False)
    return replace(spread, frame=spread.frame.with_columns(items.alias(columns.item)))

"""Click histories from a table of clicks: user, item and time of every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.clicks.reading.blocks import BLOCK_FORMATS, read_head, read_history_text
from groupnoise.clicks.reading.filters import (
    cut_sessions,
    drop_filter_columns,
    drop_low_ratings,
    filter_rows,
    keep_core,
    merge_repeats,
    parse_item_lists,
)
from groupnoise.clicks.reading.oddities import find_oddities, low_rating_warnings
from groupnoise.core.arrays import IntArray, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import ClickColumns, find_click_columns
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.folders.data_folder import open_if_stored
from groupnoise.io.tables.array_files import NamedArrays, read_input
from groupnoise.io.tables.cells import (
    check_no_empty_cells,
    detect_date_order,
    number_ids,
    read_id_cells,
    read_timestamps,
)
from groupnoise.io.tables.nested_cells import non_numeric_columns
from groupnoise.io.tables.sources import Guesses, Report, Source, ignore_report
from groupnoise.io.tables.table import Table, read_table


@dataclass(frozen=True)
class ClickRows:
    """Clicks in the order of the source.

    `users`, `items`: ids, Int64 or String.
    `timestamps`: when each click happened; None if the source does not say.
    `n_below_rating`: how many rows were left out because of their rating.
    """

    users: pl.Series
    items: pl.Series
    timestamps: pl.Series | None
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
    timestamps = None
    table, n_below = drop_low_ratings(table, columns.rating, min_rating)
    table = _one_row_per_click(table, columns)
    if columns.time is not None:
        timestamps = pl.Series(
            read_timestamps(table, columns.time, are_dates=times_are_dates, month_first=month_first)
        )
    return ClickRows(
        users=_ids(table, columns.user),
        items=_ids(table, columns.item),
        timestamps=timestamps,
        n_below_rating=n_below,
    )


def _ids(table: Table, column: str) -> pl.Series:
    """Return a column of ids; empty cells are refused with a remedy."""
    try:
        return read_id_cells(table, column)
    except DataError as error:
        remedy = "drop such rows"
        message = str(error).replace(remedy, f"{remedy} (`only`, --only {column})")
        raise type(error)(message) from None


def _one_row_per_click(table: Table, columns: ClickColumns) -> Table:
    """Explode a column of item lists, one list per user, into rows."""
    if not holds_lists(table, columns):
        return table
    is_repeated = read_id_cells(table, columns.user).is_duplicated()
    if is_repeated.any():
        row = int(is_repeated.arg_true()[1])
        raise DataError(
            f"{table.locate(row)}: user {table.frame[columns.user][row]!r} occurs twice; give each "
            "user one list of items."
        )
    return _explode_lists(table, columns)[0]


def _explode_lists(table: Table, columns: ClickColumns) -> tuple[Table, IntArray]:
    """Return a row for each item of each list, and the lengths of the lists."""
    cells = table.frame[columns.item]
    check_no_empty_cells(table, columns.item, cells)
    sizes = cells.list.len().to_numpy().astype(np.int64)
    spread = table.take(np.repeat(np.arange(len(table)), sizes))
    items = cells.explode(empty_as_null=False).alias(columns.item)
    return replace(spread, frame=spread.frame.with_columns(items)), sizes


def read_clicks(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    min_rating: float | None = None,
    only: str | None = None,
    date_order: str | None = None,
    session_gap: float | None = None,
    repeats: str = "keep",
    per_user: int = 1,
    per_item: int = 1,
    name: str | None = None,
    report: Report | None = None,
    **table_options: Any,
) -> ClickDataset:
    """Read click histories from a log with one row per click.

    Parameters
    ----------
    source : str, Path or frame
        CSV (also Amazon's `user,item,rating,timestamp` without a header), TSV, Parquet, Arrow,
        JSON lines (a file, a folder, a glob, an address), text of `user item` or
        `user item item ...` lines, `.npz`, `.mat`, or a frame of pandas, polars or pyarrow.
    user, item : str, optional
        The columns of ids, text or whole numbers. The item column may hold lists, one per user.
    time : str, optional
        The column that orders the clicks of a user: numbers such as seconds or milliseconds since
        1970, or dates, with or without a time of day and a time zone. Without one the order of the
        rows counts; clicks at the same time keep it too.
    rating, min_rating : str and float, optional
        Rows rated below `min_rating` are left out. Without a threshold every row is a click, and
        a negative rating is refused.
    only : str, optional
        Rows to keep, by what a column says: "event=cart,purchase"; of a column alone, such as
        "user", those that are not empty there. Several are joined by ";".
    date_order : {'dmy', 'mdy'}, optional
        How to read dates that are day/month/year or month/day/year and may be either, such as
        03/02/2026 in a column without a day beyond the 12th; such a column is refused without it.
    session_gap : float, optional
        Cut the histories where more than this passes between two clicks, in the unit of the time
        column (seconds for dates); each session then is a history of its own.
    repeats : {'keep', 'merge_adjacent', 'keep_first'}, default='keep'
        What becomes of a user's clicks on one item; see `merge_repeats`.
    per_user, per_item : int, default=1
        Keep the core in which every user and item has that many clicks; see `keep_core`.
    name : str, optional
        What to call the set; by default the file's name.
    report : callable, optional
        Told of each guess, one sentence at a time.
    **table_options
        Passed to `read_table`: `format`, `filesystem`, `separator`, `header`, `decimal`, `sheet`,
        `encoding`.

    Returns
    -------
    clicks : ClickDataset
        Users and items in the order of their ids; `notes` counts the rows read and left out, and
        lists the guesses.
    """
    stored = open_if_stored(source, ClickDataset)
    if stored is not None:
        return stored
    guesses = Guesses(report)
    named = {"user": user, "item": item, "time": time, "rating": rating}
    table, columns = _table_of_clicks(source, named, only, guesses, table_options)
    order = detect_date_order(table, columns.time, date_order, guesses)
    rows = click_rows(table, columns, min_rating, month_first=order == "mdy")
    if len(rows.users) == 0:
        reason = "" if min_rating is None else f" rated {min_rating:g} or more"
        raise DataError(f"{table.origin} has no click{reason}; at least one is needed.")
    clicks = _histories_of(rows, name or table.name)
    low = () if min_rating is not None else low_rating_warnings(table, columns.rating)
    for sentence in (*low, *find_oddities(clicks, repeats)):
        guesses(sentence)
    clicks = replace(
        clicks,
        # Of rows with lists of items none is a click.
        source_rows=clicks.source_rows if len(rows.users) == len(table) else None,
        # Later files of the shop may hold no day that determines the order.
        columns={**asdict(columns), **({} if order is None else {"date_order": order})},
    )
    if session_gap is not None:
        clicks = cut_sessions(clicks, session_gap)
    clicks.notes.update(
        rows_read=len(table), rows_below_min_rating=rows.n_below_rating, guesses=guesses.sentences
    )
    clicks = merge_repeats(clicks, repeats)
    if per_user > 1 or per_item > 1:
        clicks = keep_core(clicks, per_user=per_user, per_item=per_item)
    return clicks


def _table_of_clicks(
    source: Any,
    named: dict[str, str | None],
    only: str | None,
    guesses: Guesses,
    table_options: dict[str, Any],
) -> tuple[Table, ClickColumns]:
    """Return a table whose rows are clicks or lists of clicks, and its columns."""
    words = non_numeric_columns(named["user"], named["item"])
    table = read_input(
        source, report=guesses, read_text=read_history_text, words=words, **table_options
    )
    if isinstance(table, NamedArrays):
        table = table.as_table()
    kept = filter_rows(table, only)
    if only is not None:
        guesses(f"kept {len(kept)} of {counted(len(table), 'rows')}: {only} (--only)")
    table = replace(kept, frame=drop_filter_columns(kept.frame, only))
    columns = find_click_columns(table.frame, table.origin, guesses, **named)
    return parse_item_lists(table, columns, guesses), columns


def _histories_of(rows: ClickRows, name: str) -> ClickDataset:
    """Return the histories, each in order of time."""
    user_ids, users = number_ids(rows.users)
    item_ids, items = number_ids(rows.items)
    timestamps = None if rows.timestamps is None else rows.timestamps.to_numpy()
    by_user = np.argsort(users, kind="stable")
    order, n_tied = by_user, 0
    if timestamps is not None:
        order = np.lexsort((timestamps, users))
        timestamps = timestamps[order]
        n_tied = int(((np.diff(users[order]) == 0) & (np.diff(timestamps) == 0)).sum())
    sizes = np.bincount(users, minlength=len(user_ids))
    return ClickDataset(
        name=name,
        histories=Groups(items[order], offsets_from_sizes(sizes)),
        item_ids=item_ids,
        user_ids=user_ids,
        notes={
            "clicks_out_of_time_order": int((order != by_user).sum()),
            "clicks_at_the_same_time": n_tied,
        },
        source_rows=order,
        timestamps=timestamps,
    )


def in_row_order(clicks: ClickDataset, frame: Any) -> ClickDataset:
    """Return the histories of a frame with its users in the order of their first rows."""
    if clicks.source_rows is None:  # a list of items per user
        table = read_table(frame)
        order = number_ids(read_id_cells(table, (clicks.columns or {})["user"]))[1]
    else:
        first = np.minimum.reduceat(clicks.source_rows, clicks.histories.offsets[:-1])
        order = np.argsort(first)
    return replace(
        clicks,
        histories=clicks.histories.subset(order),
        user_ids=clicks.user_ids[order],
        source_rows=None,
        timestamps=None,
    )


@dataclass(frozen=True)
class Histories:
    """Histories of a recall: unlike those of a data set one may be empty.

    `user_ids`: of each history.
    `item_ids`: the distinct items.
    `items`: indices into `item_ids`, one history after the other, oldest click first.
    """

    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    items: NDArray[Any]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.user_ids)

    @classmethod
    def of(cls, clicks: ClickDataset) -> Histories:
        """Return the histories of a data set."""
        groups = clicks.histories
        return cls(clicks.user_ids, clicks.item_ids, groups.objects, groups.offsets)


def read_histories(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    min_rating: float | None = None,
    only: str | None = None,
    date_order: str | None = None,
    repeats: str = "keep",
    report: Report | None = None,
    **table_options: Any,
) -> Histories:
    """Read histories for a recall, from whatever :func:`read_clicks` reads.

    Result: of a log with one row per click, users come in the order of their ids. `source`, `user`,
    `item`, `time`, `rating`, `min_rating`, `only`, `date_order`, `repeats`, `report`,
    `table_options`: as in :func:`read_clicks`. A row of a file with lists of items is a history of
    its own: it stays where and as it is, may be empty, and a user may have several.
    """
    stored = open_if_stored(source, ClickDataset)
    if stored is not None:
        return Histories.of(stored)
    guesses = Guesses(report)
    named = {"user": user, "item": item, "time": time, "rating": rating}
    table, columns = _table_of_clicks(source, named, only, guesses, table_options)
    if holds_lists(table, columns):
        return _histories_of_lists(table, columns)
    order = detect_date_order(table, columns.time, date_order, guesses)
    rows = click_rows(table, columns, min_rating, month_first=order == "mdy")
    return Histories.of(merge_repeats(_histories_of(rows, table.name), repeats))


def holds_lists(table: Table, columns: ClickColumns) -> bool:
    """Tell whether a table has one row per history, a list of items in each."""
    return isinstance(table.frame[columns.item].dtype, (pl.List, pl.Array))


def is_log_of_rows(files: Source, columns: Mapping[str, Any]) -> bool:
    """Tell whether a log can be read in blocks, one click in each row.

    `columns`: names of columns and the form of the file, None where they are guessed.
    """
    is_plain = not columns.get("decimal") and not columns.get("sheet")
    if not is_plain or files.format not in BLOCK_FORMATS or files.format == "text":
        return False
    form = {name: columns.get(name) for name in ("separator", "header")}
    head, layout = read_head(files, **form, report=ignore_report)
    if layout.first_line > 1:  # titles stand above the log
        return False
    named = {name: columns.get(name) for name in ("user", "item", "time")}
    found = find_click_columns(head.frame, head.origin, ignore_report, **named, rating=None)
    return not holds_lists(parse_item_lists(head, found, ignore_report), found)


def _histories_of_lists(table: Table, columns: ClickColumns) -> Histories:
    spread, sizes = _explode_lists(table, columns)
    user_ids, users = number_ids(read_id_cells(table, columns.user))
    item_ids, codes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if len(spread):
        item_ids, codes = number_ids(read_id_cells(spread, columns.item))
    return Histories(user_ids[users], item_ids, codes, offsets_from_sizes(sizes))

"""From cells of a log to clicks: lists split, rows and repeats dropped, sessions cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.checks import check_choice, check_count, check_positive, did_you_mean
from groupnoise.core.groups import Groups, only_objects
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError
from groupnoise.io.columns.roles import ClickColumns, check_column
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.labels.memberships import read_lists
from groupnoise.io.tables.cells import read_numbers
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

REPEAT_RULES = ("keep", "merge_adjacent", "keep_first")


def parse_only(only: str | None) -> dict[str, list[str]]:
    """Parse `only` into the accepted values by column; none accept any cell that is not empty.

    >>> parse_only("event=cart, purchase; user")
    {'event': ['cart', 'purchase'], 'user': []}
    """
    found = {}
    for part in (only or "").split(";"):
        column, _, values = part.partition("=")
        if column.strip():
            found[column.strip()] = [each.strip() for each in values.split(",") if each.strip()]
    if only is not None and not found:
        raise ParameterError(f"only (--only) is COLUMN=VALUE,VALUE or COLUMN; got {only!r}.")
    return found


def drop_filter_columns(frame: pl.DataFrame, only: str | None) -> pl.DataFrame:
    """Return a table without the columns that rows were filtered by."""
    return frame.drop([column for column, values in parse_only(only).items() if values])


def filter_rows(table: Table, only: str | None, *, is_whole: bool = True) -> Table:
    """Return the rows of a table that match `only`; an unknown column is refused.

    `is_whole`: whether all rows are there, so that a value without a row is an error.
    """
    for column, values in parse_only(only).items():
        check_column(column, table.frame.columns, table.origin, "to keep rows by", "only")
        cells = table.frame[column]
        texts = cells.cast(pl.String).str.strip_chars()
        # Whole numbers beside an empty cell are written with a point by pandas.
        texts = texts.str.replace(r"^(-?\d+)\.0$", "${1}")
        known = set(texts.unique().drop_nulls().to_list())
        unknown = [each for each in values if each not in known]
        if is_whole and unknown:
            raise DataError(
                f"{table.origin} has no row that says {unknown[0]!r} in column {column!r}"
                f"{did_you_mean(unknown[0], known)}; it says {', '.join(sorted(known)[:5])}"
                f"{', ...' * (len(known) > 5)}."
            )
        is_kept = texts.is_in(values) if values else texts != ""
        table = table.take(np.flatnonzero(is_kept.fill_null(False).to_numpy()))
    return table


def drop_low_ratings(
    table: Table, rating: str | None, min_rating: float | None
) -> tuple[Table, int]:
    """Drop rows below the threshold, and return their number."""
    if rating is None:
        if min_rating is not None:
            raise MissingColumnError(
                f"{table.origin} has no column that looks like the rating, which min_rating needs; "
                "name it with `rating` (--rating).",
                "min_rating",
                tuple(table.frame.columns),
            )
        return table, 0
    ratings = read_numbers(table, rating)
    if min_rating is None:
        negative = np.flatnonzero(ratings < 0)
        if len(negative):
            raise DataError(
                f"{table.locate(int(negative[0]))}: the rating is negative "
                f"({ratings[negative[0]]:g}); say from which rating on a row counts as a click "
                "with `min_rating` (--min-rating)."
            )
        return table, 0
    kept: IntArray = np.flatnonzero(ratings >= min_rating)
    return table.take(kept), len(table) - len(kept)


def keep_core(clicks: ClickDataset, *, per_user: int = 5, per_item: int = 5) -> ClickDataset:
    """Drop users and items with few clicks until every one left has enough (the k-core).

    Result: items are renumbered; `notes` counts the users, items and clicks dropped. `per_user`,
    `per_item`: the fewest clicks a user, and an item, must keep; 1 asks for nothing.
    """
    check_count("per_user", per_user)
    check_count("per_item", per_item)
    users, items = clicks.histories.group_of_object, clicks.histories.objects
    kept = np.ones(len(items), dtype=np.bool_)
    while True:
        user_counts = np.bincount(users[kept], minlength=len(clicks.histories))
        item_counts = np.bincount(items[kept], minlength=clicks.n_items)
        is_kept = kept & (user_counts[users] >= per_user) & (item_counts[items] >= per_item)
        if is_kept.sum() == kept.sum():
            break
        kept = is_kept
    if not kept.any():
        raise DataError(
            f"no click is left when every user needs {per_user} and every item {per_item}; "
            "ask for fewer."
        )
    core = keep_clicks(clicks, kept, whole_catalogue=False)
    return replace(
        core,
        notes={
            **clicks.notes,
            "core_users_dropped": len(clicks.histories) - len(core.histories),
            "core_items_dropped": clicks.n_items - core.n_items,
            "core_clicks_dropped": int((~kept).sum()),
        },
    )


def merge_repeats(clicks: ClickDataset, rule: str = "merge_adjacent") -> ClickDataset:
    """Merge clicks of a user on the same item.

    Result: the same users and items; `notes['repeats_merged']` counts the clicks dropped. `rule`:
    `merge_adjacent` makes one click of several in a row; `keep_first` leaves each item once in a
    history, where it came first; `keep` changes nothing.
    """
    check_choice("repeats", rule, REPEAT_RULES)
    if rule == "keep":
        return clicks
    begins = np.zeros(clicks.histories.n_objects, dtype=np.bool_)
    begins[clicks.histories.offsets[:-1]] = True
    kept = nonrepeat_mask(rule, begins, clicks.histories.objects)
    merged = keep_clicks(clicks, kept, whole_catalogue=False)
    return replace(merged, notes={**clicks.notes, "repeats_merged": int((~kept).sum())})


def nonrepeat_mask(rule: str, begins: BoolArray, items: NDArray[Any]) -> BoolArray:
    """Mark the clicks that a rule keeps, of histories that begin where `begins` is True."""
    if rule == "keep":
        return np.ones(len(items), dtype=np.bool_)
    kept = begins.copy()
    if rule == "merge_adjacent":
        kept[1:] |= items[1:] != items[:-1]
    else:
        key = np.cumsum(begins) * (int(items.max()) + 1) + items
        kept[np.unique(key, return_index=True)[1]] = True
    return kept


def keep_clicks(
    clicks: ClickDataset, kept: BoolArray, *, whole_catalogue: bool = True
) -> ClickDataset:
    """Return a log with only the clicks kept; users left without any go.

    `whole_catalogue`: whether items without a click stay; else they go too, and the others are
    renumbered.
    """

    def select(values: Any) -> Any:
        return None if values is None else values[kept]

    histories = only_objects(clicks.histories, kept)
    users = np.logical_or.reduceat(kept, clicks.histories.offsets[:-1])
    found = replace(
        clicks,
        histories=histories,
        user_ids=clicks.user_ids[users],
        is_stray=select(clicks.is_stray),
        source_rows=select(clicks.source_rows),
        timestamps=select(clicks.timestamps),
    )
    if whole_catalogue:
        return found
    items, objects = np.unique(histories.objects, return_inverse=True)
    return replace(
        found,
        histories=Groups(objects, histories.offsets),
        item_ids=clicks.item_ids[items],
        titles=None if clicks.titles is None else [clicks.titles[item] for item in items],
        categories=(
            None if clicks.categories is None else [clicks.categories[item] for item in items]
        ),
    )


def missing_times_error(name: str) -> DataError:
    """Return the error for a log without timestamps to cut sessions by."""
    return DataError(
        f"{name} has no column that looks like the time, which sessions need; name it with `time` "
        "(--time)."
    )


def cut_sessions(clicks: ClickDataset, session_gap: float) -> ClickDataset:
    """Return histories that end where more than `session_gap` passes between two clicks."""
    check_positive("session_gap", session_gap)
    timestamps = clicks.timestamps
    if timestamps is None:
        raise missing_times_error(clicks.name)
    begins = np.concatenate([[True], np.diff(timestamps) > session_gap])
    begins[clicks.histories.offsets[:-1]] = True
    starts = np.flatnonzero(begins)
    return replace(
        clicks,
        histories=Groups(clicks.histories.objects, np.append(starts, len(timestamps))),
        user_ids=clicks.user_ids[clicks.histories.group_of_object[starts]],
    )


LIST_SEPARATORS = (r"\s*(?:->|=>|→|>)\s*", r"\s*\|\s*", r"\s*;\s*", r"\s*,\s*")
"""Separators of the items of a list; whitespace if there is no other."""


def parse_item_lists(table: Table, columns: ClickColumns, report: Report) -> Table:
    """Return a table whose item cells of text are lists where they are written as lists.

    All cells stand in brackets; or each user has one row, and most cells hold several words.
    """
    cells = table.frame[columns.item]
    if cells.dtype != pl.String:
        return table
    text = cells.fill_null("").str.strip_chars()
    if text.head(1).str.starts_with("[").all() and text.str.contains(r"^\[.*\]$").all():
        inner = text.str.strip_chars("[]").str.replace_all(r"[\"']", "")
        read = read_lists(text) if text.str.contains(r"[\"']").any() else None
        lists = inner.str.replace_all(r"\s*,\s*", ",").str.split(",") if read is None else read
    elif table.frame[columns.user].is_duplicated().any():  # a row per click
        return table
    else:
        is_common = [
            2 * int(text.str.contains(separator).sum()) > len(table)
            for separator in LIST_SEPARATORS
        ]
        separator = next(
            (each for each, is_it in zip(LIST_SEPARATORS, is_common, strict=True) if is_it), ""
        )
        lists = text.str.replace_all(separator or r"\s+", "\t").str.split("\t")
        if 2 * int((lists.list.len() > 1).sum()) <= len(table) or not (
            separator or _has_recurring_items(lists)
        ):
            return table
    report(f"read the cells of {columns.item!r} as lists of items, oldest first")
    lists = lists.list.eval(pl.element().filter(pl.element() != ""))
    return replace(table, frame=table.frame.with_columns(lists.alias(columns.item)))


def _has_recurring_items(lists: pl.Series) -> bool:
    """Tell whether most repeated words occur both first and later, unlike words of titles."""
    first = lists.list.first()
    later = lists.list.slice(1).explode(empty_as_null=False)
    counts = lists.explode(empty_as_null=False).value_counts(name="n")
    again = counts.filter(pl.col("n") > 1)[lists.name]
    moves = again.is_in(first.unique().to_list()) & again.is_in(later.unique().to_list())
    return 2 * int(moves.sum()) >= len(again)

"""Titles, categories and features of items from a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.clicks.items.catalogue import ATTRIBUTE_SIGN, CATEGORY_SEPARATOR, Catalogue
from groupnoise.clicks.reading.blocks import read_history_text
from groupnoise.clicks.reading.oddities import lost_zeros_message
from groupnoise.core.arrays import IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.names import is_id, plain_name
from groupnoise.io.columns.roles import check_column, pick_column
from groupnoise.io.tables.array_files import NamedArrays, read_input
from groupnoise.io.tables.cells import check_no_empty_cells
from groupnoise.io.tables.sources import Guesses, Report, find_source
from groupnoise.io.tables.table import Table

NO_CATEGORY = "other"
USUAL_IN_TABLES = ("id", "code", "key", "product_code", "article", "article_number", "ean", "isbn")
"""Names of item ids in a table of items; in a log they may stand for anything."""


class ItemDescriptions(NamedTuple):
    """Titles and categories of the items of a model.

    `titles`: one per item; the id where the table has none.
    `categories`: all categories of each item; None where the table has no such column.
    """

    titles: list[str]
    categories: list[list[str]] | None


def read_items(
    source: Any,
    item_ids: NDArray[Any],
    *,
    item: str | None = None,
    in_log: str | None = None,
    title: str | None = None,
    category: str | None = None,
    attributes: Sequence[str] = (),
    report: Report | None = None,
    **table_options: Any,
) -> ItemDescriptions:
    """Read the title and the categories of each item of a model.

    Result: in the order of `item_ids`.
    `source`: whatever :func:`groupnoise.clicks.read_clicks` reads, with one row per item or per
        click.
    `item`: the column of item ids: by default the one called as in the log, one with a usual name,
        or the one in which most cells are items of the model.
    `in_log`: what the log of the model calls its items.
    `title`: the column of titles; by default one with a usual name.
    `category`: the column of categories, several in a cell joined by | or as a list; by default one
        with a usual name.
    `attributes`: further columns whose values filters may name, several in a cell as for
        categories: a value `Acme` of a column `brand` becomes the category `brand=Acme`.
    `report`: told of each guess, one sentence at a time.
    `table_options`: passed to `read_table`: `format`, `separator`, `header`, `decimal`, `sheet`,
        `encoding`.
    Raises DataError if no row of the table is an item of the model.
    """
    guesses = Guesses(report)
    table = _read_table(source, guesses, table_options)
    keys = [str(each) for each in item_ids.tolist()]
    columns, origin = table.frame.columns, table.origin
    items = _named_column(table, item, in_log, guesses)
    if items is not None and table.frame[items].dtype == pl.List:
        table = replace(table, frame=table.frame.explode(items))
    items = items or _column_of_items(table, set(keys), guesses)
    ids = _texts(table, items)
    if not set(keys) & set(ids):
        raise DataError(f"no id in column {items!r} of {origin} is an item of the model.")
    lacking_rows = sorted(set(keys) - set(ids))
    if lacking_rows:
        guesses(
            f"{len(lacking_rows)} of {counted(len(keys), 'items')} of the model have no row in "
            f"{origin}, such as {lacking_rows[0]!r}: they go by their ids, without a category"
        )
        if lost := lost_zeros_message(np.array(ids), np.array(keys)):
            guesses(f"{origin}: {lost}")
    taken = {items}
    titles = pick_column("title", title, columns, origin=origin, report=guesses, taken=taken)
    title_of = dict(zip(ids, _texts(table, titles), strict=True)) if titles else {}
    named = [title_of.get(key) or key for key in keys]
    taken |= {titles} if titles else set()
    found = pick_column("category", category, columns, origin=origin, report=guesses, taken=taken)
    lacking = [part for part, name in (("title", titles), ("category", found)) if name is None]
    if lacking:
        guesses(
            f"no column looks like the {' or the '.join(lacking)}; name it with "
            f"{' and '.join(f'--{part}' for part in lacking)} to have it shown"
        )
    if found is None and not attributes:
        return ItemDescriptions(named, None)
    rows: list[list[str]] = [[] for _ in ids]
    if found is not None:
        rows = [_categories(cell) or [NO_CATEGORY] for cell in table.frame[found]]
    for name in attributes:
        check_column(name, columns, origin, "to take as an attribute")
        if ATTRIBUTE_SIGN in name:
            raise DataError(
                f"an attribute is a column without {ATTRIBUTE_SIGN} in its name: {name!r}."
            )
        for row, cell in zip(rows, table.frame[name], strict=True):
            row += [f"{name}{ATTRIBUTE_SIGN}{value}" for value in _categories(cell)]
    categories_of = dict(zip(ids, rows, strict=True))
    missing = [] if found is None else [NO_CATEGORY]
    return ItemDescriptions(named, [categories_of.get(key, missing) for key in keys])


class ItemRows(NamedTuple):
    """A table with one row per item.

    `ids`: the item of each row.
    `columns`: everything else.
    `origin`: what the table is called in errors.
    """

    ids: list[str]
    columns: pl.DataFrame
    origin: str


def read_item_rows(
    source: Any,
    item_ids: NDArray[Any],
    *,
    item: str | None = None,
    in_log: str | None = None,
    learned: Collection[str] | None = None,
    report: Report | None = None,
    **table_options: Any,
) -> ItemRows:
    """Read a table of features, one row per item.

    `item_ids`: the items of the model; rows of other items are read too. `item`, `in_log`: as in
    :func:`read_items`. `learned`: the columns that the model learned from, where all items are new
    to it: the ids are then found by a usual name, or as the only other column without a
    repeated cell. `report`: told of each guess, one sentence at a time. Raises DataError if an id
    is empty or occurs twice.
    """
    guesses = Guesses(report)
    table = _read_table(source, guesses, table_options)
    name = _named_column(table, item, in_log, guesses)
    if name is None and learned is not None:
        name = _column_of_new_items(table, learned, guesses)
    elif name is None:
        name = _column_of_items(table, {str(each) for each in item_ids.tolist()}, guesses)
    check_no_empty_cells(table, name, table.frame[name])
    ids = _texts(table, name)
    first: dict[str, int] = {}
    for row, each in enumerate(ids):
        if each in first:
            raise DataError(
                f"{table.locate(row)}: item {each!r} stands in {table.locate(first[each])} too; "
                "give each item one row."
            )
        first[each] = row
    if ids and (lost := lost_zeros_message(np.array(ids), item_ids)):
        guesses(f"{table.origin}: {lost}; rows of unknown ids count as further items")
    return ItemRows(ids, table.frame.drop(name), table.origin)


def _read_table(source: Any, guesses: Guesses, options: dict[str, Any]) -> Table:
    if options.get("format") is None and _is_delimited(source, options.get("encoding")):
        options = {**options, "format": "csv"}
    table = read_input(source, report=guesses, read_text=read_history_text, **options)
    if isinstance(table, NamedArrays):
        return table.as_table()
    # A missing cell would shift titles and features unnoticed.
    if table.short_row is not None and (problem := table.short_row()) is not None:
        raise DataError(problem)
    return table


def _is_delimited(source: Any, encoding: str | None) -> bool:
    """Tell whether a file of plain text holds a table, and not clicks separated by blanks."""
    if not isinstance(source, (str, Path)):
        return False
    files = find_source(source, encoding=encoding)
    if files.format != "text":
        return False
    first_line = next(files.line_blocks(files.paths[0], 1 << 16), b"").lstrip().split(b"\n")[0]
    return any(separator in first_line for separator in (b",", b";", b"\t", b"|"))


def _named_column(
    table: Table, given: str | None, in_log: str | None, report: Report
) -> str | None:
    """Return the column of item ids by its name: the one given, that of the log, or a usual one."""
    columns = table.frame.columns
    if given is None and in_log in columns:
        report(f"took column {in_log!r} as the item, as the log calls it")
        return in_log
    return pick_column("item", given, columns, origin=table.origin, report=report)


def _column_of_items(table: Table, keys: set[str], report: Report) -> str:
    """Return the column in which most cells are items of the model."""
    hits = {column: sum(t in keys for t in _texts(table, column)) for column in table.frame.columns}
    best = max(hits, key=hits.__getitem__)
    if not hits[best]:
        raise DataError(
            f"no column of {table.origin} holds items of the model; name it with `item` (--item). "
            f"{_list_candidate_columns(table, _without_repeats(table))}"
        )
    report(f"took column {best!r} as the item, which most of its cells are")
    return best


def _column_of_new_items(table: Table, learned: Collection[str], report: Report) -> str:
    """Return the column of ids that are new to the model, by name or as the only unique one."""
    candidates = [name for name in _without_repeats(table) if name not in learned]
    by_name = {plain_name(name): name for name in reversed(candidates)}
    usual = [by_name[name] for name in USUAL_IN_TABLES if name in by_name]
    usual = usual or [name for name in candidates if is_id(name)]
    if usual:
        report(f"took column {usual[0]!r} as the item")
        return usual[0]
    if len(candidates) != 1:
        raise DataError(
            f"{table.origin} has no column that looks like the item; name it with `item` (--item). "
            f"{_list_candidate_columns(table, candidates)}"
        )
    report(f"took column {candidates[0]!r} as the item: no other could name each row")
    return candidates[0]


def _without_repeats(table: Table) -> list[str]:
    """Return the columns that could hold ids: no empty or repeated cells, and no real numbers."""
    return [
        cells.name
        for cells in table.frame
        if not (cells.dtype.is_nested() or cells.dtype.is_float() or cells.dtype.is_temporal())
        and cells.null_count() == 0
        and cells.n_unique() == len(cells)
    ]


def _list_candidate_columns(table: Table, candidates: Sequence[str]) -> str:
    """Return a sentence on the columns that may hold ids, or on all columns if none may."""
    if candidates:
        return f"Each row has its own cell in {', '.join(map(repr, candidates[:12]))}."
    return f"Its columns are {', '.join(map(repr, table.frame.columns[:12]))}."


def _texts(table: Table, column: str) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in table.frame[column]]


def _categories(cell: Any) -> list[str]:
    parts: Sequence[Any] = [] if cell is None else cell
    if isinstance(parts, str):
        parts = parts.split(CATEGORY_SEPARATOR)
    elif not hasattr(parts, "__iter__"):
        parts = [parts]
    return [name for name in (str(part).strip() for part in parts if part is not None) if name]


def read_item_features(source: Any, item_ids: NDArray[Any]) -> ItemRows:
    """Return features of items as a table."""
    if isinstance(source, ItemRows):
        return source
    if not isinstance(source, np.ndarray):
        return read_item_rows(source, item_ids)
    if source.ndim != 2 or len(source) != len(item_ids):
        raise DataError(
            f"item_features must have one row for each of the {len(item_ids)} items; got shape "
            f"{source.shape}. Give a frame with a column of item ids to describe others."
        )
    table = pl.DataFrame({"features": source.astype(np.float64)})
    return ItemRows([str(each) for each in item_ids.tolist()], table, "item_features")


def extend_catalogue(catalogue: Catalogue, rows: ItemRows) -> Catalogue:
    """Return a catalogue extended by the new items of a table.

    Raises DataError if no described item is in the log, or an id is not of the kind that the log
    has.
    """
    known = {str(each) for each in catalogue.ids.tolist()}
    new: list[Any] = [each for each in rows.ids if each not in known]
    if len(new) == len(rows.ids):
        raise DataError(
            f"none of the {len(new)} items of {rows.origin} is in the log, such as {new[0]!r}; "
            "give ids as the log has them."
        )
    if catalogue.ids.dtype.kind == "i":
        new = whole_numbers(new, rows.origin, "the log")
    return Catalogue([*catalogue.ids.tolist(), *new])


def whole_numbers(ids: Sequence[str], origin: str, of: object) -> list[Any]:
    """Return ids of a table as whole numbers, as those of a log or an artifact are."""
    for each in ids:
        if not each.removeprefix("-").isdecimal():
            raise DataError(f"{origin}: item {each!r} is no whole number, as the ids of {of} are.")
    return [int(each) for each in ids]


def positions_of(catalogue: Catalogue, rows: ItemRows) -> IntArray:
    """Return the positions of the items of a table in a catalogue, -1 for new ones."""
    position_of = {str(each): number for number, each in enumerate(catalogue.ids.tolist())}
    return np.array([position_of.get(each, -1) for each in rows.ids], dtype=np.int64)

"""Titles and categories of items, from a table of them or from any file that names items."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.blocks import read_history_text
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError
from groupnoise.io.cells import check_no_empty_cells
from groupnoise.io.columns import pick_column
from groupnoise.io.named_arrays import NamedArrays, read_input
from groupnoise.io.sources import Guesses, Report, find_source
from groupnoise.io.tables import Table

CATEGORY_SEPARATOR = "|"
NO_CATEGORY = "other"
ATTRIBUTE_SIGN = "="
"""A category written `brand=Acme` is the value Acme of the attribute brand."""


class ItemDescriptions(NamedTuple):
    """What a table says about the items of a model.

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
    `item`: the column of item ids: by default one with a usual name, or the one in which most cells
        are items of the model.
    `title`: the column of titles; by default one with a usual name.
    `category`: the column of categories, several in a cell joined by | or as a list; by default one
        with a usual name.
    `attributes`: further columns whose values filters may name, several in a cell as for
        categories: a value `Acme` of a column `brand` becomes the category `brand=Acme`.
    `report`: told of each guess, one sentence at a time.
    `table_options`: passed to `read_table`: `format`, `filesystem`, `separator`, `header`.
    Raises DataError if no row of the table is an item of the model.
    """
    guesses = Guesses(report)
    table = _read_table(source, guesses, table_options)
    keys = [str(each) for each in item_ids.tolist()]
    columns, origin = table.frame.columns, table.origin
    items = pick_column("item", item, columns, origin=origin, report=guesses)
    if items is not None and table.frame[items].dtype == pl.List:
        table = replace(table, frame=table.frame.explode(items))
    items = items or _column_of_items(table, set(keys), guesses)
    ids = _texts(table, items)
    if not set(keys) & set(ids):
        raise DataError(f"no id in column {items!r} of {origin} is an item of the model.")
    taken = {items}
    titles = pick_column("title", title, columns, origin=origin, report=guesses, taken=taken)
    title_of = dict(zip(ids, _texts(table, titles), strict=True)) if titles else {}
    named = [title_of.get(key) or key for key in keys]
    taken |= {titles} if titles else set()
    found = pick_column("category", category, columns, origin=origin, report=guesses, taken=taken)
    if found is None and not attributes:
        return ItemDescriptions(named, None)
    rows: list[list[str]] = [[] for _ in ids]
    if found is not None:
        rows = [_categories(cell) or [NO_CATEGORY] for cell in table.frame[found]]
    for name in attributes:
        _check_attribute(name, columns, origin)
        for row, cell in zip(rows, table.frame[name], strict=True):
            row += [f"{name}{ATTRIBUTE_SIGN}{value}" for value in _categories(cell)]
    categories_of = dict(zip(ids, rows, strict=True))
    missing = [] if found is None else [NO_CATEGORY]
    return ItemDescriptions(named, [categories_of.get(key, missing) for key in keys])


def _check_attribute(name: str, columns: Sequence[str], origin: str) -> None:
    if name not in columns:
        raise DataError(
            f"{origin} has no column {name!r} to take as an attribute; its columns are "
            f"{', '.join(map(repr, columns[:12]))}."
        )
    if ATTRIBUTE_SIGN in name:
        raise DataError(f"an attribute is a column without {ATTRIBUTE_SIGN} in its name: {name!r}.")


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
    report: Report | None = None,
    **table_options: Any,
) -> ItemRows:
    """Read a table of features, one row per item.

    `item_ids`: the items of the model; rows of other items are read too. `item`: the column of item
    ids, found as :func:`read_items` finds it. `report`: told of each guess, one sentence at a time.
    Raises DataError if an id is empty or occurs twice.
    """
    guesses = Guesses(report)
    table = _read_table(source, guesses, table_options)
    columns = table.frame.columns
    keys = {str(each) for each in item_ids.tolist()}
    name = pick_column("item", item, columns, origin=table.origin, report=guesses)
    name = name or _column_of_items(table, keys, guesses)
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
    return ItemRows(ids, table.frame.drop(name), table.origin)


def read_ids(path: Path) -> list[str]:
    """Read a file of item ids, one in each line.

    `path`: text in UTF-8; empty lines are passed over. Raises DataError if the file cannot be read,
    or holds no id.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as lines of item ids ({error}).") from None
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise DataError(f"{path} holds no item id; write one in each line.")
    return ids


def _read_table(source: Any, guesses: Guesses, options: dict[str, Any]) -> Table:
    if options.get("format") is None and _is_delimited(source):
        options = {**options, "format": "csv"}
    table = read_input(source, report=guesses, read_text=read_history_text, **options)
    return table.as_table() if isinstance(table, NamedArrays) else table


def _is_delimited(source: Any) -> bool:
    """Tell whether a file of plain text holds a table, and not clicks apart by blanks."""
    if not isinstance(source, (str, Path)):
        return False
    files = find_source(source)
    if files.format != "text":
        return False
    first_line = next(files.line_blocks(files.paths[0], 1 << 16), b"").lstrip().split(b"\n")[0]
    return any(separator in first_line for separator in (b",", b";", b"\t", b"|"))


def _column_of_items(table: Table, keys: set[str], report: Report) -> str:
    """Return the column in which most cells are items of the model."""
    hits = {column: sum(t in keys for t in _texts(table, column)) for column in table.frame.columns}
    best = max(hits, key=hits.__getitem__)
    if not hits[best]:
        raise DataError(
            f"no column of {table.origin} holds items of the model; name it with `item` (--item). "
            f"Its columns are {', '.join(map(repr, table.frame.columns[:12]))}."
        )
    report(f"took column {best!r} as the item, which most of its cells are")
    return best


def _texts(table: Table, column: str) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in table.frame[column]]


def _categories(cell: Any) -> list[str]:
    parts: Sequence[Any] = [] if cell is None else cell
    if isinstance(parts, str):
        parts = parts.split(CATEGORY_SEPARATOR)
    elif not hasattr(parts, "__iter__"):
        parts = [parts]
    return [name for name in (str(part).strip() for part in parts if part is not None) if name]


KINDS = ("number", "vector", "category", "text")
SEPARATOR = "|"
MAX_WORDS = 1500
"""Categories or words of a column that become features, the most frequent first."""
MIN_ITEMS = 2
"""Items that must share a category or a word for it to say anything."""
CATEGORY_SHARE = 0.2
"""A column of text with fewer distinct cells than this share of all holds categories."""
SEPARATED_SHARE = 0.1
"""So many cells must hold a | for it to join categories, and not to stand in a title."""


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features.

    `name`: of the column.
    `kind` (one of "number", "vector", "category", "text"): what its cells hold.
    `words`: categories or words that have a feature each.
    `offset`, `scale`: what is subtracted, and what is multiplied: of words their inverse document
        frequency.
    """

    name: str
    kind: str
    words: tuple[str, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def learned(cls, cells: pl.Series) -> Column | None:
        """Return how a column becomes features, None where it says nothing.

        `cells`: of the items that teach.
        """
        kind = _kind_of(cells)
        if kind in ("number", "vector"):
            rows = _numbers(cells, kind)
            is_there = np.isfinite(rows).all(axis=1)
            if not is_there.any():
                return None
            offset = rows[is_there].mean(axis=0)
            spread = float(np.sqrt(((rows[is_there] - offset) ** 2).sum(axis=1).mean()))
            if spread <= 1e-12:
                return None
            return cls(cells.name, kind, (), tuple(offset.tolist()), (1.0 / spread,) * len(offset))
        lists = [set(own) for own in _words(cells, kind)]
        counts = Counter(word for own in lists for word in own)
        usual = [(word, n) for word, n in counts.most_common(MAX_WORDS) if n >= MIN_ITEMS]
        if not usual:
            return None
        n_rows = len(lists)
        rarity = [float(np.log((1 + n_rows) / (1 + n)) + 1) for _, n in usual]
        scale = rarity if kind == "text" else [1.0] * len(usual)
        return cls(cells.name, kind, tuple(word for word, _ in usual), (), tuple(scale))

    @property
    def width(self) -> int:
        """How many features it has."""
        return len(self.scale)

    def features(self, cells: pl.Series) -> sparse.csr_array:
        """Return the features of cells, zero where a cell is empty.

        Of shape (n_items, width).
        """
        scale = np.asarray(self.scale)
        if self.kind in ("number", "vector"):
            rows = _numbers(cells, self.kind)
            if rows.shape[1] != self.width:
                raise DataError(
                    f"column {self.name!r} holds lists of {rows.shape[1]} numbers where the model "
                    f"was taught with {self.width}."
                )
            return sparse.csr_array(np.nan_to_num((rows - np.asarray(self.offset)) * scale))
        place = {word: number for number, word in enumerate(self.words)}
        lists = [[place[word] for word in own if word in place] for own in _words(cells, self.kind)]
        found = np.array([number for own in lists for number in own], dtype=np.int64)
        begins = np.concatenate([[0], np.cumsum([len(own) for own in lists])])
        table = sparse.csr_array((scale[found], found, begins), shape=(len(lists), self.width))
        table.sum_duplicates()
        norms = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ table)


def _kind_of(cells: pl.Series) -> str:
    if cells.dtype in (pl.List, pl.Array):
        inner = cells.dtype.inner  # type: ignore[attr-defined]
        return "vector" if inner.is_numeric() else "category"
    if cells.dtype.is_numeric() or cells.dtype == pl.Boolean:
        return "number"
    texts = cells.cast(pl.String, strict=False).drop_nulls()
    filled = texts.filter(texts.str.strip_chars() != "")
    if len(filled) and filled.cast(pl.Float64, strict=False).is_not_null().mean() >= 0.95:
        return "number"
    if float(filled.str.contains(SEPARATOR, literal=True).mean() or 0) >= SEPARATED_SHARE:
        return "category"
    return "category" if filled.n_unique() < CATEGORY_SHARE * len(filled) else "text"


def _numbers(cells: pl.Series, kind: str) -> FloatArray:
    """Return numbers, NaN where a cell holds none, shape (n_rows, width)."""
    if kind == "number":
        return np.asarray(cells.cast(pl.Float64, strict=False).fill_null(np.nan))[:, None]
    lists = cells.to_list()
    widths = {len(own) for own in lists if own is not None}
    if len(widths) > 1:
        raise DataError(
            f"column {cells.name!r} holds lists of {min(widths)} and of {max(widths)} numbers; "
            "they must all be of one length."
        )
    width = widths.pop() if widths else 1
    rows = [[np.nan] * width if own is None else own for own in lists]
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _words(cells: pl.Series, kind: str) -> list[list[str]]:
    """Return the categories or the words of each cell."""
    if kind == "text":
        return [re.findall(r"\w+", _folded(cell)) for cell in cells.to_list()]
    found = []
    for cell in cells.to_list():
        parts = cell if isinstance(cell, list) else ("" if cell is None else str(cell)).split("|")
        found.append([text for part in parts if part is not None and (text := str(part).strip())])
    return found


def _folded(cell: Any) -> str:
    decomposed = unicodedata.normalize("NFKD", "" if cell is None else str(cell).casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def checked_column(record: Mapping[str, Any]) -> Column:
    """Return a column from a file that may hold anything."""
    words, offset, scale = (tuple(record[name]) for name in ("words", "offset", "scale"))
    name, kind = record["name"], record["kind"]
    numbers = np.array([*offset, *scale], dtype=np.float64)
    is_sound = isinstance(name, str) and kind in KINDS and np.isfinite(numbers).all()
    n_named = len(offset) if kind in ("number", "vector") else len(words)
    if not is_sound or not scale or n_named != len(scale):
        raise ValueError
    if not all(isinstance(word, str) for word in words):
        raise TypeError
    return Column(name, kind, words, offset, scale)

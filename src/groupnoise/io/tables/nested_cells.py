"""Flattening tables: decimal commas, lists written as text, nested objects and lists."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import numpy as np
import polars as pl

from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_choice
from groupnoise.core.words import counted
from groupnoise.io.columns.names import USUAL_NAMES, plain_name
from groupnoise.io.tables.cells import holds_times
from groupnoise.io.tables.sources import Report

DECIMALS = (",", ".")
_THOUSANDS = r"[1-9]\d{0,2}(?:\.\d{3})+"
_NUMBER = rf"^\s*[+-]?(?:{_THOUSANDS}|\d+)?(?:,\d+)?(?:[eE][+-]?\d+)?\s*$"
_WITH_COMMA = r",\d"
_UNCLEAR = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"
"""May also be a thousand in English notation."""
_WITH_MARK = rf"(?:{_WITH_COMMA}|{_THOUSANDS})"
_VECTOR = r"^\s*\[[-+\d.eE,\s]*\d[-+\d.eE,\s]*\]\s*$"
_FRACTION = r"\d?\.\d*[1-9]"
WORDS = frozenset(
    name
    for part in ("user", "item", "group", "label", "patient", "truth", "candidates")
    for name in USUAL_NAMES[part]
) - {"y", "target"}
"""Columns of names, where 1,2 may be two labels."""
MAX_OPENED = 4
"""New columns listed in a message at most."""


def parse_vectors(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with lists of numbers written as text, such as embeddings, parsed.

    Lists of whole numbers stay text, as they may be labels. Typographic minus signs are accepted.
    """
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    looked = frame.select(pl.col(texts).str.contains("−", literal=True).any())
    printed = [name for name in texts if looked[name][0]]
    frame = frame.with_columns(pl.col(printed).str.replace(r"^\s*−([\d.,]+)\s*$", "-${1}"))
    first = frame.select(pl.col(texts).drop_nulls().first())
    found = []
    for name in texts:
        cells = frame[name]
        if not (first[name][0] or "").lstrip().startswith("["):
            continue
        if cells.str.contains(_VECTOR).all() and cells.str.contains(_FRACTION).any():
            words = cells.str.strip_chars().str.strip_chars("[]").str.extract_all(r"[^\s,]+")
            lists = words.cast(pl.List(pl.Float64), strict=False)
            found += [] if lists.explode().null_count() else [lists]
    return frame.with_columns(found)


def convert_decimal_commas(
    frame: pl.DataFrame,
    path: str,
    report: Report,
    *,
    decimal: str | None,
    may_guess: bool,
    words: Sequence[str] = (),
) -> pl.DataFrame:
    """Return a table of text with decimal commas converted to points.

    `decimal`: what the user said stands before decimals; where that is nothing and `may_guess`
    says that commas do not stand between cells, a column whose numbers all have commas, and cannot
    be thousands, decides for the whole table. `words`: columns, or patterns of columns, that are
    left as they are.
    """
    if decimal is not None:
        check_choice("decimal", decimal, DECIMALS)
    if decimal == "." or (decimal is None and not may_guess):
        return frame
    found = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.String
        and plain_name(name) not in WORDS
        and not any(fnmatch.fnmatch(name, word) for word in words)
        and _are_numbers(frame[name])
    ]
    if decimal is None and not any(_are_clear(frame[name]) for name in found):
        return frame
    if decimal is None:
        commas = [name for name in found if frame[name].str.contains(_WITH_COMMA).any()]
        named = ", ".join(map(repr, commas[:3])) + ", ..." * (len(commas) > 3)
        report(
            f"read commas as decimal points in {counted(len(commas), 'columns')} of {path} "
            f"({named}; --decimal . says otherwise)"
        )
    return frame.with_columns(
        pl.col(name).str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        for name in found
    )


def non_numeric_columns(*given: str | Sequence[str] | None) -> list[str]:
    """Return the columns and patterns that the user named for roles that are not numeric."""
    return [
        name.strip()
        for names in given
        for each in ([names] if isinstance(names, str) else names or [])
        for name in (each, *each.split(","))
    ]


def _are_numbers(cells: pl.Series) -> bool:
    """Tell whether all cells with digits are numbers, some with a decimal comma."""
    digits = cells.filter(cells.str.contains(r"\d").fill_null(False))
    return bool(
        len(digits)
        and 2 * len(digits) >= len(cells) - cells.null_count()
        and digits.str.contains(_NUMBER).all()
        and digits.str.contains(_WITH_MARK).any()
    )


def _are_clear(cells: pl.Series) -> bool:
    """Tell whether some cell is clearly a decimal and not thousands."""
    return bool((cells.str.contains(_WITH_COMMA) & ~cells.str.contains(_UNCLEAR)).any())


def holds_numbers(cells: pl.Series) -> bool:
    """Tell whether most cells are numbers, perhaps with a decimal comma."""
    if cells.dtype.is_nested():
        return False
    numbers = cells.cast(pl.String).str.replace(",", ".").cast(pl.Float64, strict=False)
    return bool(2 * numbers.count() > cells.count())


def flatten_nested(frame: pl.DataFrame, report: Report) -> tuple[pl.DataFrame, IntArray | None]:
    """Return the table with objects as columns and lists of objects or lists as rows.

    And the original row of each row, or None if rows stayed the same. Nested lists of equal length
    in all rows may be pictures, and are not changed.
    """
    frame = _unnest_objects(parse_vectors(frame), report)
    records = [name for name in frame.columns if _holds_records(frame[name])]
    lists = records or [name for name, kind in frame.schema.items() if _holds_rows(kind)]
    if len(lists) != 1:
        return frame, None
    (name,) = lists
    sizes = frame[name].list.len().fill_null(0).to_numpy()
    if not records and len(frame) > 1 and len(set(sizes.tolist())) == 1:
        return frame, None
    rows = np.repeat(np.arange(len(frame)), np.maximum(sizes, 1))
    filled = pl.when(pl.col(name).list.len() > 0).then(pl.col(name))  # else a row of nulls
    inner = frame.select(filled.alias(name)).to_series().explode()
    frame = frame[rows].with_columns(inner)
    what = "object" if records else "list of numbers"
    report(f"made a row of each {what} in the cells of column {name!r}")
    return (_unnest_objects(frame, report) if records else frame), rows


def _holds_rows(kind: pl.DataType) -> bool:
    """Tell whether cells are lists of lists of numbers, such as all instances of a bag."""
    inner = getattr(kind, "inner", None)
    numbers = getattr(inner, "inner", None)
    return isinstance(kind, pl.List) and numbers is not None and bool(numbers.is_numeric())


def _holds_records(cells: pl.Series) -> bool:
    """Tell whether cells are lists of objects with several numbers, or with a time.

    Lists of labels with weights are not.
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


def _unnest_objects(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Return the table with objects as a column per field: `user.id`, `user.country`.

    Objects of nonnegative numbers may be weights of labels and stay, unless named as features.
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
    """Tell whether cells are objects, and not weights of labels."""
    if not isinstance(cells.dtype, pl.Struct) or not cells.dtype.fields:
        return False
    if not all(part.dtype.is_numeric() for part in cells.dtype.fields):
        return True
    parts = cells.struct.unnest()
    if plain_name(cells.name) in USUAL_NAMES["features"]:
        return True
    return any((part.drop_nulls() < 0).any() for part in parts)

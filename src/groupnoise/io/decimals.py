"""Numbers as people write them: 0,5 and 1.200 for a half and a thousand, [0.1 0.2] for a list."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import polars as pl

from groupnoise.core.checks import check_choice
from groupnoise.core.words import counted
from groupnoise.io.column_names import USUAL_NAMES, plain_name
from groupnoise.io.sources import Report

DECIMALS = (",", ".")
_THOUSANDS = r"[1-9]\d{0,2}(?:\.\d{3})+"
_NUMBER = rf"^\s*[+-]?(?:{_THOUSANDS}|\d+)?(?:,\d+)?(?:[eE][+-]?\d+)?\s*$"
_WITH_COMMA = r",\d"
_UNCLEAR = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"
"""What may be a thousand and something in English, too."""
_WITH_MARK = rf"(?:{_WITH_COMMA}|{_THOUSANDS})"
_VECTOR = r"^\s*\[[-+\d.eE,\s]*\d[-+\d.eE,\s]*\]\s*$"
_FRACTION = r"\d?\.\d*[1-9]"
WORDS = frozenset(
    name
    for part in ("user", "item", "group", "label", "patient", "truth", "candidates")
    for name in USUAL_NAMES[part]
) - {"y", "target"}
"""Columns whose cells name something: 1,2 may be two labels there."""


def with_vectors(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose lists of numbers in text, as frames write embeddings, are lists.

    Whole numbers stay: such lists may be labels. The minus of printed text is that of numbers.
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


def with_points(
    frame: pl.DataFrame,
    path: str,
    report: Report,
    *,
    decimal: str | None,
    may_guess: bool,
    words: Sequence[str] = (),
) -> pl.DataFrame:
    """Return a table of text whose numbers with decimal commas are written with points.

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


def columns_of_words(*given: str | Sequence[str] | None) -> list[str]:
    """Return the columns and patterns that a user named for parts whose cells are no numbers."""
    return [
        name.strip()
        for names in given
        for each in ([names] if isinstance(names, str) else names or [])
        for name in (each, *each.split(","))
    ]


def _are_numbers(cells: pl.Series) -> bool:
    """Tell whether all cells with a digit are numbers with commas, and some have one."""
    digits = cells.filter(cells.str.contains(r"\d").fill_null(False))
    return bool(
        len(digits)
        and 2 * len(digits) >= len(cells) - cells.null_count()
        and digits.str.contains(_NUMBER).all()
        and digits.str.contains(_WITH_MARK).any()
    )


def _are_clear(cells: pl.Series) -> bool:
    """Tell whether some cell is a decimal and cannot be a number of thousands."""
    return bool((cells.str.contains(_WITH_COMMA) & ~cells.str.contains(_UNCLEAR)).any())


def holds_numbers(cells: pl.Series) -> bool:
    """Tell whether most cells are numbers, be it with a comma."""
    if cells.dtype.is_nested():
        return False
    numbers = cells.cast(pl.String).str.replace(",", ".").cast(pl.Float64, strict=False)
    return bool(2 * numbers.count() > cells.count())

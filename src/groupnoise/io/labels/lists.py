"""Recognizing columns of lists of labels by their cells."""

from __future__ import annotations

import polars as pl

from groupnoise.io.labels.memberships import (
    LABEL_SEPARATORS,
    is_bracketed,
    label_weight_fields,
    without_brackets,
)
from groupnoise.io.labels.spellings import find_separators

MAX_JOINED = 500
"""Distinct cells of a column of separated labels at most."""
MIN_LISTS = 0.2
"""Share of cells with a list from which a column of lists is one."""
_WEIGHT = r"\s*([:=]\s*[01]?\.\d+|\([01]?\.\d+\))"
"""The weight after a label: `cat: 0.7`, `cat (0.7)`."""


def lists_as_text(cells: pl.Series) -> pl.Series | None:
    """Return lists of words, or of labels with weights, as text; None for other cells."""
    if isinstance(cells.dtype, pl.Struct):
        if not all(field.dtype.is_numeric() for field in cells.dtype.fields):
            return None
        joined = [
            ";".join(name for name, weight in (cell or {}).items() if weight) for cell in cells
        ]
        return pl.Series(cells.name, joined)
    if (parts := label_weight_fields(cells.dtype)) is not None:
        cells = cells.list.eval(pl.element().struct.field(parts[0]))
    if cells.dtype == pl.List(pl.String):
        return cells.list.join(";", ignore_nulls=True)
    return None


def holds_label_lists(cells: pl.Series, are_lists: bool = False) -> bool:
    """Tell whether cells are lists from a small vocabulary; `are_lists`: their type is list."""
    if are_lists and len(cells):
        words = [word for cell in cells for word in cell.split(";")]
        return 2 <= len(set(words)) <= max(3, min(100, len(words) // 5))
    if len(cells) and is_bracketed(cells):
        cells = without_brackets(cells).str.replace_all(r":\s*[\d.]+", "")
    cells = cells.str.replace_all(_WEIGHT, "")
    for mark in LABEL_SEPARATORS:
        is_list = cells.str.contains(mark, literal=True)
        if len(cells) and is_list.mean() >= MIN_LISTS:  # type: ignore[operator]
            lists = [[word.strip() for word in cell.split(mark)] for cell in cells]
            first = {words[0] for words in lists}
            later = {word for words in lists for word in words[1:]}
            n_words = sum(map(len, lists))
            are_few = len(first | later) <= max(3, min(100, n_words // 5))
            # Addresses and decimal commas also have parts, but each part has a fixed position.
            if are_few and len(first & later) >= MIN_LISTS * len(first | later):
                numbers = (word.replace(".", "", 1).isdigit() for word in first | later)
                return mark != "," or not all(numbers)
    return cells.n_unique() <= MAX_JOINED and bool(find_separators(cells))

"""Labels that pandas or JSON wrote as a list into one cell of text, such as "['a', 'b']"."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable
from typing import Any

from groupnoise.datasets.readers._polars import pl

_IN_BRACKETS = r"(?s)^\s*(\[.*\]|\{.*\}|\(.*\))\s*$"


def is_bracketed(cells: pl.Series) -> bool:
    """Tell whether every cell of a text column stands in brackets."""
    return bool(cells.str.contains(_IN_BRACKETS).all())


def read_lists(cells: pl.Series) -> pl.Series | None:
    """Return cells as lists of labels, or None if one of them is no list of Python or JSON."""
    lists = []
    for cell in cells:
        labels = _read_list(cell)
        if labels is None:
            return None
        lists.append(labels)
    return pl.Series(cells.name, lists, dtype=pl.List(pl.String))


def without_brackets(cells: pl.Series) -> pl.Series:
    """Return text without its brackets and without any quotation mark."""
    bare = cells.str.strip_chars().str.replace(r"(?s)^.(.*).$", "${1}")
    return bare.str.replace_all("['\"]", "")


def _read_list(text: str) -> list[str] | None:
    parsers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)  # neither runs code
    for parse in parsers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes that Python does not know
                value = parse(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if value == {}:  # an empty set, as Python does not write it
            return []
        if isinstance(value, (list, tuple, set)) and all(
            isinstance(label, (str, int, float)) for label in value
        ):
            return [_as_text(label) for label in value]
    return None


def _as_text(label: str | float) -> str:
    # pandas makes floats of whole numbers where other cells of the column were empty.
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)

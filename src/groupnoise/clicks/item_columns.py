"""Columns of a table of items as features: numbers, categories, words, lists of numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from groupnoise.core.arrays import FloatArray, offsets_of
from groupnoise.exceptions import DataError

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
        """Return how a column becomes features, None where it says nothing."""
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
        """Return the features of cells, zero where a cell is empty, shape (n_items, width)."""
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
        begins = offsets_of([len(own) for own in lists])
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

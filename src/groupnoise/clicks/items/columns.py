"""Item features: columns as feature vectors, similar items, and the bias of new items.

Columns hold numbers, categories, words or lists of numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.io.folders.array_folder import check_numbers, require_array

KINDS = ("number", "vector", "category", "text")
SEPARATOR = "|"
MAX_WORDS = 1500
"""Categories or words of a column that become features, the most frequent first."""
MIN_ITEMS = 2
"""Items that must share a category or a word for it to become a feature."""
CATEGORY_SHARE = 0.2
"""A column of text with fewer distinct cells than this share of all holds categories."""
SEPARATED_SHARE = 0.1
"""Share of cells that must hold a | for it to separate categories."""
N_NEAREST = 10
"""Clicked items averaged for a new one, weighted by squared cosine similarity."""
ROWS_AT_ONCE = 256
PREFIX = "like_"
"""Prefix of the arrays that hold similar items in files."""
EXPOSURE_TOP = 10
"""Length of the lists in which the share of new items is measured."""
NEW_SHARE = 0.01
"""Share of these positions that new items may take together."""
N_STEPS, MIN_RATE = 25, 1e-4
"""Number of biases kept, and the exposure rate at the lowest one."""


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
        """Return how a column becomes features, None where it is constant or empty."""
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
        # Each word once, in order: of a set the order differs from one process to the next.
        lists = [dict.fromkeys(own) for own in _words(cells, kind)]
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
            _check_some_numbers(cells, rows)
            if rows.shape[1] != self.width:
                raise DataError(
                    f"column {self.name!r} holds lists of {rows.shape[1]} numbers where the model "
                    f"was taught with {self.width}."
                )
            return sparse.csr_array(np.nan_to_num((rows - np.asarray(self.offset)) * scale))
        index_of = {word: number for number, word in enumerate(self.words)}
        lists = [
            [index_of[word] for word in own if word in index_of] for own in _words(cells, self.kind)
        ]
        found = np.array([number for own in lists for number in own], dtype=np.int64)
        begins = offsets_from_sizes([len(own) for own in lists])
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


def _check_some_numbers(cells: pl.Series, rows: FloatArray) -> None:
    """Refuse cells of text of which none is a number, where the model was taught with numbers."""
    if cells.dtype != pl.String or np.isfinite(rows).any():
        return
    filled = cells.drop_nulls().str.strip_chars()
    filled = filled.filter(filled != "")
    if len(filled):
        raise DataError(
            f"column {cells.name!r} taught the model as numbers, and here holds none, but "
            f"{filled[0][:40]!r}; write numbers (with commas: --decimal ,) or leave it empty."
        )


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


def parse_column(record: Mapping[str, Any]) -> Column:
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


class NewItemBias(NamedTuple):
    """Biases that hold new items back, by how often they are then recommended.

    All of shape (n_steps,), ascending.
    `offsets`: added to the bias of every new item; at most 0.
    `rates`: share of the lists that then hold a new item.
    """

    offsets: FloatArray
    rates: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, is_new: BoolArray) -> NewItemBias | None:
        """Measure how often new items are among the best under each bias.

        None where too few items are known. `scores` (n_histories, n_items): -inf for what was seen.
        `is_new` (n_items,): the new items, or held-out items in their place.
        """
        known, new = scores[:, ~is_new], scores[:, is_new]
        if known.shape[1] < EXPOSURE_TOP:
            return None
        last = -np.partition(-known, EXPOSURE_TOP - 1, axis=1)[:, EXPOSURE_TOP - 1]
        leads = new - last[:, None]
        leads = np.sort(leads[np.isfinite(leads)])[::-1]
        if not len(leads):
            return None
        most = max(1, int(np.count_nonzero(leads > 0))) / len(leads)
        rates = most * np.geomspace(MIN_RATE, 1.0, N_STEPS)
        offsets = np.minimum(
            0.0, -leads[np.minimum(rates * len(leads), len(leads) - 1).astype(int)]
        )
        offsets[-1] = 0.0
        return cls(offsets, rates)

    def offset_for(self, n_new: int) -> float:
        """Return the bias of each of `n_new` new items.

        >>> new_item_bias = NewItemBias(np.array([-9.0, -4, 0]), np.array([0.001, 0.01, 0.1]))
        >>> new_item_bias.offset_for(1), new_item_bias.offset_for(10), new_item_bias.offset_for(500)
        (0.0, -4.0, -9.0)
        """
        rate = NEW_SHARE * EXPOSURE_TOP / max(1, n_new)
        return float(np.interp(np.log(rate), np.log(self.rates), self.offsets))


@dataclass(frozen=True, eq=False)
class SimilarItems:
    """Clicked items by their features.

    `features` (n_items, n_features): of unit length.
    `positions`: of each in the catalogue, ascending.
    `share`: how far a new item is moved towards the mean of its nearest items, from 0 to 1.
    `offset`: added to the bias of a new item.
    """

    features: sparse.csr_array
    positions: IntArray
    share: float
    offset: float = 0.0

    @classmethod
    def of(cls, features: sparse.csr_array, positions: IntArray, share: float) -> SimilarItems:
        """Return items with these features, in any order; see the class for the parameters."""
        order = np.argsort(positions)
        return cls(_unit_rows(features)[order], np.asarray(positions, dtype=np.int64)[order], share)

    def moved(
        self, predicted: Float32Array, features: sparse.csr_array, trained: Float32Array
    ) -> Float32Array:
        """Return predicted rows of new items, moved towards those of the nearest items.

        Rows similar to no item stay unchanged. `predicted` (n, width): by the regression.
        `features` (n, n_features): of the new items. `trained` (n_catalogue, width): of all items.
        """
        result: Float32Array = predicted.copy()
        unit, n_nearest = _unit_rows(features), min(N_NEAREST, len(self.positions))
        for first in range(0, len(predicted), ROWS_AT_ONCE):
            cosines = np.asarray((unit[first : first + ROWS_AT_ONCE] @ self.features.T).todense())
            nearest = np.argpartition(-cosines, n_nearest - 1, axis=1)[:, :n_nearest]
            weights = np.maximum(np.take_along_axis(cosines, nearest, axis=1), 0.0) ** 2
            total = weights.sum(axis=1, keepdims=True)
            mean = np.einsum("nk,nkd->nd", weights, trained[self.positions[nearest]])
            mean /= np.maximum(total, 1e-12)
            own = slice(first, first + len(cosines))
            result[own] += np.where(total > 0, self.share, 0.0) * (mean - result[own])
        result[:, -1] += self.offset
        return result

    def among(self, kept: IntArray) -> SimilarItems | None:
        """Return these items in a smaller catalogue, None where none of them is left."""
        new_positions = np.searchsorted(kept, self.positions)
        is_left = kept[np.minimum(new_positions, len(kept) - 1)] == self.positions
        if not is_left.any():
            return None
        return replace(self, features=self.features[is_left], positions=new_positions[is_left])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the items as arrays that a file can hold."""
        return {
            f"{PREFIX}values": self.features.data.astype(np.float32),
            f"{PREFIX}columns": self.features.indices.astype(np.int64),
            f"{PREFIX}offsets": self.features.indptr.astype(np.int64),
            f"{PREFIX}positions": self.positions,
            f"{PREFIX}share": np.array([self.share, self.offset], dtype=np.float32),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_features: int
    ) -> SimilarItems | None:
        """Return the items whose :meth:`to_arrays` are among `arrays`, None without them."""
        if f"{PREFIX}share" not in arrays:
            return None
        columns, offsets, positions = (
            require_array(arrays, f"{PREFIX}{name}", types=("i8",), shape=(None,))
            for name in ("columns", "offsets", "positions")
        )
        values = require_array(arrays, f"{PREFIX}values", types=("f4",), shape=columns.shape)
        share = require_array(arrays, f"{PREFIX}share", types=("f4",), shape=(2,))
        check_numbers(f"{PREFIX}values", values)
        check_numbers(f"{PREFIX}share", share)
        n_items = len(arrays["popularity"])
        is_sound = (
            len(positions)
            and len(offsets) == len(positions) + 1
            and offsets[0] == 0
            and offsets[-1] == len(columns)
            and (np.diff(offsets) >= 0).all()
            and (np.diff(positions) > 0).all()
            and 0 <= positions[0] <= positions[-1] < n_items
            and (not len(columns) or 0 <= columns.min() <= columns.max() < n_features)
            and 0 <= share[0] <= 1
        )
        if not is_sound:
            raise ModelFileError("the stored items that new ones are compared with are not sound.")
        features = sparse.csr_array((values, columns, offsets), shape=(len(positions), n_features))
        return cls(features, positions, float(share[0]), float(share[1]))


def _unit_rows(features: sparse.csr_array) -> sparse.csr_array:
    norms = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    scaled = sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ features
    return sparse.csr_array(scaled, dtype=np.float32)

"""What is known of items beside their clicks, and vectors from it for items nobody clicked yet.

Columns of a table become features: numbers are standardised, a cell of categories joined by | (or a
list) marks each of them, text is weighed by TF-IDF, a list of numbers is taken as it stands. A
ridge regression from features to the trained vectors and biases, in which an item counts by its
clicks, then says where any described item belongs:

    v(x) = mean + W x,   W = argmin sum_i n_i / (n_i + 1) |v_i - v(x_i)|^2 + ridge |W|^2,

whatever trained the vectors. The ridge is chosen on held-out items. A regression draws vectors
towards their mean, which is undone as far as held-out items then get their share of answers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import linalg, sparse

from groupnoise.clicks.mixture import Float32Array, ItemVectors
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.io.untrusted_arrays import check_numbers, stored_array

SEPARATOR = "|"
MAX_WORDS = 1500
"""Categories or words of a column that become features, the most frequent first."""
MIN_ITEMS = 2
"""Items that must share a category or a word for it to say anything."""
CATEGORY_SHARE = 0.2
"""A column of text with fewer distinct cells than this share of all holds categories."""
SEPARATED_SHARE = 0.1
"""So many cells must hold a | for it to join categories, and not to stand in a title."""
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SPREADS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
FAIR_QUERIES, FAIR_TOP = 500, 10
"""Single clicks, and places of their answers, by which new items are given their share."""
HELD_OUT_SHARE = 0.2
MIN_TAUGHT = 10
"""Clicked items that a regression needs."""
KINDS = ("number", "vector", "category", "text")
COLUMNS, WEIGHTS = "feature_columns", "feature_weights"
"""Names of the two arrays that hold a map in files."""


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features.

    Attributes
    ----------
    name : str
        Of the column.
    kind : {"number", "vector", "category", "text"}
        What its cells hold.
    words : tuple of str
        Categories or words that have a feature each.
    offset, scale : tuple of float
        What is subtracted, and what is multiplied: of words their inverse document frequency.
    """

    name: str
    kind: str
    words: tuple[str, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def learned(cls, cells: pl.Series) -> Column | None:
        """Return how a column becomes features, None where it says nothing.

        Parameters
        ----------
        cells : polars Series
            Of the items that teach.

        Returns
        -------
        Column or None
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

        Parameters
        ----------
        cells : polars Series
            Of any items.

        Returns
        -------
        csr_array of shape (n_items, width)
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


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Where described items belong among the trained ones.

    Attributes
    ----------
    columns : tuple of Column
        How a table becomes features.
    weights : float32 ndarray of shape (n_features + 1, 2 * dim + 1)
        Of the regression, the mean last; vectors f, vectors g and the bias side by side.
    """

    columns: tuple[Column, ...]
    weights: Float32Array

    def vectors(self, table: pl.DataFrame) -> ItemVectors:
        """Return what the features of items say.

        Parameters
        ----------
        table : polars DataFrame
            Has all columns that taught.

        Returns
        -------
        ItemVectors

        Raises
        ------
        DataError
            If a column is missing.
        """
        for column in self.columns:
            if column.name not in table.columns:
                raise DataError(
                    f"the table of items has no column {column.name!r}, from which the model "
                    f"learned; its columns are {', '.join(map(repr, table.columns[:12]))}."
                )
        rows = _matrix(self.columns, table) @ self.weights[:-1] + self.weights[-1]
        return split_columns(np.asarray(rows, dtype=np.float32))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the map as arrays that a file can hold.

        Returns
        -------
        dict of str to ndarray
        """
        text = json.dumps([asdict(column) for column in self.columns], ensure_ascii=False)
        return {COLUMNS: np.frombuffer(text.encode(), dtype=np.uint8), WEIGHTS: self.weights}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dim: int) -> FeatureMap | None:
        """Return the map whose :meth:`to_arrays` are among `arrays`, None where there is none.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            From a file that may hold anything.
        dim : int
            Width of the vectors.

        Returns
        -------
        FeatureMap or None

        Raises
        ------
        ModelFileError
            If the arrays are no map.
        """
        if COLUMNS not in arrays:
            return None
        text = stored_array(arrays, COLUMNS, types=("u1",), shape=(None,))
        try:
            columns = tuple(_checked_column(each) for each in json.loads(text.tobytes()))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ModelFileError("the stored feature_columns cannot be read.") from None
        shape = (sum(column.width for column in columns) + 1, 2 * dim + 1)
        weights = stored_array(arrays, WEIGHTS, types=("f4",), shape=shape)
        check_numbers(WEIGHTS, weights)
        return cls(columns, weights)


def learn_feature_map(
    table: pl.DataFrame, vectors: ItemVectors, clicks: FloatArray, generator: np.random.Generator
) -> FeatureMap:
    """Learn where items belong from the features of those that were clicked.

    Parameters
    ----------
    table : polars DataFrame
        One row per item.
    vectors : ItemVectors
        Trained, in the same order.
    clicks : ndarray of shape (n_items,)
        How often each was clicked; an item without a click teaches nothing.
    generator : numpy Generator
        Decides which items are held out to choose the ridge.

    Returns
    -------
    FeatureMap

    Raises
    ------
    DataError
        If fewer than 10 items were clicked, or no column says anything.
    """
    taught = np.flatnonzero(clicks > 0)
    if len(taught) < MIN_TAUGHT:
        raise DataError(
            f"{len(taught)} items of the feature table were clicked; it takes {MIN_TAUGHT} to "
            "learn from features."
        )
    known = table[taught.tolist()]
    found = [Column.learned(known[name]) for name in table.columns]
    columns = tuple(column for column in found if column is not None)
    if not columns:
        raise DataError(
            "no column of the feature table says anything of items: give numbers, categories that "
            "items share, text, or lists of numbers."
        )
    features = _matrix(columns, known)
    outputs = np.concatenate([vectors.query, vectors.target, vectors.bias[:, None]], axis=1)
    outputs = outputs[taught].astype(np.float64)
    trust = clicks[taught] / (clicks[taught] + 1.0)
    order = generator.permutation(len(taught))
    n_held = max(1, round(HELD_OUT_SHARE * len(order)))
    held, rest = order[:n_held], order[n_held:]
    paths = _ridge_path(features[rest], outputs[rest], trust[rest], RIDGES)
    agreement = [_agreement(features[held], outputs[held], each, trust[held]) for each in paths]
    best = int(np.argmax(agreement))
    (weights,) = _ridge_path(features, outputs, trust, (RIDGES[best],))
    said = (features[held] @ paths[best][:-1] + paths[best][-1]).astype(np.float32)
    spread = _fair_spread(
        split_columns(outputs.astype(np.float32)),
        split_columns(said),
        split_columns(paths[best][-1:].astype(np.float32)),
        held,
    )
    weights[:-1, :-1] *= spread
    return FeatureMap(columns, weights.astype(np.float32))


def borrowed(
    own: ItemVectors, described: ItemVectors, clicks: FloatArray, strength: float
) -> ItemVectors:
    """Return vectors between what clicks and what features say, by the number of clicks.

    Parameters
    ----------
    own : ItemVectors
        From clicks.
    described : ItemVectors
        From features, of the same items.
    clicks : ndarray of shape (n_items,)
        How often each was clicked.
    strength : float
        Clicks that features count for; 0 takes them only where there is no click.

    Returns
    -------
    ItemVectors
    """
    share = np.where(clicks > 0, clicks / np.maximum(clicks + strength, 1e-12), 0.0)
    share = share.astype(np.float32)

    def mixed(mine: Float32Array, theirs: Float32Array) -> Float32Array:
        weight = share.reshape(-1, *[1] * (mine.ndim - 1))
        return np.asarray(weight * mine + (1 - weight) * theirs, dtype=np.float32)

    return ItemVectors(*map(mixed, own, described))


def split_columns(rows: Float32Array) -> ItemVectors:
    """Return vectors f, vectors g and the bias that stand side by side."""
    dim = (rows.shape[1] - 1) // 2
    return ItemVectors(rows[:, :dim].copy(), rows[:, dim : 2 * dim].copy(), rows[:, -1].copy())


def _agreement(
    features: sparse.csr_array, outputs: FloatArray, weights: FloatArray, trust: FloatArray
) -> float:
    """Return the correlation of what features say of held-out items with what clicks say."""
    said, true = features @ weights[:-1], outputs - weights[-1]
    norm = np.sqrt((trust @ said**2).sum() * (trust @ true**2).sum())
    return float((trust @ (said * true)).sum() / max(norm, 1e-12))


def _fair_spread(
    vectors: ItemVectors, told: ItemVectors, mean: ItemVectors, held: IntArray
) -> float:
    """Return how much further from their mean vectors must lie than features say.

    A regression draws vectors together, and an item near the mean is never among the best. Spread
    further, held-out items are answered as often as where their own vectors stand in their place,
    after single clicks; not more often, for then they would push out better ones.
    """
    asked = vectors.query[:: max(1, len(vectors.query) // FAIR_QUERIES)]
    is_held = np.zeros(len(vectors.bias), dtype=bool)
    is_held[held] = True
    top = min(FAIR_TOP, len(is_held))

    def share(target: Float32Array, bias: Float32Array) -> float:
        scores = asked @ target.T + bias
        best = np.argpartition(-scores, top - 1, axis=1)[:, :top]
        return float(is_held[best].mean())

    fair = share(vectors.target, vectors.bias)
    target, bias = vectors.target.copy(), vectors.bias.copy()
    bias[held] = told.bias
    taken = SPREADS[0]
    for spread in SPREADS:
        target[held] = mean.target + spread * (told.target - mean.target)
        if spread > SPREADS[0] and share(target, bias) > fair:
            break
        taken = spread
    return taken


def _ridge_path(
    features: sparse.csr_array, outputs: FloatArray, trust: FloatArray, ridges: Sequence[float]
) -> list[FloatArray]:
    """Return the weights of ridge regressions, each with the weighted mean as its last row."""
    mean = trust @ outputs / trust.sum()
    weighted = sparse.diags_array(trust) @ features
    gram = np.asarray((features.T @ weighted).todense())
    products = weighted.T @ (outputs - mean)
    found = []
    for ridge in ridges:
        solved = linalg.solve(gram + ridge * np.eye(len(gram)), products, assume_a="pos")
        found.append(np.concatenate([solved, mean[None]]))
    return found


def _matrix(columns: Sequence[Column], table: pl.DataFrame) -> sparse.csr_array:
    return sparse.csr_array(
        sparse.hstack([column.features(table[column.name]) for column in columns])
    )


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


def _checked_column(record: Mapping[str, Any]) -> Column:
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

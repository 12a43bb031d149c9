"""Vectors from item features, for items that nobody clicked yet.

Columns of a table become features: numbers are standardised, a cell of categories joined by | (or a
list) marks each of them, text is weighed by TF-IDF, a list of numbers is taken as it stands. A
ridge regression from features to the trained vectors and biases, in which an item counts by its
clicks, then says where any described item belongs:

    v(x) = mean + W x,   W = argmin sum_i n_i / (n_i + 1) |v_i - v(x_i)|^2 + ridge |W|^2,

whatever trained the vectors. The ridge is chosen on held-out items. A regression draws vectors
towards their mean, which is undone as far as held-out items then get their share of answers. A new
item is then moved towards the mean of the trained vectors of the items most like it, as far as that
ranks held-out items better after the clicks that came before them. Its bias is lowered by how many
new ones there are: see `NewItemBias`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import linalg, sparse

from groupnoise.clicks.items.columns import (
    EXPOSURE_TOP,
    Column,
    NewItemBias,
    SimilarItems,
    parse_column,
)
from groupnoise.clicks.mixture import Float32Array, ItemVectors
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.metrics import ndcg_per_row
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.io.columns.roles import check_column
from groupnoise.io.folders.array_folder import check_numbers, require_array

RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SPREADS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
FAIR_QUERIES = 500
"""Single clicks by whose answers vectors are spread."""
HELD_OUT_SHARE = 0.2
SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of the way from the prediction of the regression to the mean of the nearest items."""
MIN_CLICKED_ITEMS = 10
"""Clicked items that a regression needs."""
COLUMNS, WEIGHTS, NEW_ITEM_BIAS = "feature_columns", "feature_weights", "feature_standing"
"""Names of the arrays that hold the regression and the bias of new items in files."""
QueriesBefore = Callable[[IntArray], tuple[Float32Array, IntArray]]
"""Maps rows of held-out items to queries (n, dim) before clicks on them, and to the row clicked."""
MeasureBias = Callable[[IntArray, ItemVectors], NewItemBias | None]
"""Maps rows of held-out items, and their predicted vectors, to the bias of new items."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Where described items belong among the trained ones.

    `columns`: how a table becomes features.
    `weights` (n_features + 1, 2 * dim + 1): of the regression, the mean last; vectors f, vectors g
        and the bias side by side.
    `similar`: the clicked items that new ones are compared with, None where that does not help.
    `new_item_bias`: holds new items back behind known ones, None where it was not measured.
    """

    columns: tuple[Column, ...]
    weights: Float32Array
    similar: SimilarItems | None = None
    new_item_bias: NewItemBias | None = None

    def vectors(self, table: pl.DataFrame, trained: ItemVectors | None = None) -> ItemVectors:
        """Return vectors predicted from the features of items.

        `table`: has all columns that were learned from. `trained`: vectors of the catalogue,
        towards which new items are moved; without them the regression alone predicts. Raises
        DataError if a column is missing.
        """
        for column in self.columns:
            of_model = "that the model learned from"
            check_column(column.name, table.columns, "the table of items", of_model)
        features = feature_matrix(self.columns, table)
        rows = np.asarray(features @ self.weights[:-1] + self.weights[-1], dtype=np.float32)
        if self.similar is not None and trained is not None:
            rows = self.similar.moved(rows, features, _concatenate_columns(trained))
        return split_columns(rows)

    def among(self, kept: IntArray) -> FeatureMap:
        """Return the map for a smaller catalogue; `kept`: rising positions of what stays."""
        return self if self.similar is None else replace(self, similar=self.similar.among(kept))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the map as arrays that a file can hold."""
        text = json.dumps([asdict(column) for column in self.columns], ensure_ascii=False)
        columns: NDArray[Any] = np.frombuffer(text.encode(), dtype=np.uint8)
        arrays = {} if self.similar is None else self.similar.to_arrays()
        if self.new_item_bias is not None:
            arrays[NEW_ITEM_BIAS] = np.stack(self.new_item_bias).astype(np.float32)
        return {COLUMNS: columns, WEIGHTS: self.weights, **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dim: int) -> FeatureMap | None:
        """Return the map whose :meth:`to_arrays` are among `arrays`, None where there is none."""
        if COLUMNS not in arrays:
            return None
        text = require_array(arrays, COLUMNS, types=("u1",), shape=(None,))
        try:
            columns = tuple(parse_column(each) for each in json.loads(text.tobytes()))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ModelFileError("the stored feature_columns cannot be read.") from None
        shape = (sum(column.width for column in columns) + 1, 2 * dim + 1)
        weights = require_array(arrays, WEIGHTS, types=("f4",), shape=shape)
        check_numbers(WEIGHTS, weights)
        new_item_bias = None
        if NEW_ITEM_BIAS in arrays:
            stored = require_array(arrays, NEW_ITEM_BIAS, types=("f4",), shape=(2, None))
            check_numbers(NEW_ITEM_BIAS, stored)
            if not stored.shape[1] or not (stored[1] > 0).all():
                raise ModelFileError("the stored bias of new items is not sound.")
            new_item_bias = NewItemBias(*stored.astype(np.float64))
        return cls(
            columns, weights, SimilarItems.from_arrays(arrays, len(weights) - 1), new_item_bias
        )


def learn_feature_map(
    table: pl.DataFrame,
    vectors: ItemVectors,
    clicks: FloatArray,
    generator: np.random.Generator,
    *,
    positions: IntArray | None = None,
    queries_before: QueriesBefore | None = None,
    measure_bias: MeasureBias | None = None,
) -> FeatureMap:
    """Learn to predict vectors from the features of items that were clicked.

    `table`: one row per item. `vectors`: trained, in the same order. `clicks`: how often each was
    clicked; an item without a click is not learned from. `generator`: decides which items are held
    out to choose the ridge. `positions`: of the rows in the catalogue; by default 0, 1, ...
    `queries_before`: queries before clicks on held-out items, by which it is chosen how far new
    items are moved towards similar ones; without it they are not. `measure_bias`: measures the bias
    of new items. Raises DataError if fewer than 10 items were clicked, or every column is constant.
    """
    trained = np.flatnonzero(clicks > 0)
    if len(trained) < MIN_CLICKED_ITEMS:
        raise DataError(
            f"{counted(len(trained), 'items')} of the feature table "
            f"{'was' if len(trained) == 1 else 'were'} clicked; it takes {MIN_CLICKED_ITEMS} to "
            "learn from features."
        )
    known = table[trained.tolist()]
    found = [Column.learned(known[name]) for name in table.columns]
    columns = tuple(column for column in found if column is not None)
    if not columns:
        raise DataError(
            "no column of the feature table says anything of items: give numbers, categories that "
            "items share, text, or lists of numbers."
        )
    features = feature_matrix(columns, known)
    outputs = _concatenate_columns(vectors)[trained].astype(np.float64)
    trust = clicks[trained] / (clicks[trained] + 1.0)
    order = generator.permutation(len(trained))
    n_held = max(1, round(HELD_OUT_SHARE * len(order)))
    held, rest = order[:n_held], order[n_held:]
    paths = _ridge_path(features[rest], outputs[rest], trust[rest], RIDGES)
    agreement = [_agreement(features[held], outputs[held], each, trust[held]) for each in paths]
    best = int(np.argmax(agreement))
    (weights,) = _ridge_path(features, outputs, trust, (RIDGES[best],))
    predicted = (features[held] @ paths[best][:-1] + paths[best][-1]).astype(np.float32)
    spread = _fair_spread(
        split_columns(outputs.astype(np.float32)),
        split_columns(predicted),
        split_columns(paths[best][-1:].astype(np.float32)),
        held,
    )
    weights[:-1, :-1] *= spread
    similar = new_item_bias = None
    if queries_before is not None:
        catalogue_positions = trained if positions is None else positions[trained]
        coefficients = paths[best].copy()
        coefficients[:-1, :-1] *= spread
        predicted = np.asarray(
            features[held] @ coefficients[:-1] + coefficients[-1], dtype=np.float32
        )
        nearest = SimilarItems.of(features[rest], np.arange(len(rest)), 1.0)
        moved = nearest.moved(predicted, features[held], outputs[rest].astype(np.float32))
        share = _chosen_share(predicted, moved, *queries_before(catalogue_positions[held]))
        similar = SimilarItems.of(features, catalogue_positions, share) if share else None
        if measure_bias is not None:
            placed = split_columns(predicted + np.float32(share) * (moved - predicted))
            new_item_bias = measure_bias(catalogue_positions[held], placed)
    return FeatureMap(columns, weights.astype(np.float32), similar, new_item_bias)


def _chosen_share(
    predicted: Float32Array, neighbours: Float32Array, queries: Float32Array, clicked: IntArray
) -> float:
    """Return the share by which moving held-out items ranks them best among each other.

    0 where no share is ahead of it by more than a standard error. `predicted`, `neighbours`
    (n_held, 2 * dim + 1): of the regression, and the mean of the nearest items. `queries` (n, dim):
    from what came before clicks. `clicked`: which held-out item was clicked.
    """
    if len(clicked) < MIN_CLICKED_ITEMS:
        return 0.0
    ends = [split_columns(each) for each in (predicted, neighbours)]
    first, last = (queries @ each.target.T + each.bias for each in ends)
    gains = []
    for share in SHARES:
        scores = (1 - share) * first + share * last
        own = np.take_along_axis(scores, clicked[:, None], axis=1)
        n_better = (scores > own).sum(axis=1)
        gains.append(ndcg_per_row(n_better, (scores == own).sum(axis=1) - 1, EXPOSURE_TOP))
    best = int(np.argmax([each.mean() for each in gains]))
    lead = gains[best] - gains[0]
    return SHARES[best] if lead.mean() > lead.std() / np.sqrt(len(lead)) else 0.0


def blend_vectors(
    trained: ItemVectors, predicted: ItemVectors, clicks: FloatArray, strength: float
) -> ItemVectors:
    """Return a weighted mean of trained and predicted vectors, by the number of clicks.

    `clicks`: how often each item was clicked. `strength`: clicks that a prediction counts for; 0
    takes it only where there is no click.
    """
    share = np.where(clicks > 0, clicks / np.maximum(clicks + strength, 1e-12), 0.0)
    share = share.astype(np.float32)

    def mixed(clicked: Float32Array, from_features: Float32Array) -> Float32Array:
        weight = share.reshape(-1, *[1] * (clicked.ndim - 1))
        return np.asarray(weight * clicked + (1 - weight) * from_features, dtype=np.float32)

    return ItemVectors(*map(mixed, trained, predicted))


def _concatenate_columns(vectors: ItemVectors) -> Float32Array:
    """Return f, g and the bias of each item in one row."""
    return np.concatenate([vectors.query, vectors.target, vectors.bias[:, None]], axis=1)


def split_columns(rows: Float32Array) -> ItemVectors:
    """Return f, g and the bias from rows of all three."""
    dim = (rows.shape[1] - 1) // 2
    return ItemVectors(rows[:, :dim].copy(), rows[:, dim : 2 * dim].copy(), rows[:, -1].copy())


def _agreement(
    features: sparse.csr_array, outputs: FloatArray, weights: FloatArray, trust: FloatArray
) -> float:
    """Return the correlation of predicted and trained vectors of held-out items."""
    predicted, trained = features @ weights[:-1], outputs - weights[-1]
    norm = np.sqrt((trust @ predicted**2).sum() * (trust @ trained**2).sum())
    return float((trust @ (predicted * trained)).sum() / max(norm, 1e-12))


def _fair_spread(
    vectors: ItemVectors, predicted: ItemVectors, mean: ItemVectors, held: IntArray
) -> float:
    """Return by what factor predicted vectors are spread about their mean.

    A regression draws vectors together, and an item near the mean is never among the best. Spread
    further, held-out items are answered as often as where their own vectors stand in their place,
    after single clicks; not more often, for then they would push out better ones.
    """
    queries = vectors.query[:: max(1, len(vectors.query) // FAIR_QUERIES)]
    is_held = np.zeros(len(vectors.bias), dtype=bool)
    is_held[held] = True
    top = min(EXPOSURE_TOP, len(is_held))

    def held_out_share(target: Float32Array, bias: Float32Array) -> float:
        scores = queries @ target.T + bias
        best = np.argpartition(-scores, top - 1, axis=1)[:, :top]
        return float(is_held[best].mean())

    fair_share = held_out_share(vectors.target, vectors.bias)
    target, bias = vectors.target.copy(), vectors.bias.copy()
    bias[held] = predicted.bias
    taken = SPREADS[0]
    for spread in SPREADS:
        target[held] = mean.target + spread * (predicted.target - mean.target)
        if spread > SPREADS[0] and held_out_share(target, bias) > fair_share:
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


def feature_matrix(columns: Sequence[Column], table: pl.DataFrame) -> sparse.csr_array:
    """Return the features of all columns side by side, shape (n_items, n_features)."""
    return sparse.csr_array(
        sparse.hstack([column.features(table[column.name]) for column in columns])
    )

"""What is known of items beside their clicks, and vectors from it for items nobody clicked yet.

Columns of a table become features: numbers are standardised, a cell of categories joined by | (or a
list) marks each of them, text is weighed by TF-IDF, a list of numbers is taken as it stands. A
ridge regression from features to the trained vectors and biases, in which an item counts by its
clicks, then says where any described item belongs:

    v(x) = mean + W x,   W = argmin sum_i n_i / (n_i + 1) |v_i - v(x_i)|^2 + ridge |W|^2,

whatever trained the vectors. The ridge is chosen on held-out items. A regression draws vectors
towards their mean, which is undone as far as held-out items then get their share of answers. A new
item is then moved towards the mean of the trained vectors of the items most like it, as far as that
ranks held-out items better after the clicks that came before them. It stands back behind known ones
by how many new ones there are: see `Standing` of `like_items`.
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

from groupnoise.clicks.items.columns import FAIR_TOP, Column, LikeItems, Standing, checked_column
from groupnoise.clicks.mixture import Float32Array, ItemVectors
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.metrics import ndcg_per_row
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ModelFileError
from groupnoise.io.columns.roles import check_column
from groupnoise.io.folders.array_folder import check_numbers, stored_array

RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SPREADS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
FAIR_QUERIES = 500
"""Single clicks by whose answers vectors are spread."""
HELD_OUT_SHARE = 0.2
SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of the way from what the regression says to the mean of the most similar items."""
MIN_TAUGHT = 10
"""Clicked items that a regression needs."""
COLUMNS, WEIGHTS, STANDING = "feature_columns", "feature_weights", "feature_standing"
"""Names of the arrays that hold the regression and the standing of new items in files."""
Ask = Callable[[IntArray], tuple[Float32Array, IntArray]]
"""Maps rows of held-out items to queries (n, dim) of what came before clicks on them, and to which
of these rows was clicked."""
Stand = Callable[[IntArray, ItemVectors], Standing | None]
"""Maps rows of held-out items, and where their features place them, to how far back new items
stand."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Where described items belong among the trained ones.

    `columns`: how a table becomes features.
    `weights` (n_features + 1, 2 * dim + 1): of the regression, the mean last; vectors f, vectors g
        and the bias side by side.
    `like`: the clicked items that new ones are compared with, None where that does not help.
    `standing`: how far behind known items new ones stand, None where that was not asked.
    """

    columns: tuple[Column, ...]
    weights: Float32Array
    like: LikeItems | None = None
    standing: Standing | None = None

    def vectors(self, table: pl.DataFrame, trained: ItemVectors | None = None) -> ItemVectors:
        """Return what the features of items say.

        `table`: has all columns that taught. `trained`: vectors of the catalogue, towards which
        new items are moved; without them the regression speaks alone. Raises DataError if a column
        is missing.
        """
        for column in self.columns:
            of_model = "that the model learned from"
            check_column(column.name, table.columns, "the table of items", of_model)
        features = feature_matrix(self.columns, table)
        rows = np.asarray(features @ self.weights[:-1] + self.weights[-1], dtype=np.float32)
        if self.like is not None and trained is not None:
            rows = self.like.moved(rows, features, _side_by_side(trained))
        return split_columns(rows)

    def among(self, kept: IntArray) -> FeatureMap:
        """Return the map for a smaller catalogue; `kept`: rising positions of what stays."""
        return self if self.like is None else replace(self, like=self.like.among(kept))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the map as arrays that a file can hold."""
        text = json.dumps([asdict(column) for column in self.columns], ensure_ascii=False)
        columns: NDArray[Any] = np.frombuffer(text.encode(), dtype=np.uint8)
        like = {} if self.like is None else self.like.to_arrays()
        if self.standing is not None:
            like[STANDING] = np.stack(self.standing).astype(np.float32)
        return {COLUMNS: columns, WEIGHTS: self.weights, **like}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dim: int) -> FeatureMap | None:
        """Return the map whose :meth:`to_arrays` are among `arrays`, None where there is none."""
        if COLUMNS not in arrays:
            return None
        text = stored_array(arrays, COLUMNS, types=("u1",), shape=(None,))
        try:
            columns = tuple(checked_column(each) for each in json.loads(text.tobytes()))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ModelFileError("the stored feature_columns cannot be read.") from None
        shape = (sum(column.width for column in columns) + 1, 2 * dim + 1)
        weights = stored_array(arrays, WEIGHTS, types=("f4",), shape=shape)
        check_numbers(WEIGHTS, weights)
        standing = None
        if STANDING in arrays:
            stored = stored_array(arrays, STANDING, types=("f4",), shape=(2, None))
            check_numbers(STANDING, stored)
            if not stored.shape[1] or not (stored[1] > 0).all():
                raise ModelFileError("the stored standing of new items is not sound.")
            standing = Standing(*stored.astype(np.float64))
        return cls(columns, weights, LikeItems.from_arrays(arrays, len(weights) - 1), standing)


def learn_feature_map(
    table: pl.DataFrame,
    vectors: ItemVectors,
    clicks: FloatArray,
    generator: np.random.Generator,
    *,
    positions: IntArray | None = None,
    ask: Ask | None = None,
    stand: Stand | None = None,
) -> FeatureMap:
    """Learn where items belong from the features of those that were clicked.

    `table`: one row per item. `vectors`: trained, in the same order. `clicks`: how often each was
    clicked; an item without a click teaches nothing. `generator`: decides which items are held out
    to choose the ridge. `positions`: where the rows stand in the catalogue; by default as they
    come. `ask`: tells what came before clicks on items, by which it is chosen how far new items
    are moved towards those like them; without it they are not. `stand`: judges how far back they
    stand. Raises DataError if fewer than 10 items were clicked, or no column says anything.
    """
    taught = np.flatnonzero(clicks > 0)
    if len(taught) < MIN_TAUGHT:
        raise DataError(
            f"{counted(len(taught), 'items')} of the feature table "
            f"{'was' if len(taught) == 1 else 'were'} clicked; it takes {MIN_TAUGHT} to learn from "
            "features."
        )
    known = table[taught.tolist()]
    found = [Column.learned(known[name]) for name in table.columns]
    columns = tuple(column for column in found if column is not None)
    if not columns:
        raise DataError(
            "no column of the feature table says anything of items: give numbers, categories that "
            "items share, text, or lists of numbers."
        )
    features = feature_matrix(columns, known)
    outputs = _side_by_side(vectors)[taught].astype(np.float64)
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
    like = standing = None
    if ask is not None:
        places = taught if positions is None else positions[taught]
        told = paths[best].copy()
        told[:-1, :-1] *= spread
        said = np.asarray(features[held] @ told[:-1] + told[-1], dtype=np.float32)
        nearest = LikeItems.of(features[rest], np.arange(len(rest)), 1.0)
        moved = nearest.moved(said, features[held], outputs[rest].astype(np.float32))
        share = _chosen_share(said, moved, *ask(places[held]))
        like = LikeItems.of(features, places, share) if share else None
        if stand is not None:
            placed = split_columns(said + np.float32(share) * (moved - said))
            standing = stand(places[held], placed)
    return FeatureMap(columns, weights.astype(np.float32), like, standing)


def _chosen_share(
    said: Float32Array, moved: Float32Array, queries: Float32Array, clicked: IntArray
) -> float:
    """Return how far held-out items are to be moved to rank best among each other.

    0 where no share is ahead of it by more than a standard error. `said`, `moved` (n_held, 2 * dim
    + 1): from the regression, and the mean of the most similar items. `queries` (n, dim): what
    came before clicks. `clicked`: which held-out item was clicked.
    """
    if len(clicked) < MIN_TAUGHT:
        return 0.0
    ends = [split_columns(each) for each in (said, moved)]
    first, last = (queries @ each.target.T + each.bias for each in ends)
    gains = []
    for share in SHARES:
        scores = (1 - share) * first + share * last
        own = np.take_along_axis(scores, clicked[:, None], axis=1)
        n_better = (scores > own).sum(axis=1)
        gains.append(ndcg_per_row(n_better, (scores == own).sum(axis=1) - 1, FAIR_TOP))
    best = int(np.argmax([each.mean() for each in gains]))
    lead = gains[best] - gains[0]
    return SHARES[best] if lead.mean() > lead.std() / np.sqrt(len(lead)) else 0.0


def borrowed(
    own: ItemVectors, described: ItemVectors, clicks: FloatArray, strength: float
) -> ItemVectors:
    """Return vectors between what clicks and what features say, by the number of clicks.

    `described`: from features, of the same items. `clicks`: how often each was clicked. `strength`:
    clicks that features count for; 0 takes them only where there is no click.
    """
    share = np.where(clicks > 0, clicks / np.maximum(clicks + strength, 1e-12), 0.0)
    share = share.astype(np.float32)

    def mixed(mine: Float32Array, theirs: Float32Array) -> Float32Array:
        weight = share.reshape(-1, *[1] * (mine.ndim - 1))
        return np.asarray(weight * mine + (1 - weight) * theirs, dtype=np.float32)

    return ItemVectors(*map(mixed, own, described))


def _side_by_side(vectors: ItemVectors) -> Float32Array:
    """Return vectors f, vectors g and the bias of each item in one row."""
    return np.concatenate([vectors.query, vectors.target, vectors.bias[:, None]], axis=1)


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


def feature_matrix(columns: Sequence[Column], table: pl.DataFrame) -> sparse.csr_array:
    """Return the features of all columns side by side, shape (n_items, n_features)."""
    return sparse.csr_array(
        sparse.hstack([column.features(table[column.name]) for column in columns])
    )

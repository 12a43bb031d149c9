"""Items are placed by what is known of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.evidence.model import Evidence, HeldOut
from groupnoise.clicks.evidence.resumed import choose_strength
from groupnoise.clicks.items.catalogue import Catalogue
from groupnoise.clicks.items.columns import Column
from groupnoise.clicks.items.features import (
    FeatureMap,
    _ridge_path,
    blend_vectors,
    learn_feature_map,
)
from groupnoise.clicks.items.table import ItemRows
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ModelFileError

SHELVES = ("tea", "tools", "toys")
EXPLICIT: dict[str, Any] = {"dim": 8, "max_epochs": 3, "encoder": None, "linear": None} | {
    "shared": False,
    "window_size": 20,
    "init": "spectral",
    "candidates": "full",
    "n_negatives": 512,
    "batch_size": 256,
    "learning_rate": 5e-3,
    "weight_decay": 1.0,
}
"""Nothing is left to be decided on held-out clicks."""


def shop(n_items: int = 30, n_users: int = 150, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    """Return histories that each stay on one shelf, and the items, of which item i is on i % 3."""
    generator = np.random.default_rng(seed)
    items = [f"item{number}" for number in range(n_items)]
    histories = []
    for user in range(n_users):
        own = [item for number, item in enumerate(items) if number % 3 == user % 3]
        histories.append(generator.choice(own, size=5, replace=False).tolist())
    return histories, items


def described(items: list[str], new: list[str]) -> pl.DataFrame:
    """Return a table of shelf, title and price of items and of new ones."""
    every = [*items, *new]
    shelf = [SHELVES[number % 3] for number in range(len(items))] + [SHELVES[0]] * len(new)
    return pl.DataFrame(
        {
            "item": every,
            "category": [f"{each}|all" for each in shelf],
            "title": [f"The {each} no. {number}" for number, each in enumerate(shelf)],
            "price": [float(number % 7) for number in range(len(every))],
        }
    )


@pytest.fixture(scope="module")
def fitted() -> MaxMatchingRecommender:
    histories, items = shop()
    model = MaxMatchingRecommender(**EXPLICIT, random_state=0)
    return model.fit(histories, item_features=described(items, ["new tea"]))


def test_an_item_nobody_clicked_is_recommended_to_those_who_like_its_kind(
    fitted: MaxMatchingRecommender,
) -> None:
    histories, _ = shop()
    tea, tools = histories[0][:3], histories[1][:3]
    scores = fitted.scores([tea, tools], items=["new tea"]).ravel()
    assert scores[0] > scores[1] + 1
    assert fitted.items_[-1] == "new tea"
    assert fitted.popularity_[-1] == 0


def test_known_items_keep_what_their_clicks_say(fitted: MaxMatchingRecommender) -> None:
    histories, _ = shop()
    plain = MaxMatchingRecommender(**EXPLICIT, random_state=0)
    plain.fit(histories)
    n_items = plain.n_items_
    np.testing.assert_allclose(fitted.item_vectors().target[:n_items], plain.item_vectors().target)


def test_a_saved_model_and_its_artifact_place_items_alike(
    fitted: MaxMatchingRecommender, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    loaded = MaxMatchingRecommender.load(tmp_path / "model")
    table = described([], ["another tea"]).drop("item")
    before, after = fitted.feature_map_.vectors(table), loaded.feature_map_.vectors(table)
    np.testing.assert_array_equal(before.target, after.target)
    assert loaded.recommend([["item0"]])[0].tolist() == fitted.recommend([["item0"]])[0].tolist()


def test_models_of_windows_place_items_too() -> None:
    histories, items = shop()
    model = MaxMatchingRecommender(normalization="click", dim=8, random_state=0)
    model.fit(histories, item_features=described(items, ["new tea"]))
    scores = model.scores([histories[0][:3], histories[1][:3]], items=["new tea"]).ravel()
    assert scores[0] > scores[1]


def test_rows_of_an_array_are_those_of_the_catalogue() -> None:
    histories, items = shop()
    features = np.eye(3)[np.arange(len(items)) % 3]
    model = MaxMatchingRecommender(dim=8, max_epochs=2, encoder=None, linear=None, random_state=0)
    model.fit(histories, item_ids=items, item_features=features)
    assert model.feature_map_.columns[0].kind == "vector"
    with pytest.raises(DataError, match="one row for each of the 30 items; got shape"):
        model.fit(histories, item_ids=items, item_features=features[1:])


def test_the_regression_is_that_of_plain_loops() -> None:
    """W = (sum n/(n+1) x x' + ridge)^-1 sum n/(n+1) x (v - mean), by loops over items."""
    generator = np.random.default_rng(0)
    features, outputs = generator.normal(size=(40, 2)), generator.normal(size=(40, 5))
    trust = generator.random(40)
    (found,) = _ridge_path(sparse.csr_array(features), outputs, trust, (3.0,))
    mean = sum(t * row for t, row in zip(trust, outputs, strict=True)) / sum(trust)
    gram, product = np.eye(2) * 3.0, np.zeros((2, 5))
    for item in range(40):
        gram += trust[item] * np.outer(features[item], features[item])
        product += trust[item] * np.outer(features[item], outputs[item] - mean)
    np.testing.assert_allclose(found[:-1], np.linalg.solve(gram, product))
    np.testing.assert_allclose(found[-1], mean)


def test_told_items_are_answered_as_often_as_trained_ones() -> None:
    generator = np.random.default_rng(0)
    kinds = generator.normal(size=(300, 6))
    noisy = (kinds @ generator.normal(size=(6, 8)) + generator.normal(size=(300, 8))).astype("f4")
    own = ItemVectors(noisy, noisy, np.zeros(300, "f4"))
    table = pl.DataFrame({"kind": kinds.tolist()})
    told = learn_feature_map(table[:250], ItemVectors(*(part[:250] for part in own)),
                             np.full(250, 5.0), generator).vectors(table)  # fmt: skip
    targets = np.concatenate([noisy[:250], told.target[250:]])
    best = np.argsort(-(noisy[:250] @ targets.T), axis=1)[:, :10]
    assert 0.05 < (best >= 250).mean() < 0.3


def test_rare_items_borrow_where_held_out_clicks_say_so() -> None:
    """Where vectors are noise features say more; where vectors are right they add nothing."""
    generator = np.random.default_rng(0)
    n_items = 40
    kinds = np.arange(n_items) % 2
    directions = np.where(kinds[:, None] == 0, [[3.0, 0.0]], [[0.0, 3.0]]).astype("f4")
    training = Groups.from_lists([[item, (item + 2) % n_items] for item in range(n_items)])
    asked = Groups(training.objects, training.offsets, (training.objects[1::2] + 2) % n_items)
    catalogue = Catalogue(np.arange(n_items))
    rows = ItemRows([*map(str, range(n_items))], pl.DataFrame({"kind": kinds.tolist()}), "table")

    def strength_for(vectors: np.ndarray) -> float:
        weights = np.ones((1, 2), "f4")
        trial = Evidence(directions, vectors, np.zeros(n_items, "f4"), (2,), weights, (0.0,))
        return choose_strength(catalogue, rows, trial, HeldOut(training, asked), generator)

    noise = generator.normal(size=(n_items, 2)).astype("f4")
    assert strength_for(directions + 3 * noise) > 0
    exact = directions.copy()
    assert strength_for(exact) == 0


def test_few_clicks_borrow_and_many_do_not() -> None:
    own = ItemVectors(np.ones((3, 2), "f4"), np.ones((3, 2), "f4"), np.ones(3, "f4"))
    told = ItemVectors(np.zeros((3, 2), "f4"), np.zeros((3, 2), "f4"), np.zeros(3, "f4"))
    mixed = blend_vectors(own, told, np.array([0.0, 1.0, 99.0]), strength=1.0)
    np.testing.assert_allclose(mixed.bias, [0.0, 0.5, 0.99])
    np.testing.assert_allclose(mixed.target[:, 0], mixed.bias)


@pytest.mark.parametrize(
    ("cells", "kind", "width"),
    [
        (["a|b", "b|c", "a", "c"], "category", 3),
        ([["a", "b"], ["b"], ["a"]], "category", 2),
        (["red tea", "green tea", "red cup", "one word"], "text", 2),
        (["1.5", "2", "", "4"], "number", 1),
        ([1, None, 3], "number", 1),
        ([[0.1, 0.2], [0.3, 0.1], None], "vector", 2),
        ([True, False, True], "number", 1),
    ],
)
def test_what_cells_hold_is_found_out(cells: list[object], kind: str, width: int) -> None:
    series = pl.Series("column", cells)
    column = Column.learned(series)
    assert column is not None
    assert (column.kind, column.width) == (kind, width)
    assert column.features(series).shape == (len(cells), width)
    assert np.isfinite(column.features(series).toarray()).all()


def test_words_that_are_as_frequent_stand_in_the_order_in_which_they_come() -> None:
    words = [f"word{number * 7919 % 1000}" for number in range(30)]
    column = Column.learned(pl.Series("column", [" ".join(words[:20]), " ".join(words)] * 2))
    assert column is not None
    assert column.words == tuple(words)


@pytest.mark.parametrize("cells", [["a", "b", "c"], [2.0, 2.0], [None, None]])
def test_a_column_that_says_nothing_is_left_out(cells: list[object]) -> None:
    assert Column.learned(pl.Series("column", cells)) is None


def test_bad_tables_get_one_sentence(tmp_path: Path) -> None:
    histories, items = shop()
    model = MaxMatchingRecommender(dim=4, max_epochs=1, encoder=None, linear=None, random_state=0)
    table = described(items, [])
    twice = tmp_path / "twice.csv"
    pl.concat([table, table[:1]]).write_csv(twice)
    with pytest.raises(
        DataError, match=r"twice\.csv.*'item0' stands in .* too; give each item one"
    ):
        model.fit(histories, item_features=twice)
    with pytest.raises(DataError, match=r"none of the 2 items of .* is in the log, such as 'x'"):
        model.fit(histories, item_features=pl.DataFrame({"item": ["x", "y"], "price": [1, 2]}))
    with pytest.raises(DataError, match="no column of the feature table says anything"):
        model.fit(histories, item_features=table.select("item"))
    with pytest.warns(UserWarning, match="10 clicked items have no row in"):
        model.fit(histories, item_features=table[:20])


def test_a_new_item_needs_the_columns_that_taught(fitted: MaxMatchingRecommender) -> None:
    with pytest.raises(DataError, match="has no column 'price' that the model learned from"):
        fitted.feature_map_.vectors(pl.DataFrame({"category": ["tea"], "title": ["a"]}))


def test_a_column_of_numbers_without_a_number_is_no_column_of_empty_cells() -> None:
    column = Column.learned(pl.Series("price", ["1.5", "2", "7.25"]))
    assert column is not None
    assert column.features(pl.Series("price", ["9", None, "n/a"])).shape == (3, 1)
    assert column.features(pl.Series("price", [None, " "])).nnz == 0
    with pytest.raises(DataError, match=r"'price' taught the model as numbers.* '9,99'"):
        column.features(pl.Series("price", ["9,99", ""]))


def test_a_damaged_map_is_refused(fitted: MaxMatchingRecommender) -> None:
    arrays = fitted.feature_map_.to_arrays()
    with pytest.raises(ModelFileError, match="feature_columns cannot be read"):
        FeatureMap.from_arrays({**arrays, "feature_columns": np.zeros(3, "u1")}, 8)
    with pytest.raises(ModelFileError, match="feature_weights"):
        FeatureMap.from_arrays({**arrays, "feature_weights": np.zeros((2, 2), "f4")}, 8)

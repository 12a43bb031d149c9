"""New items are moved towards the items most like them by their features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.items import columns as item_columns
from groupnoise.clicks.items.columns import N_NEAREST, PREFIX, NewItemBias, SimilarItems
from groupnoise.clicks.items.features import NEW_ITEM_BIAS, FeatureMap, _chosen_share
from groupnoise.exceptions import ModelFileError
from groupnoise.recall import open_artifact
from groupnoise.recall.item_changes import add_items, remove_items
from reference import moved_towards_like_items


def some_items(n_items=40, n_features=6, width=7, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.random((n_items, n_features)) * (generator.random((n_items, 6)) < 0.5)
    trained = generator.standard_normal((n_items, width)).astype(np.float32)
    return sparse.csr_array(features), trained


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_new_item_is_moved_as_a_plain_loop_moves_it(monkeypatch, share):
    monkeypatch.setattr(item_columns, "ROWS_AT_ONCE", 3)
    features, trained = some_items()
    new, said = some_items(8, seed=1)
    new = sparse.csr_array(new.toarray() * (np.arange(8) != 2)[:, None])  # one is like nothing
    positions = np.random.default_rng(2).permutation(40)
    found = SimilarItems.of(features, positions, share).moved(said, new, trained)
    known = [(features.toarray()[row], trained[positions[row]]) for row in range(40)]
    expected = moved_towards_like_items(said, new.toarray(), known, share, N_NEAREST)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[2], said[2])


def test_like_items_survive_files_and_leave_with_the_catalogue():
    features, trained = some_items()
    new, said = some_items(5, seed=1)
    like = SimilarItems.of(features, np.arange(40)[::-1], 0.5)
    arrays = {**like.to_arrays(), "popularity": np.ones(40)}
    again = SimilarItems.from_arrays(arrays, 6)
    assert again is not None
    np.testing.assert_array_equal(again.moved(said, new, trained), like.moved(said, new, trained))
    kept = np.arange(0, 40, 2)
    fewer = again.among(kept)
    assert fewer is not None
    alone = SimilarItems.of(sparse.csr_array(features[39 - kept]), np.arange(20), 0.5)
    np.testing.assert_allclose(
        fewer.moved(said, new, trained[kept]), alone.moved(said, new, trained[kept]), rtol=1e-6
    )
    assert SimilarItems.of(features[:1], np.array([3]), 0.5).among(np.array([0, 1])) is None
    for name, damage in (("positions", 40), ("columns", 6), ("offsets", -1)):
        broken = {key: value.copy() for key, value in arrays.items()}
        broken[f"{PREFIX}{name}"][-1] = damage
        with pytest.raises(ModelFileError, match="not sound"):
            SimilarItems.from_arrays(broken, 6)


def test_items_are_moved_only_where_that_ranks_held_out_ones_better():
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((300, 3)).astype(np.float32)
    right = generator.standard_normal((30, 7)).astype(np.float32)
    wrong = generator.standard_normal((30, 7)).astype(np.float32)
    clicked = (queries @ right[:, 3:6].T + right[:, 6]).argmax(axis=1)
    assert _chosen_share(wrong, right, queries, clicked) == 0.75
    assert _chosen_share(right, wrong, queries, clicked) == 0.0
    assert _chosen_share(wrong, right, queries[:5], clicked[:5]) == 0.0


def test_the_fewer_new_items_the_less_they_stand_back():
    generator = np.random.default_rng(0)
    scores, is_new = generator.standard_normal((400, 120)), np.arange(120) >= 100
    scores[:, is_new] += 1.0
    new_item_bias = NewItemBias.of(scores, is_new)
    assert new_item_bias is not None
    offsets = [new_item_bias.offset_for(n_new) for n_new in (1, 5, 20, 80)]
    assert offsets == sorted(offsets, reverse=True)
    assert offsets[-1] < offsets[0]
    assert new_item_bias.offset_for(20) > -3.0
    moved = scores + np.where(is_new, new_item_bias.offset_for(20), 0.0)
    best = np.argsort(-moved, axis=1)[:, :10]
    assert 0.002 < is_new[best].mean() <= 0.0105  # together a hundredth of the places
    assert NewItemBias.of(scores[:, 95:], is_new[95:]) is None  # five known items, no best ten


def test_the_standing_of_new_items_survives_files():
    generator = np.random.default_rng(0)
    new_item_bias = NewItemBias.of(generator.standard_normal((50, 60)), np.arange(60) > 40)
    weights = np.zeros((1, 5), dtype=np.float32)
    arrays = FeatureMap((), weights, None, new_item_bias).to_arrays()
    again = FeatureMap.from_arrays(arrays, 2)
    assert again is not None
    assert again.new_item_bias is not None
    np.testing.assert_allclose(
        again.new_item_bias.offset_for(5), new_item_bias.offset_for(5), rtol=1e-6
    )
    for damaged in (np.zeros((2, 0), np.float32), np.zeros((2, 3), np.float32)):
        with pytest.raises(ModelFileError, match="bias of new items is not sound"):
            FeatureMap.from_arrays({**arrays, NEW_ITEM_BIAS: damaged}, 2)


def test_an_artifact_places_new_items_as_fit_does_and_goes_on_after_a_removal(tmp_path: Path):
    generator = np.random.default_rng(0)
    shelf = np.arange(120) % 4
    histories = [
        generator.permutation(np.flatnonzero(shelf == own))[:8].tolist()
        for own in generator.integers(4, size=160)
    ]
    table = pl.DataFrame({"item": range(124), "kind": [f"kind{each % 4}" for each in range(124)]})
    model = MaxMatchingRecommender(normalization="click", dim=8, max_epochs=2, random_state=0).fit(
        histories, item_features=table[:120]
    )
    like = SimilarItems.of(sparse.csr_array(np.eye(4)[shelf]), np.arange(120), 0.5)
    model.feature_map_ = replace(model.feature_map_, similar=like)
    expected = model.feature_map_.vectors(table[120:], model.item_vectors())
    model.save(tmp_path / "model")
    again = MaxMatchingRecommender.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.feature_map_.vectors(table[120:], again.item_vectors()).target, expected.target
    )
    brands = [f"brand={'Acme' if each % 2 else 'Bolt'}" for each in range(120)]
    model.export(tmp_path / "shop", categories=brands)
    branded = table[120:].with_columns(pl.lit("Acme").alias("brand"))
    add_items(tmp_path / "shop", branded)
    items = open_artifact(tmp_path / "shop", memory_map=False).items
    assert "brand=Acme" in [items.category_names[code] for code in items.codes_of(120)]
    vectors = open_artifact(tmp_path / "shop", memory_map=False).ranker.vectors
    np.testing.assert_allclose(vectors.targets[120:, :-1], expected.target, rtol=1e-5)
    remove_items(tmp_path / "shop", [5, 121])
    add_items(tmp_path / "shop", table[[121]])
    assert len(open_artifact(tmp_path / "shop", memory_map=False).items) == 123

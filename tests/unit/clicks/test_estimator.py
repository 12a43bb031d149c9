import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.exceptions import DataError, ModelFileError, UnknownTargetError
from groupnoise.io.folders.model_files import read_model, write_model


def quick(**settings):
    defaults = {"dim": 16, "max_epochs": 20, "n_negatives": 8, "learning_rate": 0.02}
    return MaxMatchingRecommender(
        **{"normalization": "click", **defaults, "random_state": 0, **settings}
    )


@pytest.fixture(scope="module")
def two_worlds():
    """Kitchen and workshop: a click is followed by one of the same world."""
    rng = np.random.default_rng(0)
    worlds = [["tea", "jam", "rye", "ham"], ["saw", "nail", "glue", "bolt"]]
    return [[worlds[i % 2][j] for j in rng.integers(4, size=8)] for i in range(60)], worlds


@pytest.mark.parametrize("candidates", ["full", "sampled", "in_batch"])
@pytest.mark.parametrize("shared", [True, False])
def test_recommendations_stay_in_the_world_of_the_clicks(two_worlds, candidates, shared):
    histories, worlds = two_worlds
    model = quick(candidates=candidates, shared=shared).fit(histories)
    ids, scores = model.recommend([["tea", "jam"], ["saw", "nail"]], top=2)
    assert set(ids[0]) <= set(worlds[0])
    assert set(ids[1]) <= set(worlds[1])
    assert (np.diff(scores, axis=1) <= 0).all()


def test_a_stray_click_is_not_chosen(two_worlds):
    histories, _ = two_worlds
    model = quick(candidates="full").fit(histories)
    scores = model.select([["tea", "jam", "saw"]], targets=["ham"])
    assert scores.chosen[0] != 2
    assert scores.responsibility[2] == scores.responsibility.min()


def test_scores_of_some_items_equal_those_among_all(two_worlds):
    histories, _ = two_worlds
    for scope in ("group", "last"):
        model = quick(scope=scope, max_epochs=2).fit(histories)
        asked = [["tea"], ["saw", "tea", "glue"]]
        everything = model.scores(asked)
        wanted = model.items_[[[3, 0], [1, 5]]]
        some = model.scores(asked, wanted)
        np.testing.assert_allclose(
            some, np.take_along_axis(everything, np.array([[3, 0], [1, 5]]), 1), rtol=1e-4
        )


def test_the_last_click_alone_decides_under_scope_last(two_worlds):
    histories, _ = two_worlds
    model = quick(scope="last", max_epochs=2).fit(histories)
    np.testing.assert_array_equal(model.scores([["saw", "tea"]]), model.scores([["tea"]]))


def test_scores_of_a_group_are_the_log_of_mixed_probabilities(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=2, weighting_strength=0.0, recency=0.0).fit(histories)
    mixed = np.log(np.exp(model.scores([["tea"]])) + np.exp(model.scores([["saw"]])))
    np.testing.assert_allclose(model.scores([["tea", "saw"]]), mixed, rtol=1e-4)


def test_groups_with_targets_are_windows_and_without_are_histories(two_worlds):
    histories = Groups.from_lists([[0, 1, 2], [1, 2, 0]])
    windows = Groups.from_lists([[0], [0, 1], [1], [1, 2]], targets=[1, 2, 2, 0])
    first = quick(max_epochs=2).fit(histories)
    second = quick(max_epochs=2).fit(windows)
    np.testing.assert_array_equal(first.scores([[0, 1]]), second.scores([[0, 1]]))


def test_unknown_items_are_ignored_and_an_empty_history_gets_popularity(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    np.testing.assert_array_equal(model.scores([["tea", "moon"]]), model.scores([["tea"]]))
    np.testing.assert_array_equal(model.scores([[]])[0], model.popularity_)


def test_similar_items_never_hold_the_item_itself(two_worlds):
    histories, worlds = two_worlds
    model = quick(candidates="full").fit(histories)
    ids, _ = model.similar_items(["tea"], top=3)
    assert "tea" not in ids[0]
    assert set(ids[0]) == set(worlds[0]) - {"tea"}
    with pytest.raises(UnknownTargetError, match="moon"):
        model.similar_items(["moon"])


def test_item_vectors_give_the_scores_again(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=2, scope="last").fit(histories)
    vectors = model.item_vectors()
    logits = vectors.query @ vectors.target.T + vectors.bias
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.scores([[i] for i in model.items_]), logits, atol=1e-5)


@pytest.mark.parametrize(
    ("histories", "words"),
    [
        ([["tea"]], "long enough"),
        ([[]], "empty|at least one"),
        ([["tea", 3]], "whole numbers or all strings"),
        ("tea", "sequence of item ids"),
    ],
)
def test_bad_histories_are_refused_in_one_helpful_sentence(histories, words):
    with pytest.raises(DataError, match=words):
        quick().fit(histories)


def test_unknown_clicks_keep_their_places_and_are_never_chosen(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    known = model.select([["tea", "jam"], ["saw"]], targets=["rye", "nail"])
    found = model.select([["moon", "tea", "sun", "jam"], ["sun", "saw"]], targets=["rye", "nail"])
    assert found.offsets.tolist() == [0, 4, 6]
    assert found.chosen.tolist() == [[1, 3][known.chosen[0]], 1]
    places = [1, 3, 5]
    np.testing.assert_array_equal(found.scores[places], known.scores)
    np.testing.assert_array_equal(found.responsibility[places], known.responsibility)
    negatives = [0, 2, 4]
    assert np.isneginf(found.scores[negatives]).all()
    assert (found.responsibility[negatives] == 0.0).all()


def test_unknown_indices_in_groups_keep_their_places(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    groups = Groups.from_lists([[99, 1], [2, 99]], targets=[3, 4])
    assert model.select(groups).chosen.tolist() == [1, 0]


def test_a_history_of_unknown_clicks_alone_is_named(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    with pytest.raises(DataError, match="history 1 holds no click"):
        model.select([["tea"], ["moon", "sun"]], targets=["jam", "rye"])


def test_a_fit_that_fails_does_not_leave_old_vectors_under_new_names():
    model = quick(max_epochs=1).fit([["a", "b", "c"]] * 4)
    with pytest.raises(DataError, match="item_ids"):
        model.fit([["x", "y"]], item_ids=["x"])
    assert model.items_.tolist() == ["a", "b", "c"]  # refused before anything was touched
    assert set(model.recommend([["a"]], top=2)[0][0]) == {"b", "c"}
    with pytest.raises(DataError, match="long enough"):
        model.set_params(window_size=9, min_window=9).fit([["x", "y", "z", "w"]])
    with pytest.raises(NotFittedError):
        model.recommend([["x"]])


def test_no_items_to_score_are_scored_with_nothing(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    assert model.scores([["tea"], ["saw", "nail"]], items=[]).shape == (2, 0)
    assert model.scores(Groups.from_lists([[0], [1, 2]]), items=[]).shape == (2, 0)


def test_use_before_fit_is_refused():
    with pytest.raises(NotFittedError):
        quick().select([["tea"]], targets=["jam"])
    with pytest.raises(NotFittedError):
        quick().item_vectors()


def test_select_needs_to_know_the_next_item(two_worlds):
    histories, _ = two_worlds
    model = quick(max_epochs=1).fit(histories)
    with pytest.raises(DataError, match="targets"):
        model.select([["tea"]])
    with pytest.raises(DataError, match="not in the catalogue"):
        model.select([["tea"]], targets=["moon"])


@pytest.mark.parametrize("n_members", [1, 2])
def test_a_shared_table_is_saved_once(two_worlds, tmp_path, n_members):
    model = quick(max_epochs=1, n_members=n_members).fit(two_worlds[0])
    model.save(tmp_path / "model")
    _, arrays = read_model(tmp_path / "model")
    assert [name for name in arrays if name.endswith("encoder.weight")] == [
        "model.object_encoder.weight"
    ]
    loaded = MaxMatchingRecommender.load(tmp_path / "model")
    assert loaded.model_.target_encoder is loaded.model_.object_encoder
    np.testing.assert_array_equal(loaded.scores([["tea"]]), model.scores([["tea"]]))


def test_a_folder_without_its_table_is_refused(two_worlds, tmp_path):
    quick(max_epochs=1).fit(two_worlds[0]).save(tmp_path / "model")
    manifest, arrays = read_model(tmp_path / "model")
    del arrays["model.object_encoder.weight"], manifest["weights"]
    write_model(tmp_path / "model", kind=manifest["kind"], manifest=manifest, arrays=arrays)
    with pytest.raises(ModelFileError, match=r"object_encoder\.weight"):
        MaxMatchingRecommender.load(tmp_path / "model")

"""One contract for every recommender: what goes in, what comes out, and what it survives."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from groupnoise import Groups
from groupnoise.clicks import rank_targets, read_clicks, split_histories
from groupnoise.clicks.baselines import (
    AttRecRecommender,
    BlockEASERecommender,
    CaserRecommender,
    ComiRecRecommender,
    CooccurrenceRecommender,
    ItemCFRecommender,
    LRURecRecommender,
    NeuralCFRecommender,
    PopularityRecommender,
    SASRecRecommender,
)
from groupnoise.clicks.windows.cutting import cut_windows
from groupnoise.core import hit_at_k
from groupnoise.exceptions import DataError, ModelFileError, ParameterError, UnknownTargetError
from groupnoise.io.files import write_json

QUICK = {"max_epochs": 3, "batch_size": 32, "random_state": 0}
COUNTING = [
    CooccurrenceRecommender(scope="last"),
    CooccurrenceRecommender(),
    ItemCFRecommender(),
    ItemCFRecommender(n_neighbors=6, weighting="bm25", scope="last"),
    BlockEASERecommender(ridge=10.0, block_size=7, block_neighbors=6),
]
NEURAL = [
    CaserRecommender(dim=8, window_size=3, **QUICK),
    AttRecRecommender(dim=8, **QUICK),
    NeuralCFRecommender(dim=4, **QUICK),
    SASRecRecommender(dim=8, n_negatives=16, **QUICK),
    LRURecRecommender(dim=8, **QUICK),
    ComiRecRecommender(dim=8, window_size=4, n_negatives=16, **QUICK),
]
PERSONAL = COUNTING + NEURAL
EAGER = {"max_epochs": 15, "learning_rate": 2e-2, "random_state": 0}
WELL_TRAINED = [
    *COUNTING,
    CaserRecommender(dim=8, window_size=3, n_targets=1, dropout=0.0, batch_size=64, **EAGER),
    AttRecRecommender(dim=8, max_epochs=20, batch_size=16, random_state=0),
    NeuralCFRecommender(dim=4, batch_size=32, **EAGER),
    SASRecRecommender(dim=8, n_negatives=16, dropout=0.0, batch_size=32, **EAGER),
    LRURecRecommender(dim=8, dropout=0.0, batch_size=32, **EAGER),
    ComiRecRecommender(dim=8, window_size=4, n_negatives=16, batch_size=32, **EAGER),
]
EVERY = [PopularityRecommender(), *PERSONAL]

every_recommender = pytest.mark.parametrize("model", EVERY, ids=str)
personal_recommender = pytest.mark.parametrize("model", PERSONAL, ids=str)
neural_recommender = pytest.mark.parametrize("model", NEURAL, ids=str)

N_ITEMS = 20


@pytest.fixture(scope="module")
def histories():
    """Two worlds of items, 0-9 and 10-19, that no user mixes; some users click once."""
    generator = np.random.default_rng(0)
    lists = [
        (10 * (user % 2) + generator.permutation(10)[: generator.integers(1, 9)]).tolist()
        for user in range(60)
    ]
    # Every item must occur, so that indices and ids coincide.
    return [*lists, list(range(10)), list(range(10, 20))]


@pytest.fixture(scope="module")
def groups(histories):
    return Groups.from_lists(histories)


@every_recommender
def test_fit_returns_itself_and_learns_the_catalogue(model, histories):
    fitted = clone(model)
    assert fitted.fit(histories) is fitted
    assert fitted.items_.tolist() == list(range(N_ITEMS))
    assert fitted.n_items_ == N_ITEMS


@every_recommender
def test_clone_keeps_parameters_and_forgets_what_was_learned(model, histories):
    fitted = clone(model).fit(histories)
    copy = clone(fitted)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.scores([[1]])


@every_recommender
def test_ids_and_groups_of_indices_mean_the_same(model, histories, groups):
    by_id, by_index = clone(model).fit(histories), clone(model).fit(groups)
    np.testing.assert_array_equal(
        by_id.scores(histories[:5]), by_index.scores(groups.subset([0, 1, 2, 3, 4]))
    )


@every_recommender
def test_scores_of_some_items_are_the_scores_of_all_taken_there(model, groups):
    fitted = clone(model).fit(groups)
    candidates = np.random.default_rng(1).integers(0, N_ITEMS, size=(len(groups), 6))
    everything, some = fitted.scores(groups), fitted.scores(groups, candidates)
    assert everything.shape == (len(groups), N_ITEMS)
    expected = np.take_along_axis(everything, candidates, axis=1)
    np.testing.assert_allclose(some, expected, rtol=1e-5, atol=1e-6)
    shared = fitted.scores(groups, [3, 4])
    np.testing.assert_allclose(shared, everything[:, 3:5], rtol=1e-5, atol=1e-6)


@every_recommender
def test_the_same_seed_gives_the_same_model(model, histories):
    first, again = clone(model).fit(histories), clone(model).fit(histories)
    np.testing.assert_array_equal(first.scores([[1, 2]]), again.scores([[1, 2]]))


@neural_recommender
def test_another_seed_gives_another_model_and_global_randomness_is_untouched(model, histories):
    import torch

    before = torch.random.get_rng_state()
    first = clone(model).fit(histories)
    other = clone(model).set_params(random_state=1).fit(histories)
    assert (first.scores([[1, 2]]) != other.scores([[1, 2]])).any()
    assert torch.equal(before, torch.random.get_rng_state())


@every_recommender
@pytest.mark.parametrize("strings", [False, True])
def test_a_saved_model_answers_as_before(model, histories, strings, tmp_path):
    log = [[f"item {i}" for i in clicks] for clicks in histories] if strings else histories
    fitted = clone(model).fit(log)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.items_, fitted.items_)
    np.testing.assert_array_equal(loaded.scores(log[:3]), fitted.scores(log[:3]))


@every_recommender
def test_numbers_of_numpy_survive_saving(model, histories, tmp_path):
    numbers = {
        name: np.int64(value) if isinstance(value, int) else np.float32(value)
        for name, value in model.get_params().items()
        if isinstance(value, (int, float))
    }
    fitted = clone(model).set_params(**numbers).fit(histories)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.scores(histories[:3]), fitted.scores(histories[:3]))


def test_a_number_of_neighbours_of_numpy_is_kept(histories, tmp_path):
    ItemCFRecommender(n_neighbors=np.int64(2)).fit(histories).save(tmp_path)
    assert ItemCFRecommender.load(tmp_path).n_neighbors == 2


@neural_recommender
@pytest.mark.parametrize(
    "parameters", [{"dim": None}, {"dim": 3}, {"dim": "wide"}, {"colour": 3}, None]
)
def test_a_manifest_that_does_not_fit_its_weights_is_refused(
    model, parameters, histories, tmp_path
):
    clone(model).set_params(max_epochs=1).fit(histories).save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["parameters"] = parameters and manifest["parameters"] | parameters
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises(ModelFileError, match="does not hold a whole model"):
        type(model).load(tmp_path)


def test_a_model_of_another_kind_is_refused_by_name(histories, tmp_path):
    PopularityRecommender().fit(histories).save(tmp_path)
    with pytest.raises(ModelFileError, match="PopularityRecommender"):
        CooccurrenceRecommender.load(tmp_path)


@every_recommender
def test_string_ids_come_back_as_strings(model, histories):
    fitted = clone(model).fit([[f"i{item:02d}" for item in clicks] for clicks in histories])
    ids, scores = fitted.recommend([["i03", "i04"]], top=5)
    assert ids.shape == scores.shape == (1, 5)
    assert set(ids[0]) <= set(fitted.items_.tolist()) - {"i03", "i04"}
    assert (np.diff(scores[0]) <= 0).all()


@every_recommender
def test_unknown_items_are_ignored(model, histories):
    fitted = clone(model).fit(histories)
    np.testing.assert_array_equal(fitted.scores([[1, 777, 2]]), fitted.scores([[1, 2]]))


@every_recommender
def test_a_history_without_known_items_is_answered_with_popularity(model, histories):
    fitted = clone(model).fit(histories)
    for nothing in ([], [777]):
        ids, _ = fitted.recommend([nothing, [1]], top=3)
        popular = np.argsort(-fitted.popularity_, kind="stable")[:3]
        assert ids[0].tolist() == popular.tolist()


@every_recommender
def test_an_unknown_candidate_scores_below_everything(model, histories):
    fitted = clone(model).fit(histories)
    assert np.isneginf(fitted.scores([[1], []], [[777], [777]])).all()


@every_recommender
def test_seen_items_are_left_out_unless_asked_for(model, histories):
    fitted = clone(model).fit(histories)
    seen = list(range(8))
    ids, _ = fitted.recommend([seen], top=12)
    assert set(ids[0]) == set(range(8, 20))
    ids, _ = fitted.recommend([seen], top=N_ITEMS, exclude_seen=False)
    assert set(ids[0]) == set(range(N_ITEMS))


@every_recommender
def test_places_that_cannot_be_filled_are_marked(model, histories):
    fitted = clone(model).fit(histories)
    ids, scores = fitted.recommend([[0, 1]], top=10**6)
    assert ids.shape == scores.shape == (1, N_ITEMS)  # never more than there are
    assert ids[0, -2:].tolist() == [-1, -1]
    assert np.isneginf(scores[0, -2:]).all()
    with pytest.raises(ParameterError, match="top must be a whole number of at least 1; got 0"):
        fitted.recommend([[0]], top=0)


def frame_of(library, columns):
    frames = pytest.importorskip(library)
    return frames.table(columns) if library == "pyarrow" else frames.DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_clicks_is_learned_and_answered_as_its_histories_are(library, histories):
    rows = [
        (f"u{user:03}", item, when)
        for user, history in enumerate(histories)
        for when, item in enumerate(history)
    ]
    user, item, when = zip(*reversed(rows), strict=True)
    log = frame_of(library, {"visitor_id": user, "sku": item, "clicked_at": when})
    model = ItemCFRecommender()
    by_lists, by_log = clone(model).fit(histories), clone(model).fit(log)
    ids, scores = by_lists.recommend(histories, top=3)
    answers = by_log.recommend(read_clicks(log), top=3)
    np.testing.assert_array_equal(answers[0], ids)
    np.testing.assert_array_equal(answers[1], scores)
    # A frame in, a frame out, in the order of its users: here the last first.
    answered = by_log.recommend(log, top=3)
    assert type(answered) is type(log)
    found = pl.DataFrame(answered)
    assert found.columns == ["visitor_id", "sku", "rank", "score", "source"]
    assert set(found["source"]) == {"history"}
    is_there = scores[::-1] > -np.inf
    users, places = np.nonzero(is_there)
    assert found["visitor_id"].to_list() == [f"u{len(histories) - 1 - user:03}" for user in users]
    assert found["rank"].to_list() == (places + 1).tolist()
    np.testing.assert_array_equal(found["sku"], ids[::-1][is_there])
    np.testing.assert_array_equal(found["score"], scores[::-1][is_there])
    np.testing.assert_array_equal(by_log.scores(log), by_lists.scores(histories)[::-1])
    split = split_histories(log, "leave_one_out")
    assert clone(model).fit(split.train).n_items_ == N_ITEMS
    with_catalogue = clone(model).fit(log, item_ids=np.arange(N_ITEMS + 5))
    assert with_catalogue.n_items_ == N_ITEMS + 5
    with pytest.raises(DataError, match=r"pass groupnoise.clicks.read_clicks\(frame, user=...\)"):
        clone(model).fit(frame_of(library, {"who": user, "sku": item}))


def test_a_frame_of_lists_is_answered_in_the_order_of_its_rows(histories):
    model = ItemCFRecommender().fit(histories)
    asked = pl.DataFrame({"user": ["z", "a", "m"], "items": [[1, 2], [11, 12], [3]]})
    answered = model.recommend(asked, top=2)
    assert answered["user"].unique(maintain_order=True).to_list() == ["z", "a", "m"]
    ids, _ = model.recommend(asked["items"].to_list(), top=2)
    assert answered["items"].to_list() == ids.ravel().tolist()


def test_a_frame_says_what_popularity_answers_and_warns_where_no_item_is_known(histories):
    model = ItemCFRecommender().fit(histories)
    asked = pl.DataFrame({"user": ["z", "a"], "items": [[1, 2], [99, 98]]})
    answered = model.recommend(asked, top=1)
    assert answered["source"].to_list() == ["history", "popularity"]
    with pytest.warns(UserWarning, match="none of the 2 items of these clicks, such as 98; its"):
        model.recommend(asked[1:], top=1)


@every_recommender
def test_ready_made_windows_can_be_learned_from(model, groups):
    windows = cut_windows(groups, size=5, min_size=1).groups
    fitted = clone(model).fit(windows, item_ids=np.arange(N_ITEMS))
    assert fitted.scores(windows).shape == (len(windows), N_ITEMS)


@every_recommender
def test_items_nobody_clicked_can_be_part_of_the_catalogue(model, histories):
    fitted = clone(model).fit(histories, item_ids=range(30))
    assert fitted.n_items_ == 30
    assert np.isfinite(fitted.scores([[1, 2]])).all()


@every_recommender
def test_items_missing_from_the_given_catalogue_are_refused(model, histories, groups):
    with pytest.raises(UnknownTargetError, match="item_ids does not list"):
        clone(model).fit(histories, item_ids=range(5))
    with pytest.raises(DataError, match="item_ids lists 5 items"):
        clone(model).fit(groups, item_ids=range(5))


@every_recommender
def test_empty_logs_and_features_are_refused(model):
    with pytest.raises(DataError, match="at least one"):
        clone(model).fit([])
    with pytest.raises(DataError, match="one whole item index per click"):
        clone(model).fit(Groups.from_lists([[[0.5, 1.0]]]))


@personal_recommender
def test_similar_items_are_known_distinct_and_never_the_item_itself(model, histories):
    fitted = clone(model).fit(histories)
    ids, similarity = fitted.similar_items([3, 12], top=4)
    assert ids.shape == similarity.shape == (2, 4)
    for item, row in zip([3, 12], ids.tolist(), strict=True):
        filled = [other for other in row if other != -1]
        assert item not in filled
        assert len(set(filled)) == len(filled)
    with pytest.raises(UnknownTargetError, match="777"):
        fitted.similar_items([777])


@pytest.mark.parametrize("model", WELL_TRAINED, ids=str)
def test_two_worlds_that_never_mix_are_kept_apart(model, histories):
    """Known answer: whoever clicks in one world is recommended that world."""
    ids, _ = clone(model).fit(histories).recommend([[1, 2, 3], [11, 12, 13]], top=4)
    assert (ids[0] < 10).mean() >= 0.75
    assert (ids[1] >= 10).mean() >= 0.75


@every_recommender
def test_targets_are_ranked_through_the_public_protocol(model, groups):
    windows = cut_windows(groups, size=5, min_size=1).groups
    fitted = clone(model).fit(groups)
    ranks = rank_targets(fitted, windows, N_ITEMS, "full")
    assert 0 <= hit_at_k(*ranks, k=5) <= 1


@neural_recommender
def test_validation_windows_restore_the_best_epoch(model, groups):
    windows = cut_windows(groups, size=5, min_size=1).groups
    records = []
    fitted = clone(model).set_params(patience=1)
    fitted.set_params(on_epoch=records.append).fit(groups, validation=windows)
    assert records == fitted.history_
    assert all(0 < record["validation"] <= 1 for record in records)


@neural_recommender
def test_histories_of_one_click_alone_teach_no_network(model):
    with pytest.raises(DataError, match="no history"):
        clone(model).fit([[1], [2]])


@neural_recommender
@pytest.mark.parametrize(
    ("name", "value"),
    [("dim", 0), ("learning_rate", -1.0), ("max_epochs", 1.5), ("random_state", "today")],
)
def test_parameters_out_of_range_are_refused_by_name(model, name, value, histories):
    with pytest.raises(ParameterError, match=name):
        clone(model).set_params(**{name: value}).fit(histories)

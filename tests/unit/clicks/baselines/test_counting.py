"""Counts and cosines against plain loops over a random log."""

import json
from itertools import permutations
from math import log, sqrt

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from groupnoise import Groups
from groupnoise.clicks.baselines import (
    CooccurrenceRecommender,
    ItemCFRecommender,
    PopularityRecommender,
)
from groupnoise.exceptions import ModelFileError, ParameterError
from groupnoise.io.files import sha256_of, write_json

N_ITEMS = 12


@pytest.fixture(scope="module")
def log_of_clicks():
    generator = np.random.default_rng(3)
    return [
        generator.integers(0, N_ITEMS, size=generator.integers(1, 7)).tolist() for _ in range(40)
    ]


def popularity_of(log_of_clicks):
    return [sum(clicks.count(item) for clicks in log_of_clicks) for item in range(N_ITEMS)]


def cooccurrence_of(log_of_clicks):
    counts = np.zeros((N_ITEMS, N_ITEMS))
    for clicks in log_of_clicks:
        for one, other in permutations(set(clicks), 2):
            counts[one, other] += 1
    return counts


def cosine_of(log_of_clicks, weight):
    cosine = np.zeros((N_ITEMS, N_ITEMS))
    columns = [
        [weight(clicks) if item in clicks else 0.0 for clicks in log_of_clicks]
        for item in range(N_ITEMS)
    ]
    for one, other in permutations(range(N_ITEMS), 2):
        product = sum(a * b for a, b in zip(columns[one], columns[other], strict=True))
        norms = [sqrt(sum(a * a for a in columns[item])) for item in (one, other)]
        cosine[one, other] = product / (norms[0] * norms[1])
    return cosine


def ranked(scores, popularity):
    return sorted(range(N_ITEMS), key=lambda item: (-scores[item], -popularity[item], item))


def test_popularity_counts_clicks(log_of_clicks):
    model = PopularityRecommender().fit(log_of_clicks)
    assert model.scores([[0], [3]]).tolist() == [popularity_of(log_of_clicks)] * 2


@pytest.mark.parametrize("scope", ["last", "group"])
def test_cooccurrence_ranks_as_a_plain_loop_does_popularity_deciding_ties(log_of_clicks, scope):
    model = CooccurrenceRecommender(scope=scope).fit(log_of_clicks)
    counts, popularity = cooccurrence_of(log_of_clicks), popularity_of(log_of_clicks)
    for history in ([1], [4, 4, 2], [7, 0, 3]):
        used = history[-1:] if scope == "last" else history
        expected = ranked(sum(counts[item] for item in used), popularity)
        ids, _ = model.recommend([history], top=N_ITEMS, exclude_seen=False)
        assert ids[0].tolist() == expected


@pytest.mark.parametrize(
    ("weighting", "weight"),
    [("none", lambda clicks: 1.0), ("tf-idf", lambda clicks: log(N_ITEMS / len(set(clicks))) + 1)],
)
def test_item_cf_is_the_cosine_of_user_columns(log_of_clicks, weighting, weight):
    model = ItemCFRecommender(weighting=weighting).fit(log_of_clicks)
    expected = cosine_of(log_of_clicks, weight)
    np.testing.assert_allclose(model.similarity_.toarray(), expected, atol=1e-12)


def test_bm25_agrees_with_its_formula(log_of_clicks):
    model = ItemCFRecommender(weighting="bm25").fit(log_of_clicks)
    clicks_on = [sum(item in clicks for clicks in log_of_clicks) for item in range(N_ITEMS)]
    average = sum(clicks_on) / N_ITEMS

    def weight(item, clicks):
        length = 0.25 + 0.75 * clicks_on[item] / average
        return (log(N_ITEMS / len(set(clicks))) + 1) * 2.2 / (1 + 1.2 * length)

    expected = np.zeros((N_ITEMS, N_ITEMS))
    for clicks in log_of_clicks:
        for one, other in permutations(set(clicks), 2):
            expected[one, other] += weight(one, clicks) * weight(other, clicks)
    np.testing.assert_allclose(model.similarity_.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("n_neighbors", [1, 2, 5, 30])
def test_only_the_nearest_neighbours_are_kept_popular_ones_first_among_equals(n_neighbors):
    # Single clicks in pairs make most cosines equal, so that ties decide.
    log_of_clicks = [[0, item] for item in range(1, N_ITEMS)] + [[5]] * 3 + [[9]] * 3
    model = ItemCFRecommender(n_neighbors=n_neighbors).fit(log_of_clicks)
    full = cosine_of(log_of_clicks, lambda clicks: 1.0)
    popularity = popularity_of(log_of_clicks)
    for item in range(N_ITEMS):
        nearest = [other for other in ranked(full[item], popularity) if full[item, other] > 0]
        kept = np.flatnonzero(model.similarity_.toarray()[item])
        assert sorted(kept) == sorted(nearest[:n_neighbors])


def test_similar_items_never_holds_what_was_never_seen_together():
    model = CooccurrenceRecommender().fit([[1, 2], [3, 4], [3, 4]])
    ids, counts = model.similar_items([1], top=2)
    assert ids.tolist() == [[2, -1]]
    assert counts.tolist() == [[1.0, -np.inf]]


def test_a_window_counts_together_with_its_target():
    windows = Groups.from_lists([[0, 1], [1]], targets=[2, 0])
    counts = CooccurrenceRecommender().fit(windows).similarity_.toarray()
    assert counts.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="scope"):
        CooccurrenceRecommender(scope="first").fit([[1, 2]])
    with pytest.raises(ParameterError, match="weighting"):
        ItemCFRecommender(weighting="tfidf").fit([[1, 2]])
    with pytest.raises(ParameterError, match="n_neighbors"):
        ItemCFRecommender(n_neighbors=0).fit([[1, 2]])


def alter(folder, name, change):
    """Change one array of a model folder and its checksum with it, as whoever alters both would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    weights = folder / manifest["weights"]["file"]
    arrays = load_file(str(weights))
    save_file({**arrays, name: np.ascontiguousarray(change(arrays[name]))}, str(weights))
    manifest["weights"]["sha256"] = sha256_of(weights)
    write_json(folder / "manifest.json", manifest)


@pytest.mark.parametrize("estimator", [CooccurrenceRecommender, ItemCFRecommender])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("learned.columns", lambda a: a - 1000, "columns points outside 0 to 11"),
        ("learned.columns", lambda a: a + 1, "columns points outside 0 to 11"),
        ("learned.columns", lambda a: a.astype(float), "columns is of type float64"),
        ("learned.columns", lambda a: a[:-1], "columns has shape"),
        ("learned.offsets", lambda a: a[:-1], "offsets has shape"),
        ("learned.offsets", lambda a: a + 1, "offsets does not rise from 0"),
        ("learned.offsets", lambda a: a - 10**6, "offsets does not rise from 0"),
        ("learned.offsets", lambda a: np.r_[a[:3], -9, a[4:]], "offsets does not rise from 0"),
        ("learned.offsets", lambda a: np.r_[a[:-1], 10**6], "offsets does not rise from 0"),
        ("learned.values", lambda a: a * np.nan, "values holds values that are NaN"),
        ("learned.values", lambda a: a[:, None], "values has shape"),
        ("popularity", lambda a: a[:3], "popularity has shape (3,) where (12,) is needed"),
        ("popularity", lambda a: a * np.inf, "popularity holds values that are NaN"),
    ],
)
def test_a_table_that_points_out_of_itself_is_refused(
    tmp_path, log_of_clicks, estimator, name, change, message
):
    estimator().fit(log_of_clicks, item_ids=range(N_ITEMS)).save(tmp_path)
    alter(tmp_path, name, change)
    with pytest.raises(ModelFileError) as caught:
        estimator.load(tmp_path)
    assert message in str(caught.value)


def test_popularity_of_another_length_is_refused(tmp_path, log_of_clicks):
    PopularityRecommender().fit(log_of_clicks).save(tmp_path)
    alter(tmp_path, "popularity", lambda a: a[:3])
    with pytest.raises(ModelFileError, match="popularity has shape"):
        PopularityRecommender.load(tmp_path)


def test_the_decay_is_chosen_by_held_out_clicks_and_kept_in_the_file(tmp_path):
    # What comes next lies beside the last click; earlier clicks only mislead.
    rng = np.random.default_rng(0)
    drifting = [(rng.integers(60, size=8)).tolist() for _ in range(400)]
    drifting = [[*walk, (walk[-1] + 1) % 60, (walk[-1] + 2) % 60] for walk in drifting]
    chosen = ItemCFRecommender(decay="auto").fit(drifting)
    assert chosen.decay_ >= 0.5
    plain = ItemCFRecommender(decay=chosen.decay_).fit(drifting)
    np.testing.assert_array_equal(chosen.scores(drifting[:5]), plain.scores(drifting[:5]))
    chosen.save(tmp_path / "model")
    again = ItemCFRecommender.load(tmp_path / "model")
    np.testing.assert_array_equal(again.scores(drifting[:5]), chosen.scores(drifting[:5]))
    assert ItemCFRecommender(decay="auto").fit(drifting[:10]).decay_ == 0.0
    with pytest.raises(ParameterError, match="decay"):
        ItemCFRecommender(decay="often").fit(drifting)


@pytest.mark.parametrize("parameters", [{"decay": 0.5}, {"n_recent": 3}])
def test_what_an_artifact_cannot_honour_is_refused(tmp_path, parameters):
    model = ItemCFRecommender(**parameters).fit([[1, 2, 3], [2, 3, 4]])
    with pytest.raises(ParameterError, match="counts all clicks of a history alike"):
        model.export(tmp_path / "artifact")

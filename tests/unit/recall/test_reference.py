"""What was usual is remembered in small histograms, and a shift from it is seen."""

import json

import numpy as np
import pytest

import reference
from groupnoise.exceptions import DataError
from groupnoise.recall import RecallOptions, open_artifact
from groupnoise.recall.artifact import write_artifact
from groupnoise.recall.reference import (
    MAX_PENDING,
    Drift,
    add_reference,
    item_bins,
    population_stability,
    score_reference,
)
from serving_support import write_shop

N_ITEMS = 60


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """An artifact whose items are clicked by Zipf's law, the histories it was made for, and it."""
    folder = tmp_path_factory.mktemp("reference") / "a"
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, N_ITEMS + 1)
    chances /= chances.sum()
    vectors = generator.standard_normal((N_ITEMS, 8), dtype=np.float32)
    write_artifact(
        folder,
        ids=np.arange(N_ITEMS),
        query_vectors=vectors,
        target_vectors=vectors,
        target_bias=None,
        popularity=np.round(chances * 10_000),
        categories=[("tea", "cup", "ink")[item % 3] for item in range(N_ITEMS)],
    )
    histories = [generator.choice(N_ITEMS, 5, p=chances).tolist() for _ in range(1000)]
    assert add_reference(folder, histories) == 1000
    return folder, histories


def shifts(model, histories):
    drift = Drift(model)
    drift.observe(histories, RecallOptions(), model.recall(histories))
    return drift.shifts()


def test_the_index_is_that_of_the_loop():
    generator = np.random.default_rng(0)
    for n_bins in (2, 5, 10):
        shares = generator.dirichlet(np.ones(n_bins))
        counts = generator.integers(0, 50, n_bins).astype(float)
        found = population_stability(shares, counts)
        assert found == pytest.approx(reference.population_stability(shares, counts))
        assert population_stability(shares, 1000 * shares) == pytest.approx(0, abs=1e-12)


def test_what_is_usual_does_not_drift_and_what_is_not_does(shop):
    folder, histories = shop
    model = open_artifact(folder)
    usual = shifts(model, histories[:500])
    assert set(usual) == {"popularity", "category", "score"}
    assert max(usual.values()) < 0.05
    tail = shifts(model, [[40 + row % 20, 41 + row % 19] for row in range(500)])
    assert tail["popularity"] > 0.25
    one_category = shifts(model, [[0, 3, 6, 9]] * 300)
    assert one_category["category"] > 0.25
    assert shifts(model, [[0]] * 500)["score"] > 0.25


def test_too_little_says_nothing_and_unknown_items_are_no_mix(shop):
    model = open_artifact(shop[0])
    assert shifts(model, [[0, 1]] * 20) == {}
    assert shifts(model, [["nobody"]] * 500) == {}


def test_filtered_requests_and_floods_are_passed_over(shop):
    folder, histories = shop
    model = open_artifact(folder)
    drift = Drift(model)
    recalled = model.recall(histories)
    drift.observe(histories, RecallOptions(categories=("tea",)), recalled)
    drift.observe(histories, RecallOptions(exclude_seen=False), recalled)
    assert drift.shifts() == {}
    for _ in range(10):
        drift.observe(histories, RecallOptions(top=50), recalled)
    n_counted = sum(drift.counts()["popularity"])
    assert n_counted <= max(map(len, histories)) * (MAX_PENDING + len(histories))


def test_old_counts_fade(shop):
    folder, histories = shop
    model = open_artifact(folder)
    drift = Drift(model)
    odd = [[55, 58, 52, 59, 57]] * 1000
    for _ in range(30):
        drift.observe(odd, RecallOptions(), model.recall(odd))
        before = drift.shifts()["popularity"]
    recalled = model.recall(histories)
    for _ in range(30):
        drift.observe(histories, RecallOptions(), recalled)
        after = drift.shifts()["popularity"]
    assert before > 1 > 0.1 > after


def test_a_model_without_popularity_or_histories_has_less_to_compare(tmp_path):
    model = open_artifact(write_shop(tmp_path / "a", popularity=np.zeros(6), categories=None))
    assert item_bins(model) == {}
    assert score_reference(model.manifest) is None
    with pytest.raises(DataError, match="at least 100"):
        add_reference(tmp_path / "a", [["tea"]] * 10)


@pytest.mark.parametrize(
    "scores",
    [None, [], {"edges": [1, 1], "shares": [0.3, 0.3, 0.4]}, {"edges": ["x"], "shares": [1, 0]},
     {"edges": [1.0], "shares": [2.0, -1.0]}, {"edges": [], "shares": [1.0]}],
)  # fmt: skip
def test_a_reference_that_makes_no_sense_is_as_none(scores):
    assert score_reference(json.loads(json.dumps({"reference": {"scores": scores}}))) is None

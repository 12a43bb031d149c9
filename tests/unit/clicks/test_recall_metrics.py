"""Figures of recommenders against plain loops."""

import math

import numpy as np
import pytest

import reference
from groupnoise.clicks.evaluation import recall_metrics as metrics
from groupnoise.core.metrics import hit_at_k, hit_per_row, ndcg_per_row, reciprocal_rank_per_row
from groupnoise.exceptions import DataError

RNG = np.random.default_rng(0)
BETTER, TIED = RNG.integers(0, 15, size=60), RNG.integers(0, 6, size=60)
LISTS = RNG.integers(0, 12, size=(20, 4))
POPULARITY = RNG.integers(0, 9, size=12).astype(float)


@pytest.mark.parametrize("k", [1, 3, 10, 50])
@pytest.mark.parametrize(
    ("rows_of", "value_at"),
    [
        (hit_per_row, lambda position: 1.0),
        (ndcg_per_row, lambda position: 1 / math.log2(position + 2)),
        (reciprocal_rank_per_row, lambda position: 1 / (position + 1)),
    ],
)
def test_figures_of_tied_targets_are_means_over_the_positions_they_may_have(rows_of, value_at, k):
    expected = [
        reference.expected_figure(b, t, value_at, k) for b, t in zip(BETTER, TIED, strict=True)
    ]
    np.testing.assert_allclose(rows_of(BETTER, TIED, k), expected)


def test_means_are_those_of_the_rows():
    assert hit_at_k(BETTER, TIED, 5) == pytest.approx(hit_per_row(BETTER, TIED, 5).mean())


def test_coverage_novelty_and_gini_agree_with_loops():
    assert metrics.coverage(LISTS, 40) == reference.list_coverage(LISTS, 40)
    assert metrics.novelty(LISTS, POPULARITY) == pytest.approx(
        reference.list_novelty(LISTS, POPULARITY)
    )
    for n_items in (12, 40):
        assert metrics.gini(LISTS, n_items) == pytest.approx(reference.list_gini(LISTS, n_items))


def test_places_that_could_not_be_filled_are_nothing_that_was_shown():
    lists = np.array([[3, -1], [-1, -1]])
    assert metrics.coverage(lists, 10) == 0.1
    assert metrics.gini(lists, 10) == pytest.approx(0.9)


def test_debiased_figures_agree_with_a_loop_and_let_every_item_count_alike():
    values, clicks = RNG.random(30), RNG.integers(0, 50, size=30).astype(float)
    assert metrics.debiased_mean(values, clicks) == pytest.approx(
        reference.inverse_propensity_mean(values, clicks)
    )
    # Ten clicks on one item and one on another: the two items count as one each.
    found = metrics.debiased_mean(np.array([1.0] * 10 + [0.0]), np.array([9.0] * 10 + [0.0]))
    assert found == pytest.approx(0.5)


def test_parts_of_the_catalogue_agree_with_a_loop():
    expected = [reference.popularity_part(POPULARITY, item) for item in range(len(POPULARITY))]
    assert metrics.popularity_parts(POPULARITY).tolist() == expected


def test_every_target_is_in_one_bucket_of_popularity_and_one_of_length():
    parts, lengths = RNG.integers(-1, 4, size=200), RNG.integers(1, 80, size=200)
    again = RNG.random(200) < 0.3
    buckets = metrics.bucket_names(parts, lengths, again)
    by_popularity = [rows for name, rows in buckets.items() if name.startswith("target")]
    by_length = [
        rows for name, rows in buckets.items() if "clicks" in name and "target" not in name
    ]
    by_repeat = [rows for name, rows in buckets.items() if name.endswith("the user")]
    for kind in (by_popularity, by_length, by_repeat):
        assert sorted(np.concatenate(kind).tolist()) == list(range(200))


@pytest.mark.parametrize("at_once", [1, 100, metrics.DRAWN_AT_ONCE])
def test_the_interval_is_that_of_a_bootstrap_by_loops(monkeypatch, at_once):
    monkeypatch.setattr(metrics, "DRAWN_AT_ONCE", at_once)
    users = np.repeat(np.arange(15), RNG.integers(1, 4, size=15))
    values = RNG.random(len(users))
    generator = np.random.default_rng(3)
    draws = [generator.integers(15, size=15) for _ in range(200)]
    means = reference.bootstrap_means(values, users, draws)
    found = metrics.bootstrap_interval(values, users, n_draws=200, random_state=3)
    assert found.mean == pytest.approx(values.mean())
    np.testing.assert_allclose(found[1:], np.percentile(means, [2.5, 97.5]))


def test_the_interval_holds_the_truth_in_about_95_of_100_samples():
    inside = 0
    for seed in range(200):
        values = np.random.default_rng(seed).random(80) < 0.3
        found = metrics.bootstrap_interval(values, np.arange(80), n_draws=300)
        inside += found.low <= 0.3 <= found.high
    assert 175 <= inside <= 200


def test_an_interval_of_nothing_is_refused():
    with pytest.raises(DataError, match="0 targets"):
        metrics.bootstrap_interval([], [])

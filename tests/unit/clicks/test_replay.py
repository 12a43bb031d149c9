"""Replay of impressions: against a plain loop, and against a truth that is known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import reference
from groupnoise.clicks import make_shop
from groupnoise.clicks.baselines import ItemCFRecommender, PopularityRecommender
from groupnoise.clicks.evaluation.replay import (
    Impressions,
    chances_of_model,
    read_impressions,
    replay_policy,
    replay_warnings,
)
from groupnoise.exceptions import DataError
from impressions import make_impressions


@pytest.fixture(scope="module")
def shop():
    return make_shop(200, 60, random_state=0)


def even_over_top(chances, top):
    """The policy that knows the truth and shows one of the best items."""
    best = np.argsort(-chances, axis=1)[:, :top]
    policy = np.zeros_like(chances)
    np.put_along_axis(policy, best, 1 / top, axis=1)
    return policy


def test_both_estimates_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    log = Impressions(
        rng.integers(9, size=50), rng.integers(9, size=50), rng.random(50), rng.random(50) < 0.4
    )
    target = rng.random(50)
    ips, snips = reference.inverse_propensity_estimates(log.propensity, target, log.clicked)
    found = replay_policy(log, target)
    assert found.ips.mean == pytest.approx(ips)
    assert found.snips.mean == pytest.approx(snips)
    weights = target / log.propensity
    assert found.n_effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    clipped = replay_policy(log, target, clip=2.0)
    assert clipped.max_weight == 2.0
    assert clipped.n_effective > found.n_effective


def test_the_policy_of_the_log_itself_earns_what_the_log_says(shop):
    log = make_impressions(shop, 10, random_state=0).log
    found = replay_policy(log, log.propensity)
    assert found.ips.mean == found.snips.mean == pytest.approx(log.clicked.mean())
    assert found.ahead == pytest.approx((0.0, 0.0, 0.0))
    assert found.n_effective == pytest.approx(len(log.items))


def test_estimates_are_unbiased_and_their_intervals_hold_the_true_click_through(shop):
    inside, ips, snips = 0, [], []
    for seed in range(40):
        found = make_impressions(shop, 30, exploration=0.5, random_state=seed)
        policy = even_over_top(found.chances, 5)
        truth = found.click_through(policy)
        rows = policy[found.log.users, found.log.items]
        estimate = replay_policy(found.log, rows)
        inside += estimate.snips.low <= truth <= estimate.snips.high
        ips.append(estimate.ips.mean)
        snips.append(estimate.snips.mean)
    error = np.std(ips) / np.sqrt(len(ips))
    assert abs(np.mean(ips) - truth) < 3 * error
    assert abs(np.mean(snips) - truth) < 0.05 * truth
    assert np.std(snips) < np.std(ips)
    assert inside >= 34


def test_the_better_of_two_recommenders_is_found_as_the_truth_has_it(shop):
    found = make_impressions(shop, 60, random_state=3)
    histories = {int(user): history.tolist() for user, history in enumerate(shop.histories)}
    values, truths = [], []
    for model in (ItemCFRecommender(decay=0.3), PopularityRecommender()):
        model.fit(shop.histories, item_ids=shop.item_ids)
        values.append(
            replay_policy(found.log, chances_of_model(model, found.log, histories, top=5))
        )
        lists, _ = model.recommend([histories[user] for user in range(200)], top=5)
        policy = np.zeros(found.chances.shape)
        np.put_along_axis(policy, lists, 0.2, axis=1)
        truths.append(found.click_through(policy))
    assert truths[0] > truths[1]
    assert values[0].snips.low > values[1].snips.high
    for value, truth in zip(values, truths, strict=True):
        assert value.snips.low <= truth <= value.snips.high


def test_users_without_history_are_shown_what_is_popular(shop):
    model = PopularityRecommender().fit(shop.histories, item_ids=shop.item_ids)
    best = int(model.popularity_.argmax())
    log = Impressions(
        np.array([7, 8]), np.array([best, 59]), np.array([0.5, 0.5]), np.array([True, False])
    )
    assert chances_of_model(model, log, {}, top=1).tolist() == [1.0, 0.0]


def test_who_has_seen_nearly_all_items_is_shown_each_of_the_few_that_are_left():
    histories = [[(first + step) % 12 for step in range(8)] for first in range(12)]
    model = PopularityRecommender().fit(histories)
    log = Impressions(np.zeros(12), np.arange(12), np.full(12, 1 / 12), np.ones(12, dtype=bool))
    chances = chances_of_model(model, log, {0.0: histories[0]}, top=10)
    assert chances.tolist() == [0.0] * 8 + [0.25] * 4


def test_a_log_that_never_shows_what_is_asked_for_is_refused_and_a_thin_one_told_of():
    log = Impressions(np.arange(5), np.arange(5), np.full(5, 0.5), np.ones(5, dtype=bool))
    with pytest.raises(DataError, match="shows nothing that mine would show"):
        replay_policy(log, np.zeros(5), name="mine")
    assert any(
        "rests on 5 rows" in each for each in replay_warnings(replay_policy(log, np.ones(5)))
    )


def test_weights_that_do_not_average_one_are_told_of_with_what_to_check(shop):
    found = make_impressions(shop, 60, exploration=0.5, random_state=0)
    policy = even_over_top(found.chances, 5)[found.log.users, found.log.items]
    right = replay_policy(found.log, policy, name="mine")
    assert right.mean_weight.low <= 1 <= right.mean_weight.high
    assert replay_warnings(right) == ()
    # Propensities of a list of ten where that of one place was meant: ten times too large.
    of_list = replace(found.log, propensity=np.minimum(1, 10 * found.log.propensity))
    (low,) = replay_warnings(replay_policy(of_list, policy, name="mine"))
    assert low.startswith("mine: weights average 0.1")
    assert "propensities are too large" in low
    small = replace(found.log, propensity=found.log.propensity / 3)
    (high,) = replay_warnings(replay_policy(small, policy, name="mine"))
    assert "propensities are too small" in high
    # Clipping makes weights smaller on purpose, which is no reason to doubt the log.
    assert replay_warnings(replay_policy(found.log, policy, clip=2.0)) == ()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("propensity", 0.0, "row 2: propensity is 0, but a chance is above 0"),
        ("propensity", 1.5, "at most 1"),
        ("clicked", 3, "a row was clicked"),
        ("mine", -0.5, "at least 0"),
    ],
)
def test_rows_that_make_no_sense_are_named(tmp_path, column, value, words):
    cells = {"user": [1, 1], "item": [2, 3], "propensity": [0.5, 0.5], "clicked": [0, 1]}
    cells = {**cells, "mine": [0.5, 0.5]}
    cells[column] = [cells[column][0], value]
    path = tmp_path / "shown.csv"
    pl.DataFrame(cells, strict=False).write_csv(path)
    with pytest.raises(DataError) as refused:
        read_impressions(path, targets=["mine"])
    assert words.partition("row 2: ")[2] in str(refused.value) or words in str(refused.value)
    assert "shown.csv" in str(refused.value)


def test_a_log_of_impressions_is_read_by_the_usual_names_or_those_given(tmp_path):
    path = tmp_path / "shown.parquet"
    pl.DataFrame(
        {"uid": ["a", "b"], "sku": [5, 6], "pscore": [0.1, 1.0], "click": [True, False]}
    ).write_parquet(path)
    said = []
    log = read_impressions(path, report=said.append)
    assert log.users.tolist() == ["a", "b"]
    assert log.clicked.tolist() == [True, False]
    assert any("pscore" in sentence for sentence in said)
    with pytest.raises(DataError, match="--clicked"):
        read_impressions(pl.read_parquet(path).drop("click"))
    with pytest.raises(DataError, match="no column 'other'"):
        read_impressions(path, targets=["other"])

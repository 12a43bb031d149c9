"""The simulated shop: every click has a known cause."""

import time

import numpy as np
import pytest

from groupnoise.clicks import make_shop
from groupnoise.clicks.shop import name_items
from groupnoise.exceptions import ParameterError


@pytest.fixture(scope="module")
def shop():
    return make_shop(400, 200, stray_rate=0.25, random_state=0)


def causes(shop):
    """Flat index of the click each following click comes from, and of the click itself."""
    follows = shop.notes["follows"]
    following = np.flatnonzero(follows >= 0)
    starts = shop.histories.offsets[shop.histories.group_of_object]
    return starts[following] + follows[following], following


def test_a_click_follows_from_an_earlier_meant_click_on_the_same_shelf(shop):
    cause, effect = causes(shop)
    categories = np.array(shop.categories)[shop.histories.objects]
    assert (cause < effect).all()
    assert (categories[cause] == categories[effect]).all()
    assert not shop.is_stray[cause].any()
    assert not shop.is_stray[effect].any()


def test_nobody_clicks_the_item_a_click_follows_from_again(shop):
    cause, effect = causes(shop)
    assert (shop.histories.objects[cause] != shop.histories.objects[effect]).all()


def test_the_cause_is_often_not_the_last_click_but_usually_recent(shop):
    cause, effect = causes(shop)
    gap = effect - cause
    assert 0.3 < (gap == 1).mean() < 0.7
    assert (gap <= 5).mean() > 0.9


def test_stray_clicks_come_at_the_asked_rate_and_nothing_follows_from_them(shop):
    assert shop.is_stray.mean() == pytest.approx(0.25, abs=0.02)
    assert (shop.notes["follows"][shop.is_stray] == -1).all()


def test_no_stray_rate_means_no_stray_click():
    assert not make_shop(50, 100, stray_rate=0.0, random_state=0).is_stray.any()


def test_interests_drift(shop):
    categories = np.array(shop.categories)
    per_user = [
        len(set(categories[shop.histories[user][~stray]]))
        for user in range(len(shop.histories))
        for stray in [shop.is_stray[shop.histories.offsets[user] :][: shop.histories.sizes[user]]]
    ]
    assert np.mean(per_user) > 2.3


def test_popularity_is_skewed(shop):
    counts = np.sort(np.bincount(shop.histories.objects, minlength=200))[::-1]
    assert counts[:20].sum() > 0.25 * counts.sum()


@pytest.mark.parametrize("n_items", [20, 401, 4_000])
def test_titles_are_distinct_at_any_catalogue_size(n_items):
    shop = make_shop(5, n_items, random_state=0)
    assert len(set(shop.titles)) == n_items == len(shop.categories)


def test_the_default_shop_is_made_within_two_seconds():
    started = time.perf_counter()
    make_shop(2000, 400, random_state=0)
    assert time.perf_counter() - started < 2


def test_the_same_seed_makes_the_same_shop():
    one, other = (make_shop(30, 60, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.histories.objects, other.histories.objects)
    assert one.titles == other.titles


def test_a_shop_of_few_items_is_refused():
    with pytest.raises(ParameterError, match="n_items must be a whole number of at least 20"):
        make_shop(10, 10)


def test_a_shelf_with_more_items_than_names_gets_editions():
    shelf_of_item = np.zeros(2000, dtype=np.int64)
    titles = name_items(shelf_of_item, np.random.default_rng(0))
    assert len(set(titles)) == 2000
    assert sum("edition 2" in title for title in titles) == 800

"""Planted stray clicks."""

import numpy as np
import pytest

from groupnoise.clicks import make_shop
from groupnoise.clicks.filters import add_stray_clicks
from groupnoise.exceptions import ParameterError


@pytest.fixture(scope="module")
def clean():
    return make_shop(60, 60, stray_rate=0.0, random_state=0)


@pytest.fixture(scope="module")
def noisy(clean):
    return add_stray_clicks(clean, 0.3, random_state=0)


def test_the_share_of_planted_clicks_is_the_rate(clean, noisy):
    assert noisy.is_stray.mean() == pytest.approx(0.3, abs=0.001)
    assert noisy.notes["stray_clicks_added"] == noisy.is_stray.sum()


def test_taking_the_planted_clicks_out_gives_the_old_histories(clean, noisy):
    np.testing.assert_array_equal(noisy.histories.objects[~noisy.is_stray], clean.histories.objects)
    own = np.add.reduceat(~noisy.is_stray, noisy.histories.offsets[:-1])
    np.testing.assert_array_equal(own, clean.histories.sizes)


def test_the_last_click_of_every_history_stays_the_users_own(noisy):
    assert not noisy.is_stray[noisy.histories.offsets[1:] - 1].any()


def test_known_causes_are_renumbered(clean, noisy):
    def cause_items(dataset):
        follows = dataset.notes["follows"]
        starts = dataset.histories.offsets[dataset.histories.group_of_object]
        return dataset.histories.objects[(starts + follows)[follows >= 0]]

    assert (noisy.notes["follows"][noisy.is_stray] == -1).all()
    np.testing.assert_array_equal(cause_items(noisy), cause_items(clean))


def test_clicks_that_were_stray_before_stay_marked():
    shop = make_shop(40, 60, stray_rate=0.2, random_state=0)
    noisy = add_stray_clicks(shop, 0.1, random_state=0)
    assert noisy.is_stray.sum() == shop.is_stray.sum() + noisy.notes["stray_clicks_added"]


def test_a_rate_of_zero_changes_nothing(clean):
    same = add_stray_clicks(clean, 0.0, random_state=0)
    np.testing.assert_array_equal(same.histories.objects, clean.histories.objects)


def test_a_log_of_nothing_but_noise_is_refused(clean):
    with pytest.raises(ParameterError, match="rate must be below 1"):
        add_stray_clicks(clean, 1.0)

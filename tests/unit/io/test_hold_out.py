"""Only what can be spared is held out: clicks of long histories, no last group of a class."""

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.exceptions import DataError
from groupnoise.io import ClickDataset
from groupnoise.io.hold_out import draw_held_out
from groupnoise.io.setting import find_setting

CLICKS = find_setting("rs")


def clicks_of(sizes):
    items = [np.arange(size) for size in sizes]
    return ClickDataset(
        "clicks", Groups.from_lists(items), np.arange(max(sizes)), np.arange(len(sizes))
    )


def test_among_many_short_histories_a_long_one_is_found():
    clicks = clicks_of([2] * 50 + [4] + [2] * 50)
    for seed in range(5):
        users = CLICKS.hold_out(clicks, 0.1, seed)
        assert users.tolist() == [50]
        training = CLICKS.without(clicks, users)
        assert training.histories.sizes.tolist() == [2] * 50 + [3] + [2] * 50


def test_a_draw_with_long_histories_takes_no_others():
    clicks = clicks_of([2, 5] * 50)
    users = CLICKS.hold_out(clicks, 0.2, 0)
    assert len(users) == 20
    assert (clicks.histories.sizes[users] == 5).all()
    assert not np.array_equal(users, CLICKS.hold_out(clicks, 0.2, 1))


def test_training_without_validation_is_advised_only_where_it_can_help():
    with pytest.raises(DataError, match=r"no history has the 3 clicks .* use --validation 0"):
        CLICKS.hold_out(clicks_of([2] * 30), 0.5, 0)
    with pytest.raises(DataError, match=r"to hold its last one out; nobody clicked twice"):
        CLICKS.hold_out(clicks_of([1] * 30), 0.5, 0)


def test_the_last_group_of_a_class_stays_in_training():
    labels = np.zeros((20, 3), dtype=bool)
    labels[:18, 0] = labels[18, 1] = labels[19, 2] = True
    for seed in range(20):
        held = draw_held_out(labels, 0.5, seed)
        assert len(held) == 10
        assert held.max() < 18
    assert len(draw_held_out(labels, 0.0, 0)) == 0
    assert len(draw_held_out(np.eye(4, dtype=bool), 0.5, 0)) == 0


def test_every_class_gives_its_share():
    labels = np.zeros((60, 3), dtype=bool)
    labels[:40, 0] = labels[40:52, 1] = labels[52:, 2] = True
    drawn = [draw_held_out(labels, 0.25, seed) for seed in range(10)]
    for held in drawn:
        assert len(held) == 15
        assert labels[held].sum(axis=0).tolist() == [10, 3, 2]
    assert len({tuple(held) for held in drawn}) > 5


def test_of_rows_with_several_classes_the_rarest_counts():
    labels = np.ones((40, 2), dtype=bool)
    labels[20:, 1] = False
    assert labels[draw_held_out(labels, 0.5, 0)].sum(axis=0).tolist() == [20, 10]

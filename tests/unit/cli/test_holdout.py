"""Last clicks are held out of histories that can spare them."""

import numpy as np
import pytest

from groupnoise.cli.holdout import hold_out, hold_out_some
from groupnoise.core import Groups
from groupnoise.exceptions import DataError
from groupnoise.io import ClickDataset


def clicks_of(sizes):
    items = [np.arange(size) for size in sizes]
    return ClickDataset(
        "clicks", Groups.from_lists(items), np.arange(max(sizes)), np.arange(len(sizes))
    )


def test_among_many_short_histories_a_long_one_is_found():
    clicks = clicks_of([2] * 50 + [4] + [2] * 50)
    for seed in range(5):
        training, validate = hold_out(clicks, 0.1, seed)
        assert validate is not None
        assert training.histories.sizes.tolist() == [2] * 50 + [3] + [2] * 50
        users, validate = hold_out_some(clicks, 0.1, seed)
        assert validate is not None
        assert users.tolist() == [50]


def test_a_draw_with_long_histories_takes_no_others():
    clicks = clicks_of([2, 5] * 50)
    training, _ = hold_out(clicks, 0.2, 0)
    held = np.random.default_rng(0).random(100) < 0.2
    shorter = clicks.histories.sizes - (held & (clicks.histories.sizes > 2))
    assert training.histories.sizes.tolist() == shorter.tolist()


def test_training_without_validation_is_advised_only_where_it_can_help():
    for cut in (hold_out, hold_out_some):
        with pytest.raises(DataError, match=r"no history has the 3 clicks .* use --validation 0"):
            cut(clicks_of([2] * 30), 0.5, 0)
        with pytest.raises(DataError, match=r"to hold its last one out\.$"):
            cut(clicks_of([1] * 30), 0.5, 0)

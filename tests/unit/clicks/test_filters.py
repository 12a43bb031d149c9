"""The k-core filter and the merging of repeated clicks."""

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks.reading.filters import keep_core, merge_repeats
from groupnoise.exceptions import DataError
from groupnoise.io import ClickDataset


def as_click_log(histories, titles=None):
    groups = Groups.from_lists(histories)
    n_items = int(groups.objects.max()) + 1
    return ClickDataset(
        name="log",
        histories=groups,
        item_ids=np.array([f"item{i}" for i in range(n_items)]),
        user_ids=np.array([f"user{i}" for i in range(len(groups))]),
        titles=titles,
        is_stray=np.arange(groups.n_objects) % 2 == 0,
    )


def test_a_core_leaves_only_users_and_items_with_enough_clicks():
    generator = np.random.default_rng(0)
    log = as_click_log([generator.zipf(1.5, generator.integers(1, 12)) % 40 for _ in range(200)])
    core = keep_core(log, per_user=3, per_item=4)
    assert core.histories.sizes.min() >= 3
    assert np.bincount(core.histories.objects).min() >= 4
    assert core.n_items == int(core.histories.objects.max()) + 1
    assert core.notes["core_clicks_dropped"] == log.histories.n_objects - core.histories.n_objects


def test_dropping_a_user_may_drop_an_item_and_then_another_user():
    log = as_click_log([[0, 0, 1], [1, 2], [0, 0, 0]], titles=["a", "b", "c"])
    core = keep_core(log, per_user=2, per_item=2)
    assert core.user_ids.tolist() == ["user0", "user2"]
    assert core.item_ids.tolist() == ["item0"]
    assert core.titles == ["a"]
    assert core.histories.sizes.tolist() == [2, 3]
    assert len(core.is_stray) == 5


def test_a_core_that_leaves_nothing_says_so():
    with pytest.raises(DataError, match="no click is left"):
        keep_core(as_click_log([[0, 1], [2]]), per_user=5)


def test_repeats_are_kept_merged_or_reduced_to_the_first():
    log = as_click_log([[0, 0, 1, 0], [0, 0]])
    assert merge_repeats(log, "keep") is log
    merged = merge_repeats(log)
    assert [history.tolist() for history in map(merged.histories.__getitem__, range(2))] == [
        [0, 1, 0],
        [0],
    ]
    assert merged.notes["repeats_merged"] == 2
    first = merge_repeats(log, "keep_first")
    assert first.histories.objects.tolist() == [0, 1, 0]
    assert first.histories.sizes.tolist() == [2, 1]

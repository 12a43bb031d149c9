"""Sliding windows against a plain loop over histories."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise import Groups
from groupnoise.clicks.windows.cutting import cut_windows, drop_small_groups
from groupnoise.core import arrays as _blocks
from groupnoise.exceptions import DataError, ParameterError


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6).filter(lambda s: max(s) > 3),
    size=st.integers(1, 6),
    min_size=st.integers(1, 3),
)
def test_windows_agree_with_a_plain_loop(sizes, size, min_size):
    size = max(size, min_size)
    items = np.arange(100, 100 + sum(sizes))
    histories = Groups(items, np.concatenate([[0], np.cumsum(sizes)]))
    expected = [
        (row, place, history[max(0, place - size) : place].tolist(), history[place])
        for row, history in enumerate(histories)
        for place in range(min_size, len(history))
    ]
    windows = cut_windows(histories, size=size, min_size=min_size)
    groups, rows, positions = windows.groups, windows.users, windows.positions
    got = [
        (rows[i], positions[i], groups[i].tolist(), groups.targets[i]) for i in range(len(groups))
    ]
    assert got == expected


def test_full_windows_alone_are_kept_when_asked_for():
    windows = cut_windows(Groups.from_lists([[1, 2, 3, 4], [5, 6]]), size=3, min_size=3)
    assert [group.tolist() for group in windows.groups] == [[1, 2, 3]]
    assert windows.groups.targets.tolist() == [4]


def test_histories_too_short_for_any_window_are_refused():
    with pytest.raises(DataError, match="the longest history has 1"):
        cut_windows(Groups.from_lists([[1], [2]]), min_size=1)


def test_a_least_size_above_the_window_is_refused():
    with pytest.raises(ParameterError, match="must not exceed"):
        cut_windows(Groups.from_lists([[1, 2]]), size=2, min_size=3)


@pytest.mark.parametrize("block_bytes", [16, 1 << 24])
def test_small_windows_are_left_out_and_large_ones_not_copied(monkeypatch, block_bytes):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", block_bytes)
    groups = Groups.from_lists([[1, 2], [3, 4, 5], [6], [7, 8]], targets=[0, 1, 2, 3])
    assert drop_small_groups(groups, 2).targets.tolist() == [0, 1, 3]
    kept = drop_small_groups(groups, 2)
    assert drop_small_groups(kept, 2) is kept
    with pytest.raises(DataError, match="no window has 4 clicks, the largest has 3"):
        drop_small_groups(groups, 4)

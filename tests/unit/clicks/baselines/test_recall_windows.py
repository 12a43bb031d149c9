"""Dense windows against plain slicing."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise import Groups
from groupnoise.clicks.baselines.networks import left_aligned, right_aligned, training_windows

lists_of_clicks = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1)


@given(lists=lists_of_clicks, size=st.integers(1, 5))
def test_alignment_agrees_with_plain_slicing(lists, size):
    groups = Groups.from_lists(lists)
    tails = [clicks[-size:] for clicks in lists]
    before = [[99] * (size - len(tail)) + tail for tail in tails]
    after = [tail + [99] * (size - len(tail)) for tail in tails]
    assert right_aligned(groups, size, fill=99).tolist() == before
    assert left_aligned(groups, size, fill=99).tolist() == after


@pytest.mark.parametrize("n_targets", [1, 2, 3])
def test_each_window_is_tied_to_the_clicks_that_follow(n_targets):
    histories = Groups.from_lists([[1, 2, 3, 4], [5], [6, 7]])
    windows = training_windows(histories, size=2, n_targets=n_targets, fill=99)
    got = [(windows[row].tolist(), windows.targets[row].tolist()) for row in range(len(windows))]
    expected = [
        (clicks[max(0, end - 2) : end], [*clicks[end:], 99, 99][:n_targets])
        for clicks in ([1, 2, 3, 4], [5], [6, 7])
        for end in range(1, len(clicks))
    ]
    assert got == expected


def test_windows_with_targets_are_used_as_they_are():
    given = Groups.from_lists([[1, 2]], targets=np.array([3]))
    windows = training_windows(given, size=1, n_targets=3, fill=99)
    assert windows[0].tolist() == [1, 2]
    assert windows.targets.tolist() == [[3]]

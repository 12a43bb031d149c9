"""Windows cut from click histories, held to plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from groupnoise import Groups
from groupnoise.clicks.windows.cutting import cut_windows
from groupnoise.exceptions import DataError, ParameterError

histories_lists = st.lists(
    st.lists(st.integers(0, 50), min_size=1, max_size=16), min_size=1, max_size=8
)


def as_tuples(windows):
    return [
        (int(user), int(position), windows.groups[row].tolist(), int(windows.groups.targets[row]))
        for row, (user, position) in enumerate(zip(windows.users, windows.positions, strict=True))
    ]


def sliding_by_loop(histories, size, min_size):
    return [
        (user, position, history[max(0, position - size) : position], history[position])
        for user, history in enumerate(histories)
        for position in range(min_size, len(history))
    ]


def chunks_by_loop(histories, size, min_size):
    found = []
    for user, history in enumerate(histories):
        for start in range(0, len(history), size + 1):
            chunk = history[start : start + size + 1]
            if len(chunk) > min_size:
                found.append((user, start + len(chunk) - 1, chunk[:-1], chunk[-1]))
    return found


def assert_same_as_loop(histories, expected, how, **options):
    if expected:
        assert as_tuples(cut_windows(Groups.from_lists(histories), how, **options)) == expected
    else:
        with pytest.raises(DataError, match="no history is long enough"):
            cut_windows(Groups.from_lists(histories), how, **options)


@given(histories_lists, st.integers(1, 6), st.data())
@settings(max_examples=60, deadline=None)
def test_sliding_windows_equal_the_plain_loop(histories, size, data):
    min_size = data.draw(st.integers(1, size))
    expected = sliding_by_loop(histories, size, min_size)
    assert_same_as_loop(histories, expected, "sliding", size=size, min_size=min_size)


@given(histories_lists, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_chunks_equal_the_plain_loop(histories, size):
    assert_same_as_loop(histories, chunks_by_loop(histories, size, 1), "chunks", size=size)


@given(histories_lists)
@settings(max_examples=30, deadline=None)
def test_leave_one_out_takes_the_last_click_of_every_user_with_two(histories):
    expected = [
        (user, len(history) - 1, history[-6:-1], history[-1])
        for user, history in enumerate(histories)
        if len(history) >= 2
    ]
    assert_same_as_loop(histories, expected, "leave_one_out", size=5)


def test_sliding_windows_are_full_unless_shorter_ones_are_asked_for():
    histories = Groups.from_lists([list(range(8))])
    assert set(cut_windows(histories).groups.sizes) == {5}
    assert cut_windows(histories, min_size=1).groups.sizes.tolist() == [1, 2, 3, 4, 5, 5, 5]


def test_a_session_ends_at_a_pause_and_never_spans_two_users():
    histories = Groups.from_lists([[1, 2, 3, 4], [5, 6]])
    times = [0, 10, 500, 510, 511, 512]
    windows = cut_windows(histories, "session", times=times, gap=60)
    assert as_tuples(windows) == [(0, 1, [1], 2), (0, 3, [3], 4), (1, 1, [5], 6)]


def test_sessions_need_times_in_order():
    histories = Groups.from_lists([[1, 2], [3, 4, 5]])
    with pytest.raises(ParameterError, match="times"):
        cut_windows(histories, "session", gap=1)
    with pytest.raises(DataError, match="history 1 is not in time order, first at click 2"):
        cut_windows(histories, "session", times=[5, 6, 1, 3, 2], gap=10)
    with pytest.raises(DataError, match="one per click"):
        cut_windows(histories, "session", times=[1, 2], gap=10)


def test_item_ids_keep_their_type_and_may_be_memory_mapped(tmp_path):
    np.save(tmp_path / "items.npy", np.arange(20, dtype=np.int32))
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    windows = cut_windows(Groups(mapped, [0, 12, 20]))
    assert windows.groups.objects.dtype == np.int32
    assert len(windows.groups) == 7 + 3


def test_bad_sizes_and_feature_rows_are_refused():
    histories = Groups.from_lists([[1, 2, 3]])
    with pytest.raises(ParameterError, match="must not exceed size"):
        cut_windows(histories, size=2, min_size=3)
    with pytest.raises(ParameterError, match="how must be one of"):
        cut_windows(histories, "random")
    with pytest.raises(DataError, match="one whole item index per click"):
        cut_windows(Groups.from_lists([[[1.0], [2.0]]]))

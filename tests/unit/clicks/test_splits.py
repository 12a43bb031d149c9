"""Splits of click logs: who is held out, and that nothing held out is trained on."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from groupnoise import Groups
from groupnoise.clicks.evaluation.splits import CLICK_PROTOCOLS, split_clicks
from groupnoise.exceptions import DataError, ParameterError


def random_histories(seed, n_users=40, longest=30):
    generator = np.random.default_rng(seed)
    return Groups.from_lists(
        [generator.integers(0, 100, generator.integers(1, longest)) for _ in range(n_users)]
    )


def clicks_touched(windows):
    """Every (user, position) that stands in a window, as object or as target."""
    return {
        (int(user), position)
        for user, last, size in zip(
            windows.users, windows.positions, windows.groups.sizes, strict=True
        )
        for position in range(last - size, last + 1)
    }


def target_clicks(windows):
    return set(zip(windows.users.tolist(), windows.positions.tolist(), strict=True))


@pytest.mark.parametrize("protocol", CLICK_PROTOCOLS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_no_test_target_stands_in_a_training_window_of_that_user(protocol, seed):
    split = split_clicks(random_histories(seed), protocol, random_state=seed)
    held_out = target_clicks(split.test) | target_clicks(split.validation)
    assert not held_out & clicks_touched(split.train)
    assert not target_clicks(split.test) & clicks_touched(split.validation)


def test_the_papers_held_out_chunks_share_no_click_with_training():
    split = split_clicks(random_histories(1), "paper", random_state=1)
    assert not clicks_touched(split.train) & clicks_touched(split.test)
    assert not clicks_touched(split.train) & clicks_touched(split.validation)


def test_authors_protocol_tests_the_last_window_of_users_with_seven_clicks():
    histories = Groups.from_lists([range(7), range(6), range(5), range(20)])
    split = split_clicks(histories)
    assert split.test.users.tolist() == [0, 3]
    assert split.test.positions.tolist() == [6, 19]
    assert split.validation.positions.tolist() == [5, 18]
    assert split.train.users.tolist() == [1] + [3] * 13
    assert split.notes == {
        "protocol": "authors",
        "users": 4,
        "users_tested": 2,
        "users_training_only": 1,
        "users_too_short": 1,
    }


def test_leave_one_out_holds_out_the_last_two_clicks():
    split = split_clicks(Groups.from_lists([range(4), range(2)]), "leave_one_out")
    assert target_clicks(split.test) == {(0, 3)}
    assert target_clicks(split.validation) == {(0, 2)}
    assert target_clicks(split.train) == {(0, 1), (1, 1)}


def test_the_papers_draw_is_seeded_and_covers_all_chunks():
    histories = random_histories(0, n_users=300, longest=40)
    first, again, other = (
        split_clicks(histories, "paper", random_state=seed) for seed in (3, 3, 4)
    )
    assert np.array_equal(first.test.positions, again.test.positions)
    assert not np.array_equal(first.test.positions, other.test.positions)
    positions = first.test.positions // 6
    assert {0, 1, 2} <= set(positions.tolist())


def test_histories_too_short_for_a_protocol_say_so():
    with pytest.raises(DataError, match="leaves no test window"):
        split_clicks(Groups.from_lists([range(6)]))
    with pytest.raises(DataError, match="leaves no training window"):
        split_clicks(Groups.from_lists([range(7)]))
    with pytest.raises(ParameterError, match="protocol must be one of"):
        split_clicks(Groups.from_lists([range(7)]), "random")


def test_video_games_gives_the_published_number_of_test_users(data_directory):
    path = data_directory / "rs" / "amazon_video_games_sasrec.txt.gz"
    if not path.exists():
        pytest.skip("amazon_video_games_sasrec.txt.gz is not in the data directory")
    with gzip.open(path, "rt") as stream:
        pairs = np.array(stream.read().split(), dtype=np.int64).reshape(-1, 2)
    histories, _ = Groups.from_rows(pairs[:, 1], pairs[:, 0])
    split = split_clicks(histories, "authors")
    assert len(split.test.groups) == len(split.validation.groups) == 15_060
    assert len(split.train.groups) == 104_120

"""Protocols: what trains, what validates, what is asked for, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import make_shop
from groupnoise.clicks.evaluation.history_split import last_queries, split_histories
from groupnoise.clicks.evaluation.splits import ClickProtocol
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import ClickDataset

WORDS = [
    "last",
    "leave_one_out",
    "leave_one_out+validation",
    "authors",
    "authors+validation",
    "time:0.8",
    "time:0.8+validation",
    "time:0.8:successive",
    "time:200",
    "cold_users",
    "cold_users:3:successive",
    "cold_users+validation",
]


@pytest.fixture(scope="module")
def shop():
    return make_shop(120, 60, length=(1, 25), random_state=0)


def log_of(histories, times=None):
    groups = Groups.from_lists(histories)
    stamps = None if times is None else np.concatenate([np.asarray(t) for t in times])
    n_items = int(groups.objects.max()) + 1
    return ClickDataset(
        "log", groups, np.arange(n_items), np.arange(len(groups)), timestamps=stamps
    )


@pytest.mark.parametrize("word", WORDS)
def test_no_target_trains_and_every_query_holds_what_came_before(shop, word):
    split = split_histories(shop, word)
    trained = {
        int(user): split.train.item_ids[history].tolist()
        for user, history in zip(split.train.user_ids, split.train.histories, strict=True)
    }
    is_cold = word.startswith("cold_users")
    for row, (user, position) in enumerate(
        zip(split.test.users, split.test.positions, strict=True)
    ):
        history = shop.histories[int(user)]
        assert split.test.groups.targets[row] == history[position]
        before = (
            history[max(0, position - 5) : position] if "authors" in word else history[:position]
        )
        assert split.test.groups[row].tolist() == before.tolist()
        # What trains is a beginning of the history that ends before the target.
        own = trained.get(int(user), [])
        assert own == history[: len(own)].tolist()
        assert len(own) <= position
        assert not (is_cold and own)
    assert ClickProtocol.parse(split.protocol.word) == split.protocol


@pytest.mark.parametrize("word", ["leave_one_out", "authors", "time:0.8", "cold_users"])
def test_validation_clicks_train_only_where_the_name_says_so(shop, word):
    apart, together = split_histories(shop, word), split_histories(shop, f"{word}+validation")
    assert apart.test.users.tolist() == together.test.users.tolist()
    assert apart.counts["training_clicks"] < together.counts["training_clicks"]
    for row, user in enumerate(apart.validation.users.tolist()):
        own = np.flatnonzero(apart.train.user_ids == user)
        n_trained = 0 if not len(own) else len(apart.train.histories[int(own[0])])
        assert n_trained <= apart.validation.positions[row]


def test_leave_one_out_asks_for_every_last_click_of_three_or_more():
    split = split_histories(log_of([[0, 1, 2, 3], [4, 5], [6], [1, 2, 0]]), "leave_one_out")
    assert split.test.users.tolist() == [0, 3]
    assert split.test.groups.targets.tolist() == [3, 0]
    assert split.validation.groups.targets.tolist() == [2, 2]
    assert [h.tolist() for h in split.train.histories] == [[0, 1], [4, 5], [6], [1]]
    assert split.counts["histories_of_one"] == 1


def test_nothing_of_the_future_trains_not_even_its_items():
    log = log_of([[0, 1, 2], [1, 3], [0, 4]], times=[[1, 2, 9], [3, 8], [4, 5]])
    split = split_histories(log, "time:7+validation")
    assert split.train.item_ids.tolist() == [0, 1, 4]
    assert (split.train.timestamps <= 7).all()
    assert split.test.groups.targets.tolist() == [2, 3]
    assert split.counts["targets_never_trained"] == 2


def test_the_quantile_is_the_share_of_clicks_that_come_up_to_the_cut(shop):
    split = split_histories(shop, "time:0.75+validation")
    share = split.counts["training_clicks"] / shop.histories.n_objects
    assert share == pytest.approx(0.75, abs=1e-3)


def test_a_date_cuts_seconds_and_milliseconds_alike():
    day = 86_400
    times = [[16_000 * day, 16_002 * day - 1, 16_002 * day], [16_001 * day, 16_003 * day]]
    log = log_of([[0, 1, 2], [1, 0]], times)
    word = "time:2013-10-24+validation"  # day 16 002
    seconds = split_histories(log, word)
    later = split_histories(replace(log, timestamps=1000 * log.timestamps), word)
    assert seconds.test.groups.targets.tolist() == [2, 0]
    assert seconds.test.users.tolist() == later.test.users.tolist()
    assert seconds.counts["training_clicks"] == later.counts["training_clicks"] == 3


def test_successive_targets_are_all_clicks_of_the_test_period():
    log = log_of([[0, 1, 2, 3], [1, 3]], times=[[1, 2, 8, 9], [8, 9]])
    split = split_histories(log, "time:7:successive")
    assert split.test.groups.targets.tolist() == [2, 3, 3]
    assert [group.tolist() for group in split.test.groups] == [[0, 1], [0, 1, 2], [1]]
    assert split.counts["targets_without_history"] == 1
    assert "1 target skipped: the first click of their user" in " ".join(split.notes)


def test_cold_users_are_a_tenth_and_another_number_draws_others(shop):
    split, other = split_histories(shop, "cold_users"), split_histories(shop, "cold_users:1")
    held = set(split.test.users.tolist())
    assert held <= set(range(120))
    assert 8 <= len(held) <= 12
    assert held != set(other.test.users.tolist())
    assert len(split.train.histories) == 96


def test_repeats_of_a_user_are_counted():
    split = split_histories(log_of([[0, 1, 0, 2, 0], [3, 4, 5]]), "leave_one_out")
    assert split.counts["targets_clicked_before"] == 1
    assert "clicked before by the same user" in " ".join(split.notes)


def test_what_cannot_be_divided_is_refused_in_one_sentence(shop):
    with pytest.raises(DataError, match="does not say when clicks happened"):
        split_histories(replace(shop, timestamps=None), "time:0.9")
    with pytest.raises(DataError, match="nobody clicks after the cut"):
        split_histories(shop, "time:99999")
    with pytest.raises(DataError, match="a list is no log of clicks; give a frame"):
        split_histories([[0, 1, 2]], "time:0.9")
    with pytest.raises(DataError, match=r"nobody clicks after the cut of .* which are no dates"):
        split_histories(shop, "time:2030-01-01")
    with pytest.raises(DataError, match="nothing of log to train on"):
        split_histories(log_of([[0, 1, 2]], times=[[5, 6, 7]]), "time:1")
    with pytest.raises(DataError, match="who has clicked before"):
        split_histories(log_of([[0, 1], [2]], times=[[1, 2], [9]]), "time:5")
    with pytest.raises(DataError, match="needs a history of 3 clicks"):
        split_histories(log_of([[0, 1], [2]]), "leave_one_out")
    with pytest.raises(DataError, match="needs a history of 7 clicks"):
        split_histories(log_of([[0, 1, 2, 3]]), "authors")
    with pytest.raises(DataError, match="at least ten users"):
        split_histories(log_of([[0, 1, 2, 3]]), "cold_users")


@pytest.mark.parametrize(
    "word",
    [
        *("", "loo", "time:abc", "time:-1", "time:0.9:often", "time:2016-13-01", "last+more"),
        *("leave_one_out:3", "cold_users:x", "time:0.9:0.8", "time:nan", "time:inf"),
    ],
)
def test_words_that_name_no_protocol_are_refused(word):
    with pytest.raises(ParameterError):
        ClickProtocol.parse(word)


def test_histories_of_one_have_no_last_query():
    assert last_queries(Groups.from_lists([[1], [2]])) is None
    assert last_queries(Groups.from_lists([[1], [2, 3]])).users.tolist() == [1]

"""A log whose users or whose order are hardly what they seem is read with a word about it."""

import numpy as np
import polars as pl
import pytest

from groupnoise.clicks import read_clicks
from groupnoise.clicks.baselines import ItemCFRecommender
from groupnoise.clicks.reading.oddities import padding_message
from groupnoise.io.description import describe


def said_of(frame):
    said = []
    read_clicks(frame, report=said.append)
    return " ".join(said)


def log(n_users=40, n_clicks=10, *, sort=False):
    generator = np.random.default_rng(0)
    items = generator.integers(0, 50, size=(n_users, n_clicks))
    items = np.sort(items, axis=1) if sort else items
    users = [f"u{number}" for number in range(n_users)]
    return pl.DataFrame({"user": np.repeat(users, n_clicks), "item": items.ravel()})


def test_one_name_for_all_whom_nobody_knows():
    unknown = pl.DataFrame({"user": ["NA"] * 200, "item": np.arange(200) % 50})
    assert "user NA has 200 of 600 clicks" in said_of(pl.concat([log(), unknown]))
    assert "clicks; if" not in said_of(log())


def test_rows_in_the_order_of_ids_tell_no_order_of_clicks():
    assert "in the order of their ids" in said_of(log(sort=True))
    assert "in the order of their ids" not in said_of(log())
    timed = log(sort=True).with_columns(time=pl.int_range(400))
    assert "in the order of their ids" not in said_of(timed)


def test_ids_with_numbers_in_them_may_stand_in_the_order_of_the_numbers():
    by_number = log(sort=True).with_columns(item="i" + pl.col("item").cast(pl.String))
    said = said_of(by_number)
    assert "in the order of their ids" in said
    assert "shuffle the rows" in said
    assert "in the order of their ids" in said_of(by_number.reverse())
    mixed = log().with_columns(item="i" + pl.col("item").cast(pl.String))
    assert "in the order of their ids" not in said_of(mixed)


def test_frames_are_warned_of_in_python():
    model = ItemCFRecommender()
    with pytest.warns(UserWarning, match="in the order of their ids"):
        model.fit(log(sort=True).unique(maintain_order=True))
    padded = log().with_columns(item=pl.format("00{}", "item"), time=pl.int_range(400))
    model.fit(padded)
    bare = padded.with_columns(item=pl.Series(["0", "7"] * 200))
    with pytest.warns(UserWarning, match="1 of 3 items, such as '7', which the model calls '007'"):
        model.recommend(pl.concat([padded, bare]).tail(401))


def test_what_rows_say_of_themselves_is_told_as_its_cells_are():
    kinds = log().with_columns(event=pl.Series(["view", "cart"] * 200))
    said = said_of(kinds)
    assert "left out column 'event' (view, cart): every row counts as one click" in said
    assert "--rating event" not in said
    returned = log().with_columns(Quantity=pl.Series([2, -1] * 200))
    said = said_of(returned)
    assert "also where it is negative" in said
    assert "--rating Quantity --min-rating 1" in said
    counted = log().with_columns(plays=pl.Series([2, 1] * 200))
    assert "negative" not in said_of(counted)


def test_doubled_clicks_are_told_of_with_the_option_that_merges_them():
    frame = log().with_columns(time=pl.int_range(400))
    doubled = pl.concat([frame, frame])
    said = said_of(doubled)
    assert "of 800 clicks repeat the click before them" in said
    assert "400 of them at the same time" in said
    assert "--repeats merge_adjacent" in said
    assert "repeat the click" not in said_of(frame)
    merged = []
    read_clicks(doubled, repeats="merge_adjacent", report=merged.append)
    assert "repeat the click" not in " ".join(merged)


def test_a_bot_is_pointed_at_with_the_command_that_lists_it():
    bot = pl.DataFrame({"user": ["bot"] * 1500, "item": np.arange(1500) % 3})
    said = said_of(pl.concat([log(), bot]))
    assert "user bot clicks unlike people do: 1500 clicks (usual: 10)" in said
    assert "`groupnoise audit DATA`" in said
    assert "unlike people" not in said_of(log())
    (stored,) = (
        each for each in describe(read_clicks(pl.concat([log(), bot]))).oddities if "audit" in each
    )
    assert "user bot" in stored


def test_low_ratings_that_count_as_clicks_are_told_of():
    rated = log().with_columns(stars=pl.Series([1, 2, 3, 4, 5] * 80))
    assert "160 of 400 rows are rated below 3 of 5 in 'stars'" in said_of(rated)
    assert "--min-rating 3 leaves them out" in said_of(rated)
    assert "rated below" not in said_of(rated.filter(pl.col("stars") > 2))
    halves = log().with_columns(rating=pl.Series([0.5, 4.5, 5.0, 3.0] * 100))
    assert "100 of 400 rows are rated below 3 of 5" in said_of(halves)
    likes = log().with_columns(rating=pl.Series([0, 1] * 200))
    assert "200 of 400 rows are rated below 1 of 1" in said_of(likes)
    said = []
    clicks = read_clicks(rated, min_rating=3, report=said.append)
    assert clicks.histories.n_objects == 240
    assert "rated below" not in " ".join(said)


def test_frames_in_python_are_told_of_what_is_odd_too():
    rows = [
        (f"u{user}", item, 60 * (user + 5 * step))
        for user in range(30)
        for step, item in enumerate([user % 7, user % 7, (user + 3) % 9])
    ]
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    with pytest.warns(UserWarning, match="before them.*options of groupnoise.clicks.read_clicks"):
        ItemCFRecommender().fit(frame)


def test_what_fills_up_rows_is_told_of():
    generator = np.random.default_rng(0)
    items = generator.integers(1, 9, size=(40, 5))
    sizes = generator.integers(2, 6, size=(40, 1))
    assert padding_message(items) is None
    for value in (0, -1):
        padded = np.where(np.arange(5) < sizes, items, value)
        assert f"item {value} stands at the end of" in padding_message(padded)
        assert "at the beginning of" in padding_message(padded[:, ::-1])
    assert padding_message(items - 1) is None  # item 0 anywhere
    with pytest.warns(UserWarning, match="as what fills up rows does"):
        ItemCFRecommender().fit(np.where(np.arange(5) < sizes, items, 0))

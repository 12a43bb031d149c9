"""A log whose users or whose order are hardly what they seem is read with a word about it."""

import numpy as np
import polars as pl

from groupnoise.clicks import read_clicks


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

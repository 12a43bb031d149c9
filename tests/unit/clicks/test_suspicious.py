"""Bots and repeat-clickers planted among plain users are listed, with why, and nobody else."""

import numpy as np
import polars as pl
import pytest

from groupnoise.audit.issues import GroupIssues
from groupnoise.clicks import make_shop, read_clicks
from groupnoise.clicks.audit import ClickSource, suspicious_users

START = 1_770_000_000


def plain_log(n_users=200, seed=0):
    """Rows of people: a few clicks each, minutes apart, an item at most twice."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        times = START + rng.integers(0, 10_000_000) + np.cumsum(rng.integers(20, 900, size=12))
        n_clicks = int(rng.integers(3, 12))
        rows += [(f"u{user}", f"i{rng.integers(40)}", int(time)) for time in times[:n_clicks]]
    return rows


def read(rows):
    return read_clicks(pl.DataFrame(rows, schema=["who", "what", "when"], orient="row"),
                       user="who", item="what", time="when")  # fmt: skip


def listed(rows):
    found = suspicious_users(clicks := read(rows))
    users = clicks.user_ids[found["source"]].tolist()
    return dict(zip(users, found["why"].tolist(), strict=True))


def test_people_are_not_suspected():
    assert listed(plain_log()) == {}
    assert len(suspicious_users(make_shop(300, 80, random_state=0))["source"]) == 0


def test_one_item_hundreds_of_times_is_told_with_the_item():
    rows = plain_log() + [("again", "i7", START + 3600 * n) for n in range(300)]
    rows += [("again", "i8", START + 9_999)]
    assert listed(rows) == {"again": "301 clicks (usual: 8), 300 of them on item i7 (usual: 1)"}


@pytest.mark.parametrize("unit", [1, 1000])
def test_a_click_each_second_is_told_whatever_the_unit_of_time(unit):
    rows = plain_log() + [("bot", f"i{n % 40}", START + n) for n in range(70)]
    found = listed([(user, item, unit * time) for user, item, time in rows])
    assert list(found) == ["bot"]
    assert "60 within a minute (usual: 1)" in found["bot"]


def test_times_of_whole_days_say_nothing_about_pace():
    day = 86_400
    rows = [
        (user, item, START // day * day + time // day * day) for user, item, time in plain_log()
    ]
    rows += [("collector", f"i{n % 40}", START // day * day) for n in range(70)]
    assert listed(rows) == {}


def test_what_is_usual_in_a_log_is_not_suspicious():
    """Everybody plays a song fifty times, in bursts: that is how music is heard."""
    rng = np.random.default_rng(0)
    rows = [
        (f"u{user}", f"i{rng.integers(3)}", START + 5 * n)
        for user in range(60)
        for n in range(int(rng.integers(100, 250)))
    ]
    assert listed(rows) == {}


def test_blocks_change_nothing(monkeypatch):
    rows = plain_log() + [("again", "i7", START + n) for n in range(300)]
    whole = suspicious_users(read(rows))
    monkeypatch.setattr("groupnoise.clicks.audit.BLOCK_CLICKS", 37)
    parts = suspicious_users(read(rows))
    assert whole.keys() == parts.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name])


def test_an_audit_lists_them_by_their_own_ids(tmp_path):
    rows = plain_log() + [("bot-1", f"i{n % 40}", START + n) for n in range(200)]
    source = ClickSource(read(rows))
    issues = GroupIssues.from_evidence(source, ({}, {"noise": np.zeros(1)}))
    shown = issues.list_of("suspicious_user")
    assert shown["source"].tolist() == ["bot-1"]
    assert shown["object"][0].startswith("i")
    for form in ("csv", "parquet", "json"):
        issues.write_list(tmp_path / f"list.{form}", "suspicious_user")
    assert pl.read_csv(tmp_path / "list.csv")["why"].to_list() == shown["why"].tolist()
    assert issues.to_polars("users")["source"].to_list() == ["bot-1"]

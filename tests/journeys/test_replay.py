"""Impressions of one policy tell what recommenders would earn."""

import json

import polars as pl
import pytest

from groupnoise.clicks import make_shop
from impressions import make_impressions


@pytest.fixture
def shop_files(tmp_path):
    shop = make_shop(120, 60, random_state=0)
    log = make_impressions(shop, 40, random_state=1).log
    pl.DataFrame(
        {
            "user": log.users,
            "item": log.items,
            "propensity": log.propensity,
            "clicked": log.clicked.astype(int),
            "other": log.propensity,
        }
    ).write_csv(tmp_path / "shown.csv")
    rows = [(u, int(i)) for u, history in enumerate(shop.histories) for i in history]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "clicks.csv")


def test_models_and_a_column_of_chances_are_replayed_side_by_side(command, shop_files):
    for method in ("item-cf", "popularity"):
        command("fit", "clicks.csv", "--setting", "rs", "--method", method, "-o", method, "-q")
    words = ["replay", "shown.csv", "--model", "item-cf", "--model", "popularity"]
    words += ["--histories", "clicks.csv", "--target", "other", "--top", 5]
    found = json.loads(command(*words, "--json").out)
    by_name = {policy["name"]: policy for policy in found["policies"]}
    assert set(by_name) == {"other", "item-cf", "popularity"}
    assert by_name["item-cf"]["snips"][0] > by_name["popularity"]["snips"][0]
    assert by_name["other"]["ips"][0] == pytest.approx(found["logged click-through"])
    told = command(*words).out
    assert "4800 impressions" in told
    assert "SNIPS" in told
    assert "mean weight  effective rows" in told
    (own,) = (line for line in told.splitlines() if line.startswith("other "))
    assert own.endswith("1.00         4800 of 4800")


def test_chances_that_cannot_be_right_are_warned_of(command, shop_files):
    log = pl.read_csv("shown.csv").with_columns(
        twice=(2 * pl.col("propensity")).clip(upper_bound=1)
    )
    log.write_csv("twice.csv")
    found = json.loads(command("replay", "twice.csv", "--target", "twice", "--json").out)
    assert found["policies"][0]["mean_weight"][0] == pytest.approx(2, rel=0.1)
    assert "weights average 2.0" in found["notes"][0]
    assert "Check that a propensity is the chance of that item" in found["notes"][0]


def test_what_is_missing_is_said(command, shop_files):
    refused = command("replay", "shown.csv", "--model", "item-cf", code=2).err
    assert "--histories" in refused
    assert "nothing is to be replayed" in command("replay", "shown.csv", code=2).err
    refused = command("replay", "clicks.csv", "--target", "item_id", code=2).err
    assert "--propensity" in refused

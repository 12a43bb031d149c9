"""From nightly models to a registry of versions: added, promoted, gone back from, pruned."""

import json

import polars as pl
import pytest

from groupnoise.clicks import make_shop
from groupnoise.recall import Registry
from serving_support import write_shop


@pytest.fixture
def models(command, tmp_path):
    shop = make_shop(120, 40, random_state=0)
    rows = [(u, int(i)) for u, history in enumerate(shop.histories) for i in history]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "clicks.csv")
    for method in ("item-cf", "popularity"):
        command("fit", "clicks.csv", "--setting", "rs", "--method", method, "-o", method, "-q")


def test_two_nights_of_a_registry(command, models, tmp_path):
    figures = command("evaluate", "item-cf", "clicks.csv", "--json").out
    (tmp_path / "figures.json").write_text(figures)
    words = ["--registry", "--evaluation", "figures.json"]
    command("export", "item-cf", "--output", "shop", *words)
    command("versions", "promote", "shop")
    said = command("export", "popularity", "--output", "shop", "--histories", "clicks.csv").out
    assert "usual scores from 120 histories" in said
    first, second = json.loads(command("versions", "list", "shop", "--json").out)
    assert (first["promoted"], second["promoted"]) == (True, False)
    training = first["training"]
    assert training["data"]["name"] == "clicks"
    assert len(training["data"]["fingerprint"]) == 64
    assert training["estimator"] == "ItemCFRecommender"
    assert training["evaluation"] == json.loads(figures)
    assert "evaluation" not in second["training"]
    assert second["version"] in command("versions", "promote", "shop").out
    assert f"* {second['version']}" in command("versions", "list", "shop", "--check").out
    command("recall", "shop", "--histories", "clicks.csv", "--output", "a.csv", "--quiet")
    assert first["version"] in command("versions", "rollback", "shop").out
    command("recall", "shop", "--histories", "clicks.csv", "--output", "b.csv", "--quiet")
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "b.csv").read_text()
    assert "flattered" not in command("versions", "list", "shop").out
    (tmp_path / "figures.json").write_text(json.dumps(json.loads(figures) | {"trained_on": 7}))
    command("export", "item-cf", "--output", "other", *words)
    listed = command("versions", "list", "other").out
    assert "flattered: it learned 7 of the histories scored" in listed


def test_an_evaluation_of_another_model_is_refused_and_leaves_nothing(command, models, tmp_path):
    said = command("evaluate", "popularity", "clicks.csv", "--json").out
    (tmp_path / "figures.json").write_text(said)
    words = ["export", "item-cf", "--output", "new/shop", "--registry"]
    refused = command(*words, "--evaluation", "figures.json", code=2).err
    assert "no evaluation of item-cf" in refused
    refused = command(*words, "--index", "hnsw", code=2).err
    assert not (tmp_path / "new").exists()


def test_items_taken_out_of_a_registry_are_a_version_of_their_own(command, tmp_path):
    with Registry.create(tmp_path / "shop").adding() as folder:
        write_shop(folder)
    command("versions", "promote", "shop")
    before = Registry(tmp_path / "shop").current
    assert "5 items" in command("items", "remove", "shop", "tea").out
    registry = Registry(tmp_path / "shop")
    assert registry.current != before
    assert [version.problem for version in registry.versions(every_byte=True)] == [None, None]
    assert registry.rollback() == (before, [])
    assert "6 items" in command("versions", "list", "shop").out
    command("items", "remove", "shop", "nobody", code=2)
    assert registry.current == before
    assert not list(registry.path.glob(".*"))


def test_a_damaged_version_is_told_in_a_sentence(command, models, tmp_path):
    command("export", "item-cf", "--output", "shop", "--registry")
    (path,) = (tmp_path / "shop").glob("*/scores-*.npy")
    path.write_bytes(path.read_bytes()[:-3])
    assert "damaged: " in command("versions", "list", "shop").out
    assert len(command("versions", "promote", "shop", code=2).err.strip().splitlines()) == 1
    assert "nothing is promoted" in command("serve", "shop", code=2).err


def test_advice_about_a_registry_can_be_followed(command, models):
    for words in (["--registry"], ["--registry", "versions"]):
        refused = command("export", "popularity", *words, code=2).err
        assert "--registry is a flag" in refused
    advised = refused.split("`groupnoise ")[1].split("`")[0]
    command(*advised.split())
    refused = command("versions", "promote", "versions", "zz", code=2).err
    advised = refused.split("`groupnoise ")[1].split("`")[0]
    assert "none of them is promoted" in command(*advised.split()).out


def test_a_version_of_another_shop_is_told_of_when_it_is_promoted(command, tmp_path):
    registry = Registry.create(tmp_path / "shop")
    for ids in (["a", "b", "c", "d", "e", "f"], list(range(6))):
        with registry.adding() as folder:
            write_shop(folder, ids=ids)
        said = command("versions", "promote", "shop")
    assert "knows 0% of the items of the other, which has such as 'a'" in said.err

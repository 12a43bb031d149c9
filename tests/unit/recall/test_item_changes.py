"""Items come into a finished artifact and leave it without training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.exceptions import DataError
from groupnoise.recall import IndexSpec, RecallOptions, open_artifact
from groupnoise.recall.artifact import add_index
from groupnoise.recall.item_changes import add_items, remove_items
from serving_support import CATEGORIES, IDS, write_neighbour_shop, write_random, write_shop

ALL = RecallOptions(top=6, exclude_seen=False)


def answers(folder: Path, history: list[object], options: RecallOptions = ALL) -> list[object]:
    model = open_artifact(folder, memory_map=False)
    return model.items.ids_of(model.recall([history], options).row(0)[0])


def test_a_removed_item_is_as_if_it_had_never_been_there(tmp_path: Path) -> None:
    shop, smaller = write_shop(tmp_path / "shop"), tmp_path / "smaller"
    version = remove_items(shop, ["cup"])
    keep = [row for row, each in enumerate(IDS) if each != "cup"]
    write_shop(smaller)
    model = open_artifact(shop, memory_map=False)
    assert model.version == version != open_artifact(smaller).version
    assert answers(shop, ["tea"])[:2] == ["tea", "spoon"]
    assert model.recall([["cup"]]).unknown == [["cup"]]
    assert [model.items.title_of(row) for row in range(5)] == [
        open_artifact(smaller).items.title_of(row) for row in keep
    ]
    assert model.items.category_of(0) == CATEGORIES[0]
    assert "cup" not in answers(shop, [])
    assert model.card["name"] == "Six items"


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_both_indexes_honour_removals(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("faiss")
    folder = write_random(tmp_path, 400)
    add_index(folder, IndexSpec(kind=kind))
    options = RecallOptions(top=10)
    gone = answers(folder, [7], options)[:5]
    remove_items(folder, gone)
    model = open_artifact(folder, memory_map=False)
    assert model.manifest["index"]["kind"] == kind
    assert model.manifest["index"]["recall"] >= 0.95
    for item in range(0, 400, 40):
        assert not set(answers(folder, [item], options)) & set(gone)


def test_neighbours_of_removed_items_go_too(tmp_path: Path) -> None:
    folder = write_neighbour_shop(tmp_path)
    assert answers(folder, ["tea"])[0] == "cup"
    remove_items(folder, ["cup"])
    assert answers(folder, ["spoon"])[0] == "hammer"
    assert "cup" not in answers(folder, ["tea"])


def test_items_that_clicks_are_held_against_keep_their_numbers(tmp_path: Path) -> None:
    rule = ScoringRule(weighting="contrastive", negatives=(1, 4))
    folder = write_shop(tmp_path, rule=rule)
    remove_items(folder, ["cup"])
    assert open_artifact(folder).manifest["scoring"]["negatives"] == [3]
    with pytest.raises(DataError, match=r"every item that .* holds clicks against"):
        remove_items(folder, ["nail"])


def test_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(DataError, match="has no item 'kettle' to remove"):
        remove_items(folder, ["tea", "kettle"])
    with pytest.raises(DataError, match=r"all 6 items of .* would be removed"):
        remove_items(folder, IDS)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.fixture
def described_shop(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    shelf = ["tea", "tools"]
    ids = [f"{shelf[number % 2]}{number}" for number in range(24)]
    histories = [
        generator.choice(ids[user % 2 :: 2], size=5, replace=False).tolist() for user in range(80)
    ]
    table = pl.DataFrame({"item": ids, "kind": [shelf[number % 2] for number in range(24)]})
    model = MaxMatchingRecommender(dim=6, max_epochs=3, encoder=None, linear=None, random_state=0)
    model.fit(histories, item_features=table)
    titles = [each.title() for each in model.items_.tolist()]
    model.export(tmp_path / "shop", titles=titles, categories=["shop"] * len(titles))
    return tmp_path / "shop"


def test_a_new_item_is_answered_after_its_kind(described_shop: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("item,kind,title\nkettle,tea,Kettle\nchisel,tools,Chisel\n")
    add_items(described_shop, new)
    options = RecallOptions(top=24)
    after_tea = answers(described_shop, ["tea0", "tea2"], options)
    assert after_tea.index("kettle") < after_tea.index("chisel")
    model = open_artifact(described_shop, memory_map=False)
    position = model.items.positions_of(["kettle"])[0]
    assert model.items.title_of(position) == "Kettle"
    assert model.items.popularity[position] == 0
    assert len(model.items) == 26
    assert not model.recall([["kettle"]]).unknown[0]


def test_what_cannot_be_added_is_said(described_shop: Path, tmp_path: Path) -> None:
    plain = write_shop(tmp_path / "plain")
    table = pl.DataFrame({"item": ["kettle"], "kind": ["tea"]})
    with pytest.raises(DataError, match="has learned nothing from features of items"):
        add_items(plain, table)
    with pytest.raises(DataError, match=r"'tea0' is in .* already, as are 1 of 2 in all"):
        add_items(described_shop, pl.DataFrame({"item": ["kettle", "tea0"], "kind": ["tea"] * 2}))
    with pytest.raises(DataError, match=r"'kettle' stands in .* too; give each item one row"):
        add_items(described_shop, pl.concat([table, table]))
    with pytest.raises(DataError, match="no column 'kind' that the model learned from"):
        add_items(described_shop, pl.DataFrame({"item": ["kettle"], "price": [3.0]}))


def test_a_new_item_stands_among_those_of_its_kind(tmp_path: Path) -> None:
    """After clicks on one kind of eight, an item of that kind that was added alone is near."""
    generator = np.random.default_rng(0)
    n_items, n_kinds = 160, 8
    histories = [
        generator.permutation(np.arange(user % n_kinds, n_items, n_kinds))[:8].tolist()
        for user in range(400)
    ]
    kinds = [f"kind{item % n_kinds}" for item in range(n_items)]
    table = pl.DataFrame({"item": range(n_items), "kind": kinds})
    model = MaxMatchingRecommender(dim=16, max_epochs=5, encoder=None, linear=None, random_state=0)
    model.fit(histories, item_features=table)
    model.export(tmp_path / "shop")
    add_items(tmp_path / "shop", pl.DataFrame({"item": [1000], "kind": ["kind3"]}))
    options = RecallOptions(top=n_items)
    ranks = [
        answers(tmp_path / "shop", histories[user][:4], options).index(1000)
        for user in range(3, 83, n_kinds)
    ]
    assert np.median(ranks) < n_items / n_kinds

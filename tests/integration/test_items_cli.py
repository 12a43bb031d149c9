"""`groupnoise fit --items` and `groupnoise items`, over real files and processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from click_journeys import QUICK, run
from groupnoise.exceptions import GroupNoiseError
from groupnoise.recall import open_artifact
from serving_support import write_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log, a table of items with one that nobody clicked, a model of both
    and its artifact."""
    folder = tmp_path_factory.mktemp("shop")
    generator = np.random.default_rng(0)
    rows = ["user,item,time"]
    for user in range(80):
        own = np.arange(user % 2, 24, 2)
        for time, item in enumerate(generator.choice(own, size=5, replace=False).tolist()):
            rows.append(f"u{user},i{item},{time}")
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    kinds = ["tea", "tools"]
    table = [f"i{n},{kinds[n % 2]}|shop,{kinds[n % 2].title()} {n}" for n in range(24)]
    items = ["item,category,title", *table, "i99,tea|shop,Kettle"]
    (folder / "items.csv").write_text("\n".join(items) + "\n")
    model, artifact = folder / "model", folder / "artifact"
    run(
        "fit",
        folder / "log.csv",
        "--setting",
        "rs",
        "-o",
        model,
        "--items",
        folder / "items.csv",
        *QUICK,
    )
    run("export", model, "--output", artifact, "--items", folder / "items.csv")
    return folder


def test_an_item_nobody_clicked_is_in_the_model_and_the_artifact(shop: Path) -> None:
    listed = run("items", "list", shop / "artifact").splitlines()
    assert listed[0] == "item\tclicks\ttitle\tcategories"
    assert "i99\t0\tKettle\ttea|shop" in listed
    assert len(run("items", "list", shop / "artifact", "--top", 3).splitlines()) == 4


def test_ids_and_titles_that_would_divide_a_line_are_spelt(tmp_path: Path) -> None:
    ids = ["a\tb", "c\nd", "back\\slash", "tea", "cup", "jam"]
    write_shop(tmp_path / "shop", ids=ids)
    listed = run("items", "list", tmp_path / "shop").splitlines()
    assert len(listed) == 7
    cells = [line.split("\t") for line in listed]
    assert all(len(each) == 4 for each in cells)
    assert [each[0] for each in cells[1:4]] == [r"a\tb", r"c\nd", r"back\\slash"]


def test_items_are_added_and_removed(shop: Path, tmp_path: Path) -> None:
    artifact = tmp_path / "artifact"
    run("export", shop / "model", "--output", artifact, "--items", shop / "items.csv")
    new = tmp_path / "new.csv"
    new.write_text("item,category,title\ni50,tools|shop,Chisel\n")
    said = run("items", "add", artifact, new).splitlines()[-1]
    assert said.startswith("added 1 item: 26 items, version")
    assert "i50\t0\tChisel\ttools|shop" in run("items", "list", artifact)
    gone = tmp_path / "gone.txt"
    gone.write_text("i50\ni3\n")
    said = run("items", "remove", artifact, "i1", "--file", gone)
    assert said.startswith("removed 3 items: 23 items, version")
    assert len(open_artifact(artifact).items) == 23


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("remove", "artifact"), "name the items to remove"),
        (("remove", "artifact", "i1000"), "has no item 'i1000' to remove"),
        (("remove", "artifact", "-f", "empty.txt"), "holds no item id; write one in each line"),
        (("add", "artifact", "items.csv"), "is in .* already, as are 25 of 25 in all"),
    ],
)
def test_what_cannot_be_done_is_said(
    shop: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    (shop / "empty.txt").write_text("\n")
    with pytest.raises(GroupNoiseError, match=message):
        run("items", *words)


@pytest.mark.parametrize(
    ("row", "n_cells"),
    [("i3,Saw", 2), ("i3", 1), ("i3,Saw,tools,9", 4), ("i3,Saw, small,tools", 4)],
)
def test_a_row_of_items_with_other_cells_than_the_first_is_named(
    shop: Path, tmp_path: Path, row: str, n_cells: int
) -> None:
    table = tmp_path / "items.csv"
    table.write_text(f"item,title,category\ni1,Tea,\n{row}\ni4,Cup,kitchen\n")
    said = f"{table}, line 3: {n_cells} cells? where the first line has 3; "
    for words in (
        ("export", shop / "model", "--output", tmp_path / "out", "--items", table),
        ("fit", shop / "log.csv", "--setting", "rs", "-o", tmp_path / "m", "--items", table),
    ):
        with pytest.raises(GroupNoiseError, match=said):
            run(*words)
    table.write_text("item,title,category,\ni1,Tea,\ni3,Saw,tools\n")  # a column of no name
    run("export", shop / "model", "--output", tmp_path / "out", "--items", table)


def test_an_error_about_a_registry_names_the_version_that_is_served(
    shop: Path, tmp_path: Path
) -> None:
    run("export", shop / "model", "--output", tmp_path / "registry", "--registry")
    run("versions", "promote", tmp_path / "registry")
    with pytest.raises(GroupNoiseError, match="has no item 'i1000' to remove") as refusal:
        run("items", "remove", tmp_path / "registry", "i1000")
    assert "unfinished" not in str(refusal.value)


def test_a_method_that_reads_no_items_says_so(shop: Path, tmp_path: Path) -> None:
    words = (
        "fit",
        shop / "log.csv",
        "--setting",
        "rs",
        "-o",
        tmp_path / "m",
        "--items",
        shop / "items.csv",
        "-q",
    )
    with pytest.raises(GroupNoiseError, match="--items goes with max-matching on clicks"):
        run(*words, "--method", "popularity")


def shop_with_own_names(folder: Path) -> Path:
    """Return an artifact of a shop whose log calls items `artikel`, and whose table `nr`."""
    generator = np.random.default_rng(0)
    rows = ["kunde,artikel,zeit"]
    for user in range(40):
        own = np.arange(user % 2, 24, 2)
        rows += [
            f"u{user},{item},{time}"
            for time, item in enumerate(generator.choice(own, size=5, replace=False).tolist())
        ]
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    items = ["nr,kind,price", *(f"{n},{('tea', 'tools')[n % 2]},{n % 5}.5" for n in range(24))]
    (folder / "items.csv").write_text("\n".join(items) + "\n")
    said = run(
        *("fit", folder / "log.csv", "--setting", "rs", "--user", "kunde", "--item", "artikel"),
        *("--time", "zeit", "-o", folder / "model", "--items", folder / "items.csv", *QUICK),
    )
    assert "took column 'nr' as the item, which most of its cells are" in said
    run("export", folder / "model", "--output", folder / "artifact")
    return folder / "artifact"


def test_the_ids_of_new_items_are_found_by_the_log_by_usual_names_or_as_the_only_unique_column(
    tmp_path: Path,
) -> None:
    artifact = shop_with_own_names(tmp_path)
    new = tmp_path / "new.csv"
    for number, (header, taken) in enumerate(
        [
            ("artikel,kind,price", "'artikel' as the item, as the log calls it"),
            ("sku,kind,price", "'sku' as the item"),
            ("id,kind,price", "'id' as the item"),
            ("nr,kind,price", "'nr' as the item: no other could name each row"),
        ]
    ):
        first = 100 + 2 * number
        new.write_text(f"{header}\n{first},tea,1.5\n{first + 1},tools,2.5\n")
        said = run("items", "add", artifact, new)
        assert f"took column {taken}" in said
        assert f"\n{first}\t0" in run("items", "list", artifact)
    new.write_text("nr,kind,price,title\n300,tea,1.5,Cup\n301,tools,2.5,Saw\n")
    with pytest.raises(GroupNoiseError, match=r"\(--item\)\. Each row .* in 'nr', 'title'\."):
        run("items", "add", artifact, new)
    assert "took" not in run("items", "add", artifact, new, "--item", "nr")


def test_a_table_that_describes_no_item_of_the_log_names_what_may_be_ids(tmp_path: Path) -> None:
    shop_with_own_names(tmp_path)
    (tmp_path / "items.csv").write_text("nr,kind\nx1,tea\nx2,tea\n")
    with pytest.raises(GroupNoiseError, match=r"holds items of the model.* Each row .* in 'nr'"):
        run(
            *("fit", tmp_path / "log.csv", "--setting", "rs", "--user", "kunde"),
            *("--item", "artikel", "--time", "zeit", "-o", tmp_path / "again"),
            *("--items", tmp_path / "items.csv", *QUICK),
        )


def test_new_items_are_shown_as_those_that_export_was_told_of(shop: Path, tmp_path: Path) -> None:
    own, new = tmp_path / "own.csv", tmp_path / "new.csv"
    table = (shop / "items.csv").read_text()
    own.write_text(table.replace("item,category,title", "item,category,label"))
    new.write_text("item,title,category,label\ni50,,tools|shop,Chisel\n")
    artifact = tmp_path / "artifact"
    run("export", shop / "model", "-o", artifact, "--items", own, "--title", "label")
    run("items", "add", artifact, new)
    assert "i50\t0\tChisel\ttools|shop" in run("items", "list", artifact)
    new.write_text("item,title,category,label,what\ni51,,tools|shop,,Saw\n")
    run("items", "add", artifact, new, "--title", "what")
    assert "i51\t0\tSaw\ttools|shop" in run("items", "list", artifact)


def test_titles_that_an_artifact_cannot_show_are_said_to_be_left_out(
    shop: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("item,category,title\ni50,tools|shop,Chisel\n")
    run("export", shop / "model", "-o", tmp_path / "plain")
    said = run("items", "add", tmp_path / "plain", new)
    for part in ("title", "category"):
        assert f"left out the {part} in column '{part}': the artifact has none" in said


def test_titles_and_categories_may_have_german_names(shop: Path, tmp_path: Path) -> None:
    table = (shop / "items.csv").read_text()
    items = tmp_path / "artikel.csv"
    items.write_text(table.replace("item,category,title", "item,Kategorie,Titel"))
    run("export", shop / "model", "-o", tmp_path / "artifact", "--items", items)
    assert "i99\t0\tKettle\ttea|shop" in run("items", "list", tmp_path / "artifact")


@pytest.mark.parametrize("kind", ["artifact", "registry"])
def test_an_export_says_which_added_items_it_drops(shop: Path, tmp_path: Path, kind: str) -> None:
    place, new = tmp_path / kind, tmp_path / "new.csv"
    new.write_text("item,category,title\ni50,tools|shop,Chisel\n")
    run("export", shop / "model", "-o", place, *(("--registry",) if kind == "registry" else ()))
    if kind == "registry":
        run("versions", "promote", place)
    run("items", "add", place, new)
    said = run("export", shop / "model", "-o", place)
    assert "1 item added to the artifact there, such as 'i50', is not in this one" in said
    assert f"run `groupnoise items add {place} new.csv` again" in said
    if kind == "artifact":
        assert "added" not in run("export", shop / "model", "-o", place)

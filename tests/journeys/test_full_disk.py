"""Every command that writes leaves nothing half-written on a full disk."""

import os
import shutil
import subprocess
import sys

import pytest

from groupnoise.cli import main
from journeys.own_files import bags_csv, clicks_csv, write_csv
from serving_support import IDS, write_shop

PAGE = 4096
VOTES = [(f"r{n}", "ab"[n % 2], "ab"[n % 3 > 0], "ab"[n % 5 > 1]) for n in range(40)]

WRITERS = {
    "fit": "fit clicks.csv --setting rs --method item-cf -o D/m -q",
    "fit over a model": "fit clicks.csv --setting rs --method item-cf -o D/old -q",
    "fit bags": "fit bags.csv --setting mil --method instance-lr -o D/m -q",
    "predict csv": "predict model clicks.csv -o D/p.csv",
    "predict jsonl": "predict model clicks.csv -o D/p.jsonl",
    "predict parquet": "predict model clicks.csv -o D/p.parquet",
    "evaluate": "evaluate model clicks.csv --per-user D/rows.csv",
    "export": "export model --output D/a",
    "export over an artifact": "export model --output D/shop",
    "export to a new registry": "export model --output D/new --registry",
    "export to a registry": "export other --output D/registry",
    "export to parquet": "export shop --output D/vectors --to parquet --scope last",
    "export to qdrant": "export shop --output D/vectors --to qdrant --scope last",
    "export to pgvector": "export shop --output D/vectors --to pgvector --scope last",
    "versions promote": "versions promote D/registry",
    "versions rollback": "versions rollback D/promoted",
    "items remove": "items remove D/shop tea",
    "items remove from a registry": "items remove D/promoted i10",
    "recall csv": "recall shop --histories asked.csv --output D/r.csv --quiet",
    "recall jsonl": "recall shop --histories asked.csv --output D/r.jsonl --quiet",
    "recall parquet": "recall shop --histories asked.csv --output D/r.parquet --quiet",
    "convert clicks": "data convert clicks.csv D/c --setting rs",
    "convert bags": "data convert bags.csv D/b --setting mil",
    "audit": "audit bags.csv --setting mil --model bag-model -o D/audit",
    "audit clean": "audit bags.csv --setting mil --model bag-model -o audit --clean D/clean.csv",
    "embed": "embed texts D/features",
    "heatmap": "heatmap bag-model bags.csv -o D/h.html",
    "describe": "data describe clicks.csv --setting rs --html D/page.html",
    "resolve": "resolve votes.csv -o D/labels.csv --reliability D/said.json --row row",
}


def run(capsys, monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["groupnoise", *words])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    return left.value.code or 0, said.out + said.err


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Data, models and artifacts to write from, on a disk with room."""
    folder = tmp_path_factory.mktemp("sources")
    clicks_csv(folder)
    bags_csv(folder)
    write_csv(folder / "votes.csv", ("row", "ann_1", "ann_2", "ann_3"), VOTES)
    asked = [(user, item) for user in range(200) for item in IDS[user % 3 : user % 3 + 3]]
    write_csv(folder / "asked.csv", ("user", "item"), asked)
    write_shop(folder / "shop")
    for name in ("one", "two"):
        (folder / "texts").mkdir(exist_ok=True)
        (folder / "texts" / f"{name}.txt").write_text("A cup of tea. A nail in a wall.")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (
            "fit clicks.csv --setting rs --method item-cf -o model -q",
            "fit clicks.csv --setting rs --method popularity -o other -q",
            "fit bags.csv --setting mil --method pairwise -p max_epochs=2 -o bag-model -q",
            "export model --output registry --registry",
            "export model --output promoted --registry",
            "versions promote promoted",
            "export other --output promoted",
            "versions promote promoted",
        ):
            patch.setattr(sys, "argv", ["groupnoise", *words.split()])
            with pytest.raises(SystemExit) as left:
                main()
            assert not left.value.code, words
    return folder


@pytest.fixture
def disk(tmp_path):
    """A disk of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs the rights of root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != "filler"
    }


def fill(folder, *, but):
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    with (folder / "filler").open("wb") as stream:
        stream.write(bytes(max(0, free - but * PAGE)))


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there(name, sources, disk, capsys, monkeypatch):
    monkeypatch.chdir(sources)
    for kept in ("shop", "registry", "promoted"):
        shutil.copytree(sources / kept, disk / kept)
    shutil.copytree(sources / "other", disk / "old")
    before = contents(disk)
    words = [word.replace("D/", f"{disk}/") for word in WRITERS[name].split()]
    for n_pages in (0, 1, 3):
        fill(disk, but=n_pages)
        code, said = run(capsys, monkeypatch, words)
        if code == 0 and n_pages:
            return  # it had room
        assert code == 2, said
        assert "no space left" in said, said
        assert contents(disk) == before

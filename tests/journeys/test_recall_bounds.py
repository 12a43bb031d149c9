"""What one history, one item or one full disk does to the rest of a recall: nothing."""

import subprocess
import sys

import numpy as np
import pytest

from click_journeys import read_answers, shop_histories, write_log
from groupnoise import MaxMatchingRecommender, load_model
from groupnoise.clicks.baselines import ItemCFRecommender

QUOTA = [sys.executable, "-B", "-c"]
"""A module compiled under a quota would be cut off, and fail whenever it is imported again."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    model = MaxMatchingRecommender(
        normalization="click",
        dim=8,
        max_epochs=2,
        n_negatives=8,
        learning_rate=0.05,
        random_state=0,
    ).fit(shop_histories())
    model.save(folder / "model")
    model.export(folder / "artifact")
    return folder, model


def test_one_long_history_changes_no_other_answer(shop, tmp_path, groupnoise):
    folder, model = shop
    asked = shop_histories(20, seed=3)[:20]
    rng = np.random.default_rng(0)
    endless = [f"item {n:02}" for n in rng.integers(40, size=5000)]
    for name, histories in {"short": asked, "mixed": [*asked[:10], endless, *asked[10:]]}.items():
        write_log(tmp_path / f"{name}.csv", histories)
        code, _, said = groupnoise(
            "recall", folder / "artifact", "--histories", f"{name}.csv", "--output",
            f"{name}.jsonl", "--top", 7, "--quiet",
        )  # fmt: skip
        assert code == 0, said
    short = list(read_answers(tmp_path / "short.jsonl").values())
    mixed = list(read_answers(tmp_path / "mixed.jsonl").values())
    assert mixed[:10] + mixed[11:] == short
    ids, _ = model.recommend([endless], top=7)
    assert mixed[10][0] == [item for item in ids[0].tolist() if item]


@pytest.mark.slow
def test_a_full_disk_during_export_leaves_nothing_behind(shop, tmp_path):
    folder, _ = shop
    target = tmp_path / "artifact"
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"sys.argv = ['groupnoise', 'export', {str(folder / 'model')!r}, '--output', "
        f"{str(target)!r}];"
        "from groupnoise.cli import main; main()"
    )
    done = subprocess.run([*QUOTA, code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    left = [path.name for path in target.rglob("*")] if target.exists() else []
    assert left == []


@pytest.mark.slow
def test_a_full_disk_during_export_leaves_the_old_artifact_as_it_was(shop, tmp_path):
    _folder, model = shop
    target = tmp_path / "artifact"
    model.export(target)
    before = {path.name: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    other = MaxMatchingRecommender(dim=8, max_epochs=1, n_negatives=8, random_state=5)
    other.fit(shop_histories()).save(tmp_path / "other")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"sys.argv = ['groupnoise', 'export', {str(tmp_path / 'other')!r}, '--output', "
        f"{str(target)!r}];"
        "from groupnoise.cli import main; main()"
    )
    done = subprocess.run([*QUOTA, code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    after = {path.name: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert after == before


def test_a_filter_sees_every_category_of_an_item(shop, tmp_path, groupnoise):
    folder, _model = shop
    lines = ["item,title,category"]
    lines += [f"item {n:02},Title {n},{'Drama|Comedy' if n % 2 else 'Comedy'}" for n in range(40)]
    (tmp_path / "items.csv").write_text("\n".join(lines) + "\n")
    code, _, said = groupnoise(
        "export", folder / "model", "--output", "artifact", "--items", "items.csv"
    )
    assert code == 0, said
    write_log(tmp_path / "asked.csv", [["item 01", "item 02"]])
    found = {}
    for category in ("Drama", "Comedy"):
        code, _, said = groupnoise(
            "recall", "artifact", "--histories", "asked.csv", "--output", f"{category}.jsonl",
            "--category", category, "--top", 40, "--quiet",
        )  # fmt: skip
        assert code == 0, said
        found[category] = set(read_answers(tmp_path / f"{category}.jsonl")["u0000"][0])
    assert len(found["Drama"]) == 19
    assert len(found["Comedy"]) == 38  # all but the two of the history
    write_log(tmp_path / "all.csv", [[f"item {n:02}" for n in range(40)]])
    asked = ("recall", "artifact", "--histories", "all.csv", "--output", "a.csv", "--quiet")
    _, said, _ = groupnoise(*asked)
    assert "1 history got no item: every item was seen; --no-exclude-seen" in said
    _, said, _ = groupnoise(*asked, "--category", "Drama")
    assert "1 history got no item: the filters leave none" in said


def test_a_recommender_is_exported_from_python(shop, tmp_path):
    folder, model = shop
    version = model.export(tmp_path / "again", titles=[f"Title of {i}" for i in model.items_])
    assert isinstance(version, str)
    assert (tmp_path / "again" / "manifest.json").is_file()
    load_model(folder / "model").export(tmp_path / "loaded")
    names = {p.name for p in (folder / "artifact").iterdir()}
    assert {p.name for p in (tmp_path / "loaded").iterdir()} == names


def test_load_model_opens_ours_and_baselines(tmp_path):
    ItemCFRecommender().fit(shop_histories()).save(tmp_path / "cf")
    assert load_model(tmp_path / "cf").recommend([["item 01"]], top=3)[0].shape == (1, 3)


@pytest.mark.parametrize("window", [5, 3])
def test_help_and_answers_say_how_many_clicks_are_used(window, tmp_path, groupnoise):
    model = MaxMatchingRecommender(
        normalization="click",
        dim=8,
        max_epochs=1,
        n_negatives=8,
        window_size=window,
        random_state=0,
    ).fit(shop_histories())
    model.export(tmp_path / "artifact")
    write_log(tmp_path / "asked.csv", shop_histories(3))
    code, out, _ = groupnoise(
        "recall", "artifact", "--histories", "asked.csv", "--output", "a.jsonl", "--quiet"
    )
    assert code == 0
    assert f"last {window} clicks" in out

"""`evaluate` never scores what was trained on without saying so."""

import json
import re
import shutil

import polars as pl
import pytest

from journeys.own_files import FILES, QUICK, click_rows, write_csv

UNITS = {"mil": "bags", "pll": "rows", "rs": "histories"}


KEPT = {}
"""By setting: several tests look at one fit, each at a copy of its own."""


@pytest.fixture(params=["mil", "pll", "rs"])
def trained(request, command, tmp_path, tmp_path_factory):
    """A model of each setting and the file it was trained on."""
    setting = request.param
    shape = {"mil": "csv", "pll": "bars", "rs": "csv"}[setting]
    path, _ = FILES[setting, shape](tmp_path)
    if setting not in KEPT:
        words = ["fit", path.name, "--setting", setting, "-o", "model", "-q", *QUICK[setting]]
        kept = tmp_path_factory.mktemp("kept") / "model"
        KEPT[setting] = kept, command(*words).out
        shutil.copytree(tmp_path / "model", kept)
    kept, said = KEPT[setting]
    shutil.copytree(kept, tmp_path / "model", dirs_exist_ok=True)
    return setting, path, said


def judge(command, path, setting, *words):
    judged = command("evaluate", "model", path.name, "--setting", setting, "--json", *words)
    return json.loads(judged.out)


def test_on_the_file_of_the_training_only_what_was_held_out_is_scored(command, trained):
    setting, path, said = trained
    assert "held out" in said
    assert "best epoch" not in said
    held = judge(command, path, setting)
    everything = judge(command, path, setting, "--on", "all")
    assert held["on"] == "held-out"
    assert held["trained_on"] == 0
    assert 0 < held["groups"] < everything["groups"]
    assert everything["trained_on"] == everything["groups"] - held["groups"]
    printed = command("evaluate", "model", path.name, "--setting", setting).out
    assert f"{held['groups']} {UNITS[setting]}" in printed
    assert "held out" in printed
    printed = command("evaluate", "model", path.name, "--setting", setting, "--on", "all").out
    assert f"{everything['trained_on']} of them trained on" in printed


def test_other_data_is_scored_whole(command, trained):
    setting, path, _ = trained
    lines = path.read_text().splitlines()
    other = path.with_name("other.csv")
    new = [line.replace("b0", "c0").replace("u", "v") for line in lines[1:]]
    if setting != "rs":  # other numbers
        new = [re.sub(r"\d\.\d", lambda found: f"{found[0]}7", line) for line in new]
    other.write_text("\n".join([lines[0], *new[: 2 * len(new) // 3]]) + "\n")
    judged = judge(command, other, setting)
    assert judged["on"] == "all"
    assert judged["trained_on"] == 0
    printed = command("evaluate", "model", other.name, "--setting", setting).out
    assert "none of them trained on" in printed
    refused = command(
        "evaluate", "model", other.name, "--setting", setting, "--on", "held-out", code=2
    )
    assert "held out" in refused.err


def test_a_part_of_the_training_data_is_recognised_group_by_group(command, trained):
    setting, path, _ = trained
    lines = path.read_text().splitlines()
    part = path.with_name("part.csv")
    part.write_text("\n".join(lines[: 2 * len(lines) // 3]) + "\n")
    judged = judge(command, part, setting)
    assert judged["on"] == "all"
    # All but what was held out, and perhaps the group that the cut went through.
    assert 0.7 * judged["groups"] < judged["trained_on"] < judged["groups"]
    printed = command("evaluate", "model", part.name, "--setting", setting).out
    assert f"{judged['trained_on']} of them trained on" in printed


def test_data_of_the_training_are_known_in_single_precision(command, trained):
    setting, path, _ = trained
    if setting == "rs":
        pytest.skip("clicks are no numbers")
    held = judge(command, path, setting)
    frame = pl.read_csv(path)
    frame = frame.with_columns(pl.col(pl.Float64).cast(pl.Float32))
    frame.write_parquet(path.with_name("single.parquet"))
    again = judge(command, path.with_name("single.parquet"), setting)
    assert (again["on"], again["groups"]) == ("held-out", held["groups"])
    frame[: len(frame) // 2].write_parquet(path.with_name("half.parquet"))
    half = judge(command, path.with_name("half.parquet"), setting)
    assert half["trained_on"] > 0


def test_a_model_that_held_nothing_out_says_so(command, trained):
    setting, path, _ = trained
    file = [path.name, "--setting", setting]
    command("fit", *file, "-o", "model", "-q", "--validation", 0, *QUICK[setting])
    assert "nothing was held out" in command("evaluate", "model", *file, code=2).err
    judged = judge(command, path, setting, "--on", "all")
    assert judged["trained_on"] == judged["groups"]


def test_an_item_that_is_always_new_is_a_miss_and_no_trained_click_takes_its_place(
    command, tmp_path
):
    path, _ = FILES["rs", "csv"](tmp_path)
    command("fit", path.name, "--setting", "rs", "-o", "model", "-q", *QUICK["rs"])
    rows = click_rows()
    ends = {user: (user, f"new-{user}", time + 60) for user, _, time in rows}
    later = write_csv(tmp_path / "later.csv", ("user", "item", "time"), [*rows, *ends.values()])
    judged = judge(command, later, "rs")
    assert judged["unknown_targets"] == judged["groups"] == len(ends)
    assert judged["full HIT@10"] == 0
    printed = command("evaluate", "model", "later.csv", "--setting", "rs").out
    assert f"{len(ends)} targets unknown to the model" in printed


def test_some_new_items_lower_the_score_by_as_much(command, tmp_path):
    path, _ = FILES["rs", "csv"](tmp_path)
    command("fit", path.name, "--setting", "rs", "-o", "model", "-q", *QUICK["rs"])
    rows = click_rows(seed=5)
    known = judge(command, write_csv(tmp_path / "a.csv", ("user", "item", "time"), rows), "rs")
    ends = {user: row for row, (user, *_) in enumerate(rows)}
    half = list(ends.values())[::2]
    for row in half:
        rows[row] = (rows[row][0], f"new-{row}", rows[row][2])
    mixed = judge(command, write_csv(tmp_path / "b.csv", ("user", "item", "time"), rows), "rs")
    assert mixed["unknown_targets"] == len(half)
    assert mixed["groups"] == known["groups"]
    assert mixed["full HIT@10"] <= len(ends) / 2 / len(ends)


def test_histories_are_scored_beside_popularity(command, tmp_path):
    path, _ = FILES["rs", "csv"](tmp_path)
    words = ["-p", "max_epochs=20", "-p", "dim=8"]
    command("fit", path.name, "--setting", "rs", "-o", "model", "-q", *words)
    judged = judge(command, path, "rs", "--on", "all")
    assert judged["full NDCG@10"] > judged["popularity"]["full NDCG@10"] > 0
    assert "popularity" in command("evaluate", "model", path.name, "--setting", "rs").out


def test_bags_are_scored_by_bag_and_instance_beside_the_majority(command, tmp_path):
    path, _ = FILES["mil", "csv"](tmp_path)
    file = [path.name, "--setting", "mil"]
    command("fit", *file, "-o", "model", "-q", "-p", "max_epochs=20")
    judged = judge(command, path, "mil", "--on", "all")
    for level in ("bag", "instance"):
        for metric in ("accuracy", "balanced accuracy", "AUROC", "average precision", "F1"):
            name = f"{level} {metric}"
            assert 0 <= judged[name] <= 1, name
            assert 0 <= judged["majority"][name] <= 1, name
        assert 0 <= judged[f"{level} calibration error"] <= 1
        assert judged[f"{level} log loss"] < judged["majority"][f"{level} log loss"]
    assert set(judged["per_class"]) == {"cat", "dog", "emu"}
    assert judged["bag AUROC"] > 0.9 > judged["majority"]["bag AUROC"]
    printed = command("evaluate", "model", *file).out
    assert "majority" in printed
    assert "instance AUROC" in printed
    # The majority is that of the bags trained on, however the bags scored are labelled.
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    shares = manifest["training_data"]["shares"]["bag"]["classes"]
    most = max(shares, key=shares.get)
    scored = judge(command, path, "mil")
    n_bags = {name: found["bags"] for name, found in scored["per_class"].items()}
    assert scored["majority"]["bag accuracy"] == pytest.approx(n_bags[most] / scored["groups"])
    assert "does not record" not in printed
    del manifest["training_data"]["shares"]
    (tmp_path / "model/manifest.json").write_text(json.dumps(manifest))
    assert (
        "majority: the most frequent label of the data scored here"
        in command("evaluate", "model", *file).out
    )


def test_candidates_are_scored_with_their_calibration(command, tmp_path):
    path, _ = FILES["pll", "bars"](tmp_path)
    command("fit", path.name, "--setting", "pll", "-o", "model", "-q", "-p", "max_epochs=20")
    judged = judge(command, path, "pll", "--on", "all")
    for metric in ("accuracy", "covering rate", "top-2 accuracy", "calibration error"):
        assert 0 <= judged[metric] <= 1
    assert judged["accuracy"] > 0.9 > judged["majority"]["accuracy"]
    assert judged["log loss"] < judged["majority"]["log loss"]
    assert judged["top-2 accuracy"] >= judged["accuracy"]


def test_figures_of_few_groups_are_said_to_say_little(command, trained):
    setting, path, _ = trained
    held = judge(command, path, setting)
    printed = command("evaluate", "model", path.name, "--setting", setting).out
    few = f"of {held['groups']} {UNITS[setting]}: says little"
    assert (few in printed) == (held["groups"] < 10)
    assert any(few in each for each in held.get("warnings", ())) == (held["groups"] < 10)
    assert "warnings" not in judge(command, path, setting, "--on", "all")

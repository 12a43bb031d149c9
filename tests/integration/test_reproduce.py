"""`groupnoise reproduce` on shipped data: rows, reports, resuming after a kill, clear errors."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from groupnoise.cli.app import main
from groupnoise.exceptions import ConfigError
from groupnoise.reproduce.files import read_recipe, read_result_file

RECIPE = """
setting = "pll"
datasets = ["digit-candidates", "yahoo-news"]

[protocol]
fractions = [0.6, 0.2, 0.2]
trials = 2
criteria = ["oracle", "approximated_accuracy"]

[paper]
encoder = "linear"
selection = "max"
normalize = "objects"
max_epochs = 3
learning_rate = [1e-2, 1e-3]

[ours]
encoder = "linear"
max_epochs = 3
n_members = 1

[baseline.pl-knn]

[published.digit-candidates.paper]
accuracy = 0.5
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "digits.toml"
    path.write_text(RECIPE)
    return path


def command(*words):
    return [sys.executable, "-m", "groupnoise", "reproduce", *map(str, words)]


@pytest.mark.slow
def test_a_recipe_gives_rows_and_reports_and_says_what_is_missing(recipe, tmp_path):
    finished = subprocess.run(
        command(recipe, "--json", tmp_path / "rows.json", "--jobs", 1, "--data-dir", tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "GROUPNOISE_DATA": str(tmp_path)},
    )
    assert finished.returncode == 0, finished.stderr
    assert "digits: 6 trials of a method, about" in finished.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    figures = {
        (row["method"], row["criterion"]): row for row in rows if row["metric"] == "accuracy"
    }
    assert set(figures) == {
        (method, criterion)
        for method in ("paper", "ours", "pl-knn")
        for criterion in ("oracle", "approximated_accuracy")
    }
    assert all(row["trials"] == 2 and row["std"] >= 0 for row in rows)
    assert all(row["mean"] > 0.5 for row in figures.values())
    page = (tmp_path / "runs/digits/report.html").read_text()
    assert "(paper: 0.500)" in (tmp_path / "runs/digits/report.md").read_text()
    assert "<script" not in page
    if "yahoo-news" in finished.stderr:  # absent on most machines
        assert "left out yahoo-news" in finished.stderr


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(recipe, tmp_path):
    words = command(recipe, "--jobs", 1, "--datasets", "digit-candidates", "--resume")
    log = tmp_path / "runs/digits/trials.jsonl"
    running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (log.is_file() and log.read_text().count("\n")):
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = log.read_text().splitlines()
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    after = log.read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) == 6
    origin = json.loads(after[0])["results"][0]["provenance"]
    assert {"code", "commit", "dirty", "versions", "processor", "threads", "load"} <= set(origin)


def test_kept_trials_are_repeated_and_a_changed_figure_is_found(recipe, tmp_path, groupnoise):
    few = ("--jobs", 1, "--methods", "pl-knn", "--datasets", "digit-candidates")

    def run(*more):
        return groupnoise("reproduce", recipe, *few, *more)

    code, _, said = run("--check", 2)
    assert code == 2
    assert "run it first without --check" in said
    assert run()[0] == 0
    code, shown, said = run("--check", 2)
    assert code == 0, said
    assert shown.count("same: ") >= 2
    assert "figures agree within 0.005" in shown
    assert "2 of them kept, about 0 s" in run("--resume")[2]
    log = tmp_path / "runs/digits/trials.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["results"][0]["metrics"]["accuracy"] += 0.1
        line["results"][0]["provenance"]["code"] = "another"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, shown, _ = run("--check", 1)
    assert code == 1
    assert "DIFFERS: digit-candidates, pl-knn" in shown
    assert "kept by other code" in shown
    assert "chosen by oracle: accuracy kept" in shown


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_a_trial_of_the_printed_tables_gives_the_same_again(data_directory, groupnoise):
    quick = ("--methods", "pl-knn", "--datasets", "lost", "--jobs", 1)
    kept = ("--kept", RESULTS / "reproduce_pll.json")
    code, shown, said = groupnoise("reproduce", "pll", "--check", 1, *kept, *quick)
    assert code == 0, shown + said
    assert "same: lost" in shown


@pytest.mark.parametrize("path", sorted(RESULTS.glob("reproduce_*.json")), ids=lambda p: p.stem)
def test_every_kept_table_holds_trials_that_can_be_repeated(path):
    name = path.stem.removeprefix("reproduce_").removesuffix("_final")
    recipe, trials = read_result_file(path, name)
    assert {each.method for each in trials} <= set(recipe.row_names)


def test_a_row_of_the_table_of_recommenders_gives_the_same_again(groupnoise):
    words = ("--kept", RESULTS / "recall_protocols.json", "--datasets", "shop")
    few = ("--methods", "popularity", "--protocol", "leave_one_out")
    code, shown, said = groupnoise("reproduce", "recall", "--check", 1, *words, *few)
    assert code == 0, shown + said
    assert "same: shop, leave_one_out, popularity, seed 0: full HIT@10 kept 0.1140" in shown
    assert groupnoise("reproduce", "demo", "--check", 1)[0] == 2


def test_a_file_that_keeps_no_trials_is_refused(tmp_path, groupnoise):
    (tmp_path / "rows.json").write_text("[1]")
    code, _, said = groupnoise("reproduce", "pll", "--check", 1, "--kept", "rows.json")
    assert code == 2
    assert "rows.json is not a result file of reproduce" in said
    rows = ("--kept", RESULTS / "unseen_bags.json", "--methods", "milr")
    code, _, said = groupnoise("reproduce", "unseen", "--check", 1, *rows)
    assert code == 2
    assert "trials of something else (got an unexpected keyword argument 'set')" in said
    code, _, said = groupnoise("reproduce", "unsen")
    assert code == 2
    assert "there is no recipe 'unsen' (did you mean 'unseen'?)" in said
    code, _, said = groupnoise("reproduce", "pll", "--kept", "rows.json")
    assert code == 2
    assert "--kept goes with --check" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("learning_rate", "learnin_rate"), "did you mean 'learning_rate'"),
        (("criteria", "criterea"), "did you mean 'criteria'"),
        (('"oracle"', '"orakle"'), "did you mean 'oracle'"),
        (("[baseline.pl-knn]", "[baseline.pl-nkk]"), "pl-nkk"),
        (('setting = "pll"', 'setting = "llp"'), "mil, pll or rs"),
        (('setting = "pll"', "setting ="), "TOML"),
    ],
)
def test_a_misspelt_recipe_is_refused_before_anything_runs(recipe, change, words):
    recipe.write_text(recipe.read_text().replace(*change))
    with pytest.raises(ConfigError.__mro__[1], match=words):
        read_recipe(recipe)


ORIGINALS = """
setting = "mil"
datasets = ["sival"]
stand_ins = { sival = ["digit-bags"] }
notes = ["made for a test"]

[protocol]
fractions = [0.6, 0.2, 0.2]
trials = 1
follow_test = true

[pairs]
step = 1

[paper]
selection = "max"
max_epochs = 2

[ours]
max_epochs = 2

[baseline.milr]
n_starts = 1
"""


def write_sival(folder, n_images=20):
    """Write images of two objects as the AMIL edition lays them out."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    names = "".join(f"f{number}: continuous.\n" for number in range(30))
    for task in ("Apple", "Book"):
        lines = []
        for name, place in (("Apple", 3.0), ("Book", -3.0)):
            for image, segment in product(range(n_images), (1, 2)):
                features = generator.normal(loc=place if segment == 1 else 0.0, size=30)
                values = ",".join(f"{value:.3f}" for value in features)
                is_object = int(name == task and segment == 1)
                lines.append(f"lamp_{name}_{image:02d},{segment},{values},{is_object}.")
        (folder / f"{task}.data").write_text("\n".join(lines) + "\n")
        (folder / f"{task}.names").write_text(f"0,1.\nbag_id: x.\nsegment_id: x.\n{names}")


def run(tmp_path, *words):
    (tmp_path / "data").mkdir(exist_ok=True)
    return subprocess.run(
        command(*words, "--jobs", 1, "--data-dir", tmp_path / "data"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "GROUPNOISE_DATA": str(tmp_path / "data"), "COLUMNS": "200"},
    )


@pytest.mark.slow
def test_the_original_runs_where_its_files_are_and_else_what_stands_in(tmp_path):
    recipe = tmp_path / "pairs.toml"
    recipe.write_text(ORIGINALS)
    without = run(tmp_path, recipe, "--json", tmp_path / "without.json")
    assert without.returncode == 0, without.stderr
    assert "left out sival" in without.stderr
    assert "In its place: digit-bags." in without.stderr
    write_sival(tmp_path / "data/mil/sival")
    present = run(tmp_path, recipe, "--json", tmp_path / "with.json")
    assert present.returncode == 0, present.stderr
    rows = json.loads((tmp_path / "with.json").read_text())
    assert {row["dataset"] for row in rows} == {"sival 1-2"}
    assert "left out" not in present.stderr
    assert "made for a test" in (tmp_path / "runs/pairs/report.md").read_text()
    page = (tmp_path / "runs/pairs/report.html").read_text()
    assert "Test accuracy while learning, sival 1-2" in page


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--trials", 2, "--seeds", "0:2"], "no --seeds beside"),
        (["--protocol", "leave_one_out"], "oracle, covering_rate"),
        (["--methods", "cc"], "has no method 'cc'"),
        (["--datasets", "lost"], "has no data set 'lost'"),
        (["--jobs", 0], "--jobs must be"),
        (["--data-dir", "nowhere"], "--data-dir must be a folder; nowhere is none"),
    ],
)
def test_options_that_do_not_fit_end_with_a_sentence(
    recipe, tmp_path, words, complaint, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["groupnoise", "reproduce", str(recipe), *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[2] / "src/groupnoise/reproduce/recipes").glob("*.toml")),
    ids=str,
)
def test_every_shipped_recipe_fits_the_code(path):
    assert {"paper", "ours"} <= set(read_recipe(path).rows)


def tiny(setting):
    """What a bag or candidate classifier is fitted on: two classes, four features."""
    generator = np.random.default_rng(0)
    if setting == "pll":
        candidates = np.array([[1, 0], [0, 1], [1, 1], [1, 0], [0, 1], [1, 1]])
        return generator.normal(size=(6, 4)).astype(np.float32), candidates
    bags = [generator.normal(size=(3, 4)).astype(np.float32) for _ in range(6)]
    return bags, np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("name", ["mil", "sival-ablation", "sival-pairs", "pll", "pll-noise"])
def test_every_row_of_a_shipped_recipe_can_be_fitted_on_every_set(name):
    folder = Path(__file__).parents[2] / "src/groupnoise/reproduce/recipes"
    recipe = read_recipe(folder / f"{name}.toml")
    fitted = set()
    for row, dataset in product(recipe.rows, recipe.all_datasets):
        method = recipe.method(row, dataset, quick=True)
        settings = {key: v for key, v in method.settings()[0].items() if key != "n_members"}
        if method.decides or (row, repr(settings)) in fitted:
            continue
        fitted.add((row, repr(settings)))
        if "n_neighbors" in settings:
            settings["n_neighbors"] = 1
        inputs, targets = tiny(recipe.setting)
        if method.supervised and recipe.setting == "mil":
            inputs, targets = np.concatenate(inputs), np.repeat(targets, 3)
        method.make(**settings, random_state=0).fit(inputs, targets)
    assert fitted

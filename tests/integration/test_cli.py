"""The command line as a user meets it: words, files and exit codes."""

import csv
import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import metadata

import numpy as np
import pytest

from groupnoise.cli import main


def groupnoise(*words, check=True):
    """Run a command in this process, whose libraries are loaded."""
    command = ["groupnoise", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as left:
            main()
    code = left.value.code or 0
    if check:
        assert code == 0, err.getvalue()
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


@pytest.mark.slow
def test_a_process_of_its_own_ends_with_the_same_codes_and_streams(tmp_path):
    for words, code in ((["methods", "--json"], 0), (["info", "nowhere"], 2)):
        command = [sys.executable, "-m", "groupnoise", *words]
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=tmp_path
        )
        assert finished.returncode == code
        here = groupnoise(*words, check=False)
        assert (finished.stdout, finished.stderr) == (here.stdout, here.stderr)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One small model per setting, trained from the command line."""
    folder = tmp_path_factory.mktemp("models")
    normalize = ["-p", "candidates=full", "-p", "normalization=click"]  # nothing to decide
    small = {
        "digit-bags": ("mil", ["--paper", "-p", "max_epochs=2"]),
        "digit-candidates": ("pll", ["--paper", "-p", "max_epochs=2"]),
        "shop": ("rs", ["-p", "max_epochs=1", "-p", "dim=8", *normalize]),
    }
    for data, (name, words) in small.items():
        said = groupnoise("fit", data, "-o", folder / name, "-q", *words).stdout
        assert "saved to" in said
    return folder


@pytest.mark.parametrize(
    ("name", "data", "metric"),
    [
        ("mil", "digit-bags", "instance accuracy"),
        ("pll", "digit-candidates", "accuracy"),
        ("rs", "shop", "sampled HIT@10"),
    ],
)
def test_a_model_is_evaluated_in_its_setting(models, name, data, metric):
    metrics = json.loads(groupnoise("evaluate", models / name, data, "--json").stdout)
    assert 0 < metrics[metric] <= 1


def test_predictions_become_a_table_of_any_form(models, tmp_path):
    groupnoise("predict", models / "mil", "digit-bags", "-o", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert set(rows[0]) == {"row", "bag", "label", "probability"}
    groupnoise("predict", models / "pll", "digit-candidates", "-o", tmp_path / "rows.jsonl")
    first = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    assert set(first) == {"row", "label", "probability", "best_candidate"}
    groupnoise("predict", models / "rs", "shop", "-o", tmp_path / "r.parquet", "--top", 3)
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(tmp_path / "r.parquet")
    assert table.columns == ["user", "rank", "item", "score", "source"]
    assert len(table) == 3 * 2000


def test_a_file_of_ones_own_is_fitted_and_its_labels_come_back(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["face,f1,f2,candidates,truth"]
    for row in range(40):
        name = ("ann", "bob")[row % 2]
        both = "ann|bob" if row % 3 else name
        first, second = rng.normal(size=2) + 4 * (row % 2)
        lines.append(f"{row},{first:.3f},{second:.3f},{both},{name}")
    path = tmp_path / "faces.csv"
    path.write_text("\n".join(lines) + "\n")
    model = tmp_path / "faces"
    said = groupnoise("fit", path, "--setting", "pll", "-o", model, "-q", "-p", "max_epochs=5")
    assert "candidates" in said.stderr  # what was guessed is told
    metrics = json.loads(groupnoise("evaluate", model, path, "--setting", "pll", "--json").stdout)
    assert metrics["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("words", "helpful"),
    [
        (["fit", "digit-bag", "-o", "x"], "digit-bags"),
        (["fit", "missing.csv", "-o", "x", "-p", "max_epoch=3"], "did you mean 'max_epochs'"),
        (["fit", "missing.csv", "-o", "x", "--method", "sasrek"], "did you mean 'sasrec'"),
        (["fit", "digit-bags", "-o", "x", "-p", "max_epochs"], "name=value"),
        (["fit", "digit-bags", "-o", "x", "-p", "random_state=5"], "--seed decides all randomness"),
        (["fit", "digit-bags", "-o", "x", "-p", "on_epoch=print"], "'on_epoch' cannot be given"),
        (["fit", "digit-bags", "-o", "x", "-p", "max_epochs=0"], "max_epochs"),
        (
            ["fit", "digit-bags", "-o", "x", "--method", "sasrec"],
            "max-matching, max-matching-mipl, instance-lr, milr",
        ),
        (["fit", "shop", "-o", "x", "--method", "popularity", "--paper"], "--paper"),
        (["evaluate", "nowhere", "shop"], "there is no folder nowhere"),
        (["info", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(words, helpful, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = groupnoise(*words, check=False)
    assert finished.returncode == 2
    assert helpful in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1
    assert "Traceback" not in finished.stderr
    assert not (tmp_path / "x").exists()


def test_data_of_another_setting_is_refused(models):
    finished = groupnoise("evaluate", models / "mil", "shop", check=False)
    assert finished.returncode == 2
    assert "trained on mil data" in finished.stderr


def test_a_rival_is_fitted_by_name_and_loaded_by_kind(tmp_path):
    model = tmp_path / "baseline"
    groupnoise("fit", "digit-candidates", "-o", model, "--method", "pl-knn", "-q")
    assert "PLKNNClassifier" in groupnoise("info", model).stdout
    metrics = json.loads(groupnoise("evaluate", model, "digit-candidates", "--json").stdout)
    assert metrics["accuracy"] > 0.8


def test_info_shows_parameters_without_loading_weights(models):
    assert "max_epochs = 1" in groupnoise("info", models / "rs").stdout


def test_methods_lists_every_rival_with_its_parameters():
    rows = json.loads(groupnoise("methods", "--json").stdout)
    assert {row["setting"] for row in rows} == {"mil", "pll", "rs"}
    assert all(row["paper"] for row in rows)
    assert [row["name"] for row in rows if not row["parameters"]] == ["popularity"]
    assert {"paloc", "sure", "imil", "sasrec"} <= {row["name"] for row in rows}


def test_doctor_reports_versions_extras_and_threads():
    report = json.loads(groupnoise("doctor", "--json").stdout)
    assert report["versions"]["torch"]
    extras = metadata("groupnoise").get_all("Provides-Extra") or []
    assert set(report["extras"]) == set(extras) - {"all", "dev", "docs"}
    assert report["torch_threads"] >= 1


def test_help_loads_no_large_library():
    large = "{'torch', 'numpy', 'polars'}"
    code = f"import sys, groupnoise.cli; sys.exit(bool({large} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_log_smaller_than_the_sampled_protocol_is_fitted_and_evaluated(tmp_path):
    path = tmp_path / "clicks.csv"
    rows = [f"u{user},{item},{step}" for user in range(9) for step, item in enumerate("abca")]
    path.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    model = tmp_path / "model"
    words = ["--setting", "rs", "-q", "--validation", 0.5, "-p", "max_epochs=1", "-p", "dim=4"]
    groupnoise("fit", path, "-o", model, *words)
    metrics = json.loads(groupnoise("evaluate", model, path, "--setting", "rs", "--json").stdout)
    named = {name for name in metrics if "@" in name}
    assert {"full HIT@10", "full NDCG@10"} <= named
    assert not [name for name in named if "sampled" in name or "coverage" in name]

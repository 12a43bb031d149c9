"""`groupnoise demo` as a user runs it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_quick_demo_writes_rows_and_a_page_that_stands_alone(tmp_path):
    words = ["demo", "--quick", "--json", "out/rows.json", "--jobs", "2"]
    finished = subprocess.run(
        [sys.executable, "-m", "groupnoise", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    rows = json.loads((tmp_path / "out/rows.json").read_text(encoding="utf-8"))
    assert {tuple(row) for row in rows} == {
        ("setting", "dataset", "method", "metric", "mean", "std", "trials", "criterion")
    }
    assert {row["setting"] for row in rows} == {"mil", "pll", "rs"}
    assert len(rows) == 6 * (2 + 2 + 3)
    assert all(0 <= row["mean"] <= 1 and row["trials"] == 1 for row in rows)

    page = (tmp_path / "runs/demo/report.html").read_text(encoding="utf-8")
    assert "groupnoise demo --quick" in page
    assert not any(outside in page for outside in ("<script", "<link", "<img", "http:", "https:"))
    for heading in ("Bags of digits", "Candidate labels", "A simulated shop", "chosen right"):
        assert heading in finished.stdout
    assert "runs/demo/report.html" in finished.stdout
    assert "Supervised" in finished.stderr  # the progress bars


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "five"], "--seeds takes a range like 0:5"),
        (["--seeds", "3:3"], "--seeds must name at least one seed"),
        (["--seeds", "1,1"], "each once"),
        (["--settings", "mil,clicks"], "must be one of 'mil', 'pll', 'rs'; got 'clicks'"),
        (["--jobs", "0"], "--jobs must be a whole number of at least 1"),
        (["--output", "taken"], "taken is a file"),
    ],
)
def test_bad_arguments_end_with_one_sentence_and_exit_code_2(
    arguments, sentence, groupnoise, tmp_path
):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    code, _, said = groupnoise("demo", *arguments)
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()

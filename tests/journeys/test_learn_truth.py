"""Right labels of some rows, from a column with gaps: `groupnoise fit --learn-truth`."""

import numpy as np
import pandas as pd
import pytest

from groupnoise import load_model
from journeys.own_files import write_csv

NAMES = np.array(list("abcd"))


@pytest.fixture
def pairs_csv(tmp_path):
    """Rows whose candidates always come in the same pairs; 60 of 240 have a right label."""
    generator = np.random.default_rng(0)
    truth = np.arange(240) % 4
    features = 2 * np.eye(4)[truth] + 0.4 * generator.normal(size=(240, 4))
    rows = [
        [*map("{:.4f}".format, row), "a|b" if y < 2 else "c|d", NAMES[y] if n % 16 < 4 else ""]
        for n, (row, y) in enumerate(zip(features, truth, strict=True))
    ]
    names = [*(f"f{k}" for k in range(4)), "candidates", "checked"]
    return write_csv(tmp_path / "rows.csv", names, rows), features, truth


def test_a_column_of_right_labels_with_gaps_teaches_rows(command, pairs_csv, tmp_path):
    path, features, truth = pairs_csv
    rows, right = pd.DataFrame(features, columns=[f"f{k}" for k in range(4)]), {}
    for name, more in (("plain", ["--truth"]), ("taught", ["--learn-truth"])):
        words = ["--setting", "pll", *more, "checked", "-p", "encoder=kernel", "-q"]
        done = command("fit", path, "-o", tmp_path / name, *words)
        assert ("learning from" in done.err) == (name == "taught")
        right[name] = np.mean(load_model(tmp_path / name).predict(rows) == NAMES[truth])
    assert right["taught"] > 0.95 > right["plain"]
    assert "accuracy" in command("evaluate", tmp_path / "taught", path).out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--truth", "candidates"], "name two columns of right labels"),
        (["--method", "pl-knn"], "--learn-truth goes with max-matching"),
    ],
)
def test_what_cannot_learn_from_right_labels_is_refused(
    command, pairs_csv, tmp_path, words, sentence
):
    path = pairs_csv[0]
    done = command(
        "fit", path, "-o", tmp_path / "m", "--setting", "pll", "--learn-truth", "checked", *words,
        code=2,
    )  # fmt: skip
    assert sentence in " ".join(done.err.split())


def test_bags_learn_from_what_the_desk_exported(command, tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        [f"b{bag}", "xy"[bag % 2], *generator.normal(size=2).round(3)]
        for bag in range(16)
        for _ in range(3)
    ]
    write_csv(tmp_path / "bags.csv", ["bag", "label", "f0", "f1"], rows)
    lines = [[f"b{bag}", "xy"[bag % 2], ["", 0, 2][bag % 3], "ann"] for bag in range(16)]
    write_csv(tmp_path / "export.csv", ["bag", "label", "object", "answered_by"], lines)
    words = ["-q", "-p", "max_epochs=2", "--learn-truth", "export.csv", "--validation", "0"]
    said = " ".join(command("fit", "bags.csv", "-o", "model", *words).err.split())
    assert "left out 6 bags of which no object carries the label, by the answers" in said
    assert "learning from 10 right labels of 'export.csv'" in said
    said = " ".join(command("fit", "export.csv", "-o", "other", code=2).err.split())
    assert "fit the bags themselves, with --learn-truth export.csv" in said

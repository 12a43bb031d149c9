"""`calibrate` makes probabilities honest, and `evaluate` knows by what."""

import shutil

import numpy as np
import pytest

from groupnoise import load_model
from journeys.own_files import write_csv


def row_table(path, n_rows, seed, wrong=0.0):
    """Rows of two classes; of some the only candidate is the wrong one."""
    rng = np.random.default_rng(seed)
    is_cat = np.arange(n_rows) % 2 == 0
    rows = np.round(rng.normal(size=(n_rows, 2)) * 0.4 + np.where(is_cat, 2, -2)[:, None], 4)
    named = is_cat ^ (rng.random(n_rows) < wrong)
    cells = [("cat" if cat else "dog", *row) for cat, row in zip(named, rows.tolist(), strict=True)]
    return write_csv(path, ("candidates", "f0", "f1"), cells)


KEPT = []
"""Several tests look at one fit, each at a copy of its own."""


@pytest.fixture
def overconfident(command, tmp_path, tmp_path_factory):
    """A model of clean rows, and rows of which every fourth has the wrong label."""
    row_table(tmp_path / "clean.csv", 60, seed=0)
    row_table(tmp_path / "wrong.csv", 120, seed=1, wrong=0.25)
    if not KEPT:
        command("fit", "clean.csv", "--setting", "pll", "-o", "model", "-q", "-p", "max_epochs=20")
        KEPT.append(tmp_path_factory.mktemp("kept") / "model")
        shutil.copytree(tmp_path / "model", KEPT[0])
    shutil.copytree(KEPT[0], tmp_path / "model", dirs_exist_ok=True)


def test_evaluate_warns_exactly_where_it_scores_what_a_model_was_calibrated_by(
    command, overconfident, tmp_path
):
    assert "are calibrated" in command("calibrate", "model", "wrong.csv", "-o", "honest").out
    said = command("evaluate", "honest", "wrong.csv").err
    assert "honest was calibrated on 120 of the 120 rows scored" in said
    assert "calibrated" not in command("evaluate", "honest", "clean.csv").err
    assert "calibrated" not in command("evaluate", "model", "wrong.csv").err
    half = (tmp_path / "wrong.csv").read_text().splitlines()[:61]
    (tmp_path / "half.csv").write_text("\n".join(half))
    assert "on 60 of the 60 rows" in command("evaluate", "honest", "half.csv").err


def test_a_second_calibration_forgets_nothing_of_the_first(command, overconfident, tmp_path):
    command("calibrate", "model", "wrong.csv", "-o", "honest")
    row_table(tmp_path / "again.csv", 120, seed=2, wrong=0.25)
    said = command("calibrate", "honest", "again.csv", "-o", "twice").out
    assert "on 120 of" in command("evaluate", "twice", "wrong.csv").err
    is_used = "on 120 of" in command("evaluate", "twice", "again.csv").err
    assert is_used == ("are calibrated" in said)


def test_a_model_calibrated_from_python_does_not_say_by_what(command, overconfident, tmp_path):
    command("calibrate", "model", "wrong.csv", "-o", "honest")
    load_model(tmp_path / "honest").save(tmp_path / "from_python")
    said = command("evaluate", "from_python", "clean.csv", "--on", "all").err
    assert "was calibrated on unrecorded rows" in said

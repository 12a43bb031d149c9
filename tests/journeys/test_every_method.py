"""Every method by name is fitted on a file, scored on what it held out, and asked."""

import json

import pytest

from groupnoise.reproduce.methods import METHODS, parameters_of
from journeys.own_files import FILES, read_csv

SHAPES = {"mil": "csv", "pll": "bars", "rs": "csv"}
SMALL = {"max_epochs": 2, "dim": 8}


def names(entry):
    return f"{entry.setting}-{entry.name}"


@pytest.mark.parametrize("entry", METHODS, ids=names)
def test_a_method_by_name_goes_the_whole_way(command, tmp_path, entry):
    path, _ = FILES[entry.setting, SHAPES[entry.setting]](tmp_path)
    known = parameters_of(entry)
    small = [f"{name}={value}" for name, value in SMALL.items() if name in known]
    words = ["fit", path.name, "--setting", entry.setting, "--method", entry.name, "-o", "model"]
    words += ["-q", *(word for pair in small for word in ("-p", pair))]
    if entry.name == "noisy-labels":  # it takes one label a row, and says so
        assert "single labels are wanted" in command(*words, code=2).err
        return
    command(*words)
    judged = json.loads(command("evaluate", "model", path.name, "--json").out)
    assert judged["on"] == "held-out"
    assert judged["trained_on"] == 0
    command("predict", "model", path.name, "-o", "answers.csv")
    assert read_csv(tmp_path / "answers.csv")

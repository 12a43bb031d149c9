"""A manifest may come from anywhere: what it says of the training is checked before it is used."""

import json

import pytest

from groupnoise.exceptions import ModelFileError
from groupnoise.io.folders.training_record import (
    CALIBRATED,
    KEY,
    TrainingRecord,
    read_calibration_record,
    read_training_record,
    write_training_record as write,
)

RECORD = TrainingRecord("bags", "mil", "abc", 10, [1, 4], {"group": "bag"})


@pytest.fixture
def model(tmp_path):
    manifest = {"format": "groupnoise-model", "format_version": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_a_record_comes_back_as_it_was(model):
    assert read_training_record(model) is None
    write(model, RECORD)
    assert read_training_record(model) == RECORD
    assert json.loads((model / "manifest.json").read_text())["format"] == "groupnoise-model"


@pytest.mark.parametrize(
    "change",
    [
        {"held_out": [10]},
        {"held_out": [-1]},
        {"held_out": "all"},
        {"held_out": {}},
        {"earlier": "abc"},
        {"added": {"abc": 1}},
        {"n_groups": None},
        {"name": 3},
        {"options": []},
        {"trained": "no base 64!"},
        {"trained": "YWJj"},
        {"trainings": [{"step": "trained on"}]},
        {"trainings": ["yesterday"]},
        {"trainings": 3},
    ],
    ids=str,
)
def test_an_odd_record_is_refused_in_a_sentence(model, change):
    write(model, RECORD)
    manifest = json.loads((model / "manifest.json").read_text())
    manifest[KEY] |= change
    (model / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="restore or refit it"):
        read_training_record(model)


@pytest.mark.parametrize("odd", [3, {"n_groups": 3}, {"n_groups": 1, "groups": "YWJj"}], ids=str)
def test_an_odd_record_of_a_calibration_is_refused_in_a_sentence(model, odd):
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "manifest.json").write_text(json.dumps({**manifest, CALIBRATED: odd}))
    with pytest.raises(ModelFileError, match="calibrate it again"):
        read_calibration_record(model)

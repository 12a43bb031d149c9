"""What `info` says of whole and of damaged model folders."""

import json

import pytest

from groupnoise.cli.info import info
from groupnoise.clicks.baselines import PopularityRecommender
from groupnoise.exceptions import ModelFileError

LACKS = object()


@pytest.fixture
def model(tmp_path):
    PopularityRecommender().fit([["tea", "jam"], ["jam"]]).save(tmp_path / "model")
    return tmp_path / "model"


def alter(model, name, value):
    manifest = json.loads((model / "manifest.json").read_text())
    manifest[name] = value
    if value is LACKS:
        del manifest[name]
    (model / "manifest.json").write_text(json.dumps(manifest))


def test_a_whole_model_is_described(model, capsys):
    alter(model, "parameters", {"scope": "auto"})
    alter(model, "trade_off", {"scope": "last"})
    info(model)
    said = capsys.readouterr().out
    assert said.startswith("PopularityRecommender, groupnoise")
    assert "scope = 'auto', which chose 'last'" in said


@pytest.mark.parametrize("name", ["parameters", "history", "trade_off"])
def test_what_a_rival_leaves_out_is_empty(model, name, capsys):
    alter(model, name, None)
    info(model)
    assert "epochs   0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kind", LACKS, "no str under 'kind'"),
        ("kind", 5, "no str under 'kind'"),
        ("weights", LACKS, "no dict under 'weights'"),
        ("weights", None, "no dict under 'weights'"),
        ("weights", "w", "no dict under 'weights'"),
        ("parameters", [1], "no dict under 'parameters'"),
        ("history", {"a": 1}, "no list under 'history'"),
        ("history", 5, "no list under 'history'"),
        ("trade_off", "x", "no dict under 'trade_off'"),
    ],
)
def test_parts_of_another_type_are_refused(model, name, value, message):
    alter(model, name, value)
    with pytest.raises(ModelFileError, match=message):
        info(model)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "..", "", "a\0b", "x" * 5000, None])
def test_no_file_outside_the_folder_is_looked_at(model, name):
    alter(model, "weights", {"file": name})
    with pytest.raises(ModelFileError, match="does not name a weights file of its own folder"):
        info(model)

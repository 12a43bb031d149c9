"""What `info` says of whole and of damaged model folders."""

import json

import pytest

from groupnoise import MaxMatchingRecommender
from groupnoise.cli.info import info
from groupnoise.clicks.baselines import PopularityRecommender
from groupnoise.exceptions import ModelFileError
from groupnoise.io.folders.training_record import (
    TrainingRecord,
    training_entry,
    write_training_record,
)

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
    assert "model: PopularityRecommender" in said.splitlines()[0]
    assert "scope = 'auto', which chose 'last'" in said
    assert "not recorded: it was saved from Python" in said


def test_weights_that_are_missing_are_said_to_be(model, capsys):
    for weights in model.glob("*.safetensors"):
        weights.unlink()
    info(model)
    assert ".safetensors, which is missing" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["parameters", "history", "trade_off"])
def test_what_a_rival_leaves_out_is_empty(model, name, capsys):
    alter(model, name, None)
    info(model)
    assert "epoch" not in capsys.readouterr().out


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


@pytest.fixture
def decided(tmp_path):
    """A recommender whose fit chose by itself, among settings of one epoch."""
    histories = [[f"i{(user + step) % 9}" for step in range(5)] for user in range(60)]
    fitted = MaxMatchingRecommender(max_epochs=1, dim=4, random_state=3).fit(histories)
    fitted.save(tmp_path / "decided")
    return tmp_path / "decided"


def lines_of(capsys, *words, **options):
    info(*words, **options)
    return capsys.readouterr().out.splitlines()


def test_only_what_was_given_is_listed_and_all_on_request(decided, capsys):
    said = lines_of(capsys, decided)
    given = said[said.index("parameters that were given") + 1 :]
    assert given[:3] == ["  dim = 4", "  max_epochs = 1", "  random_state = 3"]
    assert given[3].endswith("others at their defaults (--all shows them)")
    everything = lines_of(capsys, decided, show_all=True)
    assert "  schedule = 'linear'" in everything
    assert "--all" not in " ".join(everything)


def test_the_seed_that_fit_sets_by_itself_is_no_parameter_that_was_given(decided, capsys):
    entry = training_entry("trained on", "log.csv", "60 rows", "kept")
    write_training_record(decided, TrainingRecord("log", "rs", "a", 60, trainings=[entry]))
    manifest = json.loads((decided / "manifest.json").read_text())
    manifest["parameters"]["random_state"] = 0
    (decided / "manifest.json").write_text(json.dumps(manifest))
    assert not any("random_state" in line for line in lines_of(capsys, decided))
    assert "  random_state = 0" in lines_of(capsys, decided, show_all=True)


def test_columns_are_named_by_their_parts(decided, capsys):
    options = {"user": "who", "item": "what", "time": "when", "separator": ";"}
    write_training_record(decided, TrainingRecord("log", "rs", "a", 60, options=options))
    assert "columns: user who; item what; time when" in lines_of(capsys, decided)
    manifest = json.loads((decided / "manifest.json").read_text())
    manifest["fitted"]["feature_names_in"] = [f"f{number}" for number in range(20)]
    (decided / "manifest.json").write_text(json.dumps(manifest))
    (line,) = (each for each in lines_of(capsys, decided) if each.startswith("columns: "))
    assert line.endswith(
        "; features f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, ... (20 in all)"
    )
    assert lines_of(capsys, decided, show_all=True)[2].endswith("f18, f19")


def test_settings_are_told_in_words_and_what_they_reach_beside_popularity(decided, capsys):
    said = lines_of(capsys, decided)
    assert any(line.startswith("decided by fit, which tried ") for line in said)
    tried = " ".join(lines_of(capsys, decided, show_all=True))
    assert "both: the average of a network that reads clicks in order and item embeddings" in tried
    (reached,) = [line for line in said if line.startswith("held-out score of this setting: ")]
    assert "; baseline popularity 0." in reached


def test_updates_are_listed_and_decisions_are_those_of_the_first_fit(decided, capsys):
    entry = training_entry("trained on", "log.csv", "60 rows", "kept")
    record = TrainingRecord("log", "rs", "a", 60, trainings=[entry])
    for night in range(7):
        entry = training_entry("updated with", f"night{night}.csv", "3 new clicks", "9 items stay")
        record = TrainingRecord(
            "log", "rs", f"b{night}", 60, added=[f"n{night}"], trainings=[entry]
        ).after(record)
    write_training_record(decided, record)
    said = lines_of(capsys, decided)
    assert said[1].startswith("trained on log.csv, 20")
    assert said[1].endswith(" UTC: 60 rows; kept")
    assert said[2] == "... 2 earlier updates, which --all shows"
    assert [line.split(",")[0] for line in said[3:8]] == [
        f"updated with night{night}.csv" for night in range(2, 7)
    ]
    assert "decided by the first fit (updates keep its settings), which tried" in " ".join(said)
    assert any(
        line.startswith("held-out score of this setting before the updates: ") for line in said
    )
    assert any("night0.csv" in line for line in lines_of(capsys, decided, show_all=True))

"""`groupnoise export --to`: files for the engines people already run, from the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from click_journeys import shop_histories, write_log
from groupnoise.cli.app import app
from groupnoise.exceptions import MissingExtraError, ParameterError
from groupnoise.recall import RecallOptions, Registry, open_artifact, query_vectors
from serving_support import add, write_neighbour_shop, write_shop


def run(*words):
    answer = CliRunner().invoke(app, list(map(str, words)))
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    log = write_log(folder / "log.csv", shop_histories())
    small = [word for one in ("dim=8", "max_epochs=2", "linear=null") for word in ("-p", one)]
    run("fit", log, "--setting", "rs", "-o", folder / "model", "-q", *small, "--budget", "5s")
    return folder / "model"


def test_a_fitted_model_is_written_for_qdrant_as_its_artifact_answers(fitted, tmp_path):
    run("export", fitted, "--output", tmp_path / "artifact")
    answer = run("export", fitted, "--to", "qdrant", "--output", tmp_path / "out")
    assert "about.json says what an engine cannot know" in answer.stdout
    model = open_artifact(tmp_path / "artifact")
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["version"] == model.version
    assert len(about["lost"]) > 3
    points = json.loads((tmp_path / "out" / "points-000000.json").read_text())["points"]
    rows = np.array([point["vector"] for point in points], dtype=np.float32)
    best = int((query_vectors(model, [["item 03", "item 05"]]) @ rows.T).argmax())
    expected = model.items.ids_of(np.array([best]))
    assert points[best]["payload"]["item"] == expected[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifact", "out"]


def test_an_artifact_is_written_for_an_engine_too(tmp_path):
    write_shop(tmp_path / "shop")
    words = ["export", tmp_path / "shop", "--output", tmp_path / "out", "--to", "pgvector"]
    with pytest.raises(ParameterError, match="--scope last"):
        run(*words)
    run(*words, "--scope", "last")
    assert "query vector(3)" in (tmp_path / "out" / "table.sql").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "redis"], "to must be one of"),
        (["--to", "qdrant", "--index", "ivf"], "goes with an artifact, not with --to"),
        (["--scope", "last"], "--scope goes with --to"),
        (["--to", "mlflow", "--scope", "last"], "predict takes it"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, words, sentence):
    write_shop(tmp_path / "shop")
    with pytest.raises(ParameterError, match=sentence):
        run("export", tmp_path / "shop", "--output", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("write", [write_shop, write_neighbour_shop])
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_opens_the_model_and_predicts(tmp_path, write):
    pytest.importorskip("mlflow.pyfunc", reason="the extra mlflow is not installed")
    import mlflow
    import pandas

    artifact = write(tmp_path / "shop")
    run("export", artifact, "--to", "mlflow", "--output", tmp_path / "out")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix == ".pkl"]
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "out"))
    answers = loaded.predict(pandas.DataFrame({"items": [["tea"], []]}))
    own = open_artifact(artifact)
    expected = own.recall([["tea"], []])
    assert answers[0]["items"] == own.items.ids_of(expected.row(0)[0])
    assert answers[1]["source"] == "popularity"
    with pytest.raises(Exception, match="column `items`"):
        loaded.predict(pandas.DataFrame({"clicks": [["tea"]]}))
    # Options reach the model: MLflow drops parameters that a model does not name.
    first = answers[0]["items"][0]
    table = pandas.DataFrame({"items": [["tea"]]})
    (fewer,) = loaded.predict(table, params={"top": 1, "deny": [first]})
    assert len(fewer["items"]) <= 1
    assert first not in fewer["items"]
    chosen = {"filter": '{"not": {"category": "kitchen"}}', "exclude_seen": False}
    (filtered,) = loaded.predict(table, params=chosen)
    kitchen = own.recall([["tea"]], RecallOptions(categories=("kitchen",), exclude_seen=False))
    assert not set(filtered["items"]) & set(own.items.ids_of(kitchen.row(0)[0]))
    with pytest.raises(Exception, match="scope must be"):
        loaded.predict(table, params={"scope": "none"})


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_gets_the_promoted_version_alone(tmp_path):
    pytest.importorskip("mlflow.pyfunc", reason="the extra mlflow is not installed")
    import mlflow

    registry = Registry.create(tmp_path / "registry")
    versions = [add(registry, scale) for scale in (1, 2)]
    registry.promote(versions[1])
    run("export", registry.path, "--to", "mlflow", "--output", tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("manifest.json"))) == 1
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "out"))
    own = open_artifact(registry.path / versions[1])
    assert loaded.predict([["tea"]])[0]["scores"] == own.recall([["tea"]]).row(0)[1].tolist()


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    write_shop(tmp_path / "shop")
    words = ["--to", "onnx", "--scope", "last", "--output", tmp_path / "out"]
    with pytest.raises(MissingExtraError, match=r"groupnoise\[onnx\]"):
        run("export", tmp_path / "shop", *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop"]

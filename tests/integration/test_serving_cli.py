"""The export, recall and serve commands, from a fitted model to answers."""

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from groupnoise import MaxMatchingRecommender
from groupnoise.cli.export import export
from groupnoise.cli.recall import recall
from groupnoise.cli.serve import serve
from groupnoise.clicks.baselines import CooccurrenceRecommender
from groupnoise.clicks.items.table import read_items
from groupnoise.exceptions import DataError, GroupNoiseError, ModelFileError, ParameterError
from groupnoise.io.folders.array_folder import read_folder, write_folder
from groupnoise.recall import RecallOptions, open_artifact

LOG = [["tea", "cup", "spoon", "pot"], ["nail", "hammer", "saw", "drill"]] * 15


@pytest.fixture(scope="module")
def commands():
    app = typer.Typer()
    for command in (export, recall, serve):
        app.command()(command)
    return app


@pytest.fixture(scope="module")
def run(commands):
    """Run a command and return what it printed; its errors are raised."""

    def run_command(*arguments):
        result = CliRunner().invoke(
            commands, [str(argument) for argument in arguments], catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.output

    return run_command


@pytest.fixture(scope="module")
def fitted():
    return MaxMatchingRecommender(
        normalization="click",
        dim=8,
        max_epochs=20,
        learning_rate=0.05,
        window_size=3,
        candidates="full",
        random_state=0,
    ).fit(LOG)


@pytest.fixture(scope="module")
def artifact(fitted, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    fitted.save(folder / "model")
    (folder / "items.csv").write_text(
        "item,title,category\ntea,Green Tea,kitchen|drinks\nnail,Long Nail,tools\n"
    )
    (folder / "card.json").write_text(json.dumps({"data": "a log of thirty"}))
    printed = run(
        *("export", folder / "model", "--output", folder / "artifact"),
        *("--items", folder / "items.csv", "--card", folder / "card.json"),
    )
    assert "8 items" in printed
    return folder / "artifact"


def test_an_exported_model_scores_as_the_model_itself(fitted, artifact):
    model = open_artifact(artifact)
    assert model.manifest["kind"] == "vectors"
    histories = [["tea", "cup"], ["nail"], ["tea", "nail", "hammer", "saw"]]
    recalled = model.recall(histories, RecallOptions(top=8, exclude_seen=False))
    scores = fitted.scores(histories)
    order = np.argsort(-scores, axis=1)
    np.testing.assert_allclose(
        recalled.scores, np.take_along_axis(scores, order, axis=1), rtol=1e-4, atol=1e-5
    )
    for row, expected in zip(recalled.positions, order, strict=True):
        assert model.items.ids_of(row) == fitted.items_[expected].tolist()


def test_titles_categories_and_card_are_exported(artifact):
    model = open_artifact(artifact)
    tea, cup = model.items.positions_of(["tea", "cup"])
    assert (model.items.title_of(tea), model.items.category_of(tea)) == (
        "Green Tea",
        "kitchen|drinks",
    )
    assert (model.items.title_of(cup), model.items.category_of(cup)) == ("cup", "other")
    assert model.card == {"name": "MaxMatchingRecommender", "data": "a log of thirty"}


def test_a_rival_is_exported_as_neighbours(run, tmp_path):
    CooccurrenceRecommender().fit(LOG).save(tmp_path / "model")
    said = run("export", tmp_path / "model", "--output", tmp_path / "artifact")
    assert "its lists may differ from those of `groupnoise predict`" in " ".join(said.split())
    model = open_artifact(tmp_path / "artifact")
    assert model.manifest["kind"] == "neighbours"
    recalled = model.recall([["tea"]], RecallOptions(top=3))
    assert set(model.items.ids_of(recalled.row(0)[0])) == {"cup", "spoon", "pot"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,title\nzebra,Zebra\n", r"no column of .* holds items of the model; name it"),
        ("item,title\nzebra,Zebra\n", "is an item of the model"),
    ],
)
def test_an_unfit_item_table_is_refused(fitted, run, tmp_path, table, message):
    fitted.save(tmp_path / "model")
    (tmp_path / "items.csv").write_text(table)
    with pytest.raises(DataError, match=message):
        run(
            *("export", tmp_path / "model", "--output", tmp_path / "a"),
            *("--items", tmp_path / "items.csv"),
        )


@pytest.mark.parametrize(
    "card",
    ['{"hit": NaN}', '{"hit": 1e999}', '{"a": "\\ud800"}', "[" * 100_000, "{", "[]", b"\xff"],
    ids=["nan", "infinite", "half a character", "deep", "open", "list", "bytes"],
)
def test_a_card_that_is_no_json_object_is_refused(fitted, run, tmp_path, card):
    fitted.save(tmp_path / "model")
    (tmp_path / "card.json").write_bytes(card if isinstance(card, bytes) else card.encode())
    with pytest.raises(DataError, match=r"card\.json"):
        run(
            *("export", tmp_path / "model", "--output", tmp_path / "a"),
            *("--card", tmp_path / "card.json"),
        )
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", "\ufeffitem;title;category\r\n tea;Grüner Tee;kitchen|drinks\r\n".encode()),
        ("items.tsv.gz", gzip.compress("item\ttitle\tcategory\ntea\tGrüner Tee\tkitchen".encode())),
        ("items.txt", "item,title,category\ntea,Grüner Tee,kitchen\n".encode()),
        ("items.jsonl", b'{"item": "tea", "title": "Gr\\u00fcner Tee", "category": "kitchen"}'),
    ],
    ids=["semicolons", "gzip", "text", "json lines"],  # compressed bytes hold the time
)
def test_an_item_table_is_read_as_other_tables_are(fitted, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    titles, categories = read_items(tmp_path / name, fitted.items_)
    assert dict(zip(fitted.items_, titles, strict=True))["tea"] == "Grüner Tee"
    assert dict(zip(fitted.items_, categories, strict=True))["tea"][0] == "kitchen"
    assert ["other"] in categories


def test_items_that_a_table_lacks_are_told_of(fitted, tmp_path):
    (tmp_path / "items.csv").write_text("item,title,category\ntea,Tea,kitchen\ncup,Cup,kitchen\n")
    said = []
    read_items(tmp_path / "items.csv", fitted.items_, report=said.append)
    n_items = len(fitted.items_)
    assert f"{n_items - 2} of {n_items} items of the model have no row in" in " ".join(said)


def test_an_item_table_may_be_parquet_with_numbers_as_ids(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"item": [7, 8], "title": ["seven", None], "category": [None, "x"]})
    frame.write_parquet(tmp_path / "items.parquet")
    found = read_items(tmp_path / "items.parquet", np.array([8, 7]))
    assert found == (["8", "seven"], [["x"], ["other"]])


def test_further_columns_become_attributes_that_filters_name(fitted, run, tmp_path):
    fitted.save(tmp_path / "model")
    (tmp_path / "items.csv").write_text(
        "item,title,brand,colour\ntea,Green Tea,Acme,green|light\ncup,Tea Cup,Bolt,\n"
    )
    words = ("--items", tmp_path / "items.csv", "--attribute", "brand", "--attribute", "colour")
    run("export", tmp_path / "model", "-o", tmp_path / "a", *words)
    items = open_artifact(tmp_path / "a").items
    tea, cup = items.positions_of(["tea", "cup"])
    assert items.category_of(tea) == "brand=Acme|colour=green|colour=light"
    assert items.category_of(cup) == "brand=Bolt"
    assert np.flatnonzero(items.having("brand", ["Acme"])).tolist() == [tea]
    for words, message in (
        (("--attribute", "brand"), "give that table too"),
        (("--items", tmp_path / "items.csv", "--attribute", "size"), "no column 'size'"),
    ):
        with pytest.raises(GroupNoiseError, match=message):
            run("export", tmp_path / "model", "-o", tmp_path / "b", *words)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("items.csv", "item,title\ntea,Grüner Tee\n".encode("latin-1"), "is not UTF-8"),
        ("items.csv.gz", b"not gzip", "not a whole gzip file"),
        ("items.parquet", b"PAR1", "not a whole Parquet file"),
        ("items.xlsx", b"PK", "save it as CSV"),
    ],
    ids=["latin-1", "no gzip", "no parquet", "spreadsheet"],
)
def test_an_unreadable_item_table_is_refused(fitted, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_items(tmp_path / name, fitted.items_)


def test_a_folder_that_is_no_model_is_refused(run, tmp_path):
    with pytest.raises(ModelFileError, match="holds no manifest"):
        run("export", tmp_path, "--output", tmp_path / "a")


def test_a_batch_is_recalled_from_file_to_file(artifact, run, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\n1,tea\n1,cup\n2,nail\n3,zebra\n")
    printed = run(
        *("recall", artifact, "--histories", tmp_path / "clicks.csv"),
        *("--output", tmp_path / "recs.jsonl", "--top", "2", "--quiet"),
    )
    assert "3 histories" in printed
    assert "1 of 4 clicks unknown" in printed
    rows = [json.loads(line) for line in (tmp_path / "recs.jsonl").read_text().splitlines()]
    assert [row["user"] for row in rows] == [1, 2, 3]
    assert set(rows[0]["items"]) == {"spoon", "pot"}
    assert rows[2]["source"] == "popularity"


def _drop_vectors(artifact):
    manifest, arrays = read_folder(artifact, memory_map=False)
    shorter = {**arrays, "target_vectors": arrays["target_vectors"][:3]}
    write_folder(artifact, manifest=manifest, arrays=shorter)


def _make_a_pipe_of_the_manifest(artifact):
    (artifact / "manifest.json").unlink()
    os.mkfifo(artifact / "manifest.json")


@pytest.mark.parametrize("damage", [_drop_vectors, _make_a_pipe_of_the_manifest])
@pytest.mark.parametrize("command", ["recall", "serve"])
def test_a_damaged_artifact_ends_with_one_sentence_and_exit_code_2(
    artifact, groupnoise, tmp_path, damage, command
):
    damaged = tmp_path / "damaged"
    shutil.copytree(artifact, damaged)
    damage(damaged)
    (tmp_path / "in.jsonl").write_text(json.dumps({"user": "u", "items": ["tea"]}))
    words = {
        "recall": [
            "--histories",
            tmp_path / "in.jsonl",
            "--output",
            tmp_path / "out.csv",
            "--quiet",
        ],
        "serve": ["--port", "0"],
    }[command]
    if damage is _drop_vectors:
        code, _, said = groupnoise(command, damaged, *words)
    else:  # what waits for the other end of a pipe is ended
        finished = subprocess.run(
            [sys.executable, "-m", "groupnoise", command, str(damaged), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        code, said = finished.returncode, finished.stderr
    assert code == 2
    assert len(said.strip().splitlines()) == 1
    assert str(damaged) in said


def test_serving_needs_an_artifact_or_the_demo(artifact, run):
    with pytest.raises(ParameterError, match="--demo"):
        run("serve")
    with pytest.raises(ParameterError, match="--demo"):
        run("serve", artifact, "--demo")
    with pytest.raises(ParameterError, match="needs a token"):
        run("serve", artifact, "--host", "0.0.0.0")
    with pytest.raises(ParameterError, match="without brackets"):
        run("serve", artifact, "--host", "[::1]")


def test_a_host_that_cannot_be_listened_on_is_named(artifact, command):
    def complaint(*arguments):
        return command("serve", artifact, *arguments, code=2).err.splitlines()[-1]

    assert "'no.such.invalid' cannot be resolved" in complaint(
        "--host", "no.such.invalid", "--token", "t"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "Address already in use" in complaint("--port", port)


SERVE = "import typer; from groupnoise.cli.serve import serve; typer.run(serve)"


def serve_in_a_process(*arguments, program=SERVE, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program, "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environment},
    )


def address_of(process):
    for line in process.stdout:
        if line.startswith("listening on "):
            return line.split()[-1]
    raise AssertionError("the service did not start")


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=20)
    process.stdout.close()


def test_the_serve_command_answers(artifact):
    process = serve_in_a_process(artifact, "--compare", artifact)
    try:
        address = address_of(process)
        assert httpx.get(f"{address}/readyz").status_code == 200
        assert httpx.get(f"{address}/v1/model").json()["compare"]["n_items"] == 8
    finally:
        end(process)


def test_serve_shows_a_request_that_works_whatever_ids_and_token_are_like(tmp_path):
    ids = ["it's", 'a "b" $HOME', "ü", "d"]
    CooccurrenceRecommender().fit([ids, ids[:3], ids[:2]]).export(tmp_path / "artifact")
    token = {"GROUPNOISE_TOKEN": "s3cret"}
    process = serve_in_a_process(tmp_path / "artifact", **token)
    try:
        address = address_of(process)
        said = process.stdout.readline()
        assert "s3cret" not in said
        command = said.removeprefix("try: ").strip()
        answer = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, env={**os.environ, **token}
        )
        items = [each["item"] for each in json.loads(answer.stdout)["results"][0]["items"]]
        assert items == ["ü", "d"]
        assert process.stdout.readline() == f"routes: {address}/docs\n"
    finally:
        end(process)


def test_the_demo_leaves_nothing_behind(artifact, tmp_path):
    # Training is not what is tested: the demo serves a copy of what was exported.
    program = f"""
import shutil
from groupnoise.cli import serve as _demo_shop

def write_demo(folder):
    copy = shutil.copytree({str(artifact)!r}, folder / "copy")
    return copy, copy

_demo_shop.write_demo = write_demo
{SERVE}
"""
    process = serve_in_a_process("--demo", program=program, TMPDIR=str(tmp_path))
    try:
        address = address_of(process)
        assert len(list(tmp_path.glob("groupnoise-demo-*"))) == 1
        assert httpx.get(f"{address}/readyz").status_code == 200
    finally:
        end(process)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_the_demo_opens_with_a_stray_click_found():
    process = serve_in_a_process("--demo")
    try:
        address = address_of(process)
        card = httpx.get(f"{address}/v1/model").json()["main"]["card"]
        body = {"histories": [card["example"]], "explain": True}
        answer = httpx.post(f"{address}/v1/recall", json=body).json()["results"][0]
        assert [click["is_noise"] for click in answer["clicks"]].count(True) == 1
    finally:
        end(process)

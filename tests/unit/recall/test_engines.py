"""Vectors written for other engines: these answer as the model does, or the export is refused."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose

from click_journeys import asked_histories, shop_histories
from groupnoise import MaxMatchingRecommender
from groupnoise.exceptions import EmptyGroupError, ModelFileError, OutputError, ParameterError
from groupnoise.recall import RecallOptions, export_vectors, open_artifact, query_vectors
from serving_support import IDS, write_shop

TOP = 10
TITLES = ['"Quoted"', "back\\slash", "\\N", "{brace}", "comma, tab", "plain"]
CATEGORIES = [['a, "b"', "c\\d"], ["{e}"], ["NULL"], [], ["null"], ["plain", "two words"]]
HISTORIES = asked_histories()
MODELS = {
    "one set of evidence": {"encoder": None, "linear": None},
    "two members": {"encoder": (None, None), "linear": None},
    "a recurrence": {"encoder": "recurrence", "linear": None},
    "a recurrence beside a sum": {"encoder": ("recurrence", None), "linear": None},
    "linear evidence": {"encoder": None, "linear": {"together": (1.0, 10.0, 0.1)}},
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    """What a fit that decides may come to, as an artifact, opened."""
    settings = {"dim": 8, "max_epochs": 2, "random_state": 0, **MODELS[request.param]}
    fitted = MaxMatchingRecommender(normalization="history", **settings).fit(shop_histories())
    folder = tmp_path_factory.mktemp("model") / "artifact"
    titles = [f'Title "of"\t{item} \\ and {{braces}}' for item in fitted.items_]
    categories = [["all", f"aisle {number // 10}", 'a, "b"'] for number in range(fitted.n_items_)]
    fitted.export(folder, titles=titles, categories=categories)
    return open_artifact(folder)


def answers_of(model, histories=HISTORIES, **options):
    recalled = model.recall(histories, RecallOptions(top=TOP, exclude_seen=False, **options))
    return [model.items.ids_of(row) for row in recalled.positions]


def assert_same_answers(found, expected, scores):
    """The same items in the same order, but for those that score alike."""
    for row, (own, other) in enumerate(zip(found, expected, strict=True)):
        at = [scores[row][item] for item in own]
        should = [scores[row][item] for item in other]
        assert_allclose(at, should, atol=1e-4)


def score_tables(model, queries):
    """For each query the product with every item, by id."""
    products = queries @ model.ranker.vectors.targets.T
    ids = model.items.ids_of(np.arange(len(model.items)))
    return [dict(zip(ids, row.tolist(), strict=True)) for row in products]


def test_faiss_over_the_rows_of_the_parquet_answers_as_the_model_does(model, tmp_path):
    faiss = pytest.importorskip("faiss")
    parquet = pytest.importorskip("pyarrow.parquet")
    assert "items.parquet" in export_vectors(model, tmp_path / "out", to="parquet")
    table = parquet.read_table(tmp_path / "out" / "items.parquet")
    rows = np.stack(table["vector"].to_numpy(zero_copy_only=False)).astype(np.float32)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    queries = query_vectors(model, HISTORIES)
    _, found = index.search(queries, TOP)
    ids = table["item"].to_pylist()
    expected = answers_of(model)
    found = [[ids[position] for position in row] for row in found]
    assert_same_answers(found, expected, score_tables(model, queries))
    assert sorted(table["categories"].to_pylist()[0]) == ['a, "b"', "aisle 0", "all"]
    assert table["title"].to_pylist()[3] == model.items.title_of(3)


def test_qdrant_answers_as_the_model_does(model, tmp_path):
    qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    from qdrant_client.models import PointStruct, VectorParams

    export_vectors(model, tmp_path / "out", to="qdrant")
    collection = json.loads((tmp_path / "out" / "collection.json").read_text())
    client = qdrant.QdrantClient(":memory:")
    client.create_collection("items", vectors_config=VectorParams(**collection["vectors"]))
    for path in sorted((tmp_path / "out").glob("points-*.json")):
        points = json.loads(path.read_text())["points"]
        client.upsert("items", [PointStruct(**point) for point in points])
    queries = query_vectors(model, HISTORIES)
    found = [
        [
            hit.payload["item"]
            for hit in client.query_points("items", row.tolist(), limit=TOP).points
        ]
        for row in queries
    ]
    client.close()
    assert_same_answers(found, answers_of(model), score_tables(model, queries))


def test_the_graph_of_onnx_makes_the_queries_of_the_model(model, tmp_path):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert export_vectors(model, tmp_path / "out", to="onnx") == [
        "about.json",
        "ids.json",
        "query.onnx",
    ]
    ids = json.loads((tmp_path / "out" / "ids.json").read_text())
    position = {item: number for number, item in enumerate(ids)}
    known = [[position[item] for item in row if item in position] for row in HISTORIES]
    longest = max(map(len, known))
    padded = np.array([[-1] * (longest - len(row)) + row for row in known])
    session = runtime.InferenceSession(tmp_path / "out" / "query.onnx")
    (found,) = session.run(None, {"items": padded})
    expected = query_vectors(model, HISTORIES)
    assert_allclose(found, expected, atol=1e-4)
    # A history alone, without any padding, is read alike.
    (alone,) = session.run(None, {"items": np.array(known[3:4])})
    assert_allclose(alone, expected[3:4], atol=1e-4)


def test_rows_for_postgres_hold_every_item_and_their_vectors(model, tmp_path):
    export_vectors(model, tmp_path / "out", to="pgvector")
    lines = (tmp_path / "out" / "items.tsv").read_text().splitlines()
    assert len(lines) == len(model.items)
    cells = [line.split("\t") for line in lines]
    assert {len(row) for row in cells} == {5}
    rows = np.array([json.loads(row[4]) for row in cells], dtype=np.float32)
    np.testing.assert_array_equal(rows, model.ranker.vectors.targets)
    width = rows.shape[1]
    assert f"vector({width})" in (tmp_path / "out" / "table.sql").read_text()


@pytest.fixture(params=[{"query_vectors": "other"}, {}])
def last_click(request, tmp_path):
    """The shop, which asks by the last click, with a bias and with vectors f of its own."""
    bias = np.array([0.5, -2.0, 3.0, 0.0, 1.0, -1.0], dtype=np.float32)
    changes = {"target_bias": bias, "titles": TITLES, "categories": CATEGORIES}
    if request.param:
        changes["query_vectors"] = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    return open_artifact(write_shop(tmp_path / "artifact", **changes))


def test_the_last_click_is_asked_with_the_query_column(last_click, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_vectors(last_click, tmp_path / "out", to="parquet", scope="last")
    table = parquet.read_table(tmp_path / "out" / "items.parquet").to_pylist()
    for row in table:
        products = {other["item"]: float(np.dot(row["query"], other["vector"])) for other in table}
        found = sorted(products, key=products.get, reverse=True)
        expected = answers_of(last_click, [["saw", row["item"]]], scope="last")[0]
        assert found == expected[: len(found)]


def test_the_last_click_as_a_graph(last_click, tmp_path):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    export_vectors(last_click, tmp_path / "out", to="onnx", scope="last")
    session = runtime.InferenceSession(tmp_path / "out" / "query.onnx")
    (found,) = session.run(None, {"items": np.array([[-1, 2], [4, 0]])})
    expected = query_vectors(last_click, [["spoon"], ["nail", "tea"]], scope="last")
    assert_allclose(found, expected, atol=1e-6)


def test_postgres_itself_answers_as_the_model_does(last_click, tmp_path):
    if shutil.which("psql") is None or "GROUPNOISE_PGVECTOR" not in os.environ:
        pytest.skip("GROUPNOISE_PGVECTOR names no database with pgvector, or psql is missing")
    export_vectors(last_click, tmp_path / "out", to="pgvector", scope="last")
    line = ["psql", "-v", "ON_ERROR_STOP=1", "-qAt", os.environ["GROUPNOISE_PGVECTOR"]]
    subprocess.run([*line, "-f", "table.sql"], cwd=tmp_path / "out", check=True)
    for item in IDS:
        asked = f"(SELECT query FROM recall_items WHERE item = '{item}')"
        select = f"SELECT item FROM recall_items ORDER BY embedding <#> {asked}"
        answer = subprocess.run([*line, "-c", select], check=True, capture_output=True, text=True)
        expected = answers_of(last_click, [[item]], scope="last")[0]
        assert answer.stdout.split() == expected[:6]
    select = "SELECT json_agg(json_build_array(title, categories) ORDER BY title) FROM recall_items"
    answer = subprocess.run([*line, "-c", select], check=True, capture_output=True, text=True)
    kept = {title: sorted(categories) for title, categories in json.loads(answer.stdout)}
    assert kept == dict(zip(TITLES, map(sorted, CATEGORIES), strict=True))


def test_answers_of_several_clicks_are_refused_with_the_remedy(shop, tmp_path):
    with pytest.raises(ParameterError, match=r"adds up the answers of all clicks.*--scope last"):
        export_vectors(shop, tmp_path / "out", to="parquet")
    with pytest.raises(ParameterError, match="normalization=history"):
        query_vectors(shop, [["tea", "cup"]])
    assert not (tmp_path / "out").exists()


def test_neighbours_have_no_vectors(neighbour_shop, tmp_path):
    with pytest.raises(ModelFileError, match="fit max-matching"):
        export_vectors(neighbour_shop, tmp_path / "out", to="qdrant")


def test_a_history_without_a_known_item_has_no_query(shop):
    with pytest.raises(EmptyGroupError, match="history 1 holds no item"):
        query_vectors(shop, [["tea"], ["never seen"]], scope="last")
    assert query_vectors(shop, [], scope="last").shape == (0, 3)


def test_a_second_export_replaces_the_first_and_nothing_else(shop, tmp_path):
    export_vectors(shop, tmp_path / "out", to="qdrant", scope="last")
    export_vectors(shop, tmp_path / "out", to="pgvector", scope="last")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["about.json", "items.tsv", "table.sql"]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="holds something else"):
        export_vectors(shop, tmp_path / "own", to="qdrant", scope="last")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["letter.txt"]


def test_a_failed_export_leaves_nothing(shop, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    # A module compiled under the quota would be cut off.
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OutputError, match="there is no space left"):
            export_vectors(shop, tmp_path / "out", to="pgvector", scope="last")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.glob("out*"))

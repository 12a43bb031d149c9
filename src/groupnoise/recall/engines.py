"""Exports of a recall model for vector databases, ONNX and MLflow.

With g(y) the vector of an item, b_y its bias and q the query of a history, every engine that ranks
by inner product ranks as the model does over the rows

    v_y = [g(y), b_y],   queried with [q, 1],

since their product is q . g(y) + b_y, and the normalizer of a history does not change the order.
That needs a model whose history is one query: the evidence of all clicks, or the last click alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise import __version__
from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_choice, require
from groupnoise.exceptions import DataError, EmptyGroupError, ModelFileError, ParameterError
from groupnoise.io.files import replace_folder, write_json
from groupnoise.recall.artifact import open_artifact
from groupnoise.recall.items import ItemId
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.query_graph import write_query_graph
from groupnoise.recall.rankers import VectorRanker
from groupnoise.recall.registry import served_folder
from groupnoise.recall.vectors import MatchingVectors

METADATA_FILE = "about.json"
ROWS_AT_ONCE = 10_000
POINTS_AT_ONCE = 1000
"""Points of one request to Qdrant, which accepts 32 MB by default."""
LOST = (
    "histories: an engine sees vectors, so the query of a history is made before it is asked",
    "the answer by popularity where no click is known",
    "scores: lower by what a history is normalized by, which changes no order",
    "exclude_seen, allow, deny and categories: filters of the engine, on the payload",
    "explain: which click led to an item, and with what weight",
)
_TABLE = """\
-- psql -f table.sql makes the table and fills it, in one transaction; run it where it lies.
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
DROP TABLE IF EXISTS recall_items;
CREATE TABLE recall_items (
    item {id_type} PRIMARY KEY,
    title text,
    categories text[] NOT NULL,
    popularity real NOT NULL,
    embedding vector({width}) NOT NULL{query}
);
\\copy recall_items FROM 'items.tsv'
COMMIT;
-- An index finds most, not all, of the nearest: CREATE INDEX ON recall_items
--   USING hnsw (embedding vector_ip_ops);  up to 2000 dimensions.
"""
_Writer = Callable[[Path, RecallModel, MatchingVectors, "str | None"], None]


def query_vectors(
    model: RecallModel, histories: Sequence[Sequence[ItemId]], *, scope: str | None = None
) -> Float32Array:
    """Return the query vectors of histories for a nearest-neighbour engine.

    Parameters
    ----------
    model : RecallModel
        From :func:`open_artifact`.
    histories : sequence of sequences of item ids
        Clicks, oldest first; ids the model does not know are passed over.
    scope : {"group", "last"}, optional
        As in :class:`RecallOptions`; by default as the model was trained.

    Returns
    -------
    float32 ndarray of shape (n_histories, dimension + 1)
        Rows that end in a one, which meets the bias of an item.

    Raises
    ------
    ParameterError
        If a history is several queries, whose answers no engine adds up.
    EmptyGroupError
        If a history holds no known item.
    """
    vectors = single_query_vectors(model, scope)
    known = []
    for row, history in enumerate(histories):
        positions = model.items.positions_of(history)
        known.append(positions[positions >= 0])
        if not len(known[-1]):
            raise EmptyGroupError(
                f"history {row} holds no item that the model knows; answer it by popularity."
            )
    if not known:
        return np.empty((0, vectors.dimension + 1), dtype=np.float32)
    mixture = vectors.mixture(known, scope)
    return vectors.query_rows(mixture)[mixture.query_of]


def single_query_vectors(model: RecallModel, scope: str | None = None) -> MatchingVectors:
    """Return the vectors of a model whose histories are one query each; refuse any other."""
    ranker = model.ranker
    if not isinstance(ranker, VectorRanker):
        raise ModelFileError(
            "the model answers by the neighbours of items and has no vectors that an engine could "
            "search; fit max-matching, or serve this model with `groupnoise serve`."
        )
    rule = ranker.vectors.rule.with_scope(scope)
    if rule.normalization == "click" and rule.n_clicks != 1:
        raise ParameterError(
            f"the model adds up the answers of {rule.clicks_used}, which no single vector can ask "
            "for; export with --scope last, which asks by the last click alone, or fit with "
            "-p normalization=history, which makes one query of all clicks."
        )
    return ranker.vectors


def export_vectors(
    model: RecallModel, folder: Path | str, *, to: str, scope: str | None = None
) -> list[str]:
    """Write a recall model as files for an engine that searches vectors.

    Parameters
    ----------
    model : RecallModel
        From :func:`open_artifact`.
    folder : path
        Written whole or not at all; what an earlier export wrote there is replaced.
    to : {"parquet", "qdrant", "pgvector", "onnx"}
        `items.parquet`; a collection and its points as Qdrant's requests; a table and its rows as
        PostgreSQL reads them; or the graph that computes the query vector of a history.
    scope : {"group", "last"}, optional
        As in :class:`RecallOptions`; by default as the model was trained.

    Returns
    -------
    list of str
        The names of the files written.

    Raises
    ------
    ParameterError
        If a history is several queries, whose answers no engine adds up.
    """
    check_choice("to", to, WRITERS)
    vectors = single_query_vectors(model, scope)
    rule = vectors.rule.with_scope(scope)
    with replace_folder(Path(folder), marked_by=METADATA_FILE) as place:
        WRITERS[to](place, model, vectors, scope)
        about = {
            "to": to,
            "version": model.version,
            "items": len(model.items),
            "dimension": vectors.dimension + 1,
            "distance": "inner product",
            "clicks": rule.clicks_used,
            "lost": list(LOST),
        }
        write_json(place / METADATA_FILE, about)
        return sorted(path.name for path in place.iterdir())


def _blocks(n_rows: int, size: int) -> Iterator[IntArray]:
    for begin in range(0, n_rows, size):
        yield np.arange(begin, min(begin + size, n_rows))


def _last_click_queries(
    vectors: MatchingVectors, scope: str | None, positions: IntArray
) -> Float32Array | None:
    """Return the query vector of each item as the last click; None if evidence is summed."""
    if vectors.rule.with_scope(scope).normalization == "history":
        return None
    ones = np.ones((len(positions), 1), dtype=np.float32)
    return np.hstack([vectors.features(positions), ones])


def _write_parquet(
    place: Path, model: RecallModel, vectors: MatchingVectors, scope: str | None
) -> None:
    arrow, parquet = (require(name, extra="data") for name in ("pyarrow", "pyarrow.parquet"))
    width = vectors.dimension + 1

    def rows_of(values: Float32Array) -> Any:
        flat = arrow.array(np.ascontiguousarray(values).reshape(-1), arrow.float32())
        return arrow.FixedSizeListArray.from_arrays(flat, width)

    writer = None
    try:
        for positions in _blocks(len(model.items), ROWS_AT_ONCE):
            about = [_payload(model, int(position)) for position in positions]
            id_type = arrow.int64() if model.items.has_integer_ids else arrow.string()
            columns = {
                "item": arrow.array([row["item"] for row in about], id_type),
                "vector": rows_of(vectors.targets[positions]),
                "popularity": arrow.array(model.items.popularity[positions], arrow.float32()),
                "title": arrow.array([row.get("title") for row in about], arrow.string()),
                "categories": arrow.array(
                    [row.get("categories", []) for row in about], arrow.list_(arrow.string())
                ),
            }
            queries = _last_click_queries(vectors, scope, positions)
            if queries is not None:
                columns["query"] = rows_of(queries)
            table = arrow.table(columns)
            writer = writer or parquet.ParquetWriter(place / "items.parquet", table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_qdrant(
    place: Path, model: RecallModel, vectors: MatchingVectors, scope: str | None
) -> None:
    width = vectors.dimension + 1
    write_json(place / "collection.json", {"vectors": {"size": width, "distance": "Dot"}})
    for number, positions in enumerate(_blocks(len(model.items), POINTS_AT_ONCE)):
        points = [
            {"id": position, "vector": row, "payload": _payload(model, position)}
            for position, row in zip(
                positions.tolist(), vectors.targets[positions].tolist(), strict=True
            )
        ]
        path = place / f"points-{number:06d}.json"
        path.write_text(json.dumps({"points": points}, allow_nan=False), encoding="utf-8")


def _payload(model: RecallModel, position: int) -> dict[str, Any]:
    items = model.items
    payload: dict[str, Any] = {"item": items.id_of(position)}
    if (title := items.title_of(position)) is not None:
        payload["title"] = title
    if items.category_names:
        payload["categories"] = [items.category_names[code] for code in items.codes_of(position)]
    return payload


def _write_pgvector(
    place: Path, model: RecallModel, vectors: MatchingVectors, scope: str | None
) -> None:
    id_type = "bigint" if model.items.has_integer_ids else "text"
    width, has_query = vectors.dimension + 1, False
    with (place / "items.tsv").open("w", encoding="utf-8", newline="\n") as stream:
        for positions in _blocks(len(model.items), ROWS_AT_ONCE):
            queries = _last_click_queries(vectors, scope, positions)
            has_query = queries is not None
            for row, position in enumerate(positions.tolist()):
                about = _payload(model, position)
                quoted = (_array_element(name) for name in about.get("categories", []))
                cells = [
                    _copy_cell(str(about["item"])),
                    _copy_cell(about["title"]) if "title" in about else "\\N",
                    _copy_cell("{" + ",".join(quoted) + "}"),
                    repr(float(model.items.popularity[position])),
                    _vector(vectors.targets[position]),
                ]
                if queries is not None:
                    cells.append(_vector(queries[row]))
                stream.write("\t".join(cells) + "\n")
    query = f",\n    query vector({width}) NOT NULL" if has_query else ""
    table = _TABLE.format(id_type=id_type, width=width, query=query)
    (place / "table.sql").write_text(table, encoding="utf-8")


def _array_element(name: str) -> str:
    """Return text as an element of a PostgreSQL array."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _copy_cell(text: str) -> str:
    """Return text as a cell for PostgreSQL COPY."""
    marks = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
    for plain, written in marks:
        text = text.replace(plain, written)
    return text


def _vector(row: Float32Array) -> str:
    return "[" + ",".join(map(str, row.astype(np.float32))) + "]"


def _write_onnx(
    place: Path, model: RecallModel, vectors: MatchingVectors, scope: str | None
) -> None:
    write_query_graph(place / "query.onnx", vectors, scope)
    ids = model.items.ids_of(np.arange(len(model.items)))
    text = json.dumps(ids, ensure_ascii=False)
    (place / "ids.json").write_text(text + "\n", encoding="utf-8")


WRITERS: dict[str, _Writer] = {
    "parquet": _write_parquet,
    "qdrant": _write_qdrant,
    "pgvector": _write_pgvector,
    "onnx": _write_onnx,
}


MLFLOW_OPTIONS: tuple[tuple[str, str, Any, tuple[int] | None], ...] = (
    ("top", "long", RecallOptions.top, None),
    ("scope", "string", None, None),
    ("exclude_seen", "boolean", True, None),
    ("allow", "", None, (-1,)),
    ("deny", "", None, (-1,)),
    ("categories", "string", None, (-1,)),
    ("filter", "string", None, None),
    ("max_per", "string", None, None),
    ("per_category", "long", None, None),
    ("diversity", "double", 0.0, None),
    ("min_score", "double", None, None),
)
"""Options of a recall as MLflow's parameters: name, type (that of ids where it is empty), default
and shape; `filter` and `max_per` as JSON."""


def write_mlflow(artifact: Path | str, folder: Path | str) -> None:
    """Write an artifact as a folder that MLflow loads (`mlflow.pyfunc.load_model`) and serves."""
    pyfunc = require("mlflow.pyfunc", extra="mlflow")
    models, types = (
        require("mlflow.models", extra="mlflow"),
        require("mlflow.types", extra="mlflow"),
    )
    artifact = served_folder(artifact)  # of a registry the promoted version alone
    opened = open_artifact(artifact, memory_map=False)
    # MLflow passes on what a schema names, and drops the rest.
    ids = "long" if isinstance(opened.items.id_of(0), int) else "string"
    schema = types.ParamSchema(
        [
            types.ParamSpec(name, kind or ids, [] if shape else default, shape)
            for name, kind, default, shape in MLFLOW_OPTIONS
        ]
    )
    with replace_folder(Path(folder), marked_by=METADATA_FILE) as place:
        pyfunc.save_model(
            path=str(place / "model"),
            loader_module=__name__,
            data_path=str(artifact),
            signature=models.ModelSignature(params=schema),
            pip_requirements=[f"groupnoise=={__version__}"],
        )
        for path in list((place / "model").iterdir()):
            path.rename(place / path.name)
        (place / "model").rmdir()
        write_json(place / METADATA_FILE, {"to": "mlflow", "version": opened.version})


class _MlflowModel:
    """The model object that MLflow calls."""

    def __init__(self, model: RecallModel) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return items and scores of each history, options of a recall being the parameters."""
        if hasattr(model_input, "columns"):
            if "items" not in model_input.columns:
                raise DataError("the table must have a column `items`, a list of ids in each row.")
            model_input = model_input["items"].tolist()
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, (list, np.ndarray)) else value
            for name, value in (params or {}).items()
            if value is not None
        }
        try:
            for name in {"filter", "max_per"} & set(given):
                given[name] = json.loads(given[name])
        except ValueError:
            raise ParameterError(f"{name} must be JSON; got {given[name]!r}.") from None
        try:
            options = RecallOptions(**given)
        except TypeError as error:
            raise ParameterError(f"a recall has no such option: {error}.") from None
        recalled = self._model.recall(model_input, options)
        answers = []
        for number in range(len(recalled.positions)):
            positions, scores = recalled.row(number)
            is_popular = bool(recalled.from_popularity[number])
            answers.append(
                {
                    "items": self._model.items.ids_of(positions),
                    "scores": scores.tolist(),
                    "source": "popularity" if is_popular else "history",
                }
            )
        return answers


def _load_pyfunc(path: str) -> _MlflowModel:
    """Return the model of an artifact folder; the name is MLflow's."""
    return _MlflowModel(open_artifact(path))

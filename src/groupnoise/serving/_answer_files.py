"""Writing recalled items as parquet, CSV or JSON lines: parts first, then one file.

Parquet and JSON lines hold one row per history (`user`, `items`, `scores`, `source`), CSV one row
per item (`user`, `rank`, `item`, `score`, `source`).
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from groupnoise._checks import require
from groupnoise._files import atomic_path
from groupnoise.exceptions import DataError
from groupnoise.serving._items import ItemTable
from groupnoise.serving._model import Recalled

ANSWER_FORMATS = (".parquet", ".csv", ".jsonl")
CSV_HEADER = ("user", "rank", "item", "score", "source")


def check_format(path: Path) -> None:
    """Refuse an output file whose ending says no format known here."""
    if path.suffix not in ANSWER_FORMATS:
        raise DataError(f"{path} must end in one of {', '.join(ANSWER_FORMATS)}.")
    if path.suffix == ".parquet":
        require("pyarrow", extra="data")


def write_part(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    """Write the answers to some histories, atomically, in the format the ending names."""
    writer = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json}[path.suffix]
    with atomic_path(path) as temporary:
        writer(temporary, users, recalled, items)


def join_parts(parts: Sequence[Path], output: Path) -> None:
    """Write all parts as one file, atomically."""
    with atomic_path(output) as temporary:
        if output.suffix == ".parquet":
            _join_parquet(parts, temporary)
            return
        with temporary.open("wb") as target:
            if output.suffix == ".csv":
                target.write((",".join(CSV_HEADER) + "\r\n").encode())
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)


def _rows(
    users: Sequence[Any], recalled: Recalled, items: ItemTable
) -> Iterator[tuple[Any, list[Any], list[float], str]]:
    for number, user in enumerate(users):
        positions, scores = recalled.row(number)
        source = "popularity" if recalled.from_popularity[number] else "history"
        yield user, items.ids_of(positions), scores.tolist(), source


def _write_csv(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for user, ids, scores, source in _rows(users, recalled, items):
            for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1):
                writer.writerow((user, rank, item, f"{score:.6g}", source))


def _write_json(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for user, ids, scores, source in _rows(users, recalled, items):
            row = {"user": user, "items": ids, "scores": scores, "source": source}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    pyarrow = require("pyarrow", extra="data")
    is_item = recalled.positions >= 0
    ends = is_item.sum(axis=1).cumsum()
    offsets = pyarrow.array([0, *ends.tolist()], pyarrow.int32())
    id_type = pyarrow.int64() if items.has_integer_ids else pyarrow.string()
    ids = pyarrow.array(items.ids_of(recalled.positions[is_item]), id_type)
    scores = pyarrow.array(recalled.scores[is_item], pyarrow.float32())
    sources = ["popularity" if popular else "history" for popular in recalled.from_popularity]
    table = pyarrow.table(
        {
            "user": pyarrow.array(users),
            "items": pyarrow.ListArray.from_arrays(offsets, ids),
            "scores": pyarrow.ListArray.from_arrays(offsets, scores),
            "source": pyarrow.array(sources, pyarrow.string()),
        }
    )
    require("pyarrow.parquet", extra="data").write_table(table, path)


def _join_parquet(parts: Sequence[Path], path: Path) -> None:
    parquet = require("pyarrow.parquet", extra="data")
    schema = parquet.read_schema(parts[0])
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part).cast(schema))

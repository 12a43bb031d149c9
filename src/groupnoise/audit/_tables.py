"""Tables as files, written block by block so that names never fill the memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from groupnoise._checks import require
from groupnoise._files import atomic_path
from groupnoise.audit._evidence import Columns
from groupnoise.exceptions import ParameterError

TABLE_FORMATS = ("csv", "parquet", "json")
BLOCK_ROWS = 1 << 16


def write_table(path: Path, columns: Columns, named: Callable[[Columns], Columns]) -> None:
    """Write columns in the form that the suffix names, atomically.

    Parameters
    ----------
    path : Path
        Ends in .csv, .parquet or .json (a list of records).
    columns : dict of str to ndarray
        The table.
    named : callable
        Turns a block of columns into what is written.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".json": _write_json}
    if path.suffix not in writers:
        raise ParameterError(f"a table is written as {', '.join(writers)}; got {path.name!r}.")
    with atomic_path(path) as temporary:
        writers[path.suffix](temporary, _blocks(columns, named))


def _blocks(columns: Columns, named: Callable[[Columns], Columns]) -> Iterator[Columns]:
    """Yield the table in blocks of rows, at least one however short."""
    n_rows = len(next(iter(columns.values()))) if columns else 0
    for start in range(0, max(n_rows, 1), BLOCK_ROWS):
        yield named({name: each[start : start + BLOCK_ROWS] for name, each in columns.items()})


def _records(block: Columns) -> Iterator[tuple[Any, ...]]:
    # Single precision has about seven digits; more would be noise in a text file.
    cells = [
        [float(f"{value:.6g}") for value in each] if each.dtype.kind == "f" else each.tolist()
        for each in block.values()
    ]
    return zip(*cells, strict=True)


def _write_csv(path: Path, blocks: Iterator[Columns]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        for number, block in enumerate(blocks):
            if number == 0:
                writer.writerow(block)
            writer.writerows(_records(block))


def _write_json(path: Path, blocks: Iterator[Columns]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        separator = "[\n"
        for block in blocks:
            for record in _records(block):
                stream.write(separator + json.dumps(dict(zip(block, record, strict=True))))
                separator = ",\n"
        stream.write("\n]\n" if separator == ",\n" else "[]\n")


def _write_parquet(path: Path, blocks: Iterator[Columns]) -> None:
    arrow, parquet = require("pyarrow", extra="data"), require("pyarrow.parquet", extra="data")
    writer = None
    try:
        for block in blocks:
            table = arrow.table({name: arrow.array(each) for name, each in block.items()})
            writer = writer or parquet.ParquetWriter(str(path), table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()

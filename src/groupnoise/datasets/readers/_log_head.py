"""What the first rows of a click log tell about the rest of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.datasets.readers._binary_blocks import binary_blocks
from groupnoise.datasets.readers._cells import WHOLE_NUMBER
from groupnoise.datasets.readers._columns import KNOWN_NAMES
from groupnoise.datasets.readers._delimited import open_delimited
from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._sources import Report, Source
from groupnoise.datasets.readers._tables import Table, read_content
from groupnoise.datasets.readers._text import holds_pairs, pair_separator, read_pairs
from groupnoise.exceptions import DataError

BLOCK_FORMATS = ("csv", "tsv", "text", "jsonl", "parquet", "arrow")
_HEAD_BYTES = 1 << 18


@dataclass(frozen=True)
class LogLayout:
    """How the cells of a log in delimited text are told apart; `separator` is None for others."""

    separator: str | None = None
    has_header: bool = False
    names: tuple[str, ...] = ()
    is_quoted: bool = True


def read_head(
    source: Source, *, separator: str | None, header: bool | None, report: Report
) -> tuple[Table, LogLayout]:
    """Return the first rows of a log, with all cells as text, and how to read the rest."""
    path = source.paths[0]
    if source.format in ("parquet", "arrow"):
        for table in binary_blocks(source, path, None, 1000):
            return table, LogLayout()
        raise DataError(f"{path} has columns but 0 rows; at least one is needed.")
    content = next((block for block in source.line_blocks(path, _HEAD_BYTES) if block.strip()), b"")
    if not content:
        raise DataError(f"{path} is empty; give a file with at least one row.")
    if source.format == "jsonl":
        return read_content(path, content, "jsonl", report=report), LogLayout()
    if source.format == "text":
        pairs = read_pairs(path, content)
        return pairs, LogLayout(pair_separator(content), names=("user", "item"), is_quoted=False)
    if source.format == "tsv":
        separator = separator or "\t"
    document = open_delimited(
        path, content, separator=separator, header=header, known_names=KNOWN_NAMES, report=report
    )
    table = read_content(
        path, content, "csv", separator=document.separator, header=document.has_header,
        report=report,
    )  # fmt: skip
    names = tuple(table.frame.columns)
    return table, LogLayout(document.separator, document.has_header, names)


def is_pairs(source: Source) -> bool:
    """Tell whether text holds `user item` pairs, which can be read in blocks."""
    head = next(source.line_blocks(source.paths[0], _HEAD_BYTES), b"")
    return holds_pairs(head)


def column_types(table: Table, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return for each column wanted the type its first cells fit.

    Parameters
    ----------
    table : Table
        The head of a log.
    wanted : mapping of str to str
        For each column 'id' or 'number'.
    """
    types: dict[str, Any] = {}
    for column, use in wanted.items():
        cells = table.frame[column]
        types[column] = cells.dtype
        if cells.dtype == pl.String:
            whole = cells.str.strip_chars().str.contains(WHOLE_NUMBER).all()
            numbers = cells.cast(pl.Float64, strict=False)
            if whole:
                types[column] = pl.Int64
            elif use == "number" and bool(np.isfinite(numbers.fill_null(np.nan).to_numpy()).all()):
                types[column] = pl.Float64
    return types

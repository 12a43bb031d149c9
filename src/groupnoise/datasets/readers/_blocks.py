"""A click log in blocks of bounded size, whatever its format, each a table that knows its lines."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise.datasets.readers._binary_blocks import binary_blocks
from groupnoise.datasets.readers._delimited import open_delimited
from groupnoise.datasets.readers._log_head import LogLayout
from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._sources import Report, Source, name_of, say_nothing
from groupnoise.datasets.readers._tables import Table, read_content
from groupnoise.datasets.readers._text import read_pairs
from groupnoise.exceptions import DataError

BYTES_PER_ROW = 32
"""About what a click takes, as text or in memory."""


def iter_blocks(
    source: Source,
    layout: LogLayout,
    types: Mapping[str, Any],
    *,
    block_bytes: int,
    report: Report,
) -> Iterator[Table]:
    """Yield the rows of all files in order, a block at a time.

    Parameters
    ----------
    source : Source
        The files.
    layout : LogLayout
        What `read_head` found out.
    types : mapping of str to polars type
        The columns wanted, and for text the types that make parsing quick; where a cell does not
        fit its type the block comes with all cells as text, for the caller to explain.
    block_bytes : int
        About how much text, or how many rows of `BYTES_PER_ROW`, make a block.
    report : callable
        Told of guesses.
    """
    for path in source.paths:
        if source.format in ("parquet", "arrow"):
            yield from binary_blocks(
                source, path, list(types), max(block_bytes // BYTES_PER_ROW, 1)
            )
            continue
        first_line, at_header = 1, layout.has_header
        for block in source.line_blocks(path, block_bytes):
            if at_header:
                header_begin = len(block) - len(block.lstrip(b"\r\n"))
                first_line += block.count(b"\n", 0, header_begin)
                block = block[header_begin:]
                if not block:
                    continue
                layout = _same_columns(path, block, layout)
            if layout.separator is not None:
                table = _quick_parse(path, block, layout, types, first_line, at_header)
                if table is None:
                    table = _careful_parse(path, block, layout, first_line, at_header, report)
                at_header = False
            else:
                table = _json_block(path, block, types, first_line, report)
            if len(table):
                yield table
            first_line += block.count(b"\n")


def _quick_parse(
    path: str,
    block: bytes,
    layout: LogLayout,
    types: Mapping[str, Any],
    first_line: int,
    has_header: bool,
) -> Table | None:
    """Return a block with typed cells, or None if some cell is empty or does not fit its type."""
    if pl.Int64 in types.values() and _has_padded_numbers(block, layout):
        return None
    try:
        frame = pl.read_csv(
            io.BytesIO(block),
            separator=layout.separator or ",",
            has_header=False,
            skip_rows=int(has_header),
            schema={name: types.get(name, pl.String) for name in layout.names},
            quote_char='"' if layout.is_quoted else None,
        ).select(list(types))
    except pl.exceptions.PolarsError:
        return None
    if frame.null_count().sum_horizontal()[0] > 0:
        return None
    begin = first_line + has_header
    return Table(frame, name_of(path), path, lambda row: f"{path}, line {begin + row}")


def _has_padded_numbers(block: bytes, layout: LogLayout) -> bool:
    """Tell whether a cell begins with 0 and another digit: '007' is not the id 7."""
    data = np.frombuffer(block, dtype=np.uint8)
    zeros = np.flatnonzero(data[:-1] == ord("0"))
    follows = data[zeros + 1]
    zeros = zeros[(follows >= ord("0")) & (follows <= ord("9"))]
    before = data[zeros - 1]
    is_first = (before == ord("\n")) | (before == ord(layout.separator or ",")) | (zeros == 0)
    return bool(is_first.any())


def _careful_parse(
    path: str, block: bytes, layout: LogLayout, first_line: int, has_header: bool, report: Report
) -> Table:
    """Return a block with all cells as text, or say which line is not well-formed."""
    if not layout.is_quoted:
        return read_pairs(path, block, first_line)
    table = read_content(
        path, block, "csv", separator=layout.separator, header=has_header,
        first_line=first_line, report=report,
    )  # fmt: skip
    if has_header:
        return table
    names, width = list(layout.names), table.frame.width
    if width > len(names):
        raise DataError(
            f"{path}, line {first_line} or after: {width} cells where the first line of the file "
            f"has {len(names)}; quote cells that contain {layout.separator!r}."
        )
    table.frame.columns = names[:width]
    missing = [pl.lit(None, pl.String).alias(name) for name in names[width:]]
    return replace(table, frame=table.frame.with_columns(missing))


def _json_block(
    path: str, block: bytes, types: Mapping[str, Any], first_line: int, report: Report
) -> Table:
    """Return some lines of JSON; a key that none of them has is an empty column."""
    table = read_content(path, block, "jsonl", first_line=first_line, report=report)
    absent = [pl.lit(None).alias(name) for name in types if name not in table.frame.columns]
    return replace(table, frame=table.frame.with_columns(absent))


def _same_columns(path: str, block: bytes, layout: LogLayout) -> LogLayout:
    """Return the layout of one more file, whose columns may stand in another order."""
    document = open_delimited(
        path, block.split(b"\n", 1)[0], separator=layout.separator, header=True,
        report=say_nothing,
    )  # fmt: skip
    names = tuple(next(document.records())[1])
    if set(names) != set(layout.names):
        odd = ", ".join(sorted(set(names) ^ set(layout.names)))
        raise DataError(
            f"{path}, line 1: its columns differ from those of the first file ({odd}); files read "
            "together must share theirs."
        )
    return replace(layout, names=names)

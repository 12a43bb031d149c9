"""A click log in blocks of bounded size, its first rows, and histories as whitespace text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.checks import require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.names import KNOWN_NAMES, plain_name
from groupnoise.io.tables.cells import WHOLE_NUMBER
from groupnoise.io.tables.delimited import (
    BLANKS,
    COMMENT_MARKS,
    decode,
    open_delimited,
    strip_comments,
)
from groupnoise.io.tables.sources import Report, Source, ignore_report, name_of
from groupnoise.io.tables.table import Table, join_tables, read_content, read_table

BYTES_PER_ROW = 32
"""About what a click takes, as text or in memory."""
BLOCK_FORMATS = ("csv", "tsv", "text", "jsonl", "parquet", "arrow")
_HEAD_BYTES = 1 << 18
_WORD = re.compile(r"[^ \t\n\r\v\f]+")
"""Words are separated by ASCII whitespace, as in bytes; an id may hold other whitespace."""


def binary_blocks(
    source: Source, path: str, columns: list[str] | None, n_rows: int
) -> Iterator[Table]:
    """Yield the record batches of a Parquet or Arrow file."""
    arrow = require("pyarrow", extra="data")
    ipc, parquet = require("pyarrow.ipc", extra="data"), require("pyarrow.parquet", extra="data")
    if source.size_of(path)[0] == 0:
        raise DataError(f"{path} is empty; give a file with at least one row.")
    first_row = 0
    with source.open_binary(path) as stream:
        try:
            if source.format == "parquet":
                batches = parquet.ParquetFile(stream).iter_batches(n_rows, columns=columns)
            else:
                reader = ipc.open_file(stream)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            for batch in batches:
                frame = pl.from_arrow(batch)
                if not isinstance(frame, pl.DataFrame):
                    raise DataError(f"{path} holds no columns.")
                frame = frame if columns is None else frame.select(columns)
                for start in range(0, frame.height, n_rows):
                    begin = first_row + start
                    yield Table(
                        frame[start : start + n_rows],
                        name_of(path),
                        path,
                        lambda row, begin=begin: f"{path}, row {begin + row}",  # type: ignore[misc]
                    )
                first_row += frame.height
        except (arrow.ArrowInvalid, OSError) as error:
            reason = str(error).split("\n", 1)[0]
            raise DataError(
                f"{path} is not a whole {source.format.title()} file: it is cut off or damaged "
                f"({reason}); fetch or write it again."
            ) from None


def iter_blocks(
    source: Source, layout: LogLayout, types: Mapping[str, Any], *, block_bytes: int, report: Report
) -> Iterator[Table]:
    """Yield the rows of all files in order, a block at a time.

    `layout`: what `read_head` found out. `types`: the columns requested, and for text the types
    that make parsing quick; where a cell does not fit its type the block comes with all cells as
    text, for the caller to explain. `block_bytes`: about how much text, or how many rows of
    `BYTES_PER_ROW`, make a block.
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
        path, b"\n".join(block.split(b"\n", 30)[:30]), separator=layout.separator, header=True,
        report=ignore_report,
    )  # fmt: skip
    names = tuple(next(document.records())[1])
    if set(names) != set(layout.names):
        odd = ", ".join(sorted(set(names) ^ set(layout.names)))
        raise DataError(
            f"{path}, line 1: its columns differ from those of the first file ({odd}); files read "
            "together must share theirs."
        )
    return replace(layout, names=names)


@dataclass(frozen=True)
class LogLayout:
    """The layout of a log in delimited text; `separator` is None for other formats."""

    separator: str | None = None
    has_header: bool = False
    names: tuple[str, ...] = ()
    is_quoted: bool = True
    first_line: int = 1


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
    first = document.first_line
    return table, LogLayout(document.separator, document.has_header, names, first_line=first)


def is_pairs(source: Source) -> bool:
    """Tell whether text holds `user item` pairs, which can be read in blocks."""
    head = next(source.line_blocks(source.paths[0], _HEAD_BYTES), b"")
    return holds_pairs(head) and not _is_table_of_words(source)


def column_types(table: Table, requested: Mapping[str, str]) -> dict[str, Any]:
    """Return for each column requested the type its first cells fit.

    `table`: the head of a log. `requested`: for each column 'id' or 'number'.
    """
    types: dict[str, Any] = {}
    for column, use in requested.items():
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


def read_history_text(source: Source, report: Report) -> Table:
    """Return one row per click with the columns `user` and `item`, in the order of the files.

    A file whose lines all hold two words has one click per line (the SASRec form). Lines that
    begin with the names of columns, or of three or four words whose first comes back, are a table.
    Otherwise a line is a user followed by all items of that user, and a user may have one line.
    """
    if _is_table_of_words(source):
        return read_table(source, separator=BLANKS, report=report)
    return join_tables(
        [_read_one(path, source.read_bytes(path), report) for path in source.paths], source.name
    )


def _is_table_of_words(source: Source) -> bool:
    """Tell whether text begins with names of columns, or has rows of a user, an item and more."""
    head = next(source.line_blocks(source.paths[0], _HEAD_BYTES), b"")
    lines = [_WORD.findall(line) for line in head.decode("utf-8-sig", "replace").split("\n")]
    lines = [words for words in lines if words and not words[0].startswith(COMMENT_MARKS)]
    if not lines:
        return False
    if len(KNOWN_NAMES.intersection(map(plain_name, lines[0]))) > 1:
        return True
    alike = len({len(words) for words in lines}) == 1 and len(lines[0]) in (3, 4)
    return alike and len({words[0] for words in lines}) < len(lines)


def _read_one(path: str, content: bytes, report: Report) -> Table:
    users: list[str] = []
    items: list[str] = []
    lines: list[int] = []
    line_of_user: dict[str, int] = {}
    repeated: tuple[int, str] | None = None
    has_long_lines = False
    for number, words in _lines_of_words(path, content):
        user, *clicked = words
        if user in line_of_user and repeated is None:
            repeated = (number, user)
        line_of_user.setdefault(user, number)
        has_long_lines = has_long_lines or len(clicked) > 1
        users.extend([user] * len(clicked))
        items.extend(clicked)
        lines.extend([number] * len(clicked))
    if has_long_lines:
        report(f"read {path} as one line per user: the user, then all items in order")
        if repeated is not None:
            number, user = repeated
            raise DataError(
                f"{path}, line {number}: user {user!r} already has line {line_of_user[user]}; "
                "give each user one line, or write one `user item` pair per line throughout."
            )
    else:
        report(f"read {path} as one click per line: the user, then the item")
    frame = pl.DataFrame(
        {"user": users, "item": items}, schema={"user": pl.String, "item": pl.String}
    )
    return Table(frame, name_of(path), path, partial(_locate, path, lines))


def read_pairs(path: str, content: bytes, first_line: int = 1) -> Table:
    """Return the clicks of a block of `user item` lines that begins at `first_line`."""
    pairs: list[list[str]] = []
    lines: list[int] = []
    for number, words in _lines_of_words(path, content, first_line):
        if len(words) != 2:
            raise DataError(
                f"{path}, line {number}: {counted(len(words), 'words')} where the first lines "
                "hold a user and an item; write pairs throughout, or one line per user."
            )
        pairs.append(words)
        lines.append(number)
    frame = pl.DataFrame(pairs, schema={"user": pl.String, "item": pl.String}, orient="row")
    return Table(frame, name_of(path), path, partial(_locate, path, lines))


def holds_pairs(content: bytes) -> bool:
    """Tell whether every line has two words apart by one blank, or by one tab."""
    separator = pair_separator(content).encode()
    return all(
        len(line.split()) == 2 and line.strip().count(separator) == 1
        for line in content.split(b"\n")
        if line.strip()
    )


def pair_separator(content: bytes) -> str:
    """Return the separator of user and item: a tab if the first line has one, or a blank."""
    return "\t" if b"\t" in content.lstrip().split(b"\n", 1)[0] else " "


def _locate(path: str, lines: list[int], row: int) -> str:
    return f"{path}, line {lines[row]}"


def _lines_of_words(
    path: str, content: bytes, first_line: int = 1
) -> Iterator[tuple[int, list[str]]]:
    text = decode(path, content, first_line)
    if first_line == 1:
        text, n_dropped, _ = strip_comments(text, BLANKS)
        first_line += n_dropped
    for number, line in enumerate(text.split("\n"), first_line):
        words = _WORD.findall(line)
        if len(words) == 1:
            raise DataError(
                f"{path}, line {number}: {words[0][:40]!r} stands alone; a line needs a user and "
                "at least one item, apart by blanks."
            )
        if words:
            yield number, words

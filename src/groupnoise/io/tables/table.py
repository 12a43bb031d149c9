"""Reading a table from delimited text, a spreadsheet, Parquet, Arrow, JSON or a data frame."""

from __future__ import annotations

import codecs
import io
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import require
from groupnoise.core.words import counted, error_text
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.columns.names import KNOWN_NAMES
from groupnoise.io.tables.delimited import (
    DelimitedText,
    decode,
    guess_separator,
    open_delimited,
    parse_delimited,
    read_separator,
)
from groupnoise.io.tables.nested_cells import convert_decimal_commas, flatten_nested
from groupnoise.io.tables.sheets import sheet_as_text
from groupnoise.io.tables.sources import Report, Source, find_source, ignore_report, name_of

TABLE_FORMATS = ("csv", "tsv", "text", "parquet", "arrow", "jsonl", "xlsx")
DELIMITED = ("csv", "tsv", "text")

_TOTAL = re.compile(
    r"\s*((grand|sub)[ -]?)?total(s|e)?\b|\s*(sum|(end)?summe|gesamt(summe)?|insgesamt|somme|suma"
    r"|somma|soma)\b",
    re.IGNORECASE,
)
"""The beginning of a row of totals."""


def as_polars(source: Any) -> pl.DataFrame:
    """Return any frame that supports the Arrow or the interchange protocol as a polars frame.

    Such as polars frames (also lazy ones), pandas frames, pyarrow tables; also a dictionary of
    columns.
    """
    try:
        if isinstance(source, pl.DataFrame):
            frame = source
        elif isinstance(source, pl.LazyFrame):
            frame = source.collect()
        elif isinstance(source, dict) or hasattr(source, "__arrow_c_stream__"):
            frame = pl.DataFrame(source)
        elif hasattr(source, "__dataframe__"):
            frame = pl.from_dataframe(source)
        else:
            raise DataError(
                f"a {type(source).__name__} is neither a path nor a data frame; pass a frame of "
                "pandas, polars or pyarrow, or a dictionary of columns."
            )
    except DataError:
        raise
    except Exception as error:  # whatever the other library raises while it exports
        raise DataError(
            f"the {type(source).__name__} could not be read as a table ({error_text(error)}); give "
            "each column one type."
        ) from None
    unnamed = next((name for name in frame.columns if not isinstance(name, str)), None)
    if unnamed is not None:
        raise DataError(f"column names must be text; got {unnamed!r}.")
    return frame


def frame_like(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Return columns as a frame of the same library as another: pandas, pyarrow, else polars."""
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas":
        return require("pandas", extra="dev").DataFrame(columns)
    if library == "pyarrow":
        return require("pyarrow", extra="data").table(dict(columns))
    return pl.DataFrame(columns)


@dataclass(frozen=True)
class Table:
    """Rows with named columns, and where each row came from.

    `frame`: the rows. Cells of delimited text are text until a reader parses them.
    `name`: of the data.
    `origin`: the file, or the first of several, for an error message.
    `locate`: given a row number, says file and line (or row) for an error message.
    `separator`: what stands between cells of delimited text; None for anything else.
    `has_mark`: whether that text begins with a mark of its encoding, as spreadsheets write it.
    `short_row`: of delimited text, says which row has fewer cells than the first line, if one has;
        reading took those that it lacks as empty.
    """

    frame: pl.DataFrame
    name: str
    origin: str
    locate: Callable[[int], str] = field(repr=False)
    separator: str | None = None
    has_mark: bool = False
    short_row: Callable[[], str | None] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.frame.height

    def take(self, rows: IntArray) -> Table:
        """Return the rows at `rows`, which keep their lines."""
        locate = self.locate
        return replace(self, frame=self.frame[rows], locate=lambda row: locate(int(rows[row])))


def read_table(
    source: Any,
    *,
    format: str | None = None,
    filesystem: Any = None,
    separator: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
    words: Sequence[str] = (),
    report: Report | None = None,
) -> Table:
    """Read a table from a file, a folder, a glob, an address or a data frame.

    Result: all rows of all files.
    `source`: CSV, TSV and text with cells apart by blanks (also gzipped; lines of comments that
        begin with % or # are skipped), Parquet, Arrow, JSON lines and a sheet of an .xlsx
        workbook (extra `spreadsheet`); or a frame of pandas, polars or pyarrow.
    `format`: 'csv', 'tsv', 'text', 'parquet', 'arrow', 'jsonl' or 'xlsx'; by default the suffix
        decides.
    `filesystem`: where the files lie when that is not the local disk.
    `separator`: what stands between cells of delimited text: one character, a blank for any run of
        blanks, or "tab"; guessed from the first line.
    `header`: whether delimited text begins with column names; guessed from the first line.
    `decimal`: what stands before decimals, "." or ","; with a comma, points stand between
        thousands. Guessed where cells are not apart by commas.
    `sheet`: of a workbook, by name or number from 1; by default the first that holds something.
    `encoding`: of delimited text and JSON lines, where that is not UTF-8.
    `words`: columns, or patterns of columns, whose cells are no numbers whatever they look like.
    `report`: told of each guess, one sentence at a time.
    """
    tell = report or ignore_report
    if not isinstance(source, (str, Path, Source)):
        table = Table(as_polars(source), "frame", "the frame", lambda row: f"row {row}")
        return _check_not_empty(_flattened(table, tell))
    files = source
    if not isinstance(files, Source):
        files = find_source(files, format=format, filesystem=filesystem, encoding=encoding)
    if files.format not in TABLE_FORMATS:
        raise ParameterError(f"{files.paths[0]} is {files.format}, which is not read as a table.")
    if sheet is not None and files.format != "xlsx":
        raise ParameterError(
            f"sheet (--sheet) is for .xlsx workbooks; {files.paths[0]} is {files.format}."
        )
    if separator is not None:
        separator = read_separator(separator)
    if separator is None and files.format == "tsv":
        separator = "\t"

    tables = [
        read_content(
            path,
            files.read_bytes(path),
            files.format,
            separator=separator,
            header=header,
            decimal=decimal,
            sheet=sheet,
            words=words,
            report=tell,
        )
        for path in files.paths
    ]
    if files.format in (*DELIMITED, "xlsx"):
        tables = [replace(each, frame=_drop_unnamed(each.frame, each.origin)) for each in tables]
    return _check_not_empty(join_tables(tables, files.name))


def read_content(
    path: str,
    content: bytes,
    format: str,
    *,
    report: Report,
    separator: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    words: Sequence[str] = (),
    first_line: int = 1,
) -> Table:
    """Read the content of one file, or of a block of its lines that begins at `first_line`."""
    may_guess = False
    if format in DELIMITED:
        if format == "text" and separator is None:
            separator = guess_separator(decode(path, content, first_line))
        table = _read_delimited(path, content, separator, header, first_line, report)
        table, may_guess = drop_total_row(table, report), table.separator != ","
    elif format == "xlsx":
        text, first_row = sheet_as_text(path, content, report, sheet)
        table = _read_delimited(path, text, ",", header, first_row, report, is_sheet=True)
        table, may_guess = drop_total_row(table, report), True
    elif format == "jsonl":
        table = _read_json_lines(path, content, first_line)
    else:
        table = _read_binary(path, content, format)
    tell = report if first_line == 1 else ignore_report
    table = _flattened(table, tell)
    frame = convert_decimal_commas(
        table.frame, path, tell, decimal=decimal, may_guess=may_guess, words=words
    )
    return replace(table, frame=frame)


def drop_total_row(table: Table, report: Report) -> Table:
    """Return a table without its last row if that is a row of totals."""
    if len(table) < 2:
        return table
    above, last = table.frame[-2].row(0), table.frame[-1].row(0)
    at = next((at for at, cell in enumerate(last) if (cell or "").strip()), 0)
    lacks = any(cell is not None for cell, below in zip(above, last, strict=True) if below is None)
    if not lacks or not _TOTAL.match(last[at] or ""):
        return table
    row = len(table) - 1
    report(f"left out {table.locate(row)}, which begins with {last[at]!r} and sums up the others")
    return replace(table, frame=table.frame[:-1])


def _flattened(table: Table, report: Report) -> Table:
    frame, rows = flatten_nested(table.frame, report)
    return replace(table if rows is None else table.take(rows), frame=frame)


def _read_delimited(
    path: str,
    content: bytes,
    separator: str | None,
    header: bool | None,
    first_line: int,
    report: Report,
    *,
    is_sheet: bool = False,
) -> Table:
    document = open_delimited(
        path,
        content,
        separator=separator,
        header=header,
        known_names=KNOWN_NAMES,
        first_line=first_line,
        unnamed_may_repeat=True,  # they were refused when the first block was read
        report=report,
    )
    frame = parse_delimited(document)
    # Blank lines parse as rows of nulls; record numbers of the others are kept to name lines.
    is_filled = ~frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    records: IntArray = np.flatnonzero(is_filled)

    def locate(row: int) -> str:
        record = int(records[row])
        if is_sheet:  # a cell may hold several lines
            return f"{path}, row {record + document.has_header + document.first_line}"
        return f"{path}, line {document.line_of(record)}"

    return Table(
        frame.filter(is_filled),
        name_of(path),
        path,
        locate,
        separator=None if is_sheet else document.separator,
        has_mark=content.startswith(codecs.BOM_UTF8),
        short_row=partial(_short_row, document, frame),
    )


def _short_row(document: DelimitedText, frame: pl.DataFrame) -> str | None:
    named = [at for at, name in enumerate(frame.columns, 1) if not _is_unnamed(name)]
    if not named or not frame[:, named[-1] - 1].null_count():  # those of short rows are empty
        return None
    for line, cells in document.records():
        if len(cells) < named[-1] and any(map(str.strip, cells)):
            return (
                f"{document.path}, line {line}: {counted(len(cells), 'cells')} where the first "
                f"line has {named[-1]}; write the others, empty ones too, or leave out the row."
            )
    return None


def _read_json_lines(path: str, content: bytes, first_line: int = 1) -> Table:
    what = "record" if path.endswith(".json") else "line"  # lists may stand in one line
    lines = {
        number: line
        for number, line in enumerate(decode(path, content, first_line).split("\n"), first_line)
        if line.strip()
    }
    for number, line in lines.items():
        try:
            is_object = isinstance(json.loads(line), dict)
        except ValueError as error:
            raise DataError(
                f"{path}, {what} {number}: not valid JSON ({error}); write an object in each line, "
                "or a list of objects."
            ) from None
        if not is_object:
            raise DataError(f"{path}, {what} {number}: a JSON object is needed on every line.")
    try:
        frame = pl.read_ndjson(
            io.BytesIO("\n".join(lines.values()).encode()), infer_schema_length=None
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{path}: its lines do not share one set of columns with one type each "
            f"({error_text(error)})."
        ) from None
    numbers = list(lines)
    return Table(frame, name_of(path), path, lambda row: f"{path}, {what} {numbers[row]}")


def _read_binary(path: str, content: bytes, format: str) -> Table:
    read = pl.read_parquet if format == "parquet" else pl.read_ipc
    try:
        frame = read(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        kind = "Parquet" if format == "parquet" else "Arrow"
        raise DataError(
            f"{path} is not a whole {kind} file: it is cut off or damaged ({error_text(error)}); "
            "fetch or write it again."
        ) from None
    return Table(frame, name_of(path), path, lambda row: f"{path}, row {row}")


def join_tables(tables: Sequence[Table], name: str) -> Table:
    """Concatenate the rows of several files, in order."""
    first = tables[0]
    for table in tables[1:]:
        if set(table.frame.columns) != set(first.frame.columns):
            odd = sorted(set(table.frame.columns) ^ set(first.frame.columns))
            raise DataError(
                f"{table.origin} and {first.origin} have different columns ({', '.join(odd)}); "
                "files read together must share theirs."
            )
    try:
        frame = pl.concat(
            [table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed"
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"the files beside {first.origin} hold columns of different types "
            f"({error_text(error)}); write them with one schema."
        ) from None
    ends = list(accumulate(len(table) for table in tables))

    def locate(row: int) -> str:
        file = bisect_right(ends, row)
        return tables[file].locate(row - (ends[file] - len(tables[file])))

    def short_row() -> str | None:
        said = (table.short_row() for table in tables if table.short_row is not None)
        return next(filter(None, said), None)

    return replace(first, frame=frame, name=name, locate=locate, short_row=short_row)


def _drop_unnamed(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    """Drop columns without name and content, which spreadsheets add after the last."""
    unnamed = [name for name in frame.columns if _is_unnamed(name)]
    filled = [name for name in unnamed if frame[name].null_count() < frame.height]
    if len(filled) > 1:
        raise DataError(f"{path}, line 1: {len(filled)} columns have no name; give each its own.")
    return frame.drop([name for name in unnamed if name not in filled])


def _is_unnamed(column: str) -> bool:
    """Tell whether a column has no name; the parser generates one."""
    return not column or column.startswith("_duplicated_")


def _check_not_empty(table: Table) -> Table:
    if len(table) == 0:
        raise DataError(f"{table.origin} has columns but 0 rows; at least one is needed.")
    return table

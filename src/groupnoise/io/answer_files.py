"""Writing tables as CSV, JSON, Parquet or a spreadsheet, and recognizing those of `resolve`.

Tables written by `resolve` or exported by `review` are recognized by their columns.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from groupnoise.core.arrays import Columns
from groupnoise.core.checks import require
from groupnoise.exceptions import ParameterError
from groupnoise.io.files import atomic_path
from groupnoise.io.labels.spellings import find_label_columns

if TYPE_CHECKING:
    from groupnoise.io.tables.table import Table

FORMATS = (".csv", ".jsonl", ".parquet", ".xlsx")
TABLE_FORMATS = ("csv", "parquet", "json")
BLOCK_ROWS = 1 << 16
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?(e[+-]?[0-9]{1,2})?", re.ASCII)
"""Text of a number without leading zeros and with at most 15 digits before the point."""
RESOLVE_COLUMNS = ("label", "probability", "second", "margin", "agreement", "why", "look")
"""The columns that `resolve` adds."""
ANSWER = "answer"
"""The answer of a person; empty where nobody answered."""
REVIEW_COLUMNS = (ANSWER, "answered_by", "note")
"""Further columns of an export of `review`."""
INPUT_PREFIX = "input_"
"""Prefix of input columns whose name is that of an answer."""
BAG_REVIEW_COLUMNS = ("bag", "label", "object", "answered_by")
"""Columns of an export of `review` about bags: an object per bag and label."""
RESOLVE_MARKERS = ("probability", "margin", "agreement", "look")
"""Numeric columns that identify a file of `resolve`."""
PART_SEPARATOR, NAME_SEPARATOR, LABEL_MARK = "; ", ", ", ": "
"""Separators in a cell of `why`: `cat: ann, bob; dog: eve; rows like it: ...`."""
SIMILAR_ROWS = "rows like it"


def check_format(path: Path, option: str = "--output") -> None:
    """Refuse a file whose suffix is not an output format."""
    if path.suffix not in FORMATS:
        raise ParameterError(f"{option} must end in {', '.join(FORMATS)}; got {path.name!r}.")
    if path.suffix == ".xlsx":
        require("openpyxl", extra="spreadsheet")


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write a table in the form its suffix names."""
    check_format(path)
    # Objects of JSON lines are read with all keys in every row, null where one was missing.
    columns = {name: [_drop_missing(cell) for cell in cells] for name, cells in columns.items()}
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pl.DataFrame(columns, strict=False).write_parquet(temporary)
            return
        if path.suffix == ".xlsx":
            numbers = [_as_numbers(cells) for cells in columns.values()]
            _write_spreadsheet(temporary, list(columns), zip(*numbers, strict=True))
            return
        rows = zip(*columns.values(), strict=True)
        if path.suffix == ".jsonl":
            lines = (
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str)
                + "\n"
                for row in rows
            )
            temporary.write_text("".join(lines), encoding="utf-8")
            return
        with temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows([_json_if_nested(cell) for cell in row] for row in rows)


def _write_spreadsheet(path: Path, names: list[str], rows: Any) -> None:
    openpyxl = require("openpyxl", extra="spreadsheet")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.freeze_panes = "A2"

    def as_cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # Otherwise text that begins with = would be a formula.
        cell = openpyxl.cell.WriteOnlyCell(
            sheet, openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("", value)
        )
        cell.data_type = "s"
        return cell

    for row in (names, *rows):
        sheet.append([as_cell(_json_if_nested(value)) for value in row])
    with path.open("wb") as stream:  # openpyxl refuses the suffix of a temporary name
        book.save(stream)


def _as_numbers(cells: list[Any]) -> list[Any]:
    """Return numbers if all cells of a column are numbers written as text, as in CSV.

    Text such as 007, and ids with more digits than a sheet keeps, stay text.
    """
    told = [cell for cell in cells if cell not in (None, "")]
    if not told or not all(isinstance(cell, str) and NUMBER.fullmatch(cell) for cell in told):
        return cells
    kind = int if all(cell.lstrip("-").isdecimal() for cell in told) else float
    return [None if cell in (None, "") else kind(cell) for cell in cells]


def _drop_missing(cell: Any) -> Any:
    if not isinstance(cell, dict):
        return cell
    return {name: value for name, value in cell.items() if value is not None}


def _json_if_nested(cell: Any) -> Any:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, (list, dict)) else cell


def write_table(path: Path, columns: Columns, named: Callable[[Columns], Columns]) -> None:
    """Write columns in the form that the suffix names, atomically."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".json": _write_json}
    if path.suffix not in writers:
        raise ParameterError(f"a table is written as {', '.join(writers)}; got {path.name!r}.")
    with atomic_path(path) as temporary:
        writers[path.suffix](temporary, _blocks(columns, named))


def _blocks(columns: Columns, named: Callable[[Columns], Columns]) -> Iterator[Columns]:
    """Yield the table in blocks of rows, at least one block."""
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


def is_resolved(columns: Collection[str]) -> bool:
    """Tell whether a table of these columns was written by `resolve` or exported by `review`.

    >>> is_resolved(["x", "label", "probability", "margin", "agreement", "look"])
    True
    >>> is_resolved(["label", "probability", "margin"])
    False
    """
    return set(RESOLVE_MARKERS) <= set(columns)


def rename_input_columns(columns: Sequence[str], answers: Collection[str]) -> dict[str, str]:
    """Return new names of input columns that do not collide with those of answers.

    >>> rename_input_columns(["x", "label", "input_label"], ["label", "look"])
    {'x': 'x', 'label': 'input_input_label', 'input_label': 'input_label'}
    """
    called = {}
    for name in columns:
        own = name
        while own in answers or (own != name and own in columns):
            own = f"{INPUT_PREFIX}{own}"
        called[name] = own
    return called


def find_written_columns(table: Table) -> list[str]:
    """Return the columns of answers and votes in a table written by `resolve`.

    They leak the label, so they must not be features. In the order of the table; empty for other
    tables. Columns of an earlier `resolve`, renamed by a later one, are included.
    """
    columns = table.frame.columns
    found = find_answer_columns(columns)
    for prefix in _prefixes(columns):
        if f"{prefix}why" in columns:
            found |= annotators_in(table.frame[f"{prefix}why"].cast(pl.String).to_list())
        if f"{prefix}label" in columns:
            found |= find_label_columns(table.frame, table.frame[f"{prefix}label"])
    return [name for name in columns if name in found]


def find_answer_columns(columns: Collection[str]) -> set[str]:
    """Return the columns added by `resolve` or `review`, without votes.

    >>> sorted(find_answer_columns(["x", "ann_1", "probability", "margin", "agreement", "look"]))
    ['agreement', 'look', 'margin', 'probability']
    """
    added = {
        f"{p}{name}" for p in _prefixes(columns) for name in (*RESOLVE_COLUMNS, *REVIEW_COLUMNS)
    }
    return added & set(columns)


def _prefixes(columns: Collection[str]) -> Iterator[str]:
    """Yield the prefixes of answer columns, one for each time the table was resolved."""
    prefix = ""
    while is_resolved([name[len(prefix) :] for name in columns if name.startswith(prefix)]):
        yield prefix
        prefix += INPUT_PREFIX


def annotators_in(why: Iterable[str | None]) -> set[str]:
    """Return the annotators named in cells of `why`.

    >>> sorted(annotators_in(["cat: ann, bob; dog: eve; rows like it: cat (0.91)", None]))
    ['ann', 'bob', 'eve']
    """
    parts = {part for cell in why if cell for part in cell.split(PART_SEPARATOR)}
    told = [part.rpartition(LABEL_MARK) for part in parts if not part.startswith(SIMILAR_ROWS)]
    return {name for _, of_label, names in told if of_label for name in names.split(NAME_SEPARATOR)}

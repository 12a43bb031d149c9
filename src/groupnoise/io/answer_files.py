"""Answers as a file: CSV, JSON lines, Parquet or a spreadsheet, written atomically."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl

from groupnoise.core.checks import require
from groupnoise.exceptions import ParameterError
from groupnoise.io.files import atomic_path

FORMATS = (".csv", ".jsonl", ".parquet", ".xlsx")


def check_format(path: Path, option: str = "--output") -> None:
    """Refuse a file whose suffix names no format that is written."""
    if path.suffix not in FORMATS:
        raise ParameterError(f"{option} must end in {', '.join(FORMATS)}; got {path.name!r}.")
    if path.suffix == ".xlsx":
        require("openpyxl", extra="spreadsheet")


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write a table in the form its suffix names.

    Parameters
    ----------
    path : Path
        The file.
    columns : dict of str to list
        Names and cells, all of one length.
    """
    check_format(path)
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pl.DataFrame(columns, strict=False).write_parquet(temporary)
            return
        rows = zip(*columns.values(), strict=True)
        if path.suffix == ".xlsx":
            _write_spreadsheet(temporary, list(columns), rows)
            return
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
            writer.writerows([_flat(cell) for cell in row] for row in rows)


def _write_spreadsheet(path: Path, names: list[str], rows: Any) -> None:
    openpyxl = require("openpyxl", extra="spreadsheet")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.freeze_panes = "A2"

    def as_cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # Without this, text that begins with = would be run as a formula.
        cell = openpyxl.cell.WriteOnlyCell(
            sheet, openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("", value)
        )
        cell.data_type = "s"
        return cell

    for row in (names, *rows):
        sheet.append([as_cell(_flat(value)) for value in row])
    with path.open("wb") as stream:  # a temporary name has no suffix that openpyxl would take
        book.save(stream)


def _flat(cell: Any) -> Any:
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, (list, dict)) else cell

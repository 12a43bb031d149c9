"""Reading a sheet of an .xlsx workbook as CSV."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from datetime import date, datetime, time
from typing import Any

from groupnoise.core.checks import did_you_mean, require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.tables.sources import Report


def sheet_as_text(
    path: str, content: bytes, report: Report, sheet: str | None = None
) -> tuple[bytes, int]:
    """Return a sheet as CSV, one record per row of the sheet, and the row that it begins with.

    UTF-8, cells apart by commas. `path`: the file, for an error message. `content`: an .xlsx
    workbook; of formulas the values that were last computed count. `sheet`: its name, or its
    number from 1; by default the first that holds something. `report`: told which sheet is read
    where several hold something, and which rows above the names of the columns are skipped.
    """
    openpyxl = require("openpyxl", extra="spreadsheet")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and charts
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            sheets = {
                each.title: [[_as_text(cell) for cell in row] for row in _cells(each)]
                for each in book.worksheets
            }
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, SyntaxError, TypeError) as error:
        raise DataError(
            f"{path} is no whole .xlsx workbook ({str(error) or type(error).__name__}); fetch it "
            "again, or save it as CSV."
        ) from None
    filled = [title for title, rows in sheets.items() if rows]
    chosen = _find_sheet(path, list(sheets), filled, sheet)
    others = [title for title in filled if title != chosen]
    if others and sheet is None:
        report(
            f"read the sheet {chosen!r} of {path}; the others ({', '.join(others)}) are not read "
            "(--sheet names another)"
        )
    rows = sheets[chosen]
    begin = _table_start(rows)
    if begin:
        report(f"skipped {counted(begin, 'rows')} above the names of the columns of {path}")
    width = max(len(row) for row in rows)
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(row + [""] * (width - len(row)) for row in rows[begin:])
    return stream.getvalue().encode(), begin + 1


def _find_sheet(path: str, titles: list[str], filled: list[str], sheet: str | None) -> str:
    """Return the sheet that was named, or the first that holds something."""
    if sheet is None:
        if not filled:
            raise DataError(f"{path} is empty; give a file with at least one row.")
        return filled[0]
    name = sheet
    if name not in titles and sheet.isdecimal() and 1 <= int(sheet) <= len(titles):
        name = titles[int(sheet) - 1]
    if name not in titles:
        raise DataError(
            f"{path} has no sheet {sheet!r}{did_you_mean(sheet, titles)}; it has "
            f"{', '.join(map(repr, titles))}."
        )
    if name not in filled:
        raise DataError(f"the sheet {name!r} of {path} is empty; name another with --sheet.")
    return name


def _table_start(rows: list[list[str]]) -> int:
    """Return the first row of the table, below empty rows and titles."""
    n_filled = [sum(map(bool, row)) for row in rows]
    widest = max(n_filled)
    if widest < 3:  # titles cannot be told from the names of two columns
        return next(at for at, n in enumerate(n_filled) if n)
    return next(at for at, n in enumerate(n_filled) if 2 * n > widest)


def _cells(sheet: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a sheet without empty rows at the end."""
    # The size stored in a file may be wrong, and rows would be missing.
    sheet.reset_dimensions()
    rows = list(sheet.iter_rows(values_only=True))
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    return rows


def _as_text(cell: Any) -> str:
    """Return a cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return str(cell)

"""The first sheet of a workbook as delimited text, so that it is read as a saved copy would be."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from datetime import date, datetime, time
from typing import Any

from groupnoise.core.checks import require
from groupnoise.exceptions import DataError
from groupnoise.io.sources import Report


def sheet_as_text(path: str, content: bytes, report: Report) -> bytes:
    """Return the first sheet that holds something as CSV, one record per row of the sheet.

    UTF-8, cells apart by commas. `path`: the file, for an error message. `content`: an .xlsx
    workbook; of formulas the values that were last computed count. `report`: told which sheet is
    read where several hold something.
    """
    openpyxl = require("openpyxl", extra="spreadsheet")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and charts, which play no part here
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            sheets = {
                sheet.title: rows
                for sheet in book.worksheets
                if (rows := [[_as_text(cell) for cell in row] for row in _cells(sheet)])
            }
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, SyntaxError, TypeError) as error:
        raise DataError(
            f"{path} is no whole .xlsx workbook ({str(error) or type(error).__name__}); fetch it "
            "again, or save it as CSV."
        ) from None
    if not sheets:
        raise DataError(f"{path} is empty; give a file with at least one row.")
    first, *others = sheets
    if others:
        report(f"read the sheet {first!r} of {path}; the others ({', '.join(others)}) are not read")
    width = max(len(row) for row in sheets[first])
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(row + [""] * (width - len(row)) for row in sheets[first])
    return stream.getvalue().encode()


def _cells(sheet: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a sheet from its first, without what is empty at the end."""
    # The size that a file states of itself may be wrong, and then rows would be missing.
    sheet.reset_dimensions()
    rows = list(sheet.iter_rows(values_only=True))
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    return rows


def _as_text(cell: Any) -> str:
    """Return a cell as it would stand in a text file."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return str(cell)

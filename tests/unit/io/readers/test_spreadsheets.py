"""A workbook is read as a saved copy of its first sheet would be."""

import sys
from datetime import date

import pytest

from groupnoise.exceptions import DataError, MissingExtraError
from groupnoise.io.tables import read_table

openpyxl = pytest.importorskip("openpyxl")


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_become_the_text_that_a_csv_would_hold(tmp_path):
    rows = [["id", "text", "x", "day", None], [1, "two\nlines, é", 2.5, date(2024, 5, 1), None]]
    rows += [[None] * 4, [2.0, "=1+1", True, None]]
    said = []
    path = workbook(tmp_path / "t.xlsx", empty=[], first=rows, second=[["other"]])
    table = read_table(path, report=said.append)
    assert table.frame.columns == ["id", "text", "x", "day"]
    assert table.frame["id"].to_list() == ["1", "2"]
    assert table.frame["text"].to_list()[0] == "two\nlines, é"
    assert table.frame["x"].to_list() == ["2.5", "True"]
    assert table.frame["day"].to_list() == ["2024-05-01 00:00:00", None]
    assert [table.locate(row) for row in (0, 1)] == [f"{path}, row 2", f"{path}, row 4"]
    assert said == [f"read the sheet 'first' of {path}; the others (second) are not read"]


def test_a_workbook_that_cannot_be_read_is_one_sentence(tmp_path, monkeypatch):
    for content, told in ((b"PK\x03\x04 cut off", "is no whole .xlsx workbook"), (b"", "is empty")):
        (tmp_path / "t.xlsx").write_bytes(content)
        with pytest.raises(DataError, match=told):
            read_table(tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="is empty"):
        read_table(workbook(tmp_path / "e.xlsx", only=[]))
    with pytest.raises(DataError, match="0 rows"):
        read_table(workbook(tmp_path / "e.xlsx", only=[["a", "b"]]))
    with pytest.raises(DataError, match="two columns are called 'a'"):
        read_table(workbook(tmp_path / "e.xlsx", only=[["a", "a"], [1, 2]]))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match="groupnoise\\[spreadsheet\\]"):
        read_table(workbook(tmp_path / "w.xlsx", only=[["a"], ["b"]]))

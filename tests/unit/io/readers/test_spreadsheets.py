"""A workbook is read as a saved copy of its first sheet would be."""

import sys
from datetime import date

import pytest

from groupnoise.exceptions import DataError, MissingExtraError, ParameterError
from groupnoise.io.tables.table import read_table

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
    others = "the others (second) are not read (--sheet names another)"
    assert said == [f"read the sheet 'first' of {path}; {others}"]


def test_a_sheet_is_named_or_numbered(tmp_path):
    path = workbook(tmp_path / "t.xlsx", first=[["a"], [1]], second=[["b"], [2]], third=[])
    said = []
    for sheet in ("second", "2"):
        assert read_table(path, sheet=sheet, report=said.append).frame.columns == ["b"]
    assert said == []
    with pytest.raises(DataError, match=r"no sheet 'secnd'.*'second'.*it has 'first', 'second'"):
        read_table(path, sheet="secnd")
    with pytest.raises(DataError, match=r"the sheet 'third' of .* is empty"):
        read_table(path, sheet="third")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(ParameterError, match=r"is for \.xlsx workbooks"):
        read_table(tmp_path / "t.csv", sheet="second")


def test_titles_above_the_names_of_columns_are_skipped(tmp_path):
    rows = [["Measured in May"], [], ["bag", "label", "x"], ["a", "yes", 1.5], ["b", "no", 2.5]]
    path, said = workbook(tmp_path / "t.xlsx", only=rows), []
    table = read_table(path, report=said.append)
    assert table.frame.columns == ["bag", "label", "x"]
    assert table.locate(1) == f"{path}, row 5"
    assert said == [f"skipped 2 rows above the names of the columns of {path}"]


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

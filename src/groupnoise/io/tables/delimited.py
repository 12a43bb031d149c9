"""Parsing CSV and TSV to text cells, with the line of every row."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import polars as pl

from groupnoise.core.words import counted, error_text
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.tables.sources import Report

SEPARATORS = (",", "\t", ";", "|")
BLANKS = " "
"""The separator that stands for any run of blanks."""
NAMED_SEPARATORS = {"\\t": "\t", "tab": "\t", "space": BLANKS, "blank": BLANKS, "comma": ","}
"""Names for separators that are hard to type in a shell."""
COMMENT_MARKS = ("%", "#")
MIN_LENGTHS = 3
"""Distinct line lengths, in words, from which lines are histories."""
N_HEAD_RECORDS = 20
"""Records by which separators are compared."""
NEAR = 20
"""Bytes of context around an invalid one in an error message."""
_WORD = re.compile(r"[^\s,;|\"]+")
_REMARK = re.compile(r"[%#]+(\s|$)")
_MARKED_LINE = re.compile(r"^[%#]", re.MULTILINE)


@dataclass(frozen=True)
class DelimitedText:
    """The decoded text of a file, or of a block of its lines, and its separator."""

    path: str
    text: str
    separator: str
    has_header: bool
    first_line: int = 1
    is_quoted: bool = True
    """Whether cells may be quoted."""

    def line_of(self, record: int) -> int:
        """Return the line on which a record (the header not counted) ends, from 1."""
        return self._lines[record + self.has_header]

    @cached_property
    def _lines(self) -> list[int]:
        """The line on which each record ends; found once, for callers who ask about all rows."""
        lines: list[int] = []
        with suppress(csv.Error):  # in records that nobody asks about
            lines.extend(line for line, _ in self.records())
        return lines

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the cells of each record, the header included."""
        text = io.StringIO(self.text, newline="")
        if self.is_quoted:
            reader = csv.reader(text, delimiter=self.separator)
        else:
            reader = csv.reader(text, delimiter=self.separator, quoting=csv.QUOTE_NONE)
        for cells in reader:
            yield reader.line_num + self.first_line - 1, cells


FOREIGN_FORMATS = {
    (b"<!doctype html", b"<html"): "a page of HTML, perhaps to log in; download the file itself",
    (b"version https://git-lfs",): "a pointer of Git LFS; fetch the file itself (git lfs pull)",
    (b"pk\x03\x04",): "a workbook or an archive; name it .xlsx or .zip, whichever it is",
    (b"\x1f\x8b", b"par1"): "gzip or Parquet; name it .gz or .parquet, whichever it is",
    (b"%pdf", b"<?xml"): "a PDF or XML; copy its table into a CSV file",
}
"""Beginnings of files of other formats, in lower case, with a remedy."""


class NotUTF8Error(DataError):
    """Text is in another encoding than UTF-8."""


def decode(path: str, content: bytes, first_line: int = 1) -> str:
    """Return text, or name the first line that is not UTF-8."""
    begin = content[:100].lstrip().lower()
    what = next((what for marks, what in FOREIGN_FORMATS.items() if begin.startswith(marks)), None)
    if what is not None and first_line == 1:
        raise DataError(f"{path} is no table of text but {what}.")
    if b"\x00" in content:
        line = content.count(b"\n", 0, content.index(b"\x00")) + first_line
        raise NotUTF8Error(
            f"{path}, line {line}: a NUL byte, so this is not UTF-8 text; say --encoding utf-16 if "
            "it is that, or give the format of a binary file."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first_line
        encoding = _old_encoding(content)
        near = content[max(0, error.start - NEAR) : error.start + NEAR].decode(encoding)
        word = next((each for each in _WORD.findall(near) if not each.isascii()), near)
        raise NotUTF8Error(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8; say --encoding "
            f"{encoding} if {word!r} is right, or another encoding."
        ) from None


def _old_encoding(content: bytes) -> str:
    """Return the most likely encoding of text that is not UTF-8."""
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin1"
    return "cp1252"


def read_separator(given: str) -> str:
    """Return the character that a separator names: itself, or a word such as "tab"."""
    separator = NAMED_SEPARATORS.get(given.lower(), given)
    if len(separator) != 1:
        raise ParameterError(
            f"separator must be one character, or one of tab, space, comma; got {given!r}."
        )
    return separator


def guess_separator(text: str) -> str:
    """Return the separator of the first line that is not a comment; blanks if there is none."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith(COMMENT_MARKS):
            found = max(SEPARATORS, key=line.count)
            return found if found in line else BLANKS
    return BLANKS


def strip_comments(
    text: str, separator: str | None, names: frozenset[str] = frozenset()
) -> tuple[str, int, int]:
    """Return text without its lines of comments, which begin with % or #.

    Leading comments are dropped. A later line is a comment only if a blank follows the mark or its
    number of cells differs from that of the first row, since ids may begin with these characters;
    it becomes blank, so that line numbers stay the same.

    Returns `text`: the text without comments; `n_dropped, n_blanked`: how many lines were dropped
    before the first row, and blanked after it. `names`: column names, in lower case; where blanks
    divide cells, a comment right above the first row with one of them stays as the header.
    """
    if not _MARKED_LINE.search(text):
        return text, 0, 0
    lines = text.split("\n")
    first = next(
        (n for n, line in enumerate(lines) if line.strip() and not line.startswith(COMMENT_MARKS)),
        None,
    )
    if first is None:  # all lines begin with a mark
        return text, 0, 0
    split = separator or next((mark for mark in SEPARATORS if mark in lines[first]), BLANKS)
    n_blanked, is_quoted = 0, False
    width = _n_cells(lines[first], split)
    above = lines[first - 1].lstrip("".join(COMMENT_MARKS)).strip() if first else ""
    is_header = len(above.split()) == width > 1 and names & set(above.lower().split())
    if is_header and split == BLANKS:  # tables of public data
        first -= 1
        lines[first] = above
    for number in range(first, len(lines)):
        line = lines[number]
        is_marked = line.startswith(COMMENT_MARKS) and not is_quoted
        if is_marked and (_REMARK.match(line) or _n_cells(line, split) != width):
            lines[number], n_blanked = "", n_blanked + 1
        elif line.count('"') % 2:
            is_quoted = not is_quoted
    return "\n".join(lines[first:]), first, n_blanked


def strip_titles(text: str) -> tuple[str, int]:
    """Return text without titles above its table, and how many lines these are.

    Titles are lines of one cell before lines of three or more cells, the same number in each.
    """
    lines = [line.strip() for line in text.split("\n", N_HEAD_RECORDS + 1)[:N_HEAD_RECORDS]]
    for mark in SEPARATORS:
        n_filled = [sum(bool(cell.strip()) for cell in line.split(mark)) for line in lines]
        begin = next((at for at, n in enumerate(n_filled) if n > 2), 0)
        table = [line for line in lines[begin:] if line]
        titles = [line for line in lines[:begin] if line]
        is_even = len({line.count(mark) for line in table}) == 1 and len(table) > 2
        of_one_cell = all(
            sum(map(bool, line.split(each))) < 2 for line in titles for each in SEPARATORS
        )
        if titles and is_even and of_one_cell and '"' not in lines[begin]:
            return text.split("\n", begin)[begin], begin
    return text, 0


def _n_cells(line: str, separator: str) -> int:
    return len(line.split()) if separator == BLANKS else line.count(separator) + 1


def open_delimited(
    path: str,
    content: bytes,
    *,
    separator: str | None = None,
    header: bool | None = None,
    known_names: frozenset[str] = frozenset(),
    first_line: int = 1,
    unnamed_may_repeat: bool = False,
    report: Report,
) -> DelimitedText:
    """Decode a file and find out its separator and whether its first record names the columns.

    `separator`: one character, a blank for any run of blanks; by default the most frequent of
        `SEPARATORS` in the first line.
    `header`: by default the first record is a header unless it holds a number and none of
        `known_names`.
    `known_names`: column names, in lower case, that only a header would hold.
    `first_line`: where in the file `content` begins.
    `unnamed_may_repeat`: whether several columns may have no name; the caller then sees to them.
    `report`: told what was guessed.
    """
    text = decode(path, content, first_line)
    if first_line == 1:
        may_name = frozenset() if header is False else known_names
        text, n_dropped, n_blanked = strip_comments(text, separator, may_name)
        first_line += n_dropped
        if n_dropped + n_blanked:
            report(f"skipped {counted(n_dropped + n_blanked, 'lines')} of comments in {path}")
        text, n_titles = strip_titles(text)
        first_line += n_titles
        if n_titles:
            report(f"skipped {counted(n_titles, 'lines')} above the names of the columns of {path}")
    if separator is None:
        separator = max(SEPARATORS, key=text.lstrip("\r\n").split("\n", 1)[0].count)
    if separator == BLANKS:
        text, separator = "\n".join("\t".join(line.split()) for line in text.split("\n")), "\t"
    draft = DelimitedText(path, text, separator, has_header=False, first_line=first_line)
    if '"' in text and not _has_quoted_cells(draft):
        draft = replace(draft, is_quoted=False)
    try:
        begin, first_cells = next((each for each in draft.records() if each[1]), (first_line, []))
    except csv.Error as error:
        raise DataError(f"{path}, line {first_line}: {error}.") from None
    better = _better_separator(draft) if len(first_cells) == 1 else None
    if better is not None:
        raise DataError(
            f"{path}, line {first_line}: no {separator!r} stands there, so all would be one "
            f"column; {better!r} does: say --separator {better!r}."
        )
    if header is None:
        names_columns = any(cell.strip().lower() in known_names for cell in first_cells)
        header = names_columns or not any(_is_number(cell) for cell in first_cells)
        if not header:
            report(f"{path} has no header line; its columns are numbered from column_1")
    if header and _has_trailing_separators(draft):  # of which the header has none
        text = text.replace(first := text.lstrip("\r\n").split("\n", 1)[0], first + separator, 1)
        draft = replace(draft, text=text)
    if header:
        names = [name for name in first_cells if name or not unnamed_may_repeat]
        _check_names_once(f"{path}, line {begin}", names)
    return replace(draft, has_header=header)


def _has_trailing_separators(document: DelimitedText) -> bool:
    """Tell whether every line but the first has an additional empty cell at its end."""
    first, *rows = [each for _, each in islice(document.records(), N_HEAD_RECORDS) if each]
    return bool(rows) and all(len(e) - len(first) == 1 and not e[-1].strip() for e in rows)


def parse_delimited(document: DelimitedText) -> pl.DataFrame:
    """Return all cells as text, one row per record; an empty cell is null."""
    try:
        frame = pl.read_csv(
            io.BytesIO(document.text.encode()),
            separator=document.separator,
            has_header=document.has_header,
            infer_schema=False,
            quote_char='"' if document.is_quoted else None,
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(_explain(document, error)) from None
    if not document.has_header:  # polars has counted from 0 and from 1
        frame.columns = [f"column_{number + 1}" for number in range(frame.width)]
    return frame


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_names_once(place: str, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"{place}: two columns are called {repeated!r}; give each its own name.")


def _explain(document: DelimitedText, error: Exception) -> str:
    """Return an error message that names the record the fast parser failed at."""
    quote = _open_quote(document)
    if quote is not None:
        return (
            f"{document.path}, line {quote}: a quotation mark opens a cell there and is not "
            'closed at its end; close it, or write "" for a mark within a cell in quotes.'
        )
    try:
        width = None
        for line, cells in document.records():
            width = len(cells) if width is None else width
            if len(cells) > width:
                better = _better_separator(document)
                hint = f", or say --separator {better!r}, by which all lines divide alike"
                if not better:
                    hint = _hint_of_histories(document)
                return (
                    f"{document.path}, line {line}: {counted(len(cells), 'cells')} where the "
                    "first line has "
                    f"{width}; quote cells that contain {document.separator!r}{hint}."
                )
    except csv.Error as reason:
        return f"{document.path} is not well-formed: {reason}."
    return f"{document.path} is not well-formed ({error_text(error)})."


def _hint_of_histories(document: DelimitedText) -> str:
    """Return a hint if lines differ so much in length that each may be a history."""
    if not holds_histories(document.text.encode()):
        return ""
    return "; or, if each line is a user and all items of that user, say --setting rs --format text"


def holds_histories(content: bytes) -> bool:
    r"""Tell whether lines are words apart by blanks, two or more and of several numbers.

    >>> holds_histories(b"u1 a b c\nu2 a b\nu3 a\n"), holds_histories(b"a,b\nc,d\ne,f g\n")
    (True, False)
    """
    head = content.split(b"\n")[:N_HEAD_RECORDS]
    lines = [line for line in head if line.strip() and line[:1] not in (b"%", b"#")]
    lengths = {len(line.split()) for line in lines}
    is_plain = not any(mark in line for line in lines for mark in b',;|"')
    return is_plain and len(lengths) >= MIN_LENGTHS and min(lengths) > 1


def _better_separator(document: DelimitedText) -> str | None:
    """Return a separator that splits all first lines into the same number of cells, if any."""
    for separator in SEPARATORS:
        if separator == document.separator:
            continue
        try:
            records = replace(document, separator=separator).records()
            widths = {len(cells) for _, cells in islice(records, N_HEAD_RECORDS) if cells}
        except csv.Error:
            continue
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    return None


def _has_quoted_cells(document: DelimitedText) -> bool:
    """Tell whether cells are quoted: a quotation mark opens a cell.

    Unquoted cells may contain quotation marks too, in tab-separated files even as first character;
    there every mark that opens a cell must also close it.
    """
    opens = re.search(rf'(?:\A|[\n{re.escape(document.separator)}])"', document.text)
    return opens is not None and (document.separator != "\t" or _open_quote(document) is None)


def _open_quote(document: DelimitedText) -> int | None:
    """Return the line of the first quotation mark that opens a cell and is not closed after it."""
    mark = re.escape(document.separator)
    quoted, plain = r'"[^"]*(?:""[^"]*)*"', rf'[^"{mark}\r\n][^{mark}\r\n]*'
    cell = re.compile(rf"(?:{quoted}|{plain}|)(?:{mark}|\r?\n|\r|\Z)")
    at = 0
    while at < len(document.text):
        found = cell.match(document.text, at)
        if found is None:
            return document.text.count("\n", 0, at) + document.first_line
        at = found.end()
    return None

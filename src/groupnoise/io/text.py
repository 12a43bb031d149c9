"""Whitespace text of click histories: `user item` lines, or `user item item ...` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.delimited import BLANKS, decode, without_comments
from groupnoise.io.sources import Report, Source, name_of
from groupnoise.io.tables import Table, join_tables

_WORD = re.compile(r"[^ \t\n\r\v\f]+")
"""Words are apart by the blanks of ASCII, as in bytes; an id may hold other ones."""


def read_history_text(source: Source, report: Report) -> Table:
    """Return one row per click with the columns `user` and `item`, in the order of the files.

    A file whose lines all hold two words has one click per line (the SASRec form). Otherwise a
    line is a user followed by all items of that user, and a user may have one line only.
    """
    return join_tables(
        [_read_one(path, source.read_bytes(path), report) for path in source.paths], source.name
    )


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
    return Table(frame, name_of(path), path, partial(_place, path, lines))


def read_pairs(path: str, content: bytes, first_line: int = 1) -> Table:
    """Return the clicks of a block of `user item` lines that begins at `first_line`."""
    pairs: list[list[str]] = []
    lines: list[int] = []
    for number, words in _lines_of_words(path, content, first_line):
        if len(words) != 2:
            raise DataError(
                f"{path}, line {number}: {len(words)} words where the first lines hold a user and "
                "an item; write pairs throughout, or one line per user."
            )
        pairs.append(words)
        lines.append(number)
    frame = pl.DataFrame(pairs, schema={"user": pl.String, "item": pl.String}, orient="row")
    return Table(frame, name_of(path), path, partial(_place, path, lines))


def holds_pairs(content: bytes) -> bool:
    """Tell whether every line has two words apart by one blank, or by one tab."""
    separator = pair_separator(content).encode()
    return all(
        len(line.split()) == 2 and line.strip().count(separator) == 1
        for line in content.split(b"\n")
        if line.strip()
    )


def pair_separator(content: bytes) -> str:
    """Return what stands between user and item: a tab if the first line has one, or a blank."""
    return "\t" if b"\t" in content.lstrip().split(b"\n", 1)[0] else " "


def _place(path: str, lines: list[int], row: int) -> str:
    return f"{path}, line {lines[row]}"


def _lines_of_words(
    path: str, content: bytes, first_line: int = 1
) -> Iterator[tuple[int, list[str]]]:
    text = decode(path, content, first_line)
    if first_line == 1:
        text, n_dropped, _ = without_comments(text, BLANKS)
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

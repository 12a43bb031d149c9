"""Cells of votes: one label, several, weights by label, and confidences."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.sources import Report
from groupnoise.io.tables import Table
from groupnoise.votes.ballots import Said, as_label

SEPARATORS = ("|", ";")
"""What is guessed to join several labels in a cell; commas and blanks stand inside labels too."""

BROKEN = re.compile(r"""\{.*\}$|[\[{]\s*["']""", re.DOTALL)
"""The beginning of a list or of weights; what begins so and cannot be read is no label."""


def read_confidences(table: Table, name: str) -> list[float | None]:
    """Return a column of numbers; an empty cell is no confidence."""
    cells = table.frame[name]
    numbers: list[float | None] = cells.cast(pl.Float64, strict=False).to_list()
    for line, (cell, number) in enumerate(zip(cells.to_list(), numbers, strict=True)):
        if number is None and cell is not None and str(cell).strip():
            raise DataError(
                f"{table.locate(line)}: the confidence {cell!r} is no number from 0 to 1; "
                "write 90% as 0.9."
            )
    return numbers


def cell_reader(
    table: Table,
    names: Sequence[str],
    separator: str | None,
    report: Report,
    guesses: Sequence[str] = SEPARATORS,
) -> Callable[[str], list[Said]]:
    """Return what reads a column of votes, once the separator of labels is known."""
    texts = [table.frame[name] for name in names if table.frame.schema[name] == pl.String]
    if separator is None:
        for guess in guesses:
            plain = [each.filter(~each.str.contains(r"^\s*[\[{(]")) for each in texts]
            if any(bool(each.str.contains(guess, literal=True).any()) for each in plain):
                report(f"split the labels of a cell at {guess!r}")
                separator = guess
                break
    if separator == "":
        raise ParameterError("label_separator must not be empty.")

    def read(name: str) -> list[Said]:
        votes = []
        for row, cell in enumerate(table.frame[name].to_list()):
            said = parse_vote(cell, separator)
            if isinstance(said, str) and BROKEN.match(said):
                raise DataError(
                    f"{table.locate(row)}: {said[:60]} in {name!r} is no JSON; weights are written "
                    'as {"a": 0.7, "b": 0.3}, lists as ["a", "b"].'
                )
            votes.append(said)
        return votes

    return read


def parse_vote(cell: Any, separator: str | None = None) -> Said:
    """Return what a cell says: a label, several, weights by label, or None for nothing.

    >>> parse_vote('{"a": 0.7, "b": 0.3}'), parse_vote("['a', 'b']"), parse_vote("a; b", ";")
    ({'a': 0.7, 'b': 0.3}, ['a', 'b'], ['a', 'b'])
    """
    if isinstance(cell, dict):  # of a struct column, where labels not named are null
        return {label: weight for label, weight in cell.items() if weight}
    if not isinstance(cell, str):
        return None if cell is None else (cell if isinstance(cell, (list, tuple)) else
                                          as_label(cell))  # fmt: skip
    text = cell.strip()
    if text[:1] in ("[", "{", "("):
        for parse in (json.loads, ast.literal_eval):  # neither runs code
            try:
                value = parse(text)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
            if isinstance(value, (list, tuple, set, dict)):
                return list(value) if isinstance(value, set) else value
    if separator is not None and separator in text:
        return [part.strip() for part in text.split(separator) if part.strip()]
    return text or None

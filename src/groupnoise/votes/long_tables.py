"""Tables with one vote per line, alone or beside a table of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.words import counted, quoted
from groupnoise.exceptions import DataError, MissingColumnError
from groupnoise.io.columns.exclusions import is_id_name
from groupnoise.io.columns.names import plain_name
from groupnoise.io.columns.roles import match_columns
from groupnoise.io.tables.cells import more_rows
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table, read_table
from groupnoise.votes.cells import Entry, cell_reader, read_confidences
from groupnoise.votes.guesses import equivalent_id_column
from groupnoise.votes.part_names import LONG_NAMES, VoteValue, find_column, name_key

VERDICT = "answer"
"""Column in which Prodigy says whether a label is accepted, rejected or ignored."""
STATUS = ("status", "assignment_status")
"""Columns in which Mechanical Turk and Toloka say whether work was accepted, however written."""
TAKEN, NOT_TAKEN = {"approved", "accepted", "submitted"}, {"rejected", "expired", "skipped"}
LocateVote = Callable[[int, str], str]
"""Returns where the vote of an annotator on a row is written."""


def group_by_row(
    table: Table, given: Mapping[str, str | None], separator: str | None, report: Report
) -> tuple[Table, list[Entry], str]:
    """Return a table with one row per id, the votes, and the id column.

    Columns that differ between the votes on a row are left out and reported.
    """
    parts = vote_columns(table, given, report)
    frame = table.frame
    ids = frame[parts["row"]].cast(pl.String).fill_null("")
    first: dict[str, int] = {}
    for line, name in enumerate(ids):
        if not name:
            raise DataError(f"{table.locate(line)}: the cell of {parts['row']!r} is empty.")
        first.setdefault(name, line)
    number = {name: at for at, name in enumerate(first)}
    entries = list(_entries(table, parts, separator, number.__getitem__, report))
    lines = np.array(list(first.values()), dtype=np.int64)
    rows = table.take(lines)
    if len(rows) == len(frame) and frame[parts["annotator"]].n_unique() > 1:
        report(
            f"no row has two votes; if another column than {parts['row']!r} names the rows, say "
            "--row COLUMN"
        )
    by_row = frame.group_by(parts["row"]).n_unique()
    free = [name for name in frame.columns if name not in parts.values()]
    uneven = [name for name in free if not bool((by_row[name] == 1).all())]
    if uneven:
        report(f"left out {quoted(uneven)}, where votes on one row differ")
    if "confidence" not in parts:
        for name in uneven:
            if _are_fractions(frame[name]):
                report(
                    f"if {name!r}, between 0 and 1, says how sure a vote is: --confidence {name}"
                )
    kept = [name for name in frame.columns if name == parts["row"] or name in free]
    kept = [name for name in kept if name not in uneven]
    names = list(first)
    rows = replace(
        rows,
        frame=rows.frame.select(kept),
        locate=lambda at: f"{table.origin}, {parts['row']} {names[at]!r}",
    )
    return rows, entries, parts["row"]


def _are_fractions(cells: pl.Series) -> bool:
    """Tell whether cells are fractions between 0 and 1."""
    if not cells.dtype.is_float():
        return False
    known = cells.drop_nulls()
    return bool(known.is_between(0, 1).all()) and bool((known != known.floor()).any())


def read_separate_votes(
    table: Table,
    source: Any,
    id: str | None,
    given: Mapping[str, str | None],
    separator: str | None,
    report: Report,
    form: Mapping[str, Any],
) -> tuple[list[Entry], str, LocateVote]:
    """Return the votes of a second table, the id column of the first, and locations of votes."""
    votes = read_table(source, report=report, **form)
    parts = vote_columns(votes, given, report, beside=table.frame.columns)
    if id is not None:
        key = match_columns("id", id, table.frame.columns, table.origin)[0]
    else:
        key = _matching_id_column(table, votes, parts["row"], report)
    ids = table.frame[key].cast(pl.String).to_list()
    number = {name: at for at, name in enumerate(ids)}
    if len(number) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise DataError(
            f"{table.origin}: column {key!r} holds {twice!r} in two rows; make ids unique, or name "
            "another column with `id` (--id)."
        )

    def find(name: str) -> int:
        return number.get(name, -1)

    entries = list(_entries(votes, parts, separator, find, report))
    lines: dict[tuple[int, str], int] = {}
    for line, (at, who, _, _) in enumerate(entries):
        lines.setdefault((at, who), line)
    return entries, key, lambda at, who: votes.locate(lines[at, who])


def _matching_id_column(table: Table, votes: Table, key: str, report: Report) -> str:
    """Return the id column: the one named as in the votes, or the only one that holds their ids."""
    columns = table.frame.columns
    if key in columns:
        return key
    asked = set(votes.frame[key].cast(pl.String).drop_nulls().to_list())
    n_held = {
        name: len(asked.intersection(table.frame[name].cast(pl.String).to_list()))
        for name in columns
        if table.frame.schema[name] not in (pl.List, pl.Struct)
    }
    # A few votes on unknown rows are an error in their lines, not a missing column.
    most = max(n_held.values(), default=0)
    found = [name for name, n in n_held.items() if n == most and 2 * n > len(asked)]
    if len(found) != 1:
        held = f"{quoted(found)} hold all" if found else "none of its columns holds most of"
        raise MissingColumnError(
            f"{table.origin} has no column {key!r}, by which {votes.origin} names its rows, and "
            f"{held} these ids; name the column of {table.origin} with `id` (--id); it has "
            f"{', '.join(columns[:12])}.",
            "id",
        )
    holds = "all its" if most == len(asked) else f"{most} of its {len(asked)}"
    report(f"took column {found[0]!r} of the rows for {key!r} of the votes: it holds {holds} ids")
    return found[0]


def _entries(
    table: Table,
    parts: dict[str, str],
    separator: str | None,
    number: Callable[[str], int],
    report: Report,
) -> Iterator[Entry]:
    frame = table.frame
    ids = frame[parts["row"]].cast(pl.String).to_list()
    people = frame[parts["annotator"]].cast(pl.String).fill_null("").to_list()
    said = cell_reader(table, [parts["label"]], separator, report)(parts["label"])
    sure = (
        read_confidences(table, parts["confidence"], report)
        if "confidence" in parts
        else [None] * len(ids)
    )
    said = _drop_rejected(table, _apply_verdicts(table, parts["label"], list(said), report), report)
    rows = [number(name) for name in ids]
    strays = [line for line, at in enumerate(rows) if at < 0]
    if strays:
        raise DataError(
            f"{table.locate(strays[0])}: a vote on row {ids[strays[0]]!r}, which is not among the "
            f"rows{more_rows(len(strays))}; correct the id or drop the vote."
        )
    if n_unnamed := people.count(""):
        report(
            f"{counted(n_unnamed, 'votes')} without an annotator (column {parts['annotator']!r}) "
            f"taken as of one, '?', the first in {table.locate(people.index(''))}"
        )
    yield from zip(rows, (name or "?" for name in people), said, sure, strict=True)


def _apply_verdicts(
    table: Table, label: str, said: list[VoteValue], report: Report
) -> list[VoteValue]:
    """Return votes without those that Prodigy marks in `answer` as rejected or ignored.

    If there is only one label, a rejection is a vote against it.
    """
    verdicts = table.frame[VERDICT].to_list() if VERDICT in table.frame.columns else []
    if label == VERDICT or not {"accept"} <= set(verdicts) <= {
        "accept",
        "reject",
        "ignore",
        None,
    }:
        return said
    labels = {str(vote) for vote in said}
    against = f"not {labels.pop()}" if len(labels) == 1 and "reject" in verdicts else None
    judged = [
        vote if verdict == "accept" else against if verdict == "reject" else None
        for verdict, vote in zip(verdicts, said, strict=True)
    ]
    if against is not None:
        report(f"took what column {VERDICT!r} rejects as votes for {against!r}")
    if n_dropped := sum(vote is None for vote in judged) - sum(vote is None for vote in said):
        report(f"left out {counted(n_dropped, 'votes')} that column {VERDICT!r} takes back")
    return judged


def _drop_rejected(table: Table, said: list[VoteValue], report: Report) -> list[VoteValue]:
    """Return votes without those on work that the requester rejected."""
    name = find_column(table.frame.columns, STATUS)
    if name is None:
        return said
    status = [str(cell or "").strip().lower() for cell in table.frame[name]]
    if not TAKEN & set(status) or not set(status) <= {*TAKEN, *NOT_TAKEN, ""}:
        return said
    n_dropped = sum(each in NOT_TAKEN for each in status)
    if n_dropped:
        report(
            f"left out {counted(n_dropped, 'votes')} that column {name!r} calls rejected; drop "
            "the column to count them"
        )
    return [None if each in NOT_TAKEN else vote for each, vote in zip(status, said, strict=True)]


def vote_columns(
    table: Table, given: Mapping[str, str | None], report: Report, *, beside: Sequence[str] = ()
) -> dict[str, str]:
    """Return the column of each part of a vote, guessed by its name where none was given."""
    columns = table.frame.columns
    parts: dict[str, str] = {}
    for part, name in given.items():
        if name is not None:
            parts[part] = match_columns(part, name, columns, table.origin)[0]
            continue
        free = [column for column in columns if column not in parts.values()]
        found = find_column(free, LONG_NAMES[part])
        if part == "row" and found is not None and table.frame[found].n_unique() == len(table):
            found = _row_column_beside_ids(table, free, given["annotator"]) or found
        if found is None and part == "row":
            shared = [column for column in free if column in beside]
            found = _repeated_id_column(table, free) or (shared[0] if len(shared) == 1 else None)
            found = found or _column_voted_once(table, free)
        if found is not None:
            parts[part] = found
            report(f"took column {found!r} as the {part} of a vote")
        elif part != "confidence":
            raise MissingColumnError(
                f"{table.origin} has no column that looks like the {part} of a vote; name it with "
                f"`{part}` (--{part}); it has {', '.join(columns[:12])}.",
                part,
            )
    return parts


def _row_column_beside_ids(table: Table, columns: Sequence[str], who: str | None) -> str | None:
    """Return the column of row ids in a table whose id column numbers the votes, if any.

    Its values repeat, and every annotator has one vote on each. Of several such columns that
    identify the same rows the one named as an id is returned, or the first.
    """
    who = who or find_column(columns, LONG_NAMES["annotator"])
    if who not in columns:
        return None
    frame = table.frame
    found = [
        name
        for name in columns
        if name != who
        and not frame.schema[name].is_float()
        and not frame.schema[name].is_nested()
        and 3 * frame[name].n_unique() <= 2 * len(frame)
        and frame.select(name, who).n_unique() == len(frame)
    ]
    return equivalent_id_column(frame, found)


def _column_voted_once(table: Table, columns: Sequence[str]) -> str | None:
    """Return the only column with repeated values on each of which annotators vote once."""
    who = find_column(columns, LONG_NAMES["annotator"])
    if who is None:
        return None
    frame = table.frame
    named = {plain_name(name) for names in LONG_NAMES.values() for name in names}
    found = [
        name
        for name in columns
        if name != who
        and plain_name(name) not in named
        and frame[name].n_unique() < len(frame) <= frame[name].n_unique() * frame[who].n_unique()
        and frame.select(name, who).n_unique() == len(frame)
    ]
    return found[0] if len(found) == 1 else None


def _repeated_id_column(table: Table, columns: Sequence[str]) -> str | None:
    """Return the only column named as an id whose values repeat."""
    parts = ("annotator", "label", "confidence")
    others = {name_key(name) for part in parts for name in LONG_NAMES[part]}
    found = [
        name
        for name in columns
        if is_id_name(name)
        and name_key(name) not in others
        and table.frame[name].n_unique() < len(table.frame)
    ]
    return found[0] if len(found) == 1 else None


def is_row_id_name(column: str) -> bool:
    """Tell whether a column is named as a row id."""
    return is_id_name(column) or column.strip().lower() in LONG_NAMES["row"]

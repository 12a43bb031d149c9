"""Votes from tables: a column per annotator, one vote per line, or candidate labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.words import counted, quoted
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError
from groupnoise.io.answer_files import ANSWER, OF_PEOPLE, columns_of_answers, is_resolved
from groupnoise.io.columns.cell_guess import indicator_columns
from groupnoise.io.columns.names import INDICATORS
from groupnoise.io.columns.roles import (
    BESIDE_VOTES,
    annotator_columns,
    is_truth_name,
    match_columns,
)
from groupnoise.io.labels.memberships import read_memberships
from groupnoise.io.labels.spellings import as_known, split_names
from groupnoise.io.tables.sources import Report, say_nothing
from groupnoise.io.tables.table import Table, read_table
from groupnoise.votes.ballots import Votes, as_label, labels_of
from groupnoise.votes.exports import (
    SEPARATORS,
    Entry,
    as_plain,
    cell_reader,
    read_confidences,
    read_export,
    read_flat_export,
)
from groupnoise.votes.guesses import (
    HEAD,
    MIN_GUESSED_ROWS,
    are_counts,
    column_of_lists,
    columns_beside_lists,
    columns_of_one_label_set,
    columns_that_agree,
    parts_of_votes,
)
from groupnoise.votes.long_tables import Place, gathered, votes_beside
from groupnoise.votes.part_names import LONG_NAMES, first_named
from groupnoise.votes.slips import entries_as_heard

MOSTLY_KNOWN = 0.9
"""Share of the cells of a column of votes that name labels which are known."""
CANDIDATE_NAMES = ("candidates", "candidate_labels", "labels", "label_set")


@dataclass(frozen=True)
class VotedRows:
    """Rows and the votes on them.

    `table`: one row per row that is voted on.
    `is_candidates`: whether the votes are sets of candidate labels that are taken to hold the
        truth.
    `columns`: the columns of `table` that hold votes, or by which votes name rows.
    `place`: says where the vote of an annotator on a row stands.
    `kept`: labels that a user said to be some, whatever they look like.
    """

    table: Table
    votes: Votes
    is_candidates: bool
    columns: tuple[str, ...]
    place: Place
    kept: tuple[str, ...] = ()


def read_votes(
    source: Any,
    *,
    annotators: str | Sequence[str] | None = None,
    candidates: str | Sequence[str] | None = None,
    votes: Any = None,
    id: str | None = None,
    row: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    confidence: str | None = None,
    labels: Sequence[str] | None = None,
    label_separator: str | None = None,
    keep_label: str | Sequence[str] | None = None,
    report: Report | None = None,
    **table_options: Any,
) -> VotedRows:
    """Read rows and the votes on them.

    Parameters
    ----------
    source : str, Path, frame or list of dict
        A table as `read_table` reads it, or a `.json` export of Label Studio or Argilla.
    annotators : str or list of str, optional
        The columns of the annotators, by names or patterns such as `ann_*`; an empty cell is no
        vote. By default columns that share a prefix such as `annotator_` or `ann_`.
    candidates : str or list of str, optional
        A column of candidate labels, or a pattern of 0/1 columns, taken to hold the truth.
    votes : str, Path or frame, optional
        A second table with one vote per line; `source` then holds the rows alone.
    id : str, optional
        The column of `source` by which `votes` names rows; by default the one called as there,
        else the only one that holds all ids.
    row, annotator, label, confidence : str, optional
        The columns of a table with one vote per line; guessed by their names. In an export,
        `label` names the question.
    labels : sequence of str, optional
        All labels there are; a vote for another is refused. By default those that were said.
    label_separator : str, optional
        What joins several labels in a cell; by default "|" or ";" where cells hold it, or a word
        such as " or " that makes pairs of labels that also stand alone.
    keep_label : str or list of str, optional
        Labels that stay as they are written. By default words such as `?` and `unsure` are no
        votes, and spellings that differ in capitals or blanks alone are one label.
    report : callable, optional
        Told of each guess, one sentence at a time.
    **table_options
        Passed to `read_table`.

    Returns
    -------
    voted : VotedRows
        Rows in the order of the source.
    """
    tell = report or say_nothing
    keep = split_names(keep_label)
    export = read_export(source, label)
    is_plain = isinstance(export, pl.DataFrame)
    if export is not None and not isinstance(export, pl.DataFrame):
        frame, entries, kind = export
        tell(f"took the file as an export of {kind}")
        table = Table(frame, "export", str(source)[:80], lambda at: f"{kind} task {at}")
        return _voted(table, entries, labels, (), keep, tell)
    table = read_table(export if is_plain else source, report=tell, **table_options)
    if is_plain and isinstance(source, (str, Path)):
        table = replace(table, origin=str(source), locate=lambda at: f"{source}, record {at}")
    flat = read_flat_export(table, label) if annotators is candidates is votes is None else None
    if flat is not None:
        tell("took the table as an export of Argilla")
        return _voted(replace(table, frame=flat[0]), flat[1], labels, (), keep, tell)
    columns = table.frame.columns
    given = {"row": row, "annotator": annotator, "label": label, "confidence": confidence}
    if votes is not None:
        form = {name: table_options.get(name) for name in ("decimal", "encoding")}
        entries, key, place = votes_beside(table, votes, id, given, label_separator, tell, form)
        return _voted(table, entries, labels, (key,), keep, tell, place)
    if id is not None:
        raise ParameterError(
            "id (--id) names rows for a second table: give it with votes (--votes)."
        )
    if annotators is None and candidates is None:
        annotators, parts = _form_of_votes(table, given, tell)
        if parts is not None:
            table, entries, key = gathered(table, parts, label_separator, tell)
            return _voted(table, entries, labels, (key,), keep, tell)
    if annotators is not None:
        named = match_columns("annotators", annotators, columns, table.origin)
        reader = cell_reader(table, named, label_separator, tell)
        sure = _confidences_beside(table, named, tell)
        entries = [
            (at, name, said, sure[name][at] if name in sure else None)
            for name in named
            for at, said in enumerate(reader(name))
        ]
        return _voted(table, entries, labels, named, keep, tell)
    return _from_candidates(table, candidates, labels, label_separator, keep, tell)


def _confidences_beside(
    table: Table, named: Sequence[str], report: Report
) -> dict[str, list[float | None]]:
    """Return the confidences of annotators that stand in columns such as `ann_1_confidence`."""
    found = {}
    for name in named:
        beside = {column[len(name) + 1 :]: column for column in columns_beside(table, [name])}
        column = beside.get(first_named(list(beside), LONG_NAMES["confidence"]) or "")
        if column is None:
            continue
        try:
            sure = read_confidences(table, column, report)
        except DataError:  # words, such as high and low
            continue
        if all(each is None or 0 <= each <= 1 for each in sure):
            report(f"took column {column!r} as how sure the votes of {name!r} are")
            found[name] = sure
    return found


def columns_beside(table: Table, votes: Collection[str]) -> list[str]:
    """Return columns about votes: called as a column of votes with a word such as `comment`."""
    return [
        column
        for column in table.frame.columns
        if BESIDE_VOTES.search(column.lower()) and any(column.startswith(name) for name in votes)
        if column not in votes
    ]


def _voted(
    table: Table,
    entries: Sequence[Entry],
    labels: Sequence[str] | None,
    columns: Sequence[str],
    keep: Sequence[str],
    report: Report,
    place: Place | None = None,
) -> VotedRows:
    where = place or (lambda row, _: table.locate(row))
    entries = entries_as_heard(map(as_plain, entries), where, labels, keep, report)
    if all(said is None for _, _, said, _ in entries):
        raise DataError(f"{table.origin} holds no vote at all, so there is nothing to learn from.")
    people = list(dict.fromkeys(who for _, who, _, _ in entries))
    votes = Votes.from_entries(
        entries, len(table), class_names=labels, annotator_names=people, place=where, report=report
    )
    return VotedRows(table, votes, False, tuple(columns), where, tuple(keep))


def _from_candidates(
    table: Table,
    candidates: str | Sequence[str] | None,
    labels: Sequence[str] | None,
    separator: str | None,
    keep: Sequence[str],
    report: Report,
) -> VotedRows:
    columns = table.frame.columns
    if candidates is None:
        candidates = _named_candidates(columns) or column_of_lists(table)
        if candidates is None:
            alike = columns_of_one_label_set(table)
            hint = f"; these hold the same labels: --annotators '{','.join(alike)}'"
            if are_counts(table, alike):
                hint = f"; {quoted(alike)} look like numbers of votes: write a line for each vote"
            elif set(alike) <= set(indicator_columns(table.frame)):
                hint = f"; if each of these is a label: --candidates '{','.join(alike)}'"
            hint = hint if alike else ""
            raise MissingColumnError(
                f"{table.origin} has neither annotators nor candidates; name the columns of the "
                "votes with `annotators` (--annotators 'ann_*'), who voted in a table of one vote "
                "per line with `annotator` (--annotator), or one column of candidate labels with "
                f"`candidates` (--candidates); it has {', '.join(columns[:12])}{hint}.",
                "annotators",
            )
        named_as = (
            candidates if isinstance(candidates, str) else f"{counted(len(candidates), 'columns')}"
        )
        report(f"took {named_as!r} as the candidate labels")
    named = match_columns("candidates", candidates, columns, table.origin)
    if len(named) > 1:
        member, names = read_memberships(table, named, separator=separator, report=report)
        entries: list[Entry] = [
            (at, f"{named[0]} to {named[-1]}", [names[k] for k in np.flatnonzero(member[at])], None)
            for at in range(len(table))
        ]
        labels = labels or names
    else:
        wide = (*SEPARATORS, ",")
        said = cell_reader(table, named, separator, report, wide)(named[0])
        entries = [(at, named[0], cell, None) for at, cell in enumerate(said)]
    return replace(_voted(table, entries, labels, named, keep, report), is_candidates=True)


def _named_candidates(columns: Sequence[str]) -> str | list[str] | None:
    """Return the columns that are called candidates."""
    found = [name for name in columns if name.lower().startswith(INDICATORS)]
    return found if len(found) > 1 else first_named(columns, CANDIDATE_NAMES)


def _form_of_votes(
    table: Table, given: Mapping[str, str | None], report: Report
) -> tuple[list[str] | None, Mapping[str, str | None] | None]:
    """Return the columns of annotators, or what is known of the parts of one vote per line.

    By names, else by cells; neither where a table may hold candidates. `given`: what a user named
    of the parts of a vote.
    """
    columns = table.frame.columns
    named = {part: name or first_named(columns, LONG_NAMES[part]) for part, name in given.items()}
    if given["annotator"] is not None or (named["annotator"] and named["label"]):
        return None, given
    found = annotator_columns(columns)
    if found is not None:
        report(f"took the {len(found[1])} columns {found[0]}* as annotators")
        return found[1], None
    if _named_candidates(columns) is not None:
        return None, None
    agreeing = columns_that_agree(table) or columns_beside_lists(table)
    if agreeing:
        report(
            f"took {', '.join(map(repr, agreeing))} as annotators: they hold the same labels and "
            "agree beyond chance (--annotators says otherwise)"
        )
        return agreeing, None
    said = {part: name for part, name in given.items() if name and part != "confidence"}
    known = {part: name for part in ("row", "annotator", "label") if (name := named[part])}
    parts = parts_of_votes(table, known) or parts_of_votes(table, said)
    if parts:
        told = " ".join(f"--{part} {name!r}" for part, name in parts.items())
        report(f"took each line as a vote, by its cells: {told} (these options say otherwise)")
        return None, {**given, **parts}
    return None, given if named["annotator"] else None


def known_rows(voted: VotedRows, truth: str | None, report: Report) -> dict[int, str]:
    """Return the true labels that a column holds, by row number.

    Without a name, what people answered, in a table that `review` exported.
    """
    columns = voted.table.frame.columns
    is_answered = truth is None and is_resolved(columns) and set(OF_PEOPLE) <= set(columns)
    if is_answered:
        truth = ANSWER
    if truth is None:
        for column in filter(is_truth_name, columns):
            report(f"left out {column!r}, called as the truth is; --truth {column} learns from it")
        return {}
    (name,) = match_columns("truth", [truth], voted.table.frame.columns, voted.table.origin)
    cells = voted.table.frame[name].to_list()
    names = voted.votes.class_names
    told = {row: as_label(cell) for row, cell in enumerate(cells) if cell not in (None, "")}
    spelt = {label: as_known(label, names) for label in set(told.values())}
    sure = {row: meant for row, label in told.items() if (meant := spelt[label]) is not None}
    for row, label in sure.items():
        if label not in voted.votes.class_names:
            raise DataError(
                f"{voted.table.locate(row)}: column {name!r} says {label!r}, which nobody voted "
                "for; name all labels with `labels`."
            )
    if is_answered and sure:
        report(
            f"took what people answered at the desk, {counted(len(sure), 'labels')} of column "
            f"{name!r}, as true (--truth says otherwise)"
        )
    return sure


def who_is_left_out(voted: VotedRows, taken: Collection[str]) -> str | None:
    """Point out columns that hold the labels of the annotators found, under other names."""
    alike = columns_of_one_label_set(voted.table)
    written = {*columns_of_answers(voted.table.frame.columns), *taken}
    others = [name for name in alike if name not in written and name not in voted.columns]
    if set(voted.columns).isdisjoint(alike):
        others = []
    free = [name for name in voted.table.frame.columns if name not in {*written, *voted.columns}]
    others += [name for name in free if name not in others and _names_labels(voted, name)]
    if not others:
        return None
    every = ",".join(name.replace(",", "?") for name in [*voted.columns, *others])  # as patterns
    return (
        f"left out {quoted(others)}, with the same labels; if these are votes "
        f"too, say --annotators '{every}'"
    )


def _names_labels(voted: VotedRows, column: str) -> bool:
    """Tell whether nearly all cells of a column are votes, in the words of a language model."""
    if voted.table.frame.schema[column] != pl.String or voted.is_candidates:
        return False
    head = voted.table.take(np.arange(min(HEAD, len(voted.table))))
    names = voted.votes.class_names
    try:
        said = cell_reader(head, [column], None, say_nothing)(column)
        entries = [as_plain((row, column, cell, None)) for row, cell in enumerate(said)]
        heard = entries_as_heard(entries, lambda row, _: f"row {row}", names, (), say_nothing)
        votes = [labels_of(vote, "", column).keys() for _, _, vote, _ in heard]
    except DataError:  # a cell that is no vote
        return False
    named = [labels for labels in votes if labels]
    n_known = sum(labels <= set(names) for labels in named)
    return n_known >= max(MIN_GUESSED_ROWS, MOSTLY_KNOWN * len(named))

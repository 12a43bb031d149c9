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
from groupnoise.io.answer_files import ANSWER, REVIEW_COLUMNS, find_answer_columns, is_resolved
from groupnoise.io.columns.cell_guess import indicator_columns
from groupnoise.io.columns.names import INDICATORS
from groupnoise.io.columns.roles import (
    VOTE_SUFFIXES,
    annotator_columns,
    is_truth_name,
    match_columns,
)
from groupnoise.io.labels.memberships import read_memberships
from groupnoise.io.labels.spellings import match_label, split_names
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table, read_table
from groupnoise.votes.cells import (
    SEPARATORS,
    Entry,
    cell_reader,
    read_confidences,
    read_export,
    read_flat_export,
    with_stated_confidence,
)
from groupnoise.votes.data import Votes, as_label, labels_of
from groupnoise.votes.guesses import (
    MAX_GUESS_ROWS,
    MIN_GUESSED_ROWS,
    agreeing_columns,
    are_vote_counts,
    columns_sharing_labels,
    guess_list_column,
    guess_multilabel_columns,
    guess_vote_parts,
)
from groupnoise.votes.long_tables import LocateVote, group_by_row, read_separate_votes
from groupnoise.votes.misspellings import normalize_spellings
from groupnoise.votes.part_names import LONG_NAMES, find_column

MIN_KNOWN_SHARE = 0.9
"""Share of cells with known labels from which a column holds votes."""
CANDIDATE_NAMES = ("candidates", "candidate_labels", "labels", "label_set")


@dataclass(frozen=True)
class VotedRows:
    """Rows and the votes on them.

    `table`: one row per row that is voted on.
    `is_candidates`: whether the votes are sets of candidate labels that are taken to hold the
        truth.
    `columns`: the columns of `table` that hold votes, or the ids of rows.
    `locate`: where the vote of an annotator on a row is written.
    `kept_labels`: labels that the user said are labels, whatever they look like.
    """

    table: Table
    votes: Votes
    is_candidates: bool
    columns: tuple[str, ...]
    locate: LocateVote
    kept_labels: tuple[str, ...] = ()


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
    tell = report or ignore_report
    keep = split_names(keep_label)
    export = read_export(source, label)
    is_plain = isinstance(export, pl.DataFrame)
    if export is not None and not isinstance(export, pl.DataFrame):
        frame, entries, kind = export
        tell(f"took the file as an export of {kind}")
        table = Table(frame, "export", str(source)[:80], lambda at: f"{kind} task {at}")
        return _build(table, entries, labels, (), keep, tell)
    table = read_table(export if is_plain else source, report=tell, **table_options)
    if is_plain and isinstance(source, (str, Path)):
        table = replace(table, origin=str(source), locate=lambda at: f"{source}, record {at}")
    flat = read_flat_export(table, label) if annotators is candidates is votes is None else None
    if flat is not None:
        tell("took the table as an export of Argilla")
        return _build(replace(table, frame=flat[0]), flat[1], labels, (), keep, tell)
    columns = table.frame.columns
    given = {"row": row, "annotator": annotator, "label": label, "confidence": confidence}
    if votes is not None:
        form = {name: table_options.get(name) for name in ("decimal", "encoding")}
        entries, key, locate = read_separate_votes(
            table, votes, id, given, label_separator, tell, form
        )
        return _build(table, entries, labels, (key,), keep, tell, locate)
    if id is not None:
        raise ParameterError(
            "id (--id) names rows for a second table: give it with votes (--votes)."
        )
    if annotators is None and candidates is None:
        annotators, parts = _guess_layout(table, given, tell)
        if parts is not None:
            table, entries, key = group_by_row(table, parts, label_separator, tell)
            return _build(table, entries, labels, (key,), keep, tell)
    if annotators is not None:
        named = match_columns("annotators", annotators, columns, table.origin)
        reader = cell_reader(table, named, label_separator, tell)
        sure = _read_confidence_columns(table, named, tell)
        entries = [
            (at, name, said, sure[name][at] if name in sure else None)
            for name in named
            for at, said in enumerate(reader(name))
        ]
        return _build(table, entries, labels, named, keep, tell)
    return _read_candidates(table, candidates, labels, label_separator, keep, tell)


def _read_confidence_columns(
    table: Table, named: Sequence[str], report: Report
) -> dict[str, list[float | None]]:
    """Return the confidences of annotators in columns such as `ann_1_confidence`."""
    found = {}
    for name in named:
        beside = {column[len(name) + 1 :]: column for column in comment_columns(table, [name])}
        column = beside.get(find_column(list(beside), LONG_NAMES["confidence"]) or "")
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


def comment_columns(table: Table, votes: Collection[str]) -> list[str]:
    """Return columns named like a column of votes with a suffix such as `comment`."""
    return [
        column
        for column in table.frame.columns
        if VOTE_SUFFIXES.search(column.lower()) and any(column.startswith(name) for name in votes)
        if column not in votes
    ]


def _build(
    table: Table,
    entries: Sequence[Entry],
    labels: Sequence[str] | None,
    columns: Sequence[str],
    keep: Sequence[str],
    report: Report,
    locate: LocateVote | None = None,
) -> VotedRows:
    where = locate or (lambda row, _: table.locate(row))
    entries = normalize_spellings(map(with_stated_confidence, entries), where, labels, keep, report)
    if all(said is None for _, _, said, _ in entries):
        raise DataError(f"{table.origin} holds no vote at all, so there is nothing to learn from.")
    people = list(dict.fromkeys(who for _, who, _, _ in entries))
    votes = Votes.from_entries(
        entries, len(table), class_names=labels, annotator_names=people, locate=where, report=report
    )
    return VotedRows(table, votes, False, tuple(columns), where, tuple(keep))


def _read_candidates(
    table: Table,
    candidates: str | Sequence[str] | None,
    labels: Sequence[str] | None,
    separator: str | None,
    keep: Sequence[str],
    report: Report,
) -> VotedRows:
    columns = table.frame.columns
    if candidates is None:
        candidates = _candidate_columns(columns) or guess_list_column(table)
        if candidates is None:
            alike = columns_sharing_labels(table)
            hint = f"; these hold the same labels: --annotators '{','.join(alike)}'"
            if are_vote_counts(table, alike):
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
    return replace(_build(table, entries, labels, named, keep, report), is_candidates=True)


def _candidate_columns(columns: Sequence[str]) -> str | list[str] | None:
    """Return the columns named as candidates."""
    found = [name for name in columns if name.lower().startswith(INDICATORS)]
    return found if len(found) > 1 else find_column(columns, CANDIDATE_NAMES)


def _guess_layout(
    table: Table, given: Mapping[str, str | None], report: Report
) -> tuple[list[str] | None, Mapping[str, str | None] | None]:
    """Return the columns of annotators, or else the columns of a table of one vote per line.

    Guessed from names, then from cells; neither if the table may hold candidates. `given`: columns
    that the user named, by part of a vote.
    """
    columns = table.frame.columns
    named = {part: name or find_column(columns, LONG_NAMES[part]) for part, name in given.items()}
    if given["annotator"] is not None or (named["annotator"] and named["label"]):
        return None, given
    found = annotator_columns(columns)
    if found is not None:
        report(f"took the {len(found[1])} columns {found[0]}* as annotators")
        return found[1], None
    if _candidate_columns(columns) is not None:
        return None, None
    agreeing = agreeing_columns(table) or guess_multilabel_columns(table)
    if agreeing:
        report(
            f"took {', '.join(map(repr, agreeing))} as annotators: they hold the same labels and "
            "agree beyond chance (--annotators says otherwise)"
        )
        return agreeing, None
    said = {part: name for part, name in given.items() if name and part != "confidence"}
    known = {part: name for part in ("row", "annotator", "label") if (name := named[part])}
    parts = guess_vote_parts(table, known) or guess_vote_parts(table, said)
    if parts:
        told = " ".join(f"--{part} {name!r}" for part, name in parts.items())
        report(f"took each line as a vote, by its cells: {told} (these options say otherwise)")
        return None, {**given, **parts}
    return None, given if named["annotator"] else None


def read_known_labels(voted: VotedRows, truth: str | None, report: Report) -> dict[int, str]:
    """Return the true labels that a column holds, by row number.

    By default the answers of people in a table that `review` exported.
    """
    columns = voted.table.frame.columns
    is_answered = truth is None and is_resolved(columns) and set(REVIEW_COLUMNS) <= set(columns)
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
    spelt = {label: match_label(label, names) for label in set(told.values())}
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


def unused_vote_columns(voted: VotedRows, taken: Collection[str]) -> str | None:
    """Return a warning about further columns that hold the labels of the annotators."""
    alike = columns_sharing_labels(voted.table)
    written = {*find_answer_columns(voted.table.frame.columns), *taken}
    others = [name for name in alike if name not in written and name not in voted.columns]
    if set(voted.columns).isdisjoint(alike):
        others = []
    free = [name for name in voted.table.frame.columns if name not in {*written, *voted.columns}]
    others += [name for name in free if name not in others and _holds_votes(voted, name)]
    if not others:
        return None
    every = ",".join(name.replace(",", "?") for name in [*voted.columns, *others])  # as patterns
    return (
        f"left out {quoted(others)}, with the same labels; if these are votes "
        f"too, say --annotators '{every}'"
    )


def _holds_votes(voted: VotedRows, column: str) -> bool:
    """Tell whether nearly all cells of a column are votes, perhaps phrased by a language model."""
    if voted.table.frame.schema[column] != pl.String or voted.is_candidates:
        return False
    head = voted.table.take(np.arange(min(MAX_GUESS_ROWS, len(voted.table))))
    names = voted.votes.class_names
    try:
        said = cell_reader(head, [column], None, ignore_report)(column)
        entries = [
            with_stated_confidence((row, column, cell, None)) for row, cell in enumerate(said)
        ]
        synonyms = normalize_spellings(
            entries, lambda row, _: f"row {row}", names, (), ignore_report
        )
        votes = [labels_of(vote, "", column).keys() for _, _, vote, _ in synonyms]
    except DataError:  # a cell that is no vote
        return False
    named = [labels for labels in votes if labels]
    n_known = sum(labels <= set(names) for labels in named)
    return n_known >= max(MIN_GUESSED_ROWS, MIN_KNOWN_SHARE * len(named))

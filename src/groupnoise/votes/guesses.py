"""Which columns hold votes where their names do not tell: by their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import columns_of_answers
from groupnoise.io.columns.names import usual_column
from groupnoise.io.columns.no_features import is_id_name
from groupnoise.io.columns.roles import is_truth_name
from groupnoise.io.labels.lists import holds_label_lists
from groupnoise.io.labels.spellings import columns_of_labels, joints_of, says_nothing, spelling_key
from groupnoise.io.tables.cells import BOOLEANS, holds_times
from groupnoise.io.tables.sources import say_nothing
from groupnoise.io.tables.table import Table
from groupnoise.votes.averaged import MAX_GRADES
from groupnoise.votes.ballots import Votes, as_label, krippendorff_alpha, labels_of
from groupnoise.votes.exports import SEPARATORS, cell_reader
from groupnoise.votes.part_names import Said

MAX_GUESSED_LABELS = 30
"""Different cells of a column that may still be labels."""
MIN_GUESSED_ROWS = 10
"""Rows from which on columns are taken as votes without being asked for."""
MIN_ALPHA = 0.15
"""Agreement from which on two columns are taken to be about one thing."""
HEAD = 5_000
"""Rows that are looked at."""
MAX_PEOPLE = 100
"""Different cells of a column that may still be annotators."""


def columns_of_one_label_set(table: Table) -> list[str]:
    """Return columns of few words that all hold the same labels, as those of annotators do.

    Somebody who only ever says one of them is among them.
    """
    seen = {
        name: {spelling_key(as_label(cell)) for cell in table.frame[name].drop_nulls().unique()}
        - {""}
        for name, kind in table.frame.schema.items()
        if kind == pl.String or kind.is_integer() or _holds_grades(table.frame[name])
    }
    seen = {name: {cell for cell in said if not says_nothing(cell)} for name, said in seen.items()}
    few = {name: said for name, said in seen.items() if 0 < len(said) <= MAX_GUESSED_LABELS}
    for said in few.values():
        alike = [name for name, other in few.items() if 2 * len(said & other) > len(said | other)]
        if len(said) > 1 and len(alike) > 1:
            every = set.union(*(few[name] for name in alike))
            return [
                name
                for name, other in few.items()
                if name in alike or (len(other) == 1 and other <= every)
            ]
    return []


def are_counts(table: Table, columns: Sequence[str]) -> bool:
    """Tell whether columns count the votes for a label each: all rows have equally many."""
    if len(columns) < 2:
        return False
    numbers = table.frame.select(pl.col(list(columns)).cast(pl.Float64, strict=False))
    sums = numbers.sum_horizontal(ignore_nulls=False)
    return not sums.null_count() and sums.n_unique() == 1 and sums[0] > 1


def columns_that_agree(table: Table) -> list[str]:
    """Return columns of one set of labels that agree beyond chance: votes on the same rows.

    Answers of `yes` and `no` to different questions agree as well, so these are not taken.
    """
    alike = columns_of_one_label_set(table)
    columns = table.frame.columns
    taken = columns_of_answers(columns) | _called_labels(columns)
    alike = [name for name in alike if name not in taken and not is_id_name(name)]
    labels = {
        spelling_key(as_label(cell)) for name in alike for cell in table.frame[name].drop_nulls()
    }
    if len(alike) < 2 or len(table) < MIN_GUESSED_ROWS:
        return []
    if any(labels <= {*pair, ""} for pair in (*BOOLEANS, ("0", "1"))):
        return []
    frame = table.frame.head(HEAD)
    told = [name for name in alike if frame[name].n_unique() > 1]
    entries = [
        (row, name, as_label(cell), None)
        for name in told
        for row, cell in enumerate(frame[name].to_list())
        if cell is not None and not says_nothing(as_label(cell))
    ]
    if len(told) < 2 or not _agree(entries, len(frame)):
        return []
    # Others name several of the labels, or say in words that they know none.
    known = pl.Series([label for label in sorted(labels) if label and not says_nothing(label)])
    words = columns_of_labels(frame, known) - taken - set(alike)
    also = [name for name in words if not is_id_name(name) and _do_agree(table, [*told, name])]
    return [name for name in columns if name in alike or name in also]


def parts_of_votes(table: Table, known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the row, the annotator and the label of a vote, where cells tell them.

    Nobody votes twice on a row, rows and annotators come back, and votes on one row agree beyond
    chance. `known`: columns whose names or users tell their part. Empty where there is no such way
    to read a table, or more than one.
    """
    frame = table.frame.head(HEAD)
    n_rows = len(frame)
    if n_rows < 2 * MIN_GUESSED_ROWS:
        return {}
    names = [
        name
        for name, kind in frame.schema.items()
        if (kind == pl.String or kind.is_integer()) and not holds_times(frame[name])
    ]
    distinct = {name: frame[name].drop_nulls().n_unique() for name in names}
    found = []
    for row, who, label in permutations(names, 3):
        parts = {"row": row, "annotator": who, "label": label}
        if any(parts[part] != name for part, name in known.items()):
            continue
        if not (
            2 <= distinct[who] <= min(MAX_PEOPLE, n_rows // 5) and distinct[row] > distinct[who]
        ):
            continue
        if not 2 <= distinct[label] <= min(MAX_GUESSED_LABELS, n_rows // 5):
            continue
        if 3 * distinct[row] > 2 * n_rows:
            continue
        if frame.select(row, who).n_unique() < n_rows:
            continue
        rows = {cell: place for place, cell in enumerate(frame[row].unique(maintain_order=True))}
        cells = zip(frame[row], frame[who], frame[label], strict=True)
        entries = [
            (rows[each], str(person), str(said), None) for each, person, said in cells
            if each is not None and person is not None and said is not None
        ]  # fmt: skip
        if _agree(entries, len(rows)):
            found.append(parts)
    if len(found) > 1:
        # What is the same in all votes on a row tells of the row, and is no vote.
        found = [each for each in found if not _is_of_row(frame, each)]
    if len({(each["annotator"], each["label"]) for each in found}) == 1:
        named = one_of_alike(frame, [each["row"] for each in found])
        return {} if named is None else {**found[0], "row": named}
    return found[0] if len(found) == 1 else {}


def one_of_alike(frame: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return one of some columns that part rows alike, such as texts and their ids: the id, if any.

    None where there is no column, or where they part rows otherwise.
    """
    if not names or frame.select(names).n_unique() != min(frame[name].n_unique() for name in names):
        return None
    if len({frame[name].n_unique() for name in names}) > 1:
        return None
    return next((name for name in names if is_id_name(name)), names[0])


def column_of_lists(table: Table) -> str | None:
    """Return the only column of lists or weights in JSON, else of lists of few words."""
    notated, joined = _columns_of_lists(table)
    found = notated or joined
    return found[0] if len(found) == 1 else None


def columns_beside_lists(table: Table) -> list[str]:
    """Return columns of which some name several labels of a row, if they are votes of several.

    Others hold the same labels, and they agree beyond chance.
    """
    try:
        return _beside_lists(table)
    except DataError:  # a cell that cannot be read; who is told which columns hold votes says where
        return []


def _beside_lists(table: Table) -> list[str]:
    lists = [name for found in _columns_of_lists(table) for name in found]
    frame = table.frame.head(HEAD)
    head = table.take(np.arange(len(frame)))
    said = {}
    for name in lists:
        cells = cell_reader(head, [name], None, say_nothing, (*SEPARATORS, ","))(name)
        said[name] = [labels_of(cell, "", name) for cell in cells]
    words = {name: {label for cell in cells for label in cell} for name, cells in said.items()}
    taken = columns_of_answers(frame.columns) | _called_labels(frame.columns)
    for labels in words.values():
        if not 1 < len(labels) <= MAX_GUESSED_LABELS or all(label.isdecimal() for label in labels):
            continue
        alike = columns_of_labels(frame, pl.Series(sorted(labels))) - taken
        alike |= {
            name for name, other in words.items() if 2 * len(labels & other) > len(labels | other)
        }
        found = [name for name in frame.columns if name in alike]
        if len(found) > 1 and set(found) & set(lists) and _do_agree(table, found):
            return found
    return []


def _columns_of_lists(table: Table) -> tuple[list[str], list[str]]:
    """Return columns of lists or weights in JSON, and those of lists of few words."""
    notated, joined = [], []
    taken = columns_of_answers(table.frame.columns)
    for name, dtype in table.frame.schema.items():
        if name in taken:
            continue
        if dtype == pl.List(pl.String) or isinstance(dtype, pl.Struct):
            notated.append(name)
        elif dtype == pl.String:
            cells = table.frame[name].drop_nulls().str.strip_chars()
            cells = cells.filter(cells != "")
            if len(cells) and cells.str.contains(r"(?s)^[\[{].*[\]}]$").all():
                notated.append(name)
            elif len(cells) >= MIN_GUESSED_ROWS and _are_joined(cells):
                joined.append(name)
    return notated, joined


def _are_joined(cells: pl.Series) -> bool:
    """Tell lists of few words from sentences of few words, which blanks join."""
    has_mark = any(cells.str.contains(mark, literal=True).any() for mark in (*SEPARATORS, ","))
    return (has_mark and holds_label_lists(cells)) or bool(joints_of(cells))


def _holds_grades(cells: pl.Series) -> bool:
    """Tell whether floats are few whole numbers, as grades are beside cells that are empty."""
    if not cells.dtype.is_float():
        return False
    few = cells.drop_nulls().drop_nans().unique()
    return 0 < len(few) <= MAX_GRADES and bool((few == few.round()).all())


def _do_agree(table: Table, columns: Sequence[str]) -> bool:
    """Tell whether columns, of which some name several labels, agree beyond chance."""
    head = table.take(np.arange(min(HEAD, len(table))))
    reader = cell_reader(head, columns, None, say_nothing)
    entries = [(at, who, cell, None) for who in columns for at, cell in enumerate(reader(who))]
    return _agree(entries, len(head))


def _agree(entries: Sequence[tuple[int, str, Said, None]], n_rows: int) -> bool:
    if not entries:
        return False
    alpha = krippendorff_alpha(Votes.from_entries(entries, n_rows))
    return bool(np.isfinite(alpha)) and alpha >= MIN_ALPHA


def _is_of_row(frame: pl.DataFrame, parts: Mapping[str, str]) -> bool:
    each = frame.group_by(parts["row"]).agg(pl.col(parts["label"]).n_unique())
    return bool((each[parts["label"]] == 1).all())


def _called_labels(columns: Sequence[str]) -> set[str]:
    """Return columns that are called a label or the truth, which may be that of the votes."""
    named = {name for name in columns if is_truth_name(name)}
    usual = {usual_column(part, columns) for part in ("label", "truth")}
    return named | {name for name in usual if name is not None}

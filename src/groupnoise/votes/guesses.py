"""Guessing which columns hold votes from their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import find_answer_columns
from groupnoise.io.columns.exclusions import is_id_name
from groupnoise.io.columns.names import usual_column
from groupnoise.io.columns.roles import is_truth_name
from groupnoise.io.labels.lists import holds_label_lists
from groupnoise.io.labels.spellings import (
    find_label_columns,
    find_separators,
    is_no_answer,
    spelling_key,
)
from groupnoise.io.tables.cells import BOOLEANS, holds_times
from groupnoise.io.tables.sources import ignore_report
from groupnoise.io.tables.table import Table
from groupnoise.votes.cells import SEPARATORS, cell_reader
from groupnoise.votes.data import Votes, as_label, krippendorff_alpha, labels_of
from groupnoise.votes.gibbs import MAX_GRADES
from groupnoise.votes.part_names import VoteValue

MAX_GUESSED_LABELS = 30
"""Distinct values of a column of labels at most."""
MIN_GUESSED_ROWS = 10
"""Rows from which columns may be guessed to hold votes."""
MIN_ALPHA = 0.15
"""Krippendorff's alpha from which columns are guessed to be votes on the same question."""
MAX_GUESS_ROWS = 5_000
"""Rows that guesses use."""
MAX_ANNOTATORS = 100
"""Distinct values of a column of annotators at most."""


def columns_sharing_labels(table: Table) -> list[str]:
    """Return columns that share a small set of labels, as those of annotators do.

    A column that holds only one of the labels is included.
    """
    seen = {
        name: {spelling_key(as_label(cell)) for cell in table.frame[name].drop_nulls().unique()}
        - {""}
        for name, kind in table.frame.schema.items()
        if kind == pl.String or kind.is_integer() or _holds_grades(table.frame[name])
    }
    seen = {name: {cell for cell in said if not is_no_answer(cell)} for name, said in seen.items()}
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


def are_vote_counts(table: Table, columns: Sequence[str]) -> bool:
    """Tell whether columns are vote counts, one per label: all rows have the same sum."""
    if len(columns) < 2:
        return False
    numbers = table.frame.select(pl.col(list(columns)).cast(pl.Float64, strict=False))
    sums = numbers.sum_horizontal(ignore_nulls=False)
    return not sums.null_count() and sums.n_unique() == 1 and sums[0] > 1


def agreeing_columns(table: Table) -> list[str]:
    """Return columns with one set of labels that agree beyond chance.

    Columns of yes and no are not returned: answers to different questions agree as well.
    """
    alike = columns_sharing_labels(table)
    columns = table.frame.columns
    taken = find_answer_columns(columns) | _label_columns(columns)
    alike = [name for name in alike if name not in taken and not is_id_name(name)]
    labels = {
        spelling_key(as_label(cell)) for name in alike for cell in table.frame[name].drop_nulls()
    }
    if len(alike) < 2 or len(table) < MIN_GUESSED_ROWS:
        return []
    if any(labels <= {*pair, ""} for pair in (*BOOLEANS, ("0", "1"))):
        return []
    frame = table.frame.head(MAX_GUESS_ROWS)
    told = [name for name in alike if frame[name].n_unique() > 1]
    entries = [
        (row, name, as_label(cell), None)
        for name in told
        for row, cell in enumerate(frame[name].to_list())
        if cell is not None and not is_no_answer(as_label(cell))
    ]
    if len(told) < 2 or not _agree_beyond_chance(entries, len(frame)):
        return []
    # Further annotators may name several labels, or write words for no vote.
    known = pl.Series([label for label in sorted(labels) if label and not is_no_answer(label)])
    words = find_label_columns(frame, known) - taken - set(alike)
    also = [name for name in words if not is_id_name(name) and _columns_agree(table, [*told, name])]
    return [name for name in columns if name in alike or name in also]


def guess_vote_parts(table: Table, known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of the row, the annotator and the label of a vote, guessed from cells.

    No annotator votes twice on a row, rows and annotators repeat, and votes on the same row agree
    beyond chance. `known`: columns known by name or from the user. Empty unless exactly one choice
    of columns fits.
    """
    frame = table.frame.head(MAX_GUESS_ROWS)
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
            2 <= distinct[who] <= min(MAX_ANNOTATORS, n_rows // 5) and distinct[row] > distinct[who]
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
        if _agree_beyond_chance(entries, len(rows)):
            found.append(parts)
    if len(found) > 1:
        # A column that is constant within each row describes the row.
        found = [each for each in found if not _is_constant_per_row(frame, each)]
    if len({(each["annotator"], each["label"]) for each in found}) == 1:
        named = equivalent_id_column(frame, [each["row"] for each in found])
        return {} if named is None else {**found[0], "row": named}
    return found[0] if len(found) == 1 else {}


def equivalent_id_column(frame: pl.DataFrame, names: Sequence[str]) -> str | None:
    """Return one of several columns that identify the same rows: an id column if there is one.

    None if there are no columns, or if they identify different rows.
    """
    if not names or frame.select(names).n_unique() != min(frame[name].n_unique() for name in names):
        return None
    if len({frame[name].n_unique() for name in names}) > 1:
        return None
    return next((name for name in names if is_id_name(name)), names[0])


def guess_list_column(table: Table) -> str | None:
    """Return the only column of JSON lists or weights, else the only one of lists of few words."""
    notated, joined = _list_columns(table)
    found = notated or joined
    return found[0] if len(found) == 1 else None


def guess_multilabel_columns(table: Table) -> list[str]:
    """Return columns of votes of which some name several labels.

    They share their labels and agree beyond chance.
    """
    try:
        return _multilabel_columns(table)
    except DataError:  # a cell that cannot be parsed; an error only if the user names the column
        return []


def _multilabel_columns(table: Table) -> list[str]:
    lists = [name for found in _list_columns(table) for name in found]
    frame = table.frame.head(MAX_GUESS_ROWS)
    head = table.take(np.arange(len(frame)))
    said = {}
    for name in lists:
        cells = cell_reader(head, [name], None, ignore_report, (*SEPARATORS, ","))(name)
        said[name] = [labels_of(cell, "", name) for cell in cells]
    words = {name: {label for cell in cells for label in cell} for name, cells in said.items()}
    taken = find_answer_columns(frame.columns) | _label_columns(frame.columns)
    for labels in words.values():
        if not 1 < len(labels) <= MAX_GUESSED_LABELS or all(label.isdecimal() for label in labels):
            continue
        alike = find_label_columns(frame, pl.Series(sorted(labels))) - taken
        alike |= {
            name for name, other in words.items() if 2 * len(labels & other) > len(labels | other)
        }
        found = [name for name in frame.columns if name in alike]
        if len(found) > 1 and set(found) & set(lists) and _columns_agree(table, found):
            return found
    return []


def _list_columns(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of JSON lists or weights, and those of lists of few words."""
    notated, joined = [], []
    taken = find_answer_columns(table.frame.columns)
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
            elif len(cells) >= MIN_GUESSED_ROWS and _are_label_lists(cells):
                joined.append(name)
    return notated, joined


def _are_label_lists(cells: pl.Series) -> bool:
    """Tell whether cells are lists of few words, not sentences of few words."""
    has_mark = any(cells.str.contains(mark, literal=True).any() for mark in (*SEPARATORS, ","))
    return (has_mark and holds_label_lists(cells)) or bool(find_separators(cells))


def _holds_grades(cells: pl.Series) -> bool:
    """Tell whether floats are few whole numbers, like grades in a column with empty cells."""
    if not cells.dtype.is_float():
        return False
    few = cells.drop_nulls().drop_nans().unique()
    return 0 < len(few) <= MAX_GRADES and bool((few == few.round()).all())


def _columns_agree(table: Table, columns: Sequence[str]) -> bool:
    """Tell whether columns agree beyond chance; cells may hold several labels."""
    head = table.take(np.arange(min(MAX_GUESS_ROWS, len(table))))
    reader = cell_reader(head, columns, None, ignore_report)
    entries = [(at, who, cell, None) for who in columns for at, cell in enumerate(reader(who))]
    return _agree_beyond_chance(entries, len(head))


def _agree_beyond_chance(entries: Sequence[tuple[int, str, VoteValue, None]], n_rows: int) -> bool:
    if not entries:
        return False
    alpha = krippendorff_alpha(Votes.from_entries(entries, n_rows))
    return bool(np.isfinite(alpha)) and alpha >= MIN_ALPHA


def _is_constant_per_row(frame: pl.DataFrame, parts: Mapping[str, str]) -> bool:
    each = frame.group_by(parts["row"]).agg(pl.col(parts["label"]).n_unique())
    return bool((each[parts["label"]] == 1).all())


def _label_columns(columns: Sequence[str]) -> set[str]:
    """Return columns named as a label or the truth."""
    named = {name for name in columns if is_truth_name(name)}
    usual = {usual_column(part, columns) for part in ("label", "truth")}
    return named | {name for name in usual if name is not None}

"""Candidate labels (partial-label learning) from a table or from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from groupnoise.candidates.long_format import check_not_long_format
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, EmptyGroupError
from groupnoise.io.answer_files import ANSWER, is_resolved
from groupnoise.io.columns.exclusions import RowTargets
from groupnoise.io.columns.features import extract_features
from groupnoise.io.columns.names import INDICATORS
from groupnoise.io.columns.roles import check_no_votes, match_columns, pick_column, require_column
from groupnoise.io.columns.word_features import read_categories, report_unknown_categories
from groupnoise.io.datasets import PartialLabelDataset
from groupnoise.io.folders.data_folder import open_if_stored
from groupnoise.io.labels.columns import merge_label_columns
from groupnoise.io.labels.memberships import read_memberships, read_truth, read_weights
from groupnoise.io.labels.normalization import normalization_messages, normalize_labels
from groupnoise.io.labels.spellings import (
    label_warnings,
    split_names,
)
from groupnoise.io.tables.array_files import (
    NamedArrays,
    check_array_rows,
    class_index,
    read_input,
    turn_rows_first,
)
from groupnoise.io.tables.cells import more_rows
from groupnoise.io.tables.imputation import Imputer, ImputerState, make_imputer
from groupnoise.io.tables.nested_cells import non_numeric_columns
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table

CANDIDATE_PREFIXES = (*INDICATORS, "label_")


@dataclass(frozen=True)
class _ReadOptions:
    """What `read_candidates` was asked for, by the names of its parameters."""

    report: Report
    features: str | Sequence[str] | None
    candidates: str | Sequence[str] | None
    truth: str | None
    label_separator: str | None
    keep_label: Sequence[str]
    feature_names: Sequence[str] | None
    labels_needed: bool
    fill: Imputer | None


def read_candidates(
    source: Any,
    *,
    features: str | Sequence[str] | None = None,
    candidates: str | Sequence[str] | None = None,
    truth: str | None = None,
    label_separator: str | None = None,
    keep_label: str | Sequence[str] | None = None,
    name: str | None = None,
    report: Report | None = None,
    feature_names: Sequence[str] | None = None,
    labels_needed: bool = True,
    categories: Mapping[str, Sequence[str]] | None = None,
    fill: str | ImputerState | None = None,
    **table_options: Any,
) -> PartialLabelDataset:
    """Read instances with candidate labels, one row each.

    Parameters
    ----------
    source : str, Path or frame
        CSV, TSV, Parquet, Arrow, JSON lines (a file, a folder, a glob, an address), `.npz`,
        `.mat`, or a frame of pandas, polars or pyarrow; or a folder
        that `groupnoise data convert` wrote.
    features : str or list of str, optional
        Numeric columns, by name or by patterns such as `f*`, or one column of lists. By default
        every numeric column that plays no other part and is no id, row number or constant.
    candidates : str or list of str, optional
        One column of lists, of labels joined by a separator or of weights by label
        (`{"a": 0.7, "b": 0.3}`); or one 0/1 column per class, or columns of one label each. By
        default a column called so, or those that begin with `candidate_`, `cand_` or `label_`.
        In a `.mat` file the array may lie either way round.
    truth : str, optional
        The column of the right label; empty or -1 where unknown.
    label_separator : str, optional
        What joins labels in one cell; guessed.
    keep_label : str or list of str, optional
        Labels that stay as they are written. By default words such as `?` and `unsure` are none,
        and spellings that differ in capitals or blanks alone are one label.
    name : str, optional
        What to call the set; by default the file's name.
    report : callable, optional
        Told of each guess, one sentence at a time.
    feature_names : sequence of str, optional
        The columns a model learned from: they are taken in this order and no others, and guesses
        leave them alone. Arrays and lists do not name their columns, so there it has no say.
    labels_needed : bool, default=True
        False for rows to be answered about: candidates may be missing, from some rows or from
        all, and the truth is not read.
    categories : dict, optional
        The categories that a model learned, by column, as `columns` of its data has them: it is
        said, or warned, where cells hold others or none.
    fill : {"median", "no"} or dict, optional
        What stands in place of missing numbers of features: the median of their column, or numbers
        by column, as `columns` of an earlier data set has them (then columns far outside of their
        range are told of). By default the median, where at most half of a column's numbers are
        missing; more, and all with "no", are refused.
    **table_options
        Passed to `read_table`: `format`, `filesystem`, `separator`, `header`, `decimal`, `sheet`,
        `encoding`.

    Returns
    -------
    data : PartialLabelDataset
        Rows in the order of the source; a truth outside its candidates is refused.
    """
    stored = open_if_stored(source, PartialLabelDataset)
    if stored is not None:
        return stored
    tell = report or ignore_report
    words = non_numeric_columns(candidates, truth)
    data = read_input(source, report=tell, words=words, **table_options)
    options = _ReadOptions(
        tell, features, candidates, truth, label_separator, split_names(keep_label), feature_names,
        labels_needed, make_imputer(fill, tell),
    )  # fmt: skip
    if isinstance(data, NamedArrays):
        return _candidates_from_arrays(data, name or data.name, options)
    report_unknown_categories(data, categories, report)
    return _candidates_from_table(data, name or data.name, options)


def _candidates_from_table(table: Table, name: str, options: _ReadOptions) -> PartialLabelDataset:
    columns, report, labels_needed = table.frame.columns, options.report, options.labels_needed
    taken = set(options.feature_names or ())
    truth_column = pick_column(
        "truth", options.truth, columns, origin=table.origin, report=report, taken=taken
    )
    if truth_column is not None:
        taken.add(truth_column)
    if options.candidates is not None:
        candidate_columns = match_columns("candidates", options.candidates, columns, table.origin)
    else:
        candidate_columns = _guess_candidates(table, taken, options)
    taken.update(candidate_columns)
    right = None
    weights = None
    if labels_needed:
        memberships, class_names, weights = _labels_and_weights(table, candidate_columns, options)
        _check_rows_have_candidates(memberships, table.locate)
        if len(candidate_columns) == 1 and (memberships.sum(axis=1) == 1).all():
            check_not_long_format(table, candidate_columns[0], taken)
        kept = options.keep_label
        for sentence in label_warnings(class_names, memberships, table.locate, kept=kept):
            report(sentence)
        if truth_column is not None:
            right = read_truth(table, truth_column, class_names)
            if truth_column == ANSWER and is_resolved(columns):
                _add_answers(memberships, right, report)
            _check_truth_inside(right, memberships, class_names, table.locate)
    else:
        memberships, class_names = _candidates_where_given(table, candidate_columns, options)
    answers = RowTargets(memberships, class_names) if labels_needed else None
    matrix, names = extract_features(
        table,
        options.features,
        taken,
        report,
        options.feature_names,
        answers=answers,
        fill=options.fill,
    )
    learned = read_categories(table, names)
    return PartialLabelDataset(
        name=name,
        features=matrix,
        candidates=memberships,
        class_names=class_names,
        truth=right,
        feature_names=names,
        weights=weights,
        source_rows=np.arange(len(table)),
        columns={"candidates": candidate_columns, "truth": truth_column}
        | ({"categories": learned} if learned else {})
        | ({"fill": options.fill.learned} if options.fill is not None else {}),
    )


def _labels_and_weights(
    table: Table, columns: Sequence[str], options: _ReadOptions
) -> tuple[BoolArray, list[str], FloatArray | None]:
    """Return the candidates of each row, the classes, and the weights if the cells have them.

    Where candidates are needed, rows that say nothing but a word for no label have all of them.
    """
    report, separator = options.report, options.label_separator
    table, columns = merge_label_columns(table, columns, report)
    if len(columns) > 1:
        return *read_memberships(table, columns, separator=separator, report=report), None
    weighted = read_weights(table, columns[0], report=report)
    weights, names = weighted or (None, [])
    if weights is None:
        members, names = read_memberships(table, columns, separator=separator, report=report)
    else:
        members = weights > 0
    counts = dict(zip(names, members.sum(axis=0).tolist(), strict=True))
    heard = normalize_labels(counts, keep=options.keep_label)
    if not heard:
        return members, names, weights
    for sentence in normalization_messages(heard, counts, what="no label", times="rows"):
        report(sentence)
    left = [name for name in names if name not in heard]
    position = {name: number for number, name in enumerate(left)}
    moved = np.zeros((len(names), len(left)))
    for number, name in enumerate(names):
        meant = heard.get(name, name)
        if meant is not None:
            moved[number, position[meant]] = 1.0
    amounts = (members if weights is None else weights) @ moved
    is_no_answer = members.any(axis=1) & ~amounts.any(axis=1)
    if options.labels_needed and is_no_answer.any():
        amounts[is_no_answer] = 1.0
        report(
            f"{counted(int(is_no_answer.sum()), 'rows')} without any other label, the first at "
            f"{table.locate(int(is_no_answer.argmax()))}, may have any of the {len(left)}"
        )
    return amounts > 0, left, None if weights is None else amounts


def _guess_candidates(table: Table, taken: set[str], options: _ReadOptions) -> list[str]:
    columns, origin, report = table.frame.columns, table.origin, options.report
    for prefix in CANDIDATE_PREFIXES:
        found = [name for name in columns if name.lower().startswith(prefix) and name not in taken]
        if len(found) > 1:
            report(f"took the {len(found)} columns {prefix}* as candidates")
            return found
    column = pick_column("candidates", None, columns, origin=origin, report=report, taken=taken)
    if is_resolved(columns) and "label" in set(columns) - taken:
        if column is None:
            report("took column 'label', which `resolve` wrote, as the label of each row")
            column = "label"
        else:
            report("--candidates label learns from what `resolve` made of them instead")
            if ANSWER in set(columns) - taken:
                report(f"--learn-truth {ANSWER} learns from what people answered too")
    if column is None and options.labels_needed:
        check_no_votes(columns, origin)
        column = require_column(
            "candidates", None, columns, origin=origin, report=report, taken=taken
        )
    return [] if column is None else [column]


def _candidates_where_given(
    table: Table, columns: Sequence[str], options: _ReadOptions
) -> tuple[BoolArray, list[str]]:
    """Return the candidates of each row; a row without any, or a table, is no fault."""
    rows = np.arange(len(table))
    if len(columns) == 1:
        cells = table.frame[columns[0]]
        is_given = cells.is_not_null()
        if cells.dtype == pl.String:
            is_given &= cells.str.strip_chars() != ""
        rows = rows[is_given.to_numpy()]
    if not columns or not len(rows):
        return np.zeros((len(table), 0), dtype=np.bool_), []
    given, class_names, _ = _labels_and_weights(table.take(rows), columns, options)
    memberships = np.zeros((len(table), len(class_names)), dtype=np.bool_)
    memberships[rows] = given
    return memberships, class_names


def _candidates_from_arrays(
    data: NamedArrays, name: str, options: _ReadOptions
) -> PartialLabelDataset:
    path, report, candidates = data.path, options.report, options.candidates
    matrix = check_features(f"{path}: features", data.need("features", options.features, report))
    is_needed = options.labels_needed or candidates is not None
    if not is_needed and data.find("candidates", None, report) is None:
        return PartialLabelDataset(name, matrix, np.zeros((len(matrix), 0), dtype=np.bool_), [])
    indicator = data.need("candidates", candidates, report)
    if matrix.shape[0] not in indicator.shape and matrix.shape[1] in indicator.shape:
        report(f"{path} stores the features as features x instances; transposed them")
        matrix = matrix.T
    indicator = turn_rows_first(path, "candidates", indicator, len(matrix), report)
    if not np.isin(indicator, (0, 1)).all():
        raise DataError(f"{path}: the candidates may hold only 0 and 1.")
    memberships = indicator.astype(np.bool_)
    class_names = data.class_names(memberships.shape[1], report)

    def place(row: int) -> str:
        return f"{path}, row {row}"

    if not options.labels_needed:
        return PartialLabelDataset(name, matrix, memberships, class_names)
    _check_rows_have_candidates(memberships, place)
    right = _array_truth(data, options.truth, len(matrix), class_names, report)
    if right is not None:
        _check_truth_inside(right, memberships, class_names, place)
    return PartialLabelDataset(name, matrix, memberships, class_names, truth=right)


def _array_truth(
    data: NamedArrays, truth: str | None, n_rows: int, class_names: Sequence[str], report: Report
) -> IntArray | None:
    """Return the right labels from one entry per row or from an indicator matrix."""
    array = data.find("truth", truth, report)
    if array is None:
        return None
    if array.ndim == 2 and 1 not in array.shape:
        indicator = turn_rows_first(data.path, "truth", array, n_rows, report)
        counts = (indicator != 0).sum(axis=1)
        if (counts > 1).any():
            row = int(np.flatnonzero(counts > 1)[0])
            raise DataError(
                f"{data.path}, row {row}: {counts[row]} labels are marked as the truth; mark one."
            )
        return np.where(counts == 1, (indicator != 0).argmax(axis=1), -1).astype(np.int64)
    check_array_rows(data.path, "truth", array.ravel(), n_rows)
    return class_index(array.ravel(), class_names, data.path)


def _check_rows_have_candidates(memberships: BoolArray, place: Any) -> None:
    empty = np.flatnonzero(~memberships.any(axis=1))
    if len(empty):
        raise EmptyGroupError(
            f"{place(int(empty[0]))}: no candidate label there{more_rows(len(empty))}; drop such "
            "rows or give them candidates."
        )


def _add_answers(memberships: BoolArray, truth: IntArray, report: Report) -> None:
    """Make what people answered on a desk, who may choose any label, candidates of their rows."""
    rows = np.flatnonzero(truth >= 0)
    n_new = int((~memberships[rows, truth[rows]]).sum())
    memberships[rows, truth[rows]] = True
    if n_new:
        report(f"made {n_new} answers of people, which nobody had named, candidates of their rows")


def _check_truth_inside(
    truth: IntArray, memberships: BoolArray, class_names: Sequence[str], place: Any
) -> None:
    is_outside = (truth >= 0) & ~memberships[np.arange(len(truth)), np.maximum(truth, 0)]
    if is_outside.any():
        row = int(np.flatnonzero(is_outside)[0])
        raise DataError(
            f"{place(row)}: the truth {class_names[truth[row]]!r} is not among the candidates of "
            f"that row ({counted(int(is_outside.sum()), 'such rows')}); add it to them or "
            f"correct it."
        )

"""Choosing and reading the feature columns of a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import find_written_columns
from groupnoise.io.columns.exclusions import (
    RowTargets,
    exclusion_reason,
    is_id_name,
    report_sentinel_values,
)
from groupnoise.io.columns.roles import match_columns
from groupnoise.io.columns.word_features import (
    guess_text_columns,
    has_words,
    holds_categories,
    is_frequent_category,
    word_features,
    word_weights,
    words_by_column,
)
from groupnoise.io.datasets import FEATURE_SEPARATOR, check_no_missing_features
from groupnoise.io.tables.cells import (
    check_decimal_commas,
    holds_times,
    is_mostly_numeric,
    read_features,
)
from groupnoise.io.tables.imputation import Imputer, check_no_gaps
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

MAX_NAME = 40
"""Longest word, in characters, that may be the name of a row."""
UNIT_REASON = "numbers with a unit or marks between thousands: write the numbers alone"
MAX_BESIDE_TEXT = 50
"""Columns of numbers beside which text is read too; more of them may be what was read from it."""
_MARKED_NUMBER = r"^\s*\(?[+-]?[€$£]?\s*\d[\d.,']*\s*(%|[€$£]|[a-zA-Zµ°/²³]{1,6})?\)?\s*$"
_POSITION = re.compile(r"column_(\d+)")


class NoFeaturesError(DataError):
    """No column of a table is left to be a feature."""


def extract_features(
    table: Table,
    features: str | Sequence[str] | None,
    taken: Collection[str],
    report: Report,
    feature_names: Sequence[str] | None,
    group_of_row: IntArray | None = None,
    takes_text: bool = True,
    answers: RowTargets | None = None,
    fill: Imputer | None = None,
) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Return the feature rows, and their names unless they come in lists.

    `features`: columns that the user named.
    `taken`: columns with another role.
    `report`: receives what was used and what was left out.
    `feature_names`: the features of a model; columns of a table without a header are matched by
        position.
    `group_of_row`: the group of each row, to recognize row numbers within groups.
    `takes_text`: whether words of text become features: of columns of text or of categories that
        were named, or, where nothing is numeric, of the column with the most words.
    `answers`: what rows are labelled with, where it is known: then categories, and text beside
        numbers, are features without being named, and a column that gives the answer away is none.
    `fill`: what stands in place of missing numbers, which are refused without it.
    """
    columns = table.frame.columns
    if feature_names is not None and features is None:
        if words_by_column(feature_names, columns):
            return _features_with_words(table, feature_names, fill), tuple(feature_names)
        feature_names = _by_position(feature_names, columns)
        of_lists = any(_holds_lists(table, name) for name in set(columns) - set(taken))
        if not of_lists or not set(columns).isdisjoint(feature_names):
            check_no_missing_features(table.origin, feature_names, columns)
            features = list(feature_names)
    if features is None:
        written = [name for name in find_written_columns(table) if name not in taken]
        taken = {*taken, *written}
        if written:
            named = _joined([repr(name) for name in written])
            report(f"left out {named}, which `resolve` wrote or read as votes")
    if takes_text:
        names = _names_with_words(table, features, taken, report, group_of_row)
        if names is not None:
            return _features_with_words(table, names, fill), tuple(names)
    chosen, categories = feature_columns(
        table, features, taken, report, group_of_row, answers, takes_text
    )
    names = [*chosen, *(word for column in categories for word in word_features(table, column))]
    read = _features_with_words if categories else _read_filled
    matrix = read(table, names, fill)
    if matrix.shape[1] != len(names):  # lists
        return matrix, None
    if features is None:
        report_sentinel_values(matrix, chosen, report)
    return matrix, tuple(names)


def _names_with_words(
    table: Table,
    features: str | Sequence[str] | None,
    taken: Collection[str],
    report: Report,
    group_of_row: IntArray | None,
) -> list[str] | None:
    """Return the feature names if some are words of text columns, else None."""
    columns = table.frame.columns
    if features is None:
        free = [column for column in columns if column not in taken]
        has_numbers = any(
            is_mostly_numeric(table, c) and not exclusion_reason(table, c, group_of_row)
            for c in free
        )
        if any(_holds_lists(table, c) for c in free) or has_numbers:
            return None
        free = [c for c in free if not is_id_name(c) and not holds_times(table.frame[c])]
        texts = guess_text_columns(table, free)
        named: list[str] = []
    else:
        named = match_columns("features", features, columns, table.origin)
        texts = [
            c
            for c in named
            if not is_mostly_numeric(table, c)
            and (guess_text_columns(table, [c]) or holds_categories(table, c))
        ]
    found = {column: word_features(table, column) for column in texts}
    for column, words in found.items():
        report(f"took {counted(len(words), 'words')} of column {column!r} as features")
    _report_empty_categories(table, found, report)
    names = [name for column in named or found for name in found.get(column, [column])]
    return names if found else None


def _features_with_words(table: Table, names: Sequence[str], fill: Imputer | None) -> FloatArray:
    words = words_by_column(names, table.frame.columns)
    numeric = [n for n in names if n.rpartition(FEATURE_SEPARATOR)[0] not in words]
    check_no_missing_features(table.origin, numeric, table.frame.columns)
    parts = {column: word_weights(table, column, words[column]) for column in words}
    matrix = np.empty((len(table), len(names)), dtype=np.float32)
    numbers = iter(_read_filled(table, numeric, fill).T if numeric else ())
    columns_of = {column: iter(part.T) for column, part in parts.items()}
    for at, name in enumerate(names):
        column = name.rpartition(FEATURE_SEPARATOR)[0]
        matrix[:, at] = next(columns_of[column]) if column in words else next(numbers)
    return matrix


def _read_filled(table: Table, columns: Sequence[str], fill: Imputer | None) -> FloatArray:
    """Return numeric features, with missing numbers imputed, or else refused together."""
    is_of_lists = len(columns) == 1 and _holds_lists(table, columns[0])
    inner = getattr(table.frame.schema[columns[0]], "inner", None)
    if is_of_lists and inner is not None and inner.is_nested():
        raise DataError(
            f"{table.origin}: column {columns[0]!r} holds several rows of features in each cell; "
            f"give one row for each, as pandas makes them with frame.explode({columns[0]!r})."
        )
    if is_of_lists:
        return read_features(table, columns)
    try:
        rows = read_features(table, columns)
    except DataError:
        if fill is not None:
            table = fill.fill_table(table, columns)
        check_no_gaps(table, columns)
        rows = read_features(table, columns)
    if fill is not None:
        fill.learn(rows, columns)
    return rows


def _report_empty_categories(table: Table, columns: Collection[str], report: Report) -> None:
    """Report how many cells of categorical columns are empty."""
    for column in columns:
        cells = table.frame[column].cast(pl.String).fill_null("").str.strip_chars()
        if n_empty := int((cells == "").sum()):
            report(
                f"{n_empty} of {counted(len(cells), 'cells')} of column {column!r} "
                f"{'is' if n_empty == 1 else 'are'} empty; it tells nothing there, so other "
                "columns decide"
            )


def feature_columns(
    table: Table,
    features: str | Sequence[str] | None,
    taken: Collection[str],
    report: Report,
    group_of_row: IntArray | None = None,
    answers: RowTargets | None = None,
    takes_text: bool = True,
) -> tuple[list[str], list[str]]:
    """Return the columns of features, and those of categories whose words are features.

    Those named, a column of lists, or what is free and numeric or, where `answers` are known, a
    category or text.
    """
    columns = table.frame.columns
    if features is not None:
        return match_columns("features", features, columns, table.origin), []
    free = [column for column in columns if column not in taken]
    of_lists = [column for column in free if _holds_lists(table, column)]
    if of_lists:
        longest = max(of_lists, key=lambda column: _length_of_lists(table.frame[column]))
        report(
            f"took column {longest!r} as the features{', the longest lists' * (len(of_lists) > 1)}"
        )
        beside = [c for c in free if c not in of_lists and is_mostly_numeric(table, c)]
        if beside:
            report(f"left out {_joined([*map(repr, beside)])}, numbers beside a list of features")
        if shorter := [repr(column) for column in of_lists if column != longest]:
            report(f"left out {_joined(shorter)}, other lists (--features names one)")
        return [longest], []
    numeric = [column for column in free if is_mostly_numeric(table, column)]
    if not numeric:
        check_decimal_commas(table, free)
    words = [column for column in free if column not in numeric]
    categories = [column for column in words if holds_categories(table, column)]
    categories_used = []
    if answers is not None:
        categories_used = [
            column for column in categories if is_frequent_category(table, column, group_of_row)
        ]
    left_out = {
        column: "not numeric; --features takes its words if you name it"
        if column in categories
        else (UNIT_REASON if _are_marked_numbers(table.frame[column]) else "not numeric")
        for column in words
        if column not in categories_used
    }
    for column in numeric:
        if (fault := exclusion_reason(table, column, group_of_row)) is not None:
            left_out[column] = fault
    for column in [*numeric, *categories_used]:
        fault = None if answers is None else answers.leak_reason(table.frame[column], group_of_row)
        if fault is not None:
            left_out.setdefault(column, fault)
    for column in categories_used:
        if column not in left_out and not has_words(table, column):
            left_out[column] = "hardly ever differs"
    chosen = [column for column in numeric if column not in left_out]
    categories_used = [column for column in categories_used if column not in left_out]
    texts: list[str] = []
    if answers is not None and takes_text and 0 < len(chosen) <= MAX_BESIDE_TEXT:
        texts = _text_beside(table, [c for c in words if c not in categories], group_of_row)
        left_out = {column: why for column, why in left_out.items() if column not in texts}
    if not chosen and not categories_used:
        others = f" ({_listing(left_out)})" if left_out else ""
        words = [column for column, why in left_out.items() if why.startswith("not numeric")]
        such_as = f" {words[0]!r}, for example" if words else ""
        raise NoFeaturesError(
            f"{table.origin} has no numeric column left to be a feature{others}; name columns of "
            f"numbers or of text with `features` (--features{such_as})."
        )
    _report_chosen(table, chosen, categories_used, report)
    for text in texts:
        report(f"took the words of column {text!r} as features, beside the numbers")
        categories_used.append(text)
    if left_out:
        report(f"left out {_listing(left_out)}")
    return chosen, categories_used


def _text_beside(table: Table, free: Collection[str], group_of_row: IntArray | None) -> list[str]:
    """Return the columns of text to be read beside numbers.

    Text that whole groups share tells no object of theirs from the others.
    """
    free = [c for c in free if not is_id_name(c) and not holds_times(table.frame[c])]
    found = [c for c in guess_text_columns(table, free) if has_words(table, c)]
    return [c for c in found if group_of_row is None or not _is_shared(table, c, group_of_row)]


def _is_shared(table: Table, column: str, group_of_row: IntArray) -> bool:
    """Tell whether all rows of each group have the same cell."""
    pairs = pl.DataFrame({"group": group_of_row, "cells": table.frame[column]}).unique()
    return len(pairs) == pairs["group"].n_unique()


def _report_chosen(
    table: Table, chosen: Sequence[str], categories_used: Sequence[str], report: Report
) -> None:
    """Report the numeric and categorical columns used as features."""
    columns = table.frame.columns
    if chosen:
        first, last = columns.index(chosen[0]), columns.index(chosen[-1])
        is_range = len(chosen) > 1 and last - first + 1 == len(chosen)
        shown = f"{chosen[0]!r} to {chosen[-1]!r}" if is_range else _joined([*map(repr, chosen)], 4)
        report(f"took {counted(len(chosen), 'numeric columns')} as features, {shown}")
    if categories_used:
        named = _joined([repr(column) for column in categories_used])
        report(f"took the categories of {named} as features")
        _report_empty_categories(table, categories_used, report)


def _are_marked_numbers(cells: pl.Series) -> bool:
    """Tell whether cells are numbers with a unit, a currency or thousands separators."""
    if cells.dtype != pl.String or holds_times(cells):
        return False
    filled = cells.drop_nulls()
    return len(filled) > 0 and bool(filled.str.contains(_MARKED_NUMBER).all())


def _holds_lists(table: Table, column: str) -> bool:
    """Tell whether cells are lists of numbers, not of words or objects."""
    kind = table.frame[column].dtype  # `frame.schema` would be built for all columns
    if not isinstance(kind, (pl.List, pl.Array)):
        return False
    return kind.inner != pl.String and not isinstance(kind.inner, pl.Struct)


def _length_of_lists(cells: pl.Series) -> int:
    filled = cells.drop_nulls()
    return len(filled[0]) if len(filled) else 0


def find_name_column(table: Table, taken: Collection[str] = ()) -> str | None:
    """Return the first column of distinct short words without empty cells, if any."""
    for name, dtype in table.frame.schema.items():
        cells = table.frame[name]
        if (
            name in taken
            or dtype != pl.String
            or cells.null_count()
            or cells.n_unique() < len(cells)
        ):
            continue
        is_word = (cells.str.len_chars() <= MAX_NAME) & ~cells.str.contains(r"\s")
        is_number = cells.str.contains(r"^[+-]?[0-9.,]+(e[+-]?[0-9]+)?$")
        if bool((is_word & ~is_number).all()):
            return name
    return None


def _by_position(feature_names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """Return columns by position if the model was fitted to a file without a header."""
    positions = [_POSITION.fullmatch(name) for name in feature_names]
    if not set(columns).isdisjoint(feature_names) or not all(positions):
        return feature_names
    numbers = [int(found.group(1)) for found in positions if found is not None]
    return [columns[n - 1] for n in numbers] if max(numbers) <= len(columns) else feature_names


def _listing(left_out: dict[str, str]) -> str:
    """Return the columns left out, grouped by reason."""
    by_fault: dict[str, list[str]] = {}
    for column, fault in left_out.items():
        by_fault.setdefault(fault, []).append(repr(column))
    return "; ".join(f"{_joined(named)} ({fault})" for fault, named in by_fault.items())


def _joined(named: list[str], most: int = 12) -> str:
    if len(named) > most:
        named = [*named[: most - 1], f"{len(named) - most + 1} more columns"]
    return ", ".join(named[:-1]) + " and " + named[-1] if len(named) > 1 else named[0]

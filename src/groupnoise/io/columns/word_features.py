"""Words as features, from columns of text and of categories."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.exclusions import is_id_name
from groupnoise.io.columns.names import USUAL_NAMES, plain_name
from groupnoise.io.datasets import FEATURE_SEPARATOR
from groupnoise.io.labels.memberships import is_bracketed
from groupnoise.io.tables.cells import holds_times
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

MAX_WORDS = 2000
"""Words in the vocabulary at most, those in most rows."""
MIN_TEXT_WORDS = 3.0
"""Mean number of words from which a column is guessed to be text."""
MAX_CATEGORIES = 50
"""Distinct values up to which a column of words is categorical."""
ROWS_OF_A_CATEGORY = 10
"""Mean number of rows per category from which categories are features by default."""
MAX_SHOWN = 3
"""Categories listed in a message at most."""
ABOUT_LABELS = re.compile(
    r"((annotator|annotation|label|vote|answer|review)_)?(comments?|notes?|remarks?|reasons?"
    r"|rationale|explanation|justification)"
)
"""What a column is called, beside the text of a row, that says why it was labelled so."""
TOKEN = r"(?u)\b\w+\b"


def guess_text_columns(table: Table, free: Collection[str]) -> list[str]:
    """Return the columns of a few words per row: the one with the most, and others that differ.

    Beside it columns of categories, and what somebody wrote about the labels, are left out.
    """
    n_words = {
        name: float(table.frame[name].str.count_matches(r"\S+").fill_null(0).mean() or 0.0)  # type: ignore[arg-type]
        for name in table.frame.columns
        if name in free and table.frame.schema[name] == pl.String
        if not is_bracketed(table.frame[name])  # lists and weights of labels
    }
    most = max(n_words, key=lambda name: n_words[name], default=None)
    return [
        name
        for name, n in n_words.items()
        if n >= MIN_TEXT_WORDS and (name == most or _is_text_of_row(table, name))
    ]


def _is_text_of_row(table: Table, column: str) -> bool:
    """Tell whether a column of words was there before anybody labelled the row, and differs."""
    if ABOUT_LABELS.fullmatch(plain_name(column)):
        return False
    return not holds_categories(table, column) and has_words(table, column)


def holds_categories(table: Table, column: str) -> bool:
    """Tell whether a column is categorical: a few repeated words, such as colours."""
    cells = table.frame[column]
    if cells.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    filled = cells.cast(pl.String).drop_nulls().str.to_lowercase()
    is_word = filled.str.contains(r"^\s*[^\W\d]")
    return bool(is_word.all()) and 2 <= filled.n_unique() <= min(MAX_CATEGORIES, len(filled) // 2)


def is_frequent_category(table: Table, column: str, group_of_row: IntArray | None) -> bool:
    """Tell whether categories repeat often enough to be features, and are not names of rows.

    Values that are constant within groups, such as names of people, count once per group.
    """
    cells = table.frame[column].drop_nulls()
    n_told = len(cells)
    if group_of_row is not None:
        pairs = pl.DataFrame({"group": group_of_row, "cells": table.frame[column]}).unique()
        if len(pairs) == pairs["group"].n_unique():
            n_told = len(pairs)
    often = ROWS_OF_A_CATEGORY * cells.n_unique() <= n_told
    is_split = plain_name(column) in USUAL_NAMES["split"]
    return often and not is_split and not is_id_name(column) and not holds_times(cells)


def word_features(table: Table, column: str) -> list[str]:
    """Return the features of a text column: its words that occur in more than one row."""
    from sklearn.feature_extraction.text import CountVectorizer

    reader = CountVectorizer(
        token_pattern=TOKEN, min_df=2, max_df=0.5, max_features=MAX_WORDS, binary=True
    )
    try:
        reader.fit(cells_as_text(table, column))
    except ValueError:
        raise DataError(
            f"{table.origin}: the text in column {column!r} holds no word that stands in several "
            "rows, so rows cannot be compared; give numeric columns with `features` (--features)."
        ) from None
    return [f"{column}{FEATURE_SEPARATOR}{word}" for word in sorted(reader.vocabulary_)]


def has_words(table: Table, column: str) -> bool:
    """Tell whether a text column has words that occur in several rows, but not in most."""
    try:
        return len(word_features(table, column)) > 0
    except DataError:
        return False


def words_by_column(feature_names: Sequence[str], columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the words by text column among the feature names of a model."""
    found: dict[str, list[str]] = {}
    for name in feature_names:
        column, between, word = name.rpartition(FEATURE_SEPARATOR)
        if between and name not in columns and column in columns:
            found.setdefault(column, []).append(word)
    return found


def word_weights(table: Table, column: str, words: Sequence[str]) -> FloatArray:
    """Return the weight of each word in each row, shape (n_rows, n_words).

    Logarithms of counts, normalized to unit rows, so that long texts count no more than short ones;
    a row without any of the words is zero.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    reader = CountVectorizer(token_pattern=TOKEN, vocabulary=list(words))
    counts = reader.transform(cells_as_text(table, column)).astype(np.float32)
    counts.data = 1.0 + np.log(counts.data)
    return normalize(counts).toarray()


def cells_as_text(table: Table, column: str) -> list[str]:
    """Return the cells of a column as text, empty where there is none."""
    return table.frame[column].cast(pl.String).fill_null("").to_list()


def read_categories(table: Table, names: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the categories of each categorical column among the features.

    `names`: of the features. An empty cell is a category where there are such.
    """
    columns = words_by_column(names or (), table.frame.columns)
    return {
        column: sorted(set(_plain_cells(table, column)))
        for column in columns
        if holds_categories(table, column)
    }


def report_unknown_categories(
    table: Table, known: Mapping[str, Sequence[str]] | None, report: Report | None
) -> None:
    """Report cells with categories unknown to a model; a Python warning without `report`."""
    for column, categories in (known or {}).items():
        if column not in table.frame.columns:
            continue
        foreign = [cell for cell in _plain_cells(table, column) if cell not in categories]
        words = Counter(cell for cell in foreign if cell)
        said = []
        if words:
            shown = ", ".join(repr(word) for word, _ in words.most_common(MAX_SHOWN))
            more = ", ..." * (len(words) > MAX_SHOWN)
            rows = counted(words.total(), "rows")
            said.append(f"{rows} with categories that the model never saw ({shown}{more})")
        if n_empty := len(foreign) - words.total():
            said.append(f"{counted(n_empty, 'rows')} with an empty cell")
        if said:
            sentence = (
                f"column {column!r} has {' and '.join(said)}; it tells nothing there, so other "
                "columns decide"
            )
            if report is None:
                warnings.warn(sentence, UserWarning, stacklevel=3)
            else:
                report(sentence)


def _plain_cells(table: Table, column: str) -> list[str]:
    return [cell.strip().lower() for cell in cells_as_text(table, column)]

"""Words as features: columns of text, and of categories."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BETWEEN
from groupnoise.io.memberships import is_bracketed
from groupnoise.io.tables import Table

MAX_WORDS = 2000
"""Words that count at most, those of the most rows."""
MIN_TEXT_WORDS = 3.0
"""Mean number of words from which on a column is guessed to be text."""
MAX_CATEGORIES = 50
"""Different cells up to which a column of words names categories."""
TOKEN = r"(?u)\b\w+\b"


def guess_text_column(table: Table, free: Collection[str]) -> str | None:
    """Return the column with the most words, if it has a few per row.

    `free`: columns that play no other part.
    """
    n_words = {
        name: float(table.frame[name].str.count_matches(r"\S+").fill_null(0).mean() or 0.0)  # type: ignore[arg-type]
        for name in table.frame.columns
        if name in free and table.frame.schema[name] == pl.String
        if not is_bracketed(table.frame[name])  # lists and weights of labels
    }
    most = max(n_words, key=lambda name: n_words[name], default=None)
    return most if most is not None and n_words[most] >= MIN_TEXT_WORDS else None


def names_categories(table: Table, column: str) -> bool:
    """Tell whether the cells of a column are a few words that recur, such as colours."""
    cells = table.frame[column]
    if cells.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    filled = cells.cast(pl.String).drop_nulls().str.to_lowercase()
    is_word = filled.str.contains(r"^\s*[^\W\d]")
    return bool(is_word.all()) and 2 <= filled.n_unique() <= min(MAX_CATEGORIES, len(filled) // 2)


def word_features(table: Table, column: str) -> list[str]:
    """Return the features of a column of text: its words that stand in more than one row."""
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
    return [f"{column}{BETWEEN}{word}" for word in sorted(reader.vocabulary_)]


def text_columns_among(
    feature_names: Sequence[str], columns: Sequence[str]
) -> dict[str, list[str]]:
    """Return for each column of text the words that a model learned from."""
    found: dict[str, list[str]] = {}
    for name in feature_names:
        column, between, word = name.rpartition(BETWEEN)
        if between and name not in columns and column in columns:
            found.setdefault(column, []).append(word)
    return found


def read_words(table: Table, column: str, words: Sequence[str]) -> FloatArray:
    """Return the weight of each word in each row, shape (n_rows, n_words).

    Counts are dampened by a logarithm and rows brought to length one, so that long texts count no
    more than short ones; a row without any of the words is zero.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    reader = CountVectorizer(token_pattern=TOKEN, vocabulary=list(words))
    counts = reader.transform(cells_as_text(table, column)).astype(np.float32)
    counts.data = 1.0 + np.log(counts.data)
    dense: FloatArray = normalize(counts).toarray()
    return dense


def cells_as_text(table: Table, column: str) -> list[str]:
    """Return the cells of a column as text, empty where there is none."""
    text: list[str] = table.frame[column].cast(pl.String).fill_null("").to_list()
    return text

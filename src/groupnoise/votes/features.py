"""What a classifier sees of each row: numeric columns, an embedding, or words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_features, require
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError
from groupnoise.io.columns import match_columns, written_columns
from groupnoise.io.feature_columns import (
    NoFeaturesError,
    cells_as_text,
    features_of_table,
    guess_text_column,
    is_id_name,
)
from groupnoise.io.sources import Report
from groupnoise.io.tables import Table

MAX_WORDS = 20_000
"""Words and pairs of words that count at most, the most frequent ones."""
TEXT_DIM = 100
"""Directions that TF-IDF vectors are reduced to."""


def row_features(
    table: Table,
    *,
    features: str | Sequence[str] | None,
    text: str | None,
    embedding: Any,
    embed: str | None,
    taken: Collection[str],
    report: Report,
) -> FloatArray | None:
    """Return one vector per row, or None where the table has nothing to learn from.

    Of shape (n_rows, n_features): all that was named side by side; by default the numeric columns,
    else a column of text.
    `features`: numeric columns.
    `text`: a column of text, or several joined by commas; read by TF-IDF.
    `embedding`: one vector per row: a `.npy` file or an array.
    `embed`: a sentence-transformers model on this disk, which reads the text in place of TF-IDF.
    `taken`: columns that hold votes.
    `report`: told of each guess.
    """
    parts = []
    if embedding is not None:
        parts.append(_embedding(embedding, len(table)))
    if features is not None:
        parts.append(features_of_table(table, features, taken, report, None)[0])
    if text is not None or embed is not None:
        names = _text_columns(table, text, taken, report)
        texts = _texts(table, names)
        parts.append(text_vectors(texts, seed=0) if embed is None else embedded(texts, embed))
    if parts:
        return np.concatenate(parts, axis=1)
    try:
        return features_of_table(table, None, taken, report, None, takes_text=False)[0]
    except NoFeaturesError:
        pass  # text may do
    names = _guess_text(table, taken)
    if not names:
        report("found no features and no text: labels come from the votes alone")
        return None
    report(f"took column {names[0]!r} as text")
    return text_vectors(_texts(table, names), seed=0)


def _text_columns(
    table: Table, text: str | None, taken: Collection[str], report: Report
) -> list[str]:
    """Return the columns that a user named as text, or the one that looks like it."""
    if text is not None:
        return match_columns("text", text.split(","), table.frame.columns, table.origin)
    names = _guess_text(table, taken)
    if not names:
        raise MissingColumnError(
            f"{table.origin} has no column that looks like text to embed; name it with `text` "
            f"(--text); it has {', '.join(table.frame.columns[:12])}.",
            "text",
        )
    report(f"took column {names[0]!r} as text")
    return names


def _guess_text(table: Table, taken: Collection[str]) -> list[str]:
    """Return the column that looks like text among those that play no other part, if any."""
    used = {*taken, *written_columns(table)}
    free = [name for name in table.frame.columns if name not in used and not is_id_name(name)]
    found = guess_text_column(table, free)
    return [] if found is None else [found]


def _texts(table: Table, names: Sequence[str]) -> list[str]:
    columns = [cells_as_text(table, name) for name in names]
    return ["\n".join(cells) for cells in zip(*columns, strict=True)]


def text_vectors(texts: Sequence[str], *, seed: int) -> FloatArray:
    """Return TF-IDF of words and pairs of words, reduced to `TEXT_DIM` directions.

    Labels play no part in it, so a row may be among those that it was learned from.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    reader = TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        min_df=2 if len(texts) >= 50 else 1,
        max_features=MAX_WORDS,
        token_pattern=r"(?u)\b\w+\b",
    )
    try:
        counts = reader.fit_transform(texts)
    except ValueError:
        raise DataError(
            "the text holds no word that stands in two rows, so rows cannot be compared; give "
            "--features COLUMNS, --embedding FILE.npy or --embed MODEL."
        ) from None
    n_directions = min(TEXT_DIM, counts.shape[1] - 1, len(texts) - 1)
    if n_directions < 2:
        return np.asarray(counts.toarray())
    reduced = TruncatedSVD(n_directions, random_state=seed).fit_transform(counts)
    return np.asarray(normalize(reduced))


def embedded(texts: Sequence[str], name: str) -> FloatArray:
    """Return one vector per text by a sentence-transformers model; nothing is downloaded.

    Of shape (n_texts, dim): of unit length. `name`: the folder of a model, or the name of one that
    was downloaded before.
    """
    sentences = require("sentence_transformers", extra="text")
    try:
        # Weights as safetensors alone: a file must not be able to run code.
        model = sentences.SentenceTransformer(
            name, device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
    except Exception:  # its libraries raise of many kinds for one reason
        raise ParameterError(
            f"there is no sentence-transformers model {name!r} with safetensors weights on this "
            f"disk, and nothing is downloaded here; run `hf download {name}` first, or give the "
            "folder of a model."
        ) from None
    vectors = model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
    return check_features(f"the embedding by {name}", np.asarray(vectors, dtype=np.float64))


def _embedding(source: Any, n_rows: int) -> FloatArray:
    name = "embedding"
    if isinstance(source, (str, Path)):
        name = str(source)
        if Path(source).suffix != ".npy":
            raise ParameterError(f"an embedding is a .npy file of one vector per row; got {name}.")
        try:
            source = np.load(source, allow_pickle=False)
        except FileNotFoundError:
            raise DataError(f"{name} does not exist.") from None
        except (OSError, ValueError):
            raise DataError(
                f"{name} is no array of numbers; write one vector per row with numpy.save."
            ) from None
    matrix = check_features(name, source)
    if len(matrix) != n_rows:
        raise DataError(
            f"{name} holds {len(matrix)} vectors for {n_rows} rows; one per row is needed, in the "
            "order of the rows."
        )
    return matrix

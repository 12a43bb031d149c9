"""What a classifier sees of each row, and which rows are alike by it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.scaling import Scaler
from groupnoise.core.words import counted, quoted
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError
from groupnoise.io.answer_files import written_columns
from groupnoise.io.columns.features import NoFeaturesError, features_of_table
from groupnoise.io.columns.no_features import RowAnswers, is_id_name
from groupnoise.io.columns.roles import match_columns
from groupnoise.io.columns.word_features import cells_as_text, guess_text_columns
from groupnoise.io.local_encoders import sentence_encoder
from groupnoise.io.tables.cells import holds_times
from groupnoise.io.tables.missing_numbers import Fill
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

MAX_WORDS = 20_000
"""Words and pairs of words that count at most, the most frequent ones."""
TEXT_DIM = 100
"""Directions that TF-IDF vectors are reduced to."""
N_NEIGHBOURS = 5
"""Similar rows that are heeded."""
FLOOR = 0.02
"""Added to what neighbours say, so that they cannot rule a label out."""
SUPPOSED_ROWS = 50.0
"""Rows that what is supposed of single votes is worth beside what neighbours tell of them."""
EXPONENTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
"""How far neighbours may be heeded; 0 is not at all."""


def row_features(
    table: Table,
    *,
    features: str | Sequence[str] | None,
    text: str | None,
    embedding: Any,
    embed: str | None,
    taken: Collection[str],
    answers: RowAnswers,
    report: Report,
) -> FloatArray | None:
    """Return one vector per row, or None where the table has nothing to learn from.

    Of shape (n_rows, n_features): all that was named side by side; by default the columns of
    numbers and categories, and a column of text. `text`: a column of text, or several joined by
    commas; read by TF-IDF. `embedding`: one vector per row: a `.npy` file or an array. `embed`: a
    sentence-transformers model on this disk, which reads the text in place of TF-IDF. `taken`:
    columns that hold votes. `answers`: the labels that were named of each row.
    """
    parts = []
    if embedding is not None:
        parts.append(_embedding(embedding, len(table)))
    if features:
        parts.append(features_of_table(table, features, taken, report, None, fill=Fill(report))[0])
    if text is not None or embed is not None:
        names = _text_columns(table, text, taken, report)
        texts = _texts(table, names)
        parts.append(text_vectors(texts, seed=0) if embed is None else embedded(texts, embed))
    if parts:
        return np.concatenate(parts, axis=1)
    if features is not None:
        report("no features were named: labels come from the votes alone")
        return None
    texts = _guess_text(table, taken)
    try:
        numbers, of_columns = features_of_table(
            table,
            None,
            {*taken, *texts},
            report,
            None,
            takes_text=False,
            answers=answers,
            fill=Fill(report),
        )
    except NoFeaturesError:
        if not texts:
            report("found no features and no text: labels come from the votes alone")
            return None
    else:
        if of_columns is None or not texts:  # a list of features stands for the text already
            return numbers
        parts.append(numbers)
    try:
        parts.append(text_vectors(_texts(table, texts), seed=0))
    except DataError:
        if not parts:
            raise
        report(f"left out {quoted(texts)}, whose words stand in one row each")
        return parts[0]
    report(f"took {_columns(texts)} as text{', beside the others' * (len(parts) > 1)}")
    return np.concatenate(parts, axis=1)


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
    report(f"took {_columns(names)} as text")
    return names


def _guess_text(table: Table, taken: Collection[str]) -> list[str]:
    """Return the columns that look like text among those that play no other part."""
    used = {*taken, *written_columns(table)}
    free = [name for name in table.frame.columns if name not in used and not is_id_name(name)]
    return guess_text_columns(table, [c for c in free if not holds_times(table.frame[c])])


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {quoted(names)}"


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
    with np.errstate(divide="ignore", invalid="ignore"):  # of texts that are all alike
        reduced = TruncatedSVD(n_directions, random_state=seed).fit_transform(counts)
    return np.asarray(normalize(reduced))


def embedded(texts: Sequence[str], name: str) -> FloatArray:
    """Return one vector per text by a sentence-transformers model; nothing is downloaded."""
    vectors = sentence_encoder(name)(texts)
    return check_features(f"the embedding by {name}", vectors)


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
            f"{name} holds {counted(len(matrix), 'vectors')} for {counted(n_rows, 'rows')}; one "
            "per row is needed, in the order of the rows."
        )
    return matrix


def nearest_voted(features: FloatArray, has_votes: BoolArray, n_neighbours: int) -> IntArray:
    """Return the rows with votes at the least angle to each row, itself left out.

    Of shape (n_rows, n_found): nearest first. `features` (n_rows, n_features): the rows; those of
    one length, such as words and embeddings, are compared as they are. `has_votes`: which rows may
    be named; at least two.
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    # Rows of unit length: their distances are ordered like their angles.
    unit = normalize(
        features if has_unit_rows(features) else Scaler("standard").fit(features)(features)
    )
    is_empty = ~unit.any(axis=1)
    if is_empty.any():  # such as rows without text: like each other, and like no row that has any
        unit = np.column_stack([unit, is_empty])
    rows = np.flatnonzero(has_votes)
    n_asked = min(n_neighbours + 1, len(rows))
    found = rows[NearestNeighbors(n_neighbors=n_asked).fit(unit[rows]).kneighbors(unit)[1]]
    is_other = found != np.arange(len(features))[:, None]
    # A row may be missing among its own neighbours where others are alike to the last digit.
    order = np.argsort(~is_other, axis=1, kind="stable")[:, : n_asked - 1]
    return np.asarray(np.take_along_axis(found, order, axis=1))


def has_unit_rows(features: FloatArray) -> bool:
    """Tell whether all rows have length one, as words and embeddings do.

    Then columns are comparable as they are, and scaling each would magnify noise. `features`
    (n_rows, n_features): the rows; those without any word are left out of account.
    """
    lengths = np.linalg.norm(features, axis=1)
    return bool(np.allclose(lengths[lengths > 0], 1.0, atol=1e-3))


def single_vote_accuracy(
    shares: FloatArray, nearest: IntArray, is_single: BoolArray, supposed: float
) -> float:
    """Return how often single votes are right, as far as similar rows can tell.

    Every second neighbour of a row and the others are two more witnesses of it; no vote is in both.
    If all three err independently, the two halves tell by agreeing how often each is right, and by
    agreeing with the votes how often these are. Halves that err together make votes look worse than
    they are, the more the less they know: so what is supposed counts as well, and the two halves
    count as many rows as they agree on beyond chance and luck.

    `shares` (n_rows, n_classes): what was said first of each row. `nearest` (n_rows, n_neighbours):
    other rows with votes. `is_single`: rows with one vote. `supposed`: how often votes are right
    before any was seen.
    """
    witnesses = []
    for half in (nearest[:, 0::2], nearest[:, 1::2]):
        said = np.zeros_like(shares)
        for place, column in enumerate(half.T):
            said += (1.0 - 1e-3 * place) * shares[column]  # of equally many the nearest decide
        witnesses.append(said[is_single].argmax(axis=1))
    own = shares[is_single].argmax(axis=1)
    chance = float((shares[is_single].mean(axis=0) ** 2).sum())

    def beyond_chance(agreement: FloatArray) -> float:
        return max((float(agreement.mean()) - chance) / max(1.0 - chance, 1e-12), 1e-3)

    halves = beyond_chance(witnesses[0] == witnesses[1])
    votes = beyond_chance(np.stack(witnesses) == own)
    told = chance + (1.0 - chance) * min(votes / halves**0.5, 1.0)
    by_luck = (chance / max((1.0 - chance) * is_single.sum(), 1e-12)) ** 0.5  # one deviation
    n_told = max(halves - by_luck, 0.0) * is_single.sum()
    return float((n_told * told + SUPPOSED_ROWS * supposed) / (n_told + SUPPOSED_ROWS))


def heed_neighbours(
    predicted: FloatArray,
    log_likelihood: FloatArray,
    nearest: IntArray,
    is_voted: BoolArray,
    *,
    believed: FloatArray | None = None,
) -> FloatArray:
    """Return predictions times what neighbours are believed to be, as far as the votes bear out.

    Of shape (n_rows, n_classes). `predicted` (n_rows, n_classes): p(label | row) from models that
    did not see the row. `log_likelihood` (n_rows, n_classes): log P(votes of the row | label).
    `nearest` (n_rows, n_neighbours): other rows with votes; what a row's own votes say plays no
    part in what they say of it. `believed`: what the rows that `nearest` counts are believed to be;
    by default what follows from the predictions and the votes.
    """
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    if believed is None:
        believed = predicted * scaled
        believed /= np.maximum(believed.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    said = np.zeros_like(predicted)
    for column in nearest.T:  # one neighbour at a time: all at once may not fit into memory
        said += believed[column]
    said = said / nearest.shape[1] + FLOOR
    best, highest = predicted, -np.inf
    for exponent in EXPONENTS:
        heeded = predicted * said**exponent
        heeded /= heeded.sum(axis=1, keepdims=True)
        foretold = (heeded * scaled).sum(axis=1)[is_voted]
        score = float(np.log(np.maximum(foretold, np.finfo(float).tiny)).mean())
        if score > highest:
            best, highest = heeded, score
    return best

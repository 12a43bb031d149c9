"""Features of rows that have votes, and their nearest neighbours."""

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
from groupnoise.io.answer_files import find_written_columns
from groupnoise.io.columns.exclusions import RowTargets, is_id_name
from groupnoise.io.columns.features import NoFeaturesError, extract_features
from groupnoise.io.columns.roles import match_columns
from groupnoise.io.columns.word_features import cells_as_text, guess_text_columns
from groupnoise.io.local_encoders import sentence_encoder
from groupnoise.io.tables.cells import holds_times
from groupnoise.io.tables.imputation import Imputer
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

MAX_WORDS = 20_000
"""Words and pairs of words in the vocabulary at most, the most frequent ones."""
TEXT_DIM = 100
"""Directions that TF-IDF vectors are reduced to."""
N_NEIGHBOURS = 5
"""Neighbours of a row that are used."""
NEIGHBOUR_FLOOR = 0.02
"""Added to the labels of neighbours, so that they cannot rule a label out."""
PRIOR_ROWS = 50.0
"""Rows that the prior accuracy of single votes counts as, beside evidence from neighbours."""
EXPONENTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
"""Exponents of the labels of neighbours that are tried; 0 ignores them."""


def row_features(
    table: Table,
    *,
    features: str | Sequence[str] | None,
    text: str | None,
    embedding: Any,
    embed: str | None,
    taken: Collection[str],
    answers: RowTargets,
    report: Report,
) -> FloatArray | None:
    """Return one vector per row, or None where the table has nothing to learn from.

    Of shape (n_rows, n_features): all that is named, concatenated; by default the columns of
    numbers and categories, and a column of text. `text`: a column of text, or several joined by
    commas; read by TF-IDF. `embedding`: one vector per row: a `.npy` file or an array. `embed`: a
    sentence-transformers model on this disk, which reads the text in place of TF-IDF. `taken`:
    columns that hold votes. `answers`: the labels that were named of each row.
    """
    parts = []
    if embedding is not None:
        parts.append(_embedding(embedding, len(table)))
    if features:
        parts.append(
            extract_features(table, features, taken, report, None, fill=Imputer(report))[0]
        )
    if text is not None or embed is not None:
        names = _text_columns(table, text, taken, report)
        texts = _joined_texts(table, names)
        parts.append(tfidf_vectors(texts, seed=0) if embed is None else embed_texts(texts, embed))
    if parts:
        return np.concatenate(parts, axis=1)
    if features is not None:
        report("no features were named: labels come from the votes alone")
        return None
    texts = _guess_text(table, taken)
    try:
        numbers, of_columns = extract_features(
            table,
            None,
            {*taken, *texts},
            report,
            None,
            takes_text=False,
            answers=answers,
            fill=Imputer(report),
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
        parts.append(tfidf_vectors(_joined_texts(table, texts), seed=0))
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
    """Return the columns that the user named as text, or else the one that looks like text."""
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
    """Return the columns that look like text among those without another role."""
    used = {*taken, *find_written_columns(table)}
    free = [name for name in table.frame.columns if name not in used and not is_id_name(name)]
    return guess_text_columns(table, [c for c in free if not holds_times(table.frame[c])])


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {quoted(names)}"


def _joined_texts(table: Table, names: Sequence[str]) -> list[str]:
    columns = [cells_as_text(table, name) for name in names]
    return ["\n".join(cells) for cells in zip(*columns, strict=True)]


def tfidf_vectors(texts: Sequence[str], *, seed: int) -> FloatArray:
    """Return TF-IDF of words and pairs of words, reduced to `TEXT_DIM` directions.

    Labels are not used, so all rows may be fitted at once.
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


def embed_texts(texts: Sequence[str], name: str) -> FloatArray:
    """Return one vector per text from a sentence-transformers model on this disk."""
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


def nearest_voted_rows(features: FloatArray, has_votes: BoolArray, n_neighbours: int) -> IntArray:
    """Return the rows with votes at the smallest angle to each row, without the row itself.

    Of shape (n_rows, n_found): nearest first. `features` (n_rows, n_features): unit vectors, such
    as TF-IDF and embeddings, are compared unscaled. `has_votes`: which rows may be returned; at
    least two.
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
    # A row may be missing among its own neighbours if others are exactly equal.
    order = np.argsort(~is_other, axis=1, kind="stable")[:, : n_asked - 1]
    return np.asarray(np.take_along_axis(found, order, axis=1))


def has_unit_rows(features: FloatArray) -> bool:
    """Tell whether all rows have unit length, as TF-IDF vectors and embeddings do.

    Their columns are comparable, and scaling each would amplify noise. `features` (n_rows,
    n_features): rows of zeros are ignored.
    """
    lengths = np.linalg.norm(features, axis=1)
    return bool(np.allclose(lengths[lengths > 0], 1.0, atol=1e-3))


def single_vote_accuracy(
    shares: FloatArray, nearest: IntArray, is_single: BoolArray, prior_accuracy: float
) -> float:
    """Return the accuracy of single votes, estimated from similar rows.

    The two halves of a row's neighbours, every second one, are two more witnesses beside its vote.
    If all three err independently, agreement between the halves gives their accuracy, and agreement
    with the votes that of the votes. Dependent errors make votes look worse than they are; so the
    prior counts too, and the halves count as many rows as they agree on beyond chance and luck.

    `shares` (n_rows, n_classes): first choices on each row. `nearest` (n_rows, n_neighbours): other
    rows with votes. `is_single`: rows with one vote. `prior_accuracy`: of votes, before any
    evidence.
    """
    witnesses = []
    for half in (nearest[:, 0::2], nearest[:, 1::2]):
        said = np.zeros_like(shares)
        for place, column in enumerate(half.T):
            said += (1.0 - 1e-3 * place) * shares[column]  # the nearest break ties
        witnesses.append(said[is_single].argmax(axis=1))
    own = shares[is_single].argmax(axis=1)
    chance = float((shares[is_single].mean(axis=0) ** 2).sum())

    def beyond_chance(agreement: FloatArray) -> float:
        return max((float(agreement.mean()) - chance) / max(1.0 - chance, 1e-12), 1e-3)

    halves = beyond_chance(witnesses[0] == witnesses[1])
    votes = beyond_chance(np.stack(witnesses) == own)
    told = chance + (1.0 - chance) * min(votes / halves**0.5, 1.0)
    by_luck = (
        chance / max((1.0 - chance) * is_single.sum(), 1e-12)
    ) ** 0.5  # one standard deviation
    n_told = max(halves - by_luck, 0.0) * is_single.sum()
    return float((n_told * told + PRIOR_ROWS * prior_accuracy) / (n_told + PRIOR_ROWS))


def weigh_by_neighbours(
    predicted: FloatArray,
    log_likelihood: FloatArray,
    nearest: IntArray,
    is_voted: BoolArray,
    *,
    believed: FloatArray | None = None,
) -> FloatArray:
    """Return predictions multiplied by a power of the labels of neighbours, chosen by the votes.

    Of shape (n_rows, n_classes). `predicted` (n_rows, n_classes): p(label | row) out of fold.
    `log_likelihood` (n_rows, n_classes): log P(votes of the row | label). `nearest` (n_rows,
    n_neighbours): other rows with votes; a row's own votes do not influence its neighbours' labels.
    `believed`: label probabilities of the rows that `nearest` indexes; by default those that follow
    from the predictions and the votes.
    """
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    if believed is None:
        believed = predicted * scaled
        believed /= np.maximum(believed.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    said = np.zeros_like(predicted)
    for column in nearest.T:  # one neighbour at a time: all at once may not fit into memory
        said += believed[column]
    said = said / nearest.shape[1] + NEIGHBOUR_FLOOR
    best, highest = predicted, -np.inf
    for exponent in EXPONENTS:
        weighted = predicted * said**exponent
        weighted /= weighted.sum(axis=1, keepdims=True)
        predicted_votes = (weighted * scaled).sum(axis=1)[is_voted]
        score = float(np.log(np.maximum(predicted_votes, np.finfo(float).tiny)).mean())
        if score > highest:
            best, highest = weighted, score
    return best

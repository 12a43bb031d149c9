"""Texts cut into sentences, described by the weights of their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.bags.embedding import Cut, Embedded
from groupnoise.exceptions import DataError

SUFFIXES = (".txt",)
COORDINATE_NAMES = ("begin", "end")
DEFAULT = Cut(size=1, stride=1, background=0)
MAX_WORDS = 1000
"""Words that describe sentences: those that stand in most of them."""
_SENTENCE = re.compile(r"\S(?:.*?)(?:[.!?。！？]+[\"'”’)\]]*(?=\s|$)|(?=\n\s*\n)|$)", re.DOTALL)


def read_text(path: Path) -> str:
    """Return the text of a file, which must be UTF-8, without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Return where each sentence begins and ends; a blank line ends one too.

    Positions of characters.

    Examples
    --------
    >>> [("One. Two!"[a:b]) for a, b in sentences_of("One. Two!")]
    ['One.', 'Two!']
    """
    spans = ((found.start(), found.end()) for found in _SENTENCE.finditer(text))
    return [(a, b) for a, b in spans if any(letter.isalnum() for letter in text[a:b])]


def learn_words(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the words that describe sentences, and how rare each is.

    `words`, and the logarithm of their inverse document frequency as `idf`. `paths`: all texts; no
    label is looked at.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    def all_sentences() -> Any:
        for path in paths:
            text = read_text(path)
            yield from (text[a:b] for a, b in sentences_of(text))

    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=MAX_WORDS)
    try:
        vectorizer.fit(all_sentences())
    except DataError:
        raise
    except ValueError:
        raise DataError(f"{paths[0].parent} holds no words; give texts with sentences.") from None
    return {
        "words": vectorizer.get_feature_names_out().tolist(),
        "idf": [float(value) for value in vectorizer.idf_],
    }


def sentence_features(cut: Cut) -> tuple[str, ...]:
    """Return the words."""
    return tuple(cut.state["words"])


def embed_text(path: Path, cut: Cut, encoder: Callable[[list[str]], Any] | None = None) -> Embedded:
    """Cut a text into sentences and weigh the words of each.

    Result: rows of unit length (zero for sentences of unknown words alone); coordinates are the
    positions of the characters where a sentence begins and ends. `cut`: whose state `learn_words`
    returned. `encoder`: given sentences, returns their features instead.
    """
    text = read_text(path)
    spans = sentences_of(text)
    if not spans:
        raise DataError(f"{path} holds no sentence; leave it out.")
    sentences, places = [text[a:b] for a, b in spans], np.array(spans, dtype=np.float64)
    if encoder is not None:
        found = np.asarray(encoder(sentences), dtype=np.float32)
        if found.ndim != 2 or len(found) != len(spans):
            raise DataError(
                f"the encoder returned shape {found.shape} for {len(spans)} sentences; one row of "
                "features per sentence is needed."
            )
        return Embedded(found, places)
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = {word: column for column, word in enumerate(cut.state["words"])}
    vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=words)
    vectorizer.idf_ = np.asarray(cut.state["idf"], dtype=np.float64)
    features = vectorizer.transform(sentences).toarray()
    return Embedded(features.astype(np.float32), places)

"""Texts cut into sentences and recordings cut into segments, each from a beginning to an end.

Sentences are described by the weights of their words, segments by statistics of their log-mel
spectrogram.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.bags.embedding import Cut, Embedded, RawKind
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError

MAX_WORDS = 1000
"""Words that describe sentences: those that stand in most of them."""
_SENTENCE = re.compile(r"\S(?:.*?)(?:[.!?。！？]+[\"'”’)\]]*(?=\s|$)|(?=\n\s*\n)|$)", re.DOTALL)
RATE = 16_000
"""Samples per second that every recording is brought to."""
WINDOW, HOP = 400, 160
"""Samples of a frame and between frames: 25 and 10 ms."""
N_BANDS = 32
FIGURES = ("mean", "deviation", "highest", "change")
PLACES = ("begin", "end")


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


def segment_features(cut: Cut) -> tuple[str, ...]:
    """Return what the numbers that describe a segment are called."""
    return tuple(f"band_{band:02d}_{figure}" for figure in FIGURES for band in range(N_BANDS))


def open_recording(path: Path) -> FloatArray:
    """Return a recording as samples from -1 to 1, one channel, at the common rate."""
    from scipy.io import wavfile
    from scipy.signal import resample_poly

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notes in the file that scipy does not know
            rate, samples = wavfile.read(path)
    except Exception as error:  # scipy raises many kinds on damaged files
        reason = str(error).split("\n", 1)[0]
        raise DataError(
            f"{path} cannot be read as a recording ({reason}); save it again."
        ) from None
    plain = np.asarray(samples, dtype=np.float64)
    if samples.dtype.kind == "u":
        plain = plain / 128 - 1
    elif samples.dtype.kind == "i":
        plain = plain / np.iinfo(samples.dtype).max
    if plain.ndim == 2:
        plain = plain.mean(axis=1)
    if not len(plain) or rate <= 0:
        raise DataError(f"{path} holds no sound; leave it out.")
    if not np.isfinite(plain).all():
        raise DataError(f"{path} holds samples that are no numbers; save it again.")
    if rate == RATE:
        return plain
    shared = int(np.gcd(RATE, int(rate)))
    return resample_poly(plain, RATE // shared, int(rate) // shared)


def embed_recording(path: Path, cut: Cut, encoder: Any = None) -> Embedded:
    """Cut a recording into segments and describe them.

    Result: coordinates are the seconds where a segment begins and ends. `cut`: size and stride in
    seconds, and the loudness below which a segment is left out. `encoder`: none describes sound.
    """
    samples = open_recording(path)
    size, stride = max(WINDOW, round(cut.size * RATE)), max(1, round(cut.stride * RATE))
    # The last segment is filled with silence, and taken if half of it is sound.
    begins = np.arange(0, max(1, len(samples) - (size - 1) // 2), stride)
    padded = np.pad(samples, (0, max(0, int(begins[-1]) + size - len(samples))))
    loudness = np.array([np.sqrt((padded[b : b + size] ** 2).mean()) for b in begins])
    kept = loudness >= cut.background
    if not kept.any():
        kept[np.argmax(loudness)] = True  # a bag without any object is none
    bank = mel_bank()
    features = [_describe(padded[b : b + size], bank) for b in begins[kept]]
    ends = np.minimum(begins[kept] + size, len(samples))
    coordinates = np.stack([begins[kept], ends], axis=1) / RATE
    return Embedded(np.array(features, dtype=np.float32), coordinates, int((~kept).sum()))


def mel_bank() -> FloatArray:
    """Return triangular filters that are evenly apart in mel, shape (n_bands, n_frequencies)."""
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, N_BANDS + 2) / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling))


def _describe(samples: FloatArray, bank: FloatArray) -> FloatArray:
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)) ** 2
    bands = np.log(power @ bank.T + 1e-6)  # (n_frames, n_bands)
    change = np.abs(np.diff(bands, axis=0)).mean(axis=0) if len(bands) > 1 else 0 * bands[0]
    return np.concatenate([bands.mean(axis=0), bands.std(axis=0), bands.max(axis=0), change])


TEXTS = RawKind(
    (".txt",), PLACES, Cut(size=1, stride=1, background=0), sentence_features, embed_text
)
RECORDINGS = RawKind(
    (".wav",),
    PLACES,
    Cut(size=1.0, stride=1.0, background=0.001),
    segment_features,
    embed_recording,
)

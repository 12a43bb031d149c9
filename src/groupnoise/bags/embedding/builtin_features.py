"""Pictures as tiles, texts as sentences, recordings as segments, each described by numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.embedding import CutOptions, Embedded, RawKind
from groupnoise.bags.embedding.spectrogram import HOP, N_BANDS, RATE, WINDOW, log_bands, mel_bank
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import require
from groupnoise.core.words import error_text
from groupnoise.exceptions import DataError, ParameterError

MIN_SIZE = 8
N_CELLS = 4
"""Cells along each side of a tile; gradients and brightness are averaged in each."""
N_ORIENTATIONS = 8
N_BLOCK = 256
"""Tiles described at a time."""
MAX_PIXELS = 1 << 28
"""Larger pictures are refused: cut them with a slide reader and give the features."""
GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
PERCENTILES = (10, 50, 90)

Encoder = Callable[[Any], Any]


def tile_features(cut: CutOptions) -> tuple[str, ...]:
    """Return the names of the features of a tile."""
    channels = ("red", "green", "blue")
    figures = ("mean", "deviation", *(f"percentile_{p}" for p in PERCENTILES))
    cells = [f"{row}{column}" for row in range(N_CELLS) for column in range(N_CELLS)]
    return (
        *(f"{channel}_{figure}" for channel in channels for figure in figures),
        "saturation_mean",
        "saturation_deviation",
        *(f"brightness_{cell}" for cell in cells),
        *(f"gradient_{cell}_{k}" for cell in cells for k in range(N_ORIENTATIONS)),
        "gradient_mean",
        "gradient_deviation",
        *(f"texture_{k}" for k in range(9)),
    )


def check_cut(cut: CutOptions) -> None:
    """Refuse tiles that are too small to be described."""
    if cut.size < MIN_SIZE or cut.size != int(cut.size) or cut.stride != int(cut.stride):
        raise ParameterError(
            f"tiles need a whole number of at least {MIN_SIZE} pixels and a whole stride; got "
            f"{cut.size:g} and {cut.stride:g}."
        )


def open_picture(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of a picture, shape (height, width, 3), upright and on white."""
    image_module = require("PIL.Image", extra="images")
    operations = require("PIL.ImageOps", extra="images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures, which are judged here
            with image_module.open(path) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise DataError(
                        f"{path} has {opened.width} x {opened.height} pixels, more than can be "
                        "opened at once; cut it with a slide reader and give features."
                    )
                picture = operations.exif_transpose(opened)
                if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
                    deep = np.asarray(picture, dtype=np.float64)
                    highest = 255.0 if deep.max(initial=0) <= 255 else 65535.0
                    grey = np.clip(255 * deep / highest, 0, 255).astype(np.uint8)
                    return np.repeat(grey[:, :, None], 3, axis=2)
                if "A" in picture.mode or "transparency" in picture.info:
                    layered = picture.convert("RGBA")
                    white = image_module.new("RGBA", layered.size, "white")
                    picture = image_module.alpha_composite(white, layered)
                return np.array(picture.convert("RGB"))
    except DataError:
        raise
    except Exception as error:  # Pillow raises many kinds on damaged files
        raise DataError(
            f"{path} cannot be read as a picture ({error_text(error)}); save it again."
        ) from None


def embed_picture(path: Path, cut: CutOptions, encoder: Encoder | None = None) -> Embedded:
    """Cut a picture into tiles and describe them.

    Tiles lie on a grid from the upper left corner. A tile that crosses the edge is padded with the
    pixels at the edge, and kept if at least half of its side is in the picture.

    Result: tiles row by row; coordinates are their upper left corners. `cut`: size and stride of
    the tiles in pixels, and their minimum contrast. `encoder`: given tiles as float32 of shape (n,
    3, size, size) from 0 to 1, returns features; a torch module is given tensors. By default
    `describe_tiles`.
    """
    pixels = open_picture(path)
    size, stride = int(cut.size), int(cut.stride)
    tops, lefts = (_starts(length, size, stride) for length in pixels.shape[:2])
    below = max(0, int(tops[-1]) + size - pixels.shape[0])
    right = max(0, int(lefts[-1]) + size - pixels.shape[1])
    pixels = np.pad(pixels, ((0, below), (0, right), (0, 0)), mode="edge")
    corners = np.array([(left, top) for top in tops for left in lefts], dtype=np.int64)
    contrast = np.empty(len(corners))
    for first, tiles in _blocks(pixels, corners, size):
        contrast[first : first + len(tiles)] = (tiles @ GREY).std(axis=(1, 2))
    kept = contrast >= cut.background
    if not kept.any():
        kept[np.argmax(contrast)] = True  # a bag needs an object
    describe = describe_tiles if encoder is None else _descriptor(encoder)
    parts = [describe(tiles) for _, tiles in _blocks(pixels, corners[kept], size)]
    features = np.concatenate(parts).astype(np.float32)
    return Embedded(features, corners[kept].astype(np.float64), int((~kept).sum()))


def _starts(length: int, size: int, stride: int) -> IntArray:
    return np.arange(0, max(1, length - (size - 1) // 2), stride, dtype=np.int64)


def _blocks(pixels: NDArray[np.uint8], corners: IntArray, size: int) -> Any:
    """Yield blocks of tiles as float32 from 0 to 1, each after the index of its first tile."""
    for first in range(0, len(corners), N_BLOCK):
        tiles = [
            pixels[y : y + size, x : x + size] for x, y in corners[first : first + N_BLOCK].tolist()
        ]
        yield first, np.stack(tiles).astype(np.float32) / 255


def _descriptor(encoder: Encoder) -> Callable[[FloatArray], FloatArray]:
    """Return a function that describes tiles by an encoder of the user's own."""

    def describe(tiles: FloatArray) -> FloatArray:
        import torch

        channels_first = np.ascontiguousarray(tiles.transpose(0, 3, 1, 2))
        if isinstance(encoder, torch.nn.Module):
            with torch.no_grad():
                features = np.asarray(encoder.eval()(torch.from_numpy(channels_first)))
        else:
            features = np.asarray(encoder(channels_first))
        return _check_encoded(features, len(tiles), "tile")

    return describe


def _check_encoded(features: NDArray[Any], n_objects: int, thing: str) -> NDArray[Any]:
    """Return the output of an encoder; refused if it is not one row of features per object."""
    if features.ndim != 2 or len(features) != n_objects:
        raise DataError(
            f"the encoder returned shape {features.shape} for {n_objects} {thing}s; one row of "
            f"features per {thing} is needed."
        )
    return features


def describe_tiles(tiles: FloatArray) -> FloatArray:
    """Return features of colour, brightness, gradients and texture, of shape (n, n_features).

    They are in the order of `tile_features`. `tiles` (n, size, size, 3): red, green and blue from 0
    to 1.
    """
    n = len(tiles)
    grey = tiles @ GREY
    flat = tiles.reshape(n, -1, 3)
    colours = np.stack(
        [flat.mean(axis=1), flat.std(axis=1), *np.percentile(flat, PERCENTILES, axis=1)], axis=-1
    )
    saturation = (flat.max(axis=2) - flat.min(axis=2)) / np.maximum(flat.max(axis=2), 1e-3)
    down, across = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, across)
    angle = np.arctan2(down, across) % (2 * np.pi)
    bins = np.minimum((angle * N_ORIENTATIONS / (2 * np.pi)).astype(int), N_ORIENTATIONS - 1)
    in_bin = np.where(bins[..., None] == np.arange(N_ORIENTATIONS), strength[..., None], 0)
    gradients = _cell_means(in_bin)  # (n, cells, cells, orientations)
    # Normalized, as the contrast of the tile has features of its own.
    norm = np.sqrt((gradients**2).sum(axis=(1, 2, 3), keepdims=True))
    gradients = gradients / (norm + 1e-4)
    parts = [
        colours.reshape(n, -1),
        np.stack([saturation.mean(axis=1), saturation.std(axis=1)], axis=1),
        _cell_means(grey[..., None]).reshape(n, -1),
        gradients.reshape(n, -1),
        np.stack([strength.mean(axis=(1, 2)), strength.std(axis=(1, 2))], axis=1),
        _texture(grey),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _cell_means(values: FloatArray) -> FloatArray:
    """Return the means over a grid of cells, shape (n, cells, cells, n_values)."""
    size = values.shape[1]
    begins = np.arange(N_CELLS) * size // N_CELLS
    widths = np.diff(np.append(begins, size)).astype(np.float64)
    sums = np.add.reduceat(np.add.reduceat(values, begins, axis=1), begins, axis=2)
    return sums / (widths[:, None] * widths[None, :])[None, :, :, None]


def _texture(grey: FloatArray) -> FloatArray:
    """Return the shares of pixels of which 0 to 8 neighbours are brighter."""
    inner = grey[:, 1:-1, 1:-1]
    height, width = grey.shape[1:]
    shifts = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    brighter = np.zeros(inner.shape, dtype=np.int8)
    for i, j in shifts:
        brighter += grey[:, i : height - 2 + i, j : width - 2 + j] > inner + 0.02
    counts = [(brighter == k).mean(axis=(1, 2)) for k in range(9)]
    return np.stack(counts, axis=1)


PICTURES = RawKind(
    (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp"),
    ("x", "y"),
    CutOptions(size=64, stride=64, background=0.02),
    tile_features,
    embed_picture,
)


MAX_WORDS = 1000
"""Maximum size of the vocabulary: the most frequent words."""
_SENTENCE = re.compile(r"\S(?:.*?)(?:[.!?。！？]+[\"'”’)\]]*(?=\s|$)|(?=\n\s*\n)|$)", re.DOTALL)
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
    """Return the first and the last character position of each sentence, the last exclusive.

    A blank line ends a sentence too.

    Examples
    --------
    >>> [("One. Two!"[a:b]) for a, b in sentences_of("One. Two!")]
    ['One.', 'Two!']
    """
    spans = ((found.start(), found.end()) for found in _SENTENCE.finditer(text))
    return [(a, b) for a, b in spans if any(letter.isalnum() for letter in text[a:b])]


def learn_words(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the vocabulary as `words`, and the log inverse document frequencies as `idf`.

    `paths`: all texts; no label is used.
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


def sentence_features(cut: CutOptions) -> tuple[str, ...]:
    """Return the vocabulary."""
    return tuple(cut.state["words"])


def embed_text(
    path: Path, cut: CutOptions, encoder: Callable[[list[str]], Any] | None = None
) -> Embedded:
    """Cut a text into sentences and compute their TF-IDF features.

    Result: rows of unit length (zero for sentences of unknown words alone); coordinates are the
    character positions where a sentence begins and ends. `cut`: its state is that of `learn_words`.
    `encoder`: given sentences, returns their features instead.
    """
    text = read_text(path)
    spans = sentences_of(text)
    if not spans:
        raise DataError(f"{path} holds no sentence; leave it out.")
    sentences, positions = [text[a:b] for a, b in spans], np.array(spans, dtype=np.float64)
    if encoder is not None:
        encoded = np.asarray(encoder(sentences), dtype=np.float32)
        return Embedded(_check_encoded(encoded, len(spans), "sentence"), positions)
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = {word: column for column, word in enumerate(cut.state["words"])}
    vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=words)
    vectorizer.idf_ = np.asarray(cut.state["idf"], dtype=np.float64)
    features = vectorizer.transform(sentences).toarray()
    return Embedded(features.astype(np.float32), positions)


def segment_features(cut: CutOptions) -> tuple[str, ...]:
    """Return the names of the features of a segment."""
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
        raise DataError(
            f"{path} cannot be read as a recording ({error_text(error)}); save it again."
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


def embed_recording(path: Path, cut: CutOptions, encoder: Any = None) -> Embedded:
    """Cut a recording into segments and describe them.

    Result: coordinates are the seconds where a segment begins and ends. `cut`: size and stride in
    seconds, and the loudness below which a segment is left out. `encoder`: not supported; None.
    """
    samples = open_recording(path)
    size, stride = max(WINDOW, round(cut.size * RATE)), max(1, round(cut.stride * RATE))
    # The last segment is padded with silence, and kept if at least half of it is sound.
    begins = _starts(len(samples), size, stride)
    padded = np.pad(samples, (0, max(0, int(begins[-1]) + size - len(samples))))
    loudness = np.array([np.sqrt((padded[b : b + size] ** 2).mean()) for b in begins])
    kept = loudness >= cut.background
    if not kept.any():
        kept[np.argmax(loudness)] = True  # a bag needs an object
    bank = mel_bank()
    features = [_describe(padded[b : b + size], bank) for b in begins[kept]]
    ends = np.minimum(begins[kept] + size, len(samples))
    coordinates = np.stack([begins[kept], ends], axis=1) / RATE
    return Embedded(np.array(features, dtype=np.float32), coordinates, int((~kept).sum()))


def _describe(samples: FloatArray, bank: FloatArray) -> FloatArray:
    bands = log_bands(np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP], bank)
    change = np.abs(np.diff(bands, axis=0)).mean(axis=0) if len(bands) > 1 else 0 * bands[0]
    return np.concatenate([bands.mean(axis=0), bands.std(axis=0), bands.max(axis=0), change])


TEXTS = RawKind(
    (".txt",), PLACES, CutOptions(size=1, stride=1, background=0), sentence_features, embed_text
)
RECORDINGS = RawKind(
    (".wav",),
    PLACES,
    CutOptions(size=1.0, stride=1.0, background=0.001),
    segment_features,
    embed_recording,
)

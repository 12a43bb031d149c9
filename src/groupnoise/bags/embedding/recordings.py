"""Recordings cut into segments, described by statistics of their log-mel spectrogram."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from groupnoise.bags.embedding import Cut, Embedded
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError

SUFFIXES = (".wav",)
COORDINATE_NAMES = ("begin", "end")
DEFAULT = Cut(size=1.0, stride=1.0, background=0.001)
RATE = 16_000
"""Samples per second that every recording is brought to."""
WINDOW, HOP = 400, 160
"""Samples of a frame and between frames: 25 and 10 ms."""
N_BANDS = 32
FIGURES = ("mean", "deviation", "highest", "change")


def segment_features() -> tuple[str, ...]:
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


def embed_recording(path: Path, cut: Cut) -> Embedded:
    """Cut a recording into segments and describe them.

    Result: coordinates are the seconds where a segment begins and ends. `cut`: size and stride in
    seconds, and the loudness below which a segment is left out.
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

"""How loud a recording is at which pitch and when: bands of a spectrum, and a picture of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray

RATE = 16_000
"""Samples per second that every recording is brought to."""
WINDOW, HOP = 400, 160
"""Samples of a frame and between frames: 25 and 10 ms."""
N_BANDS = 32
N_COLUMNS, FRAMES_PER_COLUMN = 600, 8
"""Columns of a picture, and how many frames of its time each shows the loudest of."""
DARKEST, LIGHTEST = 70, 250


def mel_bank() -> FloatArray:
    """Return triangular filters that are evenly apart in mel, shape (n_bands, n_frequencies)."""
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, highest, N_BANDS + 2) / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling))


def log_bands(frames: FloatArray, bank: FloatArray) -> FloatArray:
    """Return the logarithm of the power in each band of frames, shape (n_frames, n_bands)."""
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)) ** 2
    return np.log(power @ bank.T + 1e-6)


def draw_sound(samples: FloatArray) -> NDArray[np.uint8]:
    """Return a recording as a picture: high pitch above, dark where it is loud.

    Grey and opacity, of shape (n_bands, n_columns, 2): however long it is, it is as wide, and each
    column shows the loudest of some frames of its time.
    """
    padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
    n_frames = N_COLUMNS * FRAMES_PER_COLUMN
    begins = np.linspace(0, len(padded) - WINDOW, n_frames).astype(np.int64)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[begins]
    bands = log_bands(frames, mel_bank()).reshape(N_COLUMNS, FRAMES_PER_COLUMN, -1).max(axis=1)
    low, high = np.percentile(bands, [20, 99.5])
    loudness = np.clip((bands.T[::-1] - low) / max(float(high - low), 1e-9), 0, 1)
    grey = np.rint(LIGHTEST + (DARKEST - LIGHTEST) * loudness).astype(np.uint8)
    return np.stack([grey, np.full_like(grey, 255)], axis=2)

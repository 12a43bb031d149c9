"""How large features were when a model was trained, and whether those of new data differ."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, FloatArray

OTHER_UNITS = "see that both have the same units"
MAX_ROWS = 8_192
"""Rows that are looked at, at even distances."""
MIN_OUTSIDE = 0.9
MIN_TOLD = 5
"""Share, and number, of rows far outside of the range of a training that speak of other units."""
MIN_FACTOR = 20.0
NEARLY = 3.0
"""How many times smaller a range must be, and how alike range and median must have shrunk."""
MIN_ROWS = 20
"""Rows from which on a small range is no coincidence."""


@dataclass(frozen=True)
class FeatureRanges:
    """The least number, the median and the greatest of each feature: `values` (3, n_features)."""

    values: NDArray[np.float32]

    @classmethod
    def of(cls, rows: FloatArray) -> FeatureRanges:
        """Return those of rows of features, (n_rows, n_features); none where there are no rows."""
        rows = some_rows(rows)
        if not len(rows):
            return cls(np.zeros((3, 0), dtype=np.float32))
        values = [rows.min(axis=0), np.median(rows, axis=0), rows.max(axis=0)]
        return cls(np.stack(values).astype(np.float32))

    def packed(self) -> str:
        """Return them as text."""
        return base64.b64encode(self.values.astype("<f4").tobytes()).decode("ascii")

    @classmethod
    def unpacked(cls, text: str) -> FeatureRanges:
        """Return them from text; a ValueError says that it is none."""
        values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
        return cls(values.astype(np.float32).reshape(3, -1))

    def about_units(self, rows: FloatArray, data: str, model: str) -> str | None:
        """Return a sentence where at least half of the features of new data have other units."""
        low, median, high = self.values
        rows = some_rows(rows)
        if not len(low) or rows.shape[1] != len(low):
            return None
        is_other = in_other_units(rows, low, median, high)
        if 2 * is_other.sum() < len(low):
            return None
        which = int(is_other.argmax())
        column = rows[:, which]
        return (
            f"{int(is_other.sum())} of {len(low)} features of {data} are on another scale than "
            f"those that {model} learned from (feature {which} goes from {column.min():.4g} to "
            f"{column.max():.4g}, and went from {low[which]:.4g} to {high[which]:.4g}): "
            f"{OTHER_UNITS}, or come from the same encoder"
        )


def some_rows(rows: FloatArray) -> FloatArray:
    """Return up to `MAX_ROWS` rows of features at even distances, in single precision."""
    step = max(1, -(-len(rows) // MAX_ROWS))
    some = np.asarray(rows[::step], dtype=np.float32)
    return some.reshape(len(some), -1)


def in_other_units(
    rows: FloatArray, low: ArrayLike, median: ArrayLike, high: ArrayLike
) -> BoolArray:
    """Tell of each column whether it lies far outside of a range, or in a small part, as units do.

    Result: of shape (n_columns,). `rows` (n_rows, n_columns): new numbers. `low`, `median`, `high`
    (n_columns,): of those of a training. In smaller units range and median shrink alike, while a
    few rows of one kind only have a smaller range.
    """
    low, median, high = (np.asarray(each, dtype=np.float64) for each in (low, median, high))
    rows = np.asarray(rows, dtype=np.float64)
    if not len(rows):
        return np.zeros(len(low), dtype=np.bool_)
    width = np.where(np.isfinite(high - low), high - low, 0.0)
    outside = ((rows < low - width) | (rows > high + width)).sum(axis=0)
    is_other: BoolArray = outside >= max(MIN_TOLD, MIN_OUTSIDE * len(rows))
    span, now = np.ptp(rows, axis=0), np.median(rows, axis=0)
    told = (len(rows) >= MIN_ROWS) & (span > 0) & (now != 0) & (width > 0)
    factor = width / np.where(told, span, 1.0)
    shrunk = median / np.where(told, now, 1.0)
    is_smaller = (factor >= MIN_FACTOR) & (shrunk >= factor / NEARLY) & (shrunk <= NEARLY * factor)
    return is_other | (told & is_smaller)

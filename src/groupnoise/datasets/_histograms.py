"""Counts by value or class, in bins a reader can take in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

MOST_SINGLE_BARS = 24
"""Up to this many distinct sizes get a bar each; beyond, bins double in width."""


@dataclass(frozen=True)
class Histogram:
    """A titled row of bars.

    Attributes
    ----------
    title : str
        What is counted.
    labels : tuple of str
        What each bar stands for.
    counts : tuple of int
        How high each bar is.
    """

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


def histogram_of_sizes(title: str, sizes: ArrayLike) -> Histogram:
    """Count whole numbers: one bar each, or bins of 1, 2, 3-4, 5-8, ... where they reach far.

    Examples
    --------
    >>> histogram_of_sizes("sizes", [2, 2, 4])
    Histogram(title='sizes', labels=('2', '3', '4'), counts=(2, 0, 1))
    """
    values = np.asarray(sizes)
    least, most = int(values.min()), int(values.max())
    if most - least < MOST_SINGLE_BARS:
        counts = np.bincount(values - least, minlength=most - least + 1)
        labels = [str(value) for value in range(least, most + 1)]
        return Histogram(title, tuple(labels), tuple(counts.tolist()))
    upper = [0, *(2**power for power in range(int(np.ceil(np.log2(most))) + 1))]
    bins = np.searchsorted(upper, values)
    lower = [0, *(bound + 1 for bound in upper[:-1])]
    first = int(bins.min())
    labels = [
        f"{low}" if low == high else f"{low}-{high}"
        for low, high in zip(lower[first:], upper[first:], strict=True)
    ]
    counts = np.bincount(bins, minlength=len(upper))[first:]
    return Histogram(title, tuple(labels), tuple(counts.tolist()))


def histogram_of_classes(title: str, counts: ArrayLike, names: Sequence[str]) -> Histogram:
    """Show given counts, one bar per class, in the order of the classes."""
    return Histogram(title, tuple(names), tuple(np.asarray(counts).tolist()))

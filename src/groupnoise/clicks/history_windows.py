"""Sliding windows: each click of a history tied to the clicks just before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from groupnoise.core.arrays import IntArray, blocks
from groupnoise.core.checks import check_count
from groupnoise.core.groups import Groups, ragged_rows
from groupnoise.exceptions import DataError, ParameterError


class SlidingWindows(NamedTuple):
    """Windows cut from histories.

    Attributes
    ----------
    groups : Groups
        The objects before each target, oldest first, and the target.
    histories : int64 ndarray of shape (n_groups,)
        Row of the history each window was cut from; windows come in history order.
    positions : int64 ndarray of shape (n_groups,)
        Where in its history the target stands, from 0.
    """

    groups: Groups
    histories: IntArray
    positions: IntArray


def sliding_windows(histories: Groups, size: int = 5, min_size: int = 1) -> SlidingWindows:
    """Tie every object of a history to the objects before it, at most `size` of them.

    Parameters
    ----------
    histories : Groups
        Integer ids in time order, one group per history; targets are not looked at.
    size : int
        The most objects a window holds.
    min_size : int
        The fewest; targets with fewer objects before them give no window, so `min_size=size`
        keeps full windows alone.

    Returns
    -------
    SlidingWindows
        `(groups, histories, positions)`.

    Raises
    ------
    DataError
        If no history is long enough to give a window.

    Examples
    --------
    >>> windows = sliding_windows(Groups.from_lists([[3, 1, 4], [1]]), size=2)
    >>> [group.tolist() for group in windows.groups], windows.groups.targets.tolist()
    ([[3], [3, 1]], [1, 4])
    """
    check_count("size", size)
    check_count("min_size", min_size)
    if min_size > size:
        raise ParameterError(f"min_size ({min_size}) must not exceed the window size ({size}).")
    n_windows = np.maximum(histories.sizes - min_size, 0)
    if not n_windows.any():
        raise DataError(
            f"no history is long enough: a window of at least {min_size} and a next object need "
            f"{min_size + 1} objects, the longest history has {histories.sizes.max()}."
        )
    rows = np.repeat(np.arange(len(histories)), n_windows)
    first_window = np.cumsum(n_windows) - n_windows
    positions = np.arange(len(rows)) - first_window[rows] + min_size
    sizes = np.minimum(positions, size)
    targets_at = histories.offsets[rows] + positions
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    before = histories.objects[ragged_rows(targets_at - sizes, sizes)]
    groups = Groups(before, offsets, histories.objects[targets_at])
    return SlidingWindows(groups, rows, positions)


def large_enough(groups: Groups, min_size: int) -> Groups:
    """Return the groups of at least `min_size` objects; the same collection if all are.

    Raises
    ------
    DataError
        If none is.
    """
    if min_size <= 1:  # no group is empty, so that offsets on disk need not be read
        return groups
    if all(np.diff(part).min(initial=min_size) >= min_size for part in _joined(groups.offsets)):
        return groups  # the common case of windows on disk, whose sizes may not fit in memory
    sizes = groups.sizes
    kept = np.flatnonzero(sizes >= min_size)
    if not len(kept):
        raise DataError(
            f"no window has {min_size} clicks, the largest has {sizes.max()}; lower min_window."
        )
    return groups.subset(kept)


def _joined(offsets: IntArray) -> Iterator[IntArray]:
    """Yield offsets in blocks, each with the first one of the next."""
    for first, part in blocks(offsets):
        yield offsets[first : first + len(part) + 1]

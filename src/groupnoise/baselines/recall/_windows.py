"""Histories as the dense index arrays that networks read."""

from __future__ import annotations

import numpy as np

from groupnoise._typing import IntArray
from groupnoise.groups import Groups, sliding_windows


def training_windows(training: Groups, size: int, n_targets: int = 1) -> Groups:
    """Return windows with targets.

    Groups that have targets already are used as they are. From whole histories sliding windows
    are cut, each tied to every one of the `n_targets` clicks that follow it.
    """
    if training.targets is not None:
        return training
    windows = sliding_windows(training, size)
    next_click = training.offsets[windows.histories] + windows.positions
    history_end = training.offsets[windows.histories + 1]
    parts = []
    for gap in range(n_targets):
        rows = np.flatnonzero(next_click + gap < history_end)
        if len(rows):
            part = windows.groups.subset(rows)
            targets = training.objects[next_click[rows] + gap]
            parts.append(Groups(part.objects, part.offsets, targets))
    return Groups.concat(parts)


def right_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding before them, shape (n_groups, size)."""
    place = np.arange(size)
    index = groups.offsets[1:, None] - size + place
    is_real = index >= groups.offsets[:-1, None]
    return np.where(is_real, groups.objects[np.maximum(index, 0)], fill).astype(np.int64)


def left_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding after them, shape (n_groups, size)."""
    kept = np.minimum(groups.sizes, size)[:, None]
    place = np.arange(size)
    index = groups.offsets[1:, None] - kept + place
    last = groups.n_objects - 1
    return np.where(place < kept, groups.objects[np.minimum(index, last)], fill).astype(np.int64)

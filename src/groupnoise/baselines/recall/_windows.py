"""Histories as the dense index arrays that networks read."""

from __future__ import annotations

import numpy as np

from groupnoise._typing import IntArray
from groupnoise.groups import Groups, sliding_windows


def training_windows(training: Groups, size: int, n_targets: int, fill: int) -> Groups:
    """Return windows whose targets are the clicks that follow, shape (n_groups, n_targets).

    Groups that have targets already are used as they are, with that one target. From whole
    histories sliding windows are cut; `fill` stands where a history ends too soon.
    """
    if training.targets is not None:
        return Groups(training.objects, training.offsets, training.targets[:, None])
    windows = sliding_windows(training, size)
    first = training.offsets[windows.histories] + windows.positions
    following = first[:, None] + np.arange(n_targets)
    inside = following < training.offsets[windows.histories + 1, None]
    last = training.n_objects - 1
    targets = np.where(inside, training.objects[np.minimum(following, last)], fill)
    return Groups(windows.groups.objects, windows.groups.offsets, targets)


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

"""StreamedGroups: groups of feature rows that stay on disk, read group by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import IntArray, offsets_from_sizes, ragged_rows, release_pages
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import Scaler, spans_blocks

MAX_BYTES_IN_MEMORY = 1 << 30
"""Features that would take more than this in single precision stay on disk."""
MAX_SCALING_VALUES = 1 << 24
"""Values, in evenly spaced rows, that the scaling of streamed groups is fitted on."""
ROWS_AT_ONCE = 512
MAX_OBJECTS_AT_ONCE = 1 << 15
"""Streamed objects in memory at a time, approximately: a larger group is not divided."""
MIN_SCALING_ROWS = 1 << 12
"""Minimum of these rows, however many features they have."""


class StreamedGroups(Groups):
    """Groups of feature rows in a memory-mapped file, read on demand.

    Subsets share the file. Pages are released after reading, so that memory does not grow with the
    file; processes on one machine share the page cache.

    `file` (n_rows, n_features): finite feature rows.
    """

    __slots__ = ("_file", "_scaler", "_starts")

    def __init__(
        self, file: NDArray[Any], offsets: ArrayLike, targets: NDArray[Any] | None = None
    ) -> None:
        # Rows were validated when they were written; validating an empty array is free.
        checked = Groups(np.empty((len(file), 0), dtype=file.dtype), offsets, targets)
        self._file = file
        self._scaler: Scaler | None = None
        self._starts: IntArray = checked.offsets[:-1]
        self.offsets = checked.offsets
        self.targets = checked.targets

    @property
    def width(self) -> int:
        """Number of columns of an object, after scaling if there is any."""
        return int(self._file.shape[1]) if self._scaler is None else self._scaler.width

    @property
    def objects(self) -> NDArray[Any]:
        """All rows, unscaled: memory-mapped if contiguous on disk, else a copy."""
        begin, end = self._starts[0], self._starts[-1] + self.sizes[-1]
        if end - begin == self.n_objects and (np.diff(self._starts) == self.sizes[:-1]).all():
            return self._file[begin:end]
        return self._file[ragged_rows(self._starts, self.sizes)]

    def scaled_by(self, scaler: Scaler) -> StreamedGroups:
        """Return the same groups, scaled on reading."""
        scaled = self._like(np.arange(len(self)))
        scaled._scaler = scaler
        return scaled

    def subset(self, rows: ArrayLike | slice) -> StreamedGroups:
        """Return the groups at `rows` (indices, a boolean mask or a slice), in that order."""
        return self._like(self._picked(rows))

    def gathered(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Read the objects of the groups at `rows`, one group after the other."""
        sizes = self.offsets[rows + 1] - self.offsets[rows]
        result = np.empty((int(sizes.sum()), self.width), dtype=self._dtype)
        ends = np.cumsum(sizes)
        for row, end, size in zip(rows, ends, sizes, strict=True):
            self._read(int(row), result[end - size : end])
        return result

    def padded(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Read the objects of the groups at `rows`, each up to the size of the largest.

        The last object of a shorter group is repeated.
        """
        sizes = self.offsets[rows + 1] - self.offsets[rows]
        result = np.empty((len(rows), int(sizes.max()), self.width), dtype=self._dtype)
        for place, row, size in zip(result, rows, sizes, strict=True):
            self._read(int(row), place[:size])
            place[size:] = place[size - 1]
        return result

    def sample_rows(self, max_rows: int) -> NDArray[Any]:
        """Read at most `max_rows` evenly spaced rows, unscaled."""
        at = np.arange(0, self.n_objects, -(-self.n_objects // max_rows))
        group = np.searchsorted(self.offsets, at, side="right") - 1
        position = self._starts[group] + at - self.offsets[group]
        rows = np.empty((len(position), self.width), dtype=self._file.dtype)
        for first in range(0, len(position), ROWS_AT_ONCE):
            # Every row pages in its neighbours, which would add up to the whole file.
            part = slice(first, first + ROWS_AT_ONCE)
            rows[part] = self._file[position[part]]
            release_pages(self._file)
        return rows

    def arrays(self) -> tuple[NDArray[Any] | None, ...]:
        """Return the arrays that make up the collection, for a checksum."""
        return self._file, self._starts, self.offsets, self.targets

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return self.subset(row)
        return self.gathered(self._picked([row]))

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self._file.dtype if self._scaler is None else np.dtype(np.float32)

    def _read(self, row: int, place: NDArray[Any]) -> None:
        start = self._starts[row]
        rows = self._file[start : start + len(place)]
        if self._scaler is None:
            place[...] = rows
        else:
            self._scaler.scale_into(rows, place)
        release_pages(self._file)

    def _like(self, picked: IntArray) -> StreamedGroups:
        """Return some of the groups without looking at them again."""
        made = object.__new__(type(self))
        made._file, made._scaler = self._file, self._scaler
        made._starts = self._starts[picked]
        made.offsets = offsets_from_sizes(self.sizes[picked])
        made.targets = None if self.targets is None else self.targets[picked]
        return made


def make_groups(rows: NDArray[Any], offsets: ArrayLike) -> Groups:
    """Return groups of feature rows: streamed if the rows are mapped and too many for memory."""
    if isinstance(rows, np.memmap) and rows.ndim == 2 and 4 * rows.size > MAX_BYTES_IN_MEMORY:
        return StreamedGroups(rows, offsets)
    return Groups(rows, offsets)


def scaled_groups(kind: str, groups: Groups) -> tuple[Scaler, Groups]:
    """Return a scaler learned from groups of feature rows, and the groups scaled by it."""
    if isinstance(groups, StreamedGroups):
        n_rows = max(MIN_SCALING_ROWS, MAX_SCALING_VALUES // groups.width)
        scaler = Scaler(kind).fit(groups.sample_rows(n_rows))
        return scaler, groups.scaled_by(scaler)
    rows = groups.objects
    scaler = Scaler(kind).fit(rows)
    if kind == "none" or not spans_blocks(rows):  # as they are, mapped rows stay in their file
        return scaler, Groups(scaler(rows), groups.offsets)
    scaled = np.empty((len(rows), scaler.width), dtype=np.float32)
    scaler.scale_into(rows, scaled)
    return scaler, Groups(scaled, groups.offsets)


def apply_in_blocks(groups: Groups, answer: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Apply a function to all objects, a few groups at a time if they are streamed."""
    if not isinstance(groups, StreamedGroups):
        return answer(groups.objects)
    ends = np.flatnonzero(np.diff(groups.offsets[:-1] // MAX_OBJECTS_AT_ONCE)) + 1
    parts = np.split(np.arange(len(groups)), ends)
    return np.concatenate([answer(groups.gathered(rows)) for rows in parts])

"""From click histories to windows: groups of clicks tied to the next click."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.clicks.items.catalogue import check_item_indices
from groupnoise.core.arrays import IntArray, blocks, offsets_from_sizes, ragged_rows
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import Windows

WINDOW_KINDS = ("sliding", "chunks", "session", "leave_one_out")


def cut_windows(
    histories: Groups,
    how: str = "sliding",
    *,
    size: int = 5,
    min_size: int | None = None,
    times: ArrayLike | None = None,
    gap: float | None = None,
) -> Windows:
    """Cut click histories into groups, each tied to the click that follows it.

    Parameters
    ----------
    histories : Groups
        One group of item ids per user, in time order; may be memory mapped.
    how : {'sliding', 'chunks', 'session', 'leave_one_out'}, default='sliding'
        - `sliding`: every click is the target of the clicks before it (the authors' code);
        - `chunks`: each history falls into disjoint chunks of at most `size + 1` clicks, the last
          of a chunk is its target (the paper);
        - `session`: a history falls apart wherever more than `gap` passes between two clicks,
          and each session is cut into chunks;
        - `leave_one_out`: one window per user, its target is the last click.
    size : int, default=5
        The most objects a group may hold.
    min_size : int, optional
        The fewest objects a group may hold. By default `size` for sliding windows, so that all
        are full, and 1 otherwise.
    times : array-like of shape (n_clicks,), optional
        When each click of `histories` happened; needed by `session`.
    gap : float, optional
        The longest pause inside a session, in the unit of `times`; needed by `session`.

    Returns
    -------
    windows : Windows
        Ordered by user and position. A history too short for a window gives none.

    Examples
    --------
    >>> from groupnoise import Groups
    >>> windows = cut_windows(Groups.from_lists([[7, 8, 9, 4]]), size=2)
    >>> windows.groups[0].tolist(), windows.groups.targets.tolist()
    ([7, 8], [9, 4])
    """
    min_size = check_window_sizes(how, size, min_size)
    check_item_indices(histories)
    targets, sizes = find_windows(histories, how, size, min_size, times, gap)
    if len(targets) == 0:
        raise DataError(too_short_message(histories, min_size))
    return gather_windows(histories, targets, sizes)


def take_windows(windows: Windows, rows: NDArray[Any]) -> Windows:
    """Return the windows at `rows` (indices or a boolean mask), in that order."""
    return Windows(windows.groups.subset(rows), windows.users[rows], windows.positions[rows])


def check_window_sizes(how: str, size: int, min_size: int | None) -> int:
    """Refuse sizes that make no sense, and return the fewest objects a group may hold."""
    check_choice("how", how, WINDOW_KINDS)
    check_count("size", size)
    if min_size is None:
        min_size = size if how == "sliding" else 1
    check_count("min_size", min_size)
    if min_size > size:
        raise ParameterError(f"min_size ({min_size}) must not exceed size ({size}).")
    return min_size


def too_short_message(histories: Groups, min_size: int) -> str:
    """Return a message that no history is long enough for a window."""
    return (
        f"no history is long enough for a window: a group of {min_size} and its target need "
        f"{min_size + 1} clicks, the longest history has {histories.sizes.max()}."
    )


def find_windows(
    histories: Groups,
    how: str,
    size: int,
    min_size: int,
    times: ArrayLike | None = None,
    gap: float | None = None,
) -> tuple[IntArray, IntArray]:
    """Return the target of each window, as a position among all clicks, and its size."""
    starts, stops = histories.offsets[:-1], histories.offsets[1:]
    if how == "sliding":
        targets, n_before = _sliding_targets(starts, stops, min_size)
    elif how == "leave_one_out":
        targets, n_before = stops - 1, stops - 1 - starts
    else:
        if how == "session":
            starts, stops = _session_bounds(histories, times, gap)
        targets, n_before = _chunk_targets(starts, stops, size)

    kept = n_before >= min_size
    return targets[kept], np.minimum(n_before[kept], size)


def _session_bounds(
    histories: Groups, times: ArrayLike | None, gap: float | None
) -> tuple[IntArray, IntArray]:
    """Return where each session starts and stops among all clicks."""
    if times is None or gap is None:
        raise ParameterError(
            "how='session' needs the click `times` and the `gap` between sessions."
        )
    check_positive("gap", gap)
    timestamps = np.asarray(times)
    if timestamps.shape != (histories.n_objects,):
        raise DataError(
            f"{counted(histories.n_objects, 'clicks')} came with times of shape "
            f"{timestamps.shape}; "
            "give one per click."
        )
    pauses = np.diff(timestamps)
    begins = np.concatenate([[True], pauses > gap])
    begins[histories.offsets[:-1]] = True
    goes_back = np.flatnonzero(~begins[1:] & (pauses < 0))
    if len(goes_back):
        click = int(goes_back[0]) + 1
        user = int(np.searchsorted(histories.offsets, click, side="right")) - 1
        raise DataError(
            f"history {user} is not in time order, first at click "
            f"{click - histories.offsets[user]}; sort each history by time first."
        )
    starts = np.flatnonzero(begins)
    return starts, np.append(starts[1:], histories.n_objects)


def _sliding_targets(starts: IntArray, stops: IntArray, first: int) -> tuple[IntArray, IntArray]:
    """Return every click with at least `first` clicks before it, and their number."""
    counts = np.maximum(stops - starts - first, 0)
    n_before = ragged_rows(np.full(len(counts), first), counts)
    return np.repeat(starts, counts) + n_before, n_before


def _chunk_targets(starts: IntArray, stops: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the last click of each chunk of `size + 1`, and the number before it."""
    counts = -(-(stops - starts) // (size + 1))
    ordinal = ragged_rows(np.zeros(len(counts)), counts)
    chunk_starts = np.repeat(starts, counts) + ordinal * (size + 1)
    chunk_stops = np.minimum(chunk_starts + size + 1, np.repeat(stops, counts))
    return chunk_stops - 1, chunk_stops - 1 - chunk_starts


def gather_windows(histories: Groups, targets: IntArray, sizes: IntArray) -> Windows:
    """Collect for each target click the `sizes` clicks right before it."""
    offsets = offsets_from_sizes(sizes)
    index = ragged_rows(targets - sizes, sizes)  # (n_objects,)
    users = np.searchsorted(histories.offsets, targets, side="right") - 1
    return Windows(
        groups=Groups(histories.objects[index], offsets, histories.objects[targets]),
        users=users,
        positions=targets - histories.offsets[users],
    )


def blocks_of_histories(histories: Groups, clicks_at_once: int) -> Iterator[tuple[int, Groups]]:
    """Yield the first user and the histories of each block; a history is never divided."""
    offsets, first = histories.offsets, 0
    while first < len(histories):
        last = int(np.searchsorted(offsets, offsets[first] + clicks_at_once, side="right")) - 1
        last = max(last, first + 1)
        begin, end = offsets[first], offsets[last]
        yield first, Groups(histories.objects[begin:end], offsets[first : last + 1] - begin)
        first = last


def drop_small_groups(groups: Groups, min_size: int) -> Groups:
    """Return the groups of at least `min_size` objects; the same collection if all are.

    Raises DataError if none is.
    """
    if min_size <= 1:  # no group is empty, and offsets on disk need not be read
        return groups
    if all(
        np.diff(part).min(initial=min_size) >= min_size
        for part in _overlapping_blocks(groups.offsets)
    ):
        return groups  # the common case of windows on disk, whose sizes may not fit in memory
    sizes = groups.sizes
    kept = np.flatnonzero(sizes >= min_size)
    if not len(kept):
        raise DataError(
            f"no window has {min_size} clicks, the largest has {sizes.max()}; lower min_window."
        )
    return groups.subset(kept)


def _overlapping_blocks(offsets: IntArray) -> Iterator[IntArray]:
    """Yield offsets in blocks, each with the first one of the next."""
    for first, part in blocks(offsets):
        yield offsets[first : first + len(part) + 1]

"""Windows of click histories on disk, made once and opened again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.reading.external_sort import prefetch
from groupnoise.clicks.windows.cutting import (
    blocks_of_histories,
    check_window_sizes,
    find_windows,
    gather_windows,
    too_short_message,
)
from groupnoise.core.arrays import IntArray, ProgressCallback, blocks
from groupnoise.core.checks import check_count
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import Windows
from groupnoise.io.folders.data_folder import (
    new_data_folder,
    open_groups,
    read_origin,
    record_origin,
    wait_until_made,
    write_manifest,
)
from groupnoise.io.tables.array_files import ArrayWriter

OBJECTS_AT_ONCE = 250_000
"""Clicks of windows cut at a time; about 100 bytes of memory each."""


def write_windows(
    folder: str | Path,
    histories: Groups,
    how: str = "sliding",
    *,
    size: int = 5,
    min_size: int | None = None,
    held_out: IntArray | None = None,
    overwrite: bool = False,
    clicks_at_once: int = 1_000_000,
    progress: ProgressCallback | None = None,
) -> Windows:
    """Cut histories into windows on disk, for logs whose windows would not fit in memory.

    Parameters
    ----------
    folder : str or Path
        Where the windows go; it appears whole or not at all.
    histories : Groups
        One group of item ids per user, usually memory mapped.
    how : {'sliding', 'chunks', 'leave_one_out'}, default='sliding'
        As in `cut_windows`. For sessions convert the log with a `session_gap` first.
    size : int, default=5
        The most clicks before the target.
    min_size : int, optional
        The fewest clicks before the target, as in `cut_windows`.
    held_out : int64 ndarray, optional
        Rows of `histories` whose last click is kept out, for a validation: the window that it is
        the target of is not written.
    overwrite : bool, default=False
        Replace a data folder that is already there.
    clicks_at_once : int, default=1_000_000
        How many clicks to cut at a time; about 150 bytes of memory each.
    progress : callable, optional
        Called with a record after each block.

    Returns
    -------
    windows : Windows
        The same as `cut_windows` returns, memory mapped from `folder`.
    """
    min_size = check_window_sizes(how, size, min_size)
    check_count("clicks_at_once", clicks_at_once)
    if how == "session":
        raise DataError("sessions are cut while the log is converted: pass `session_gap` there.")
    folder = Path(folder)
    held = np.zeros(0, dtype=np.int64) if held_out is None else np.sort(held_out)
    kinds = {
        "objects": histories.objects.dtype,
        "offsets": np.dtype(np.int64),
        "targets": histories.objects.dtype,
        "users": np.dtype(np.int64),
        "positions": np.dtype(np.int64),
    }
    with new_data_folder(folder, overwrite=overwrite) as building, ExitStack() as stack:
        writers = {
            name: stack.enter_context(ArrayWriter(building / f"{name}.npy", kind))
            for name, kind in kinds.items()
        }
        writers["offsets"].append(np.zeros(1))
        cut = (
            (first, len(block), _cut(block, how, size, min_size, _last_clicks(block, first, held)))
            for first, block in blocks_of_histories(histories, clicks_at_once)
        )
        for first_user, n_users, windows in prefetch(cut):
            if windows is not None:
                _append(writers, windows, first_user)
            if progress is not None:
                done = first_user + n_users
                progress({"stage": "windows", "users": done, "of_users": len(histories)})
        if writers["targets"].n_rows == 0:
            raise DataError(too_short_message(histories, min_size))
        entries = {name: writer.finish() for name, writer in writers.items()}
        write_manifest(building, "windows", entries, {"how": how, "size": size})
    mapped = open_groups(folder)
    assert isinstance(mapped, Windows)
    return mapped


def _last_clicks(block: Groups, first_user: int, held: IntArray) -> IntArray:
    """Return where in a block the last clicks of the users held out are."""
    begin, end = np.searchsorted(held, [first_user, first_user + len(block)])
    return block.offsets[held[begin:end] - first_user + 1] - 1


def _cut(
    block: Groups, how: str, size: int, min_size: int, held_clicks: IntArray
) -> Windows | None:
    targets, sizes = find_windows(block, how, size, min_size)
    if len(held_clicks):  # a last click is an object of no window, so that only targets matter
        kept = ~np.isin(targets, held_clicks)
        targets, sizes = targets[kept], sizes[kept]
    return gather_windows(block, targets, sizes) if len(targets) else None


def _append(writers: dict[str, ArrayWriter], windows: Windows, first_user: int) -> None:
    groups = windows.groups
    assert groups.targets is not None
    writers["offsets"].append(groups.offsets[1:] + writers["objects"].n_rows)
    writers["objects"].append(groups.objects)
    writers["targets"].append(groups.targets)
    writers["users"].append(windows.users + first_user)
    writers["positions"].append(windows.positions)


def windows_on_disk(
    histories: Groups,
    folder: str | Path,
    *,
    size: int,
    min_size: int,
    held_out: IntArray | None = None,
    wait: bool = False,
    progress: ProgressCallback | None = None,
) -> Windows:
    """Cut sliding windows on disk, or open what an earlier call cut from the same histories.

    Result: memory mapped from `folder`. `histories`, `folder`, `size`, `min_size`, `held_out`,
    `progress`: as in `write_windows`. Windows that an earlier call cut otherwise are replaced; any
    other folder is refused. `wait`: leave the work to another process and wait until it is done.
    """
    folder = Path(folder)
    origin = {
        "size": size,
        "min_size": min_size,
        "histories": _digest([histories.objects, histories.offsets]),
        "held out": _digest([np.zeros(0, np.int64) if held_out is None else held_out]),
    }
    if wait:
        wait_until_made(folder, origin)
    found = read_origin(folder)
    if found != origin:
        write_windows(
            folder,
            histories,
            size=size,
            min_size=min_size,
            held_out=held_out,
            overwrite=found is not None,
            clicks_at_once=max(1, OBJECTS_AT_ONCE // size),
            progress=progress,
        )
        record_origin(folder, origin)
    windows = open_groups(folder)
    assert isinstance(windows, Windows)
    return windows


def _digest(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for _, part in blocks(array):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()

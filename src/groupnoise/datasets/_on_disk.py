"""Histories and windows kept in folders for a training: made once, opened when asked for again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._blocks import blocks
from groupnoise._files import write_json
from groupnoise._typing import IntArray, ProgressCallback
from groupnoise.datasets._containers import ClickDataset, Windows
from groupnoise.datasets._store import open_groups
from groupnoise.datasets._stream_clicks import convert_clicks
from groupnoise.datasets._stream_windows import write_windows
from groupnoise.datasets.readers._sources import Report, find_source
from groupnoise.exceptions import DataError
from groupnoise.groups import Groups

RECORD = "made_from.json"
"""Written into a folder last: what it was made from, and so what it may serve for."""
OBJECTS_AT_ONCE = 250_000
"""Clicks of windows cut at a time; about 100 bytes of memory each."""
PAUSE_SECONDS = 0.2


def clicks_on_disk(
    source: str | Path,
    folder: str | Path,
    *,
    wait: bool = False,
    rows_at_once: int = 2_000_000,
    report: Report | None = None,
    progress: ProgressCallback | None = None,
) -> ClickDataset:
    """Convert a click log, or open what an earlier call made of the same files.

    Parameters
    ----------
    source, folder, rows_at_once, report, progress
        As in `convert_clicks`; interrupted work is gone on with.
    wait : bool, default=False
        Leave the work to another process and wait until it is done.

    Returns
    -------
    clicks : ClickDataset
        The histories, memory mapped from `folder`.

    Raises
    ------
    DataError
        If the folder holds anything else, or the log changed since.
    """
    folder, files = Path(folder), find_source(source)
    wanted = {"files": [list(files.size_of(path)) for path in files.paths]}
    if wait:
        _wait_for(folder, wanted)
    if not folder.exists():
        convert_clicks(source, folder, rows_at_once=rows_at_once, report=report, progress=progress)
        write_json(folder / RECORD, wanted)
    elif _record_of(folder) != wanted:
        raise DataError(
            f"{folder} was not made from {source} as it is now; remove it or give another folder."
        )
    clicks = open_groups(folder)
    assert isinstance(clicks, ClickDataset)
    return clicks


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

    Parameters
    ----------
    histories, folder, size, min_size, held_out, progress
        As in `write_windows`. Windows that an earlier call cut otherwise are replaced; any other
        folder is refused.
    wait : bool, default=False
        Leave the work to another process and wait until it is done.

    Returns
    -------
    windows : Windows
        Memory mapped from `folder`.
    """
    folder = Path(folder)
    wanted = {
        "size": size,
        "min_size": min_size,
        "histories": _digest([histories.objects, histories.offsets]),
        "held out": _digest([np.zeros(0, np.int64) if held_out is None else held_out]),
    }
    if wait:
        _wait_for(folder, wanted)
    found = _record_of(folder)
    if found != wanted:
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
        write_json(folder / RECORD, wanted)
    windows = open_groups(folder)
    assert isinstance(windows, Windows)
    return windows


def _wait_for(folder: Path, wanted: dict[str, Any]) -> None:
    while _record_of(folder) != wanted:
        time.sleep(PAUSE_SECONDS)


def _record_of(folder: Path) -> Any:
    """Return what a folder was made from, or None if that is not known."""
    try:
        return json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _digest(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for _, part in blocks(array):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()

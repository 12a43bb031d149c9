"""Bags on disk, made once from any source and opened by every process that trains on them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from groupnoise.bags.files import read_bags
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.exceptions import DataError
from groupnoise.io.data_folder import (
    is_data_folder,
    made_from,
    open_groups,
    record_origin,
    wait_until_made,
    write_groups,
)
from groupnoise.io.datasets import BagDataset


def bags_on_disk(
    source: str | Path, folder: str | Path, *, wait: bool = False, **options: Any
) -> BagDataset:
    """Write bags to a folder, or open what an earlier call made of the same files.

    Result: its bags are read from disk whatever their size. `source`: a file or a folder, as
    :func:`groupnoise.bags.read_bags` takes it; a data folder is opened where it lies. `folder`:
    where the bags go; it appears whole or not at all. `wait`: leave the work to another process and
    wait until it is done. `options`: columns and the form of the source, passed to
    :func:`groupnoise.bags.read_bags`. Raises DataError if the folder holds anything else, or the
    source changed since.
    """
    folder = Path(folder)
    if is_data_folder(source):
        return _streamed(source)
    report = options.pop("report", None)
    wanted: dict[str, Any] = {"files": _sizes_of(Path(source))}
    if options:
        wanted["options"] = {name: str(value) for name, value in options.items()}
    if wait:
        wait_until_made(folder, wanted)
    if not folder.exists():
        write_groups(folder, read_bags(source, report=report, **options))
        record_origin(folder, wanted)
    elif made_from(folder) != wanted:
        raise DataError(
            f"{folder} was not made from {source} as it is now; remove it or give another folder."
        )
    return _streamed(folder)


def _streamed(folder: str | Path) -> BagDataset:
    stored = open_groups(folder)
    if not isinstance(stored, BagDataset):
        raise DataError(f"{folder} holds a {type(stored).__name__}, not bags.")
    if isinstance(stored.bags, StreamedGroups):
        return stored
    bags = stored.bags
    return replace(stored, bags=StreamedGroups(bags.objects, bags.offsets))


def _sizes_of(source: Path) -> list[list[Any]]:
    """Return name, size and time of change of every file, so that a change is noticed."""
    files = sorted(source.rglob("*")) if source.is_dir() else [source]
    try:
        found = [(file, os.stat(file)) for file in files if file.is_file()]
    except OSError as error:
        raise DataError(f"{source} cannot be read ({error}).") from None
    return [
        [str(file.relative_to(source.parent)), state.st_size, state.st_mtime_ns]
        for file, state in found
    ]

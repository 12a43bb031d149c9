"""Reading files that may come from anywhere: regular ones only, of their own folder, no flood."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_JSON = 64 << 20
"""Bytes; the manifests of millions of items take a few."""
BLOCK = 1 << 20
"""Bytes read at a time."""


def file_in(folder: Path, name: Any) -> Path:
    """Return the path of a file a manifest names, never one outside the manifest's own folder.

    Raises
    ------
    ValueError
        If the name is not text or leads elsewhere.
    """
    if not isinstance(name, str) or name in ("", "..") or Path(name).name != name or "\0" in name:
        raise ValueError(f"{str(name)[:80]!r} is no file of {folder}")
    return folder / name


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; a pipe, a device or a folder is refused instead of waited for.

    Raises
    ------
    OSError
        If there is no such file, or it is none of the regular ones.
    ValueError
        If no file can have this name.
    """
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - returned open
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError("it is no regular file")
    return stream


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of at most 64 MB.

    Raises
    ------
    OSError
        As :func:`open_regular`.
    ValueError
        If the content is too large, nested too deeply or not JSON.
    """
    try:
        data = bytearray()
        with open_regular(path) as stream:
            # In blocks, since some file systems do not know the size of a file beforehand.
            while len(data) <= LARGEST_JSON and (block := stream.read(BLOCK)):
                data += block
        if len(data) > LARGEST_JSON:
            raise ValueError(f"it is larger than {LARGEST_JSON >> 20} MB")
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except MemoryError:
        raise ValueError("it does not fit in memory") from None


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would otherwise wait until somebody writes to it.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

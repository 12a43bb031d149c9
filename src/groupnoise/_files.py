"""Writing without ever leaving half a file, and checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its place only if the block succeeds.

    Readers see the old content or the new, never a mixture; on failure nothing remains.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write text atomically, as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON, atomically; NaN is refused because JSON has none."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, default=_plain_number) + "\n")


def _plain_number(value: Any) -> Any:
    """Return a number of numpy as Python's own; what users count with is often one."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def why_not_written(path: Path, error: Exception) -> str:
    """Return one sentence on a failed write, which names a full disk as such."""
    # Errors of libraries written in Rust carry the number in their text alone.
    in_text = re.search(r"os error (\d+)", str(error))
    number = getattr(error, "errno", None) or (int(in_text[1]) if in_text else None)
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"there is no space left to write {path} ({os.strerror(number)}), and nothing of it "
            "was kept; free some or write to another disk."
        )
    return f"{path} cannot be written: {getattr(error, 'strerror', None) or error}."


def sync_folder(folder: Path) -> None:
    """Make sure that renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

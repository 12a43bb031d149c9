"""Where data files are looked for, and whether what lies there is what it should be."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from groupnoise._files import sha256_of
from groupnoise.datasets._registry import DataFile, DatasetEntry
from groupnoise.exceptions import DataError, MissingDataError

ENVIRONMENT_VARIABLE = "GROUPNOISE_DATA"
CHECKOUT = Path(__file__).resolve().parents[3]

Status = Literal["shipped", "ok", "present", "altered", "missing"]


def data_directories(data_dir: str | Path | None = None) -> list[Path]:
    """Return the directories searched for data, first choice first; not all need exist.

    They are `data_dir`, the environment variable `GROUPNOISE_DATA`, `shared/data` beside the
    working directory or the checkout, and the user's cache.
    """
    candidates = [
        Path(data_dir) if data_dir is not None else None,
        _from_environment(),
        Path.cwd().parent / "shared" / "data",
        CHECKOUT.parent / "shared" / "data",
        user_cache(),
    ]
    return list(dict.fromkeys(path.expanduser() for path in candidates if path is not None))


def storage_directory(data_dir: str | Path | None = None) -> Path:
    """Return the directory new files are put into: the one asked for, or the user's cache."""
    chosen = Path(data_dir) if data_dir is not None else _from_environment()
    return (chosen or user_cache()).expanduser()


def user_cache() -> Path:
    """Return the directory for downloaded data that suits the operating system."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "groupnoise"


def locate_file(file: DataFile, data_dir: str | Path | None = None) -> Path | None:
    """Return the first copy of a file, packed or unpacked, or None."""
    for directory in data_directories(data_dir):
        for path in (file.path, file.plain_path):
            if (directory / path).exists():
                return directory / path
    return None


def locate_dataset(
    entry: DatasetEntry, data_dir: str | Path | None = None, *, verify: bool = True
) -> list[Path | None]:
    """Find the files of a data set.

    Parameters
    ----------
    entry : DatasetEntry
        From `find_dataset` or `list_datasets`.
    data_dir : path, optional
        Searched first; must exist if given.
    verify : bool, default True
        Compare each file with its known checksum.

    Returns
    -------
    list of Path or None
        One per file of the entry, in order; None for optional files that are not there.

    Raises
    ------
    MissingDataError
        If a file is needed and not in any directory; the message says what to get, from where,
        and where to put it.
    DataError
        If `verify` is set and a file has another checksum than recorded.
    """
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise MissingDataError(f"the data directory {data_dir} does not exist.")
    paths = []
    for file in entry.files:
        path = locate_file(file, data_dir)
        if path is None and not file.optional:
            command = f"run `groupnoise data fetch {entry.name}`, or "
            raise MissingDataError(
                f"{entry.title} is not here: {command if entry.can_be_fetched else ''}"
                f"{how_to_get(entry, file, data_dir)}."
            )
        if path is not None and verify and is_altered(file, path):
            raise DataError(
                f"{path} is not the {entry.title} that is known here: its SHA-256 differs; "
                "replace it, or load it unverified with verify=False."
            )
        paths.append(path)
    return paths


def check_dataset(entry: DatasetEntry, data_dir: str | Path | None = None) -> Status:
    """Tell whether a set is shipped, verified, present without a checksum, altered or missing."""
    if not entry.files:
        return "shipped"
    found = [(file, locate_file(file, data_dir)) for file in entry.files]
    if any(path is None and not file.optional for file, path in found):
        return "missing"
    present = [(file, path) for file, path in found if path is not None]
    if any(is_altered(file, path) for file, path in present):
        return "altered"
    return "ok" if all(expected_sha256(file, path) for file, path in present) else "present"


def is_altered(file: DataFile, path: Path) -> bool:
    """Whether a file's checksum is known and differs."""
    expected = expected_sha256(file, path)
    return expected is not None and sha256_of(path) != expected


def expected_sha256(file: DataFile, path: Path) -> str | None:
    """Return the checksum a found copy should have, or None if it is unknown."""
    return file.sha256 if path.name == Path(file.path).name else file.plain_sha256


def _from_environment() -> Path | None:
    value = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(value) if value else None


def how_to_get(entry: DatasetEntry, file: DataFile, data_dir: str | Path | None) -> str:
    """Say in half a sentence from where to get a file, and where to put it."""
    return f"get it ({entry.origin}) and put it at {storage_directory(data_dir) / file.path}"

"""The data sets groupnoise knows by name, where their files lie, and their checksums."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from groupnoise.core.checks import near_name
from groupnoise.exceptions import DataError, MissingDataError, ParameterError
from groupnoise.io.files import parse_toml, sha256_of

Setting = Literal["mil", "pll", "rs"]
ENVIRONMENT_VARIABLE = "GROUPNOISE_DATA"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file, or folder, of a data set."""

    path: str
    """Where it lies below a data directory."""
    sha256: str | None = None
    """Its checksum, where one is known."""
    plain_sha256: str | None = None
    """Of a `.gz` file: the checksum of the unpacked content, which is accepted in its place."""
    url: str | None = None
    """Where it can be fetched as it is."""
    optional: bool = False
    """Whether the set can be loaded without it, for example without titles."""

    @property
    def plain_path(self) -> str:
        """The path of the unpacked file."""
        return self.path.removesuffix(".gz")


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is known about a named data set."""

    name: str
    title: str
    setting: Setting
    form: str
    """Which loader reads it."""
    shape: str
    """What a complete copy holds, in words."""
    truth: str
    """What is known of the right answer, in words."""
    citation: str
    terms: str
    origin: str
    """Where to get it, in words; says so where no address is known."""
    files: tuple[DataFile, ...] = ()
    """Empty for sets that are shipped or generated."""
    aliases: tuple[str, ...] = ()

    @property
    def can_be_fetched(self) -> bool:
        """Whether every file that is needed has an address and a checksum."""
        needed = [file for file in self.files if not file.optional]
        return bool(needed) and all(file.url is not None for file in needed)


def list_datasets() -> tuple[DatasetEntry, ...]:
    """Return all entries of the registry, in its order.

    Returns
    -------
    tuple of DatasetEntry
        `name`, `title`, `setting`, `files`, `origin` and what else is known of each set.

    Examples
    --------
    >>> [entry.name for entry in list_datasets()][:3]
    ['digit-bags', 'digit-candidates', 'shop']
    """
    return _entries()


def find_dataset(name: str) -> DatasetEntry:
    """Return the entry of a data set by its name or an alias, in any case.

    Examples
    --------
    >>> find_dataset("Video").name
    'amazon-video-games'
    """
    by_name = {known: entry for entry in _entries() for known in (entry.name, *entry.aliases)}
    requested = name.lower().replace("_", "-")
    if requested in by_name:
        return by_name[requested]
    near = near_name(requested, by_name)
    hint = f"did you mean {near!r}?" if near else "`groupnoise data list` shows all names."
    no_file = f"there is no file {name}, and " if Path(name).suffix or "/" in name else ""
    raise ParameterError(f"{no_file}no data set is called {name!r}; {hint}")


@lru_cache(maxsize=1)
def _entries() -> tuple[DatasetEntry, ...]:
    text = resources.files("groupnoise.io").joinpath("registry.toml").read_text("utf-8")
    return tuple(_entry(table) for table in parse_toml(text)["dataset"])


def _entry(table: dict[str, Any]) -> DatasetEntry:
    files = tuple(DataFile(**file) for file in table.pop("files", []))
    aliases = tuple(table.pop("aliases", []))
    return DatasetEntry(**table, files=files, aliases=aliases)


Status = Literal["shipped", "ok", "present", "altered", "missing"]


def data_directories(data_dir: str | Path | None = None) -> list[Path]:
    """Return the directories searched for data, first choice first; not all need exist.

    They are `data_dir`, the environment variable `GROUPNOISE_DATA` and the user's cache.
    """
    candidates = [
        Path(data_dir) if data_dir is not None else None,
        _from_environment(),
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

    Result: one per file of the entry, in order; None for optional files that are not there.
    `entry`: from `find_dataset` or `list_datasets`. `data_dir`: searched first; must exist if
    given. `verify`: compare each file with its known checksum. Raises MissingDataError if a file is
    needed and not in any directory; the message says what to get, from where, and where to put it.
    Raises DataError if `verify` is set and a file has another checksum than recorded.
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

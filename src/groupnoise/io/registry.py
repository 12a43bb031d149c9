"""The registry of named data sets: files, checksums and downloads.

The only module that downloads. pooch keeps a download under a temporary name until its checksum is
right; this module adds resuming of interrupted transfers.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, Literal

from groupnoise.core.checks import check_count, check_positive, closest_name, require
from groupnoise.core.words import error_text
from groupnoise.exceptions import DataError, MissingDataError, ParameterError
from groupnoise.io.files import parse_toml, sha256_of

Setting = Literal["mil", "pll", "rs"]
ENVIRONMENT_VARIABLE = "GROUPNOISE_DATA"
Status = Literal["shipped", "ok", "present", "altered", "missing"]
BLOCK_SIZE = 1 << 14
FETCH_EXTRA = "fetch"
FetchProgress = Callable[[str, int, "int | None"], None]
"""Called with the file name, the bytes received and, if known, the total."""


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


@lru_cache(maxsize=1)
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
    text = resources.files("groupnoise.io").joinpath("registry.toml").read_text("utf-8")
    return tuple(_entry(table) for table in parse_toml(text)["dataset"])


def find_dataset(name: str) -> DatasetEntry:
    """Return the entry of a data set by its name or an alias, in any case.

    >>> find_dataset("Video").name
    'amazon-video-games'
    """
    by_name = {known: entry for entry in list_datasets() for known in (entry.name, *entry.aliases)}
    requested = name.lower().replace("_", "-")
    if requested in by_name:
        return by_name[requested]
    near = closest_name(requested, by_name)
    hint = f"did you mean {near!r}?" if near else "`groupnoise data list` shows all names."
    no_file = f"there is no file {name}, and " if Path(name).suffix or "/" in name else ""
    raise ParameterError(f"{no_file}no data set is called {name!r}; {hint}")


def _entry(table: dict[str, Any]) -> DatasetEntry:
    files = tuple(DataFile(**file) for file in table.pop("files", []))
    aliases = tuple(table.pop("aliases", []))
    return DatasetEntry(**table, files=files, aliases=aliases)


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
    """Return the directory for new files: the one given, or the user's cache."""
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
                f"{download_hint(entry, file, data_dir)}."
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


def download_hint(entry: DatasetEntry, file: DataFile, data_dir: str | Path | None) -> str:
    """Return a phrase that says where to get a file and where to put it."""
    return f"get it ({entry.origin}) and put it at {storage_directory(data_dir) / file.path}"


def fetch_dataset(
    name: str | DatasetEntry,
    *,
    data_dir: str | Path | None = None,
    progress: FetchProgress | None = None,
    attempts: int = 5,
    timeout_seconds: float = 30.0,
) -> list[Path]:
    """Download the files of a data set, verify them, and return where they lie.

    A transfer that breaks off is resumed up to `attempts` times. A file appears under its name
    only when it is complete and its SHA-256 is right; after a failure nothing remains.

    Parameters
    ----------
    name : str or DatasetEntry
        The name of a set of the registry, or an entry.
    data_dir : path, optional
        Where to put the files; by default `GROUPNOISE_DATA`, or the user's cache. Only without
        it a verified copy in another searched directory is taken instead of downloading.
    progress : callable, optional
        Called as `progress(file_name, n_received, n_total)`.
    attempts : int, default=5
        How often a transfer may be begun or resumed.
    timeout_seconds : float, default=30.0
        How long to wait for the next bytes; a slow transfer that goes on is not given up.

    Returns
    -------
    list of Path
        One per file of the set.

    Raises
    ------
    MissingDataError
        If the set has no address to fetch it from, or the transfer failed.
    DataError
        If what was sent is not the file that is known, or it cannot be stored.
    """
    check_count("attempts", attempts)
    check_positive("timeout_seconds", timeout_seconds)
    entry = name if isinstance(name, DatasetEntry) else find_dataset(name)
    if not entry.files:
        raise MissingDataError(f"{entry.title} needs no file: {entry.origin}.")
    if not entry.can_be_fetched:
        by_hand = download_hint(entry, entry.files[0], data_dir)
        raise MissingDataError(f"{entry.title} cannot be fetched as it is: {by_hand}.")
    downloader = ResumingDownloader(attempts, timeout_seconds, progress)
    with_address = [file for file in entry.files if file.url is not None]
    return [_fetch_file(entry, file, data_dir, downloader) for file in with_address]


class ResumingDownloader:
    """Downloads a file, resuming the transfer when it breaks off.

    An instance is a pooch downloader: it is called with an address, a path, and a Pooch object
    that it does not need.
    """

    def __init__(
        self, attempts: int, timeout_seconds: float, progress: FetchProgress | None = None
    ) -> None:
        self.attempts = attempts
        self.timeout_seconds = timeout_seconds
        self.progress = progress
        self.requests = require("requests", extra=FETCH_EXTRA)

    def __call__(self, url: str, output_file: str, _pooch: Any) -> None:
        """Download `url` to `output_file`."""
        with Path(output_file).open("wb") as stream:
            for attempt in range(self.attempts):
                try:
                    self._transfer(url, stream)
                    break
                except self.requests.RequestException as error:
                    # Trying again cannot help where the server refuses what was asked for.
                    is_refused = error.response is not None and error.response.status_code < 500
                    if is_refused or attempt + 1 == self.attempts:
                        raise
                    time.sleep(min(0.1 * 2**attempt, 5.0))

    def _transfer(self, url: str, stream: BinaryIO) -> None:
        """Append what is still missing; begin anew if the server sends everything again."""
        n_received = stream.tell()
        # Compressed transfers would make offsets count other bytes than those on disk.
        headers = {"Accept-Encoding": "identity"}
        if n_received:
            headers["Range"] = f"bytes={n_received}-"
        with self.requests.get(
            url, headers=headers, stream=True, timeout=self.timeout_seconds
        ) as response:
            if response.status_code == self.requests.codes.range_not_satisfiable:
                return  # the break came after the last byte; the checksum decides
            response.raise_for_status()
            if response.status_code != self.requests.codes.partial_content:
                stream.seek(0)
                stream.truncate()
            length = response.headers.get("Content-Length")
            n_total = stream.tell() + int(length) if length else None
            for block in response.iter_content(BLOCK_SIZE):
                stream.write(block)
                if self.progress is not None:
                    self.progress(url.rsplit("/", 1)[-1], stream.tell(), n_total)
        if n_total is not None and stream.tell() < n_total:
            raise self.requests.ConnectionError(f"{n_total - stream.tell()} bytes are missing")


def _fetch_file(
    entry: DatasetEntry, file: DataFile, data_dir: str | Path | None, downloader: ResumingDownloader
) -> Path:
    found = None if data_dir is not None else locate_file(file)
    if found is not None and not is_altered(file, found):
        return found
    is_sent_plain = file.path != file.plain_path and not str(file.url).endswith(".gz")
    target = storage_directory(data_dir) / (file.plain_path if is_sent_plain else file.path)
    checksum = file.plain_sha256 if is_sent_plain else file.sha256
    pooch = require("pooch", extra=FETCH_EXTRA)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                file.url,
                known_hash=f"sha256:{checksum}",
                fname=target.name,
                path=target.parent,
                downloader=downloader,
            )
    # Errors of requests may also be OSError or ValueError, so they are caught first.
    except downloader.requests.RequestException as error:
        raise MissingDataError(
            f"{file.url} could not be fetched ({error_text(error)}); try again later, or "
            f"{download_hint(entry, file, data_dir)}."
        ) from None
    except ValueError:
        raise DataError(
            f"what {file.url} sends is not the {entry.title} that is known here: its SHA-256 "
            f"differs; nothing was kept. The source may have changed ({entry.origin})."
        ) from None
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}.") from None
    return target


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence a logger."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

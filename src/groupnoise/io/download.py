"""Fetching data sets; the only module that downloads.

pooch keeps a download under a temporary name until its checksum is right; what is added here is
to take up a broken transfer where it stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from groupnoise.core.checks import check_count, check_positive, require
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.registry import (
    DataFile,
    DatasetEntry,
    find_dataset,
    how_to_get,
    is_altered,
    locate_file,
    storage_directory,
)

BLOCK_SIZE = 1 << 14
FETCH_EXTRA = "fetch"

FetchProgress = Callable[[str, int, "int | None"], None]
"""Called with a file's name, the bytes received, and the bytes in all where these are known."""


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
        by_hand = how_to_get(entry, entry.files[0], data_dir)
        raise MissingDataError(f"{entry.title} cannot be fetched as it is: {by_hand}.")
    downloader = ResumingDownloader(attempts, timeout_seconds, progress)
    with_address = [file for file in entry.files if file.url is not None]
    return [_fetch_file(entry, file, data_dir, downloader) for file in with_address]


class ResumingDownloader:
    """Write what an address sends to a file, asking for the rest when the transfer breaks off.

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
                    is_last = attempt + 1 == self.attempts
                    if is_last or not _may_pass(error):
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


def _may_pass(error: Any) -> bool:
    """Whether trying again can help: not if the server refuses what was asked for."""
    response = error.response
    return response is None or response.status_code >= 500


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
    # Errors of requests are OSErrors and ValueErrors by turns, so they are told apart first.
    except downloader.requests.RequestException as error:
        raise MissingDataError(
            f"{file.url} could not be fetched ({_reason(error)}); try again later, or "
            f"{how_to_get(entry, file, data_dir)}."
        ) from None
    except ValueError:
        raise DataError(
            f"what {file.url} sends is not the {entry.title} that is known here: its SHA-256 "
            f"differs; nothing was kept. The source may have changed ({entry.origin})."
        ) from None
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}.") from None
    return target


def _reason(error: Exception) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep a logger that prints by itself from doing so."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

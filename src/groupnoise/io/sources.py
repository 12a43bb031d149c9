"""Which files a source names, of which format, and how their bytes are read."""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from groupnoise.core.checks import check_choice, require
from groupnoise.exceptions import DataError, MissingDataError

Report = Callable[[str], None]
"""Called with one sentence for each guess a reader makes; the library itself never prints."""
FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npz": "npz",
    ".mat": "mat",
    ".txt": "text",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
OLD_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")
LINE_FORMATS = ("csv", "tsv", "jsonl", "text")
FORMATS = tuple(dict.fromkeys(FORMAT_OF_SUFFIX.values()))


def say_nothing(sentence: str) -> None:
    """Drop a report nobody asked for."""


@dataclass
class Guesses:
    """A report that also remembers what it was told, for the notes of a data set."""

    report: Report | None
    sentences: list[str] = field(default_factory=list)

    def __call__(self, sentence: str) -> None:
        """Remember a sentence and pass it on."""
        self.sentences.append(sentence)
        if self.report is not None:
            self.report(sentence)


@dataclass(frozen=True)
class Source:
    """Files of one format that together make one table.

    `paths`: the files, in the order of their names.
    `filesystem`: where the files lie when that is not the local disk.
    """

    paths: tuple[str, ...]
    format: str
    filesystem: Any = None

    @property
    def name(self) -> str:
        """What to call the data: the file's name without suffixes, or that of its folder."""
        if len(self.paths) > 1:
            return PurePosixPath(self.paths[0]).parent.name
        return name_of(self.paths[0])

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one file, decompressed; a file without any is refused."""
        with self._open(path) as stream, _explaining(path):
            content = stream.read()
        if self._has_old_line_ends(content):
            content = content.replace(b"\r", b"\n")
        if not content.strip():
            raise DataError(f"{path} is empty; give a file with at least one row.")
        return content

    def line_blocks(self, path: str, n_bytes: int) -> Iterator[bytes]:
        """Yield one file in blocks of whole lines, each of about `n_bytes`."""
        with self._open(path) as stream:
            rest, has_old_line_ends = b"", None
            while True:
                with _explaining(path):
                    block = stream.read(n_bytes)
                if not block:
                    break
                if has_old_line_ends is None:
                    has_old_line_ends = self._has_old_line_ends(block)
                if has_old_line_ends:
                    block = block.replace(b"\r", b"\n")
                end = block.rfind(b"\n") + 1
                if end == 0:
                    rest += block
                    continue
                yield rest + block[:end]
                rest = block[end:]
            if rest:
                yield rest

    def _has_old_line_ends(self, content: bytes) -> bool:
        """Tell whether lines end in a carriage return alone, as spreadsheets on a Mac save them."""
        return self.format in LINE_FORMATS and b"\r" in content and b"\n" not in content

    def size_of(self, path: str) -> tuple[int, int]:
        """Return the size of a file in bytes and when it last changed, in nanoseconds."""
        if self.filesystem is None:
            status = Path(path).stat()
            return status.st_size, status.st_mtime_ns
        info = self.filesystem.get_file_info(path)
        return int(info.size or 0), int(info.mtime_ns or 0)

    def open_binary(self, path: str) -> Any:
        """Return a file in which a reader may seek; the caller closes it."""
        with _explaining(path):
            if self.filesystem is None:
                return Path(path).open("rb")
            return self.filesystem.open_input_file(path)

    @contextmanager
    def _open(self, path: str) -> Iterator[BinaryIO | gzip.GzipFile]:
        with self.open_binary(path) as stream:
            if path.endswith(".gz"):
                with gzip.GzipFile(fileobj=stream) as decompressed:
                    yield decompressed
            else:
                yield stream


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    """Turn what goes wrong while a file is opened or read into one sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(
            f"{path} is not a whole gzip file: it is cut off or damaged; fetch it again."
        ) from None
    except PermissionError:
        raise DataError(
            f"{path} may not be read by this user; change its permissions or copy it."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def find_source(source: str | Path, *, format: str | None = None, filesystem: Any = None) -> Source:
    """Return the files that a path, folder, glob or address stands for.

    `source`: a file, a folder of files of one format, a glob, or an address such as
    `s3://bucket/clicks/`. `format`: one of `FORMATS`; by default the suffix decides, with or
    without `.gz`. `filesystem`: where `source` lies; by default the local disk, or what an address
    names.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    place = str(source)
    if filesystem is None and "://" in place:
        filesystem, place = _open_address(place)
    if filesystem is not None:
        paths = _list_remote(filesystem, place)
    else:
        paths = _list_local(place)
    if format is None:
        paths, format = _one_format(place, paths)
    return Source(tuple(paths), format, filesystem)


def _open_address(address: str) -> tuple[Any, str]:
    fs = require("pyarrow.fs", extra="data")
    try:
        filesystem, path = fs.FileSystem.from_uri(address)
    except (ValueError, OSError) as error:
        raise DataError(
            f"{address} cannot be opened: {error}; pass `filesystem=` for kinds that pyarrow "
            "does not know by address."
        ) from None
    return filesystem, path


def _list_remote(filesystem: Any, place: str) -> list[str]:
    fs = require("pyarrow.fs", extra="data")
    info = filesystem.get_file_info(place)
    if info.type == fs.FileType.NotFound:
        raise MissingDataError(f"there is no {place} there; check the address.")
    if info.type == fs.FileType.File:
        return [place]
    files = filesystem.get_file_info(fs.FileSelector(place, recursive=True))
    return sorted(file.path for file in files if file.type == fs.FileType.File)


def _list_local(place: str) -> list[str]:
    path = Path(place)
    try:
        if path.is_file():
            return [place]
        if path.is_dir():
            list(path.iterdir())  # rglob passes over a folder it may not read without a word
            return sorted(str(file) for file in path.rglob("*") if file.is_file())
    except PermissionError:
        raise DataError(
            f"{place} may not be read by this user; change its permissions or copy it."
        ) from None
    found = sorted(name for name in glob.glob(place, recursive=True) if Path(name).is_file())
    if not found:
        raise MissingDataError(f"there is no file {place}; check the path.")
    return found


def _one_format(place: str, paths: list[str]) -> tuple[list[str], str]:
    """Keep the files whose suffix is known, and refuse a mixture."""
    if not paths:
        raise DataError(f"{place} is a folder without files; give one that holds the data.")
    formats = {path: FORMAT_OF_SUFFIX.get(_suffix(path)) for path in paths}
    known = {path: format for path, format in formats.items() if format is not None}
    if not known and all(_suffix(path) in OLD_SPREADSHEETS for path in paths):
        raise DataError(
            f"{place} is a spreadsheet of a kind that is not read; save it as .xlsx or CSV and "
            "give that file."
        )
    if not known and Path(place).is_dir():
        raise DataError(
            f"{place} is a folder without a table; if it holds one file of features per bag, give "
            "the table of their labels too (--labels)."
        )
    if not known:
        raise DataError(
            f"{place} has no suffix that says its format ({', '.join(FORMAT_OF_SUFFIX)}, "
            "also with .gz); rename it or give the format."
        )
    if len(set(known.values())) > 1:
        raise DataError(
            f"{place} holds files of several formats ({', '.join(sorted(set(known.values())))}); "
            "name the files of one format with a glob."
        )
    return list(known), next(iter(known.values()))


def name_of(path: str) -> str:
    """Return the name of a file without its suffixes."""
    return PurePosixPath(path).name.split(".")[0]


def _suffix(path: str) -> str:
    return PurePosixPath(path.removesuffix(".gz")).suffix.lower()

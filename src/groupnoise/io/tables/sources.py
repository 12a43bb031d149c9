"""Finding the files of a source, their format, and reading their bytes."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from groupnoise.core.checks import check_choice, require
from groupnoise.exceptions import DataError, MissingDataError, ParameterError

Report = Callable[[str], None]
"""Called with a sentence for each guess of a reader; the library never prints."""
FORMAT_OF_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".jsonl": "jsonl",
    ".ndjson": "jsonl", ".npz": "npz", ".mat": "mat", ".txt": "text", ".dat": "text",
    ".data": "text", ".inter": "tsv", ".xlsx": "xlsx", ".xlsm": "xlsx",
}  # fmt: skip
OLD_SPREADSHEETS = (".xls", ".xlsb", ".ods", ".numbers")
HEAD_BYTES, N_HEAD_LINES = 1 << 16, 50
"""Bytes and lines that are examined to guess a format."""
COMMENTS, MARKS = (b"%", b"#"), (b",", b";", b"|")
DOUBLE_COLON = b"::"
"""Separator of MovieLens, which is replaced by a tab."""
LINE_FORMATS = ("csv", "tsv", "jsonl", "text")
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(\[\s*)?\{\s*["}]')
"""The beginning of JSON: an object per line, or a list of objects."""
FORMATS = tuple(dict.fromkeys(FORMAT_OF_SUFFIX.values()))


def ignore_report(sentence: str) -> None:
    """Ignore a report."""


@dataclass
class Guesses:
    """A report that also stores its sentences, for the notes of a data set."""

    report: Report | None
    sentences: list[str] = field(default_factory=list)

    def __call__(self, sentence: str) -> None:
        """Store a sentence and pass it on."""
        self.sentences.append(sentence)
        if self.report is not None:
            self.report(sentence)


@dataclass(frozen=True)
class Source:
    """Files of one format that together make one table.

    `paths`: the files, in the order of their names.
    `filesystem`: where the files lie when that is not the local disk.
    `has_double_colons`: whether cells are separated by `::`, which becomes a tab.
    `encoding`: of text that is not UTF-8; it is converted to UTF-8.
    `is_list`: whether JSON is a list of objects; it is converted to one object per line.
    `member`: the file in a zip archive.
    """

    paths: tuple[str, ...]
    format: str
    filesystem: Any = None
    has_double_colons: bool = False
    encoding: str | None = None
    is_list: bool = False
    member: str | None = None

    @property
    def name(self) -> str:
        """Name of the data: the file name without suffixes, or that of its folder.

        Folders of partitions, such as `month=2026-02`, are named by the one around them.
        """
        if len(self.paths) > 1:
            folders = PurePosixPath(self.paths[0]).parents
            return next(each.name for each in folders if "=" not in each.name)
        return name_of(self.paths[0])

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one file, decompressed; a file without any is refused."""
        with self._open(path) as stream, _convert_read_errors(path):
            content = stream.read()
        if self._has_old_line_ends(content):
            content = content.replace(b"\r", b"\n")
        content = self._with_tabs(content)
        if not content.strip():
            raise DataError(f"{path} is empty; give a file with at least one row.")
        return content

    def line_blocks(self, path: str, n_bytes: int) -> Iterator[bytes]:
        """Yield one file in blocks of whole lines, each of about `n_bytes`."""
        with self._open(path) as stream:
            rest, has_old_line_ends = b"", None
            while True:
                with _convert_read_errors(path):
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
                yield self._with_tabs(rest + block[:end])
                rest = block[end:]
            if rest:
                yield self._with_tabs(rest)

    def _with_tabs(self, lines: bytes) -> bytes:
        return lines.replace(DOUBLE_COLON, b"\t") if self.has_double_colons else lines

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
        with _convert_read_errors(path):
            if self.filesystem is None:
                return Path(path).open("rb")
            return self.filesystem.open_input_file(path)

    @contextmanager
    def _open(self, path: str) -> Iterator[Any]:
        with ExitStack() as opened:
            stream = opened.enter_context(self.open_binary(path))
            if path.endswith(".gz"):
                stream = opened.enter_context(gzip.GzipFile(fileobj=stream))
            elif self.member is not None:
                stream = opened.enter_context(zipfile.ZipFile(stream)).open(self.member)
            stream = self._as_utf8(stream)
            if self.is_list:
                with _convert_read_errors(path):
                    stream = io.BytesIO(_lines_of_list(path, stream.read()))
            yield stream

    def _as_utf8(self, stream: Any) -> Any:
        if self.encoding is None or self.format not in LINE_FORMATS:
            return stream
        return codecs.EncodedFile(stream, "utf-8", self.encoding)


@contextmanager
def _convert_read_errors(path: str) -> Iterator[None]:
    """Raise errors while a file is opened or read as DataError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile):
        kind = "zip" if path.endswith(".zip") else "gzip"
        raise DataError(
            f"{path} is not a whole {kind} file: it is cut off or damaged; fetch it again."
        ) from None
    except PermissionError:
        raise DataError(
            f"{path} may not be read by this user; change its permissions or copy it."
        ) from None
    except UnicodeError as error:
        raise DataError(
            f"{path} is not text in the encoding that was said ({error}); leave out --encoding, or "
            "give another."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def find_source(
    source: str | Path,
    *,
    format: str | None = None,
    filesystem: Any = None,
    encoding: str | None = None,
) -> Source:
    """Return the files of a path, folder, glob or address.

    `source`: a file, a folder of files of one format, a glob, or an address such as
    `s3://bucket/clicks/`. `format`: one of `FORMATS`; by default the suffix decides, with or
    without `.gz`. `filesystem`: where `source` lies; by default the local disk, or what an address
    names. `encoding`: of text that is not UTF-8, as Python knows it.
    """
    encoding = _known_encoding(encoding)
    if format is not None:
        check_choice("format", format, FORMATS)
    place = str(source)
    if filesystem is None and "://" in place:
        filesystem, place = _open_address(place)
    if filesystem is not None:
        paths = _list_remote(filesystem, place)
    else:
        paths = _list_local(place)
    if format is not None:
        return _detect_json_list(Source(tuple(paths), format, filesystem, encoding=encoding))
    member = None
    if filesystem is None and len(paths) == 1 and _suffix(place) == ".zip":
        member = _only_member(place)
        found, format = paths, FORMAT_OF_SUFFIX.get(_suffix(member))
    else:
        found, format = _one_format(place, paths)
    files = Source(tuple(found), format or "text", filesystem, encoding=encoding, member=member)
    if format is None and not _holds_text(files):
        raise DataError(
            f"{place} has no suffix that says its format ({', '.join(FORMAT_OF_SUFFIX)}, "
            "also with .gz) and is no text; rename it or give the format."
        )
    return _detect_json_list(_guess_text_format(files) if files.format == "text" else files)


def _only_member(path: str) -> str:
    """Return the one file of text in a zip archive."""
    with _convert_read_errors(path), zipfile.ZipFile(path) as archive:
        members = [each for each in archive.infolist() if not each.is_dir()]
    files = [each for each in members if not each.filename.startswith(("__MACOSX/", "."))]
    formats = [FORMAT_OF_SUFFIX.get(_suffix(each.filename), "text") for each in files]
    if len(files) != 1 or formats[0] not in LINE_FORMATS or files[0].flag_bits & 1:
        raise DataError(
            f"{path} is a zip archive of something else than one file of text without a password; "
            "unpack it and give the file that holds the data."
        )
    return files[0].filename


def _detect_json_list(files: Source) -> Source:
    """Return the source with `is_list` set if its JSON begins with a list."""
    if files.format != "jsonl":
        return files
    begin = _JSON.match(b"\n".join(_head_lines(files)))
    return replace(files, is_list=begin is not None and begin[1] is not None)


def _lines_of_list(path: str, content: bytes) -> bytes:
    """Return a list of JSON objects as one object per line."""
    try:
        records = json.loads(content)
    except ValueError as error:
        raise DataError(f"{path} is not a whole list of JSON ({error}); correct it.") from None
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in records).encode()


def _known_encoding(encoding: str | None) -> str | None:
    """Return the normal name of an encoding, None for UTF-8; unknown ones are refused."""
    if encoding is None:
        return None
    try:
        found = codecs.lookup(encoding)
        "".encode(encoding)  # refuses codecs from bytes to bytes
    except (LookupError, ValueError):
        raise ParameterError(
            f"encoding (--encoding) {encoding!r} is not known; give one such as cp1252, latin1, "
            "utf-16 or mac_roman."
        ) from None
    return None if found.name in ("utf-8", "utf-8-sig") else found.name


def _head_lines(files: Source) -> list[bytes]:
    """Return the first lines of the first file without blank lines and comments."""
    head = next(files.line_blocks(files.paths[0], HEAD_BYTES), b"")
    lines = [line.strip(b"\r") for line in head.split(b"\n")]
    return [line for line in lines if line.strip() and not line.startswith(COMMENTS)][:N_HEAD_LINES]


def _holds_text(files: Source) -> bool:
    head = b"\n".join(_head_lines(files))
    try:
        head.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return b"\x00" not in head


def _guess_text_format(files: Source) -> Source:
    """Return text as CSV or TSV if all of its first lines have a separator; else unchanged.

    Tab-separated lines of a user and an item, or of a user and all items, stay text.
    """
    lines = _head_lines(files)
    if not lines:
        return files
    if _JSON.match(b"\n".join(lines)):
        return replace(files, format="jsonl")
    if lines[0].lower().startswith(b"@relation"):
        raise DataError(
            f"{files.paths[0]} is ARFF, which is not read; save it as CSV, names in the first line."
        )
    for mark, format in ((b"\t", "tsv"), (DOUBLE_COLON, "tsv"), *((m, "csv") for m in MARKS)):
        n_marks = lines[0].count(mark)
        if not n_marks or any(line.count(mark) < n_marks for line in lines):
            continue
        if mark == b"\t" and not _is_table(lines):
            break
        return replace(files, format=format, has_double_colons=mark == DOUBLE_COLON)
    return files


def _is_table(lines: list[bytes]) -> bool:
    """Tell whether tab-separated lines are a table and not histories."""
    cells = [line.split(b"\t") for line in lines]
    if len({len(each) for each in cells}) > 1 or len(cells[0]) < 3:
        return False
    names_columns = not any(
        character.isdigit() for character in lines[0].decode("utf-8", "replace")
    )
    return names_columns or len({each[0] for each in cells}) < len(cells)


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
            list(path.iterdir())  # rglob skips unreadable folders silently
            return sorted(str(file) for file in path.rglob("*") if file.is_file())
    except PermissionError:
        raise DataError(
            f"{place} may not be read by this user; change its permissions or copy it."
        ) from None
    found = sorted(name for name in glob.glob(place, recursive=True) if Path(name).is_file())
    if not found:
        raise MissingDataError(f"there is no file {place}; check the path.")
    return found


def _one_format(place: str, paths: list[str]) -> tuple[list[str], str | None]:
    """Return the files with a known suffix and their format; a mixture is refused."""
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
        return paths, None
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

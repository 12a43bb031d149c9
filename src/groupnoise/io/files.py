"""Atomic writing, and safe reading of files from untrusted sources."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from groupnoise.exceptions import GroupNoiseError, OutputError, ParameterError

try:
    import fcntl
except ImportError:  # Windows: two who write at once are not kept apart there
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""Error message of numpy if a disk is full."""
OS_ERROR = re.compile(r"os error (\d+)")
"""Error number in messages of libraries written in Rust."""
LARGEST_JSON = 64 << 20
"""Bytes; the manifests of millions of items take a few."""
BLOCK = 1 << 20
"""Bytes read at a time."""
MODEL, ARTIFACT, DATA = "groupnoise-model", "groupnoise-artifact", "groupnoise-data"
KINDS = {
    MODEL: "a model of `groupnoise fit`",
    ARTIFACT: "an artifact of `groupnoise export`",
    DATA: "data of `groupnoise data convert`",
}
"""Folder formats, as named in manifests."""
MANIFEST = "manifest.json"
MAX_NAME = 255
"""Longest file name, in characters."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its place only if the block succeeds.

    Readers see the old content or the new, never a mixture; on failure nothing remains. Errors of
    the operating system are raised as OutputError.
    """
    path = Path(path)
    temporary = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Inside the block, raise errors of the operating system as OutputError about `path`."""
    try:
        yield
    except GroupNoiseError:
        raise
    except OSError as error:
        refused = OutputError(write_error_message(path, error))
        refused.errno, refused.strerror = error.errno, error.strerror
        raise refused from error
    except Exception as error:
        if OS_ERROR.search(str(error)) is None:
            raise
        raise OutputError(write_error_message(path, error)) from error


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; if the block fails, remove those that are empty."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with convert_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise


@contextmanager
def cleanup_on_failure(folder: Path, pattern: str) -> Iterator[None]:
    """Create a folder; if the block fails, remove the files of a pattern that it added."""
    with new_folder(folder):
        before = set(folder.glob(pattern))
        try:
            yield
        except BaseException:
            for path in set(folder.glob(pattern)) - before:
                path.unlink(missing_ok=True)
            raise


@contextmanager
def replace_folder(folder: Path, *, marked_by: str = "") -> Iterator[Path]:
    """Yield a folder beside `folder` that takes its place only if the block succeeds.

    `marked_by`: a file without which an existing folder is not replaced.
    """
    is_other = marked_by != "" and not (folder / marked_by).is_file()
    if is_other and folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} holds something else already; give a new folder.")
    place = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")
    try:
        with convert_write_errors(folder):
            place.mkdir(parents=True)
            yield place
            if folder.exists():
                shutil.rmtree(folder)
            place.rename(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """Yield a staging folder whose files move into `folder` if the block succeeds."""
    staged = folder / f".tmp-{secrets.token_hex(4)}"
    with new_folder(folder):
        try:
            with convert_write_errors(folder):
                staged.mkdir()
                yield staged
                for path in sorted(staged.rglob("*")):
                    place = folder / path.relative_to(staged)
                    if path.is_dir():
                        place.mkdir(exist_ok=True)
                    else:
                        path.replace(place)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder inside the block; it ends with the process."""
    if not HAS_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network disks know no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_writable_folder(folder: Path) -> None:
    """Refuse a folder that cannot be created or written to; leave no trace."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; give a folder to write to.")
    made: list[Path] = []
    try:
        with convert_write_errors(folder):
            missing = [place for place in (folder, *folder.parents) if not place.exists()]
            for place in reversed(missing):
                place.mkdir(exist_ok=True)
                made.append(place)
            # Permissions do not tell: root may write anywhere, but not on a read-only disk.
            probe = folder / f".tmp-{secrets.token_hex(4)}"
            probe.touch()
            probe.unlink()
    finally:
        for place in reversed(made):
            with suppress(OSError):
                place.rmdir()


def check_writable_file(path: Path) -> None:
    """Refuse a file that cannot be written; leave no trace."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder; give a file to write to.")
    try:
        check_writable_folder(path.parent)
    except OutputError as error:
        raise OutputError(f"{path} cannot be written: {error}") from error


def manifest_format(folder: Path) -> str | None:
    """Return the format named in a folder's manifest, empty if unknown; None without a manifest."""
    try:
        manifest = read_json(folder / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return ""
    return str(manifest.get("format", "")) if isinstance(manifest, dict) else ""


def check_replaceable(folder: Path, form: str) -> bool:
    """Refuse a folder of another format, which would be lost; return whether it will be replaced.

    `form`: the format to write, one of `KINDS`.
    """
    found = manifest_format(folder)
    if found not in (None, form):
        other = KINDS.get(found, f"a {MANIFEST} of something else")
        raise OutputError(f"{folder} holds {other}, which would be lost; give another folder.")
    return found == form


def check_not_own_input(output: Path, source: Path | str) -> None:
    """Refuse an output that is the input, or one of its files."""
    target = Path(output).resolve()
    for place in {str(source), *glob.glob(str(source), recursive=True)}:
        read = Path(place).resolve()
        is_inside = target.is_file() and read in target.parents
        if read.exists() and (read == target or is_inside):
            raise ParameterError(
                f"{output} is what is read, and would be written over; give the output another "
                "name."
            )


def write_text(path: Path, text: str) -> None:
    """Write text atomically, as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON, atomically; NaN is refused because JSON has none."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, default=_plain_number) + "\n")


def _plain_number(value: Any) -> Any:
    """Return a numpy number as a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    with Path(path).open("rb") as stream:
        return sha256_of_stream(stream)


def sha256_of_stream(stream: BinaryIO) -> str:
    """Return the SHA-256 of what is left of an open file, read in blocks."""
    digest = hashlib.sha256()
    while block := stream.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def write_error_message(path: Path, error: Exception) -> str:
    """Return a message about a failed write; a full disk is named as such."""
    in_text = OS_ERROR.search(str(error))
    number = getattr(error, "errno", None) or (int(in_text[1]) if in_text else None)
    if number is None and SHORT_WRITE.search(str(error)):
        number = errno.ENOSPC
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


def manifest_file_path(folder: Path, entry: Any, refused: GroupNoiseError) -> Path:
    """Return the path of the file named in an entry of a manifest, always in its own folder.

    A manifest may come from anywhere: `refused` is raised where it names anything else.
    """
    name = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(name, str) or name in ("", "..") or len(name) > MAX_NAME:
        raise refused
    if Path(name).name != name or "\0" in name:
        raise refused
    return folder / name


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a pipe, a device or a folder is refused instead of waited for.

    Raises OSError if there is no such file, or it is none of the regular ones. Raises ValueError if
    no file can have this name.
    """
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - returned open
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError("it is no regular file")
    return stream


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a text in TOML says; ValueError if it is none."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return toml.loads(text)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of at most 64 MB.

    Raises OSError as :func:`open_regular`. Raises ValueError if the content is too large, nested
    too deeply or not JSON.
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


def read_manifest_file(
    path: Path,
    form: tuple[str, int],
    *,
    what: str,
    writer: str,
    remedy: str,
    error: type[GroupNoiseError],
    missing: type[GroupNoiseError],
) -> dict[str, Any]:
    """Return a manifest of this format and version, or raise an error with a remedy."""
    try:
        manifest: dict[str, Any] = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        lacking = f"{path.parent} holds no {path.name}"
        if not path.parent.exists():
            lacking = f"there is no folder {path.parent}"
        raise missing(f"{lacking}; give the folder that {writer} wrote.") from None
    except (OSError, ValueError) as reason:
        raise error(f"{path} cannot be read as JSON ({reason}); {remedy}.") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != form[0]:
        if found not in KINDS:
            raise error(f"{path} is not the manifest of {what}.")
        folder, wanted = path.parent, f"give the folder that {writer} wrote"
        if (found, form[0]) == (MODEL, ARTIFACT):
            wanted = f"make one of it with `groupnoise export {folder} -o ARTIFACT`, and give that"
        raise error(f"{folder} is {KINDS[found]}, not {what}; {wanted}.")
    if manifest.get("format_version") != form[1]:
        raise error(
            f"{path} has format version {manifest.get('format_version')!r}; this release reads "
            f"version {form[1]}. Upgrade groupnoise, or {remedy}."
        )
    return manifest


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would otherwise wait until somebody writes to it.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

"""Folders of plain arrays under a JSON manifest: checksummed, replaced atomically, never executed.

Every array file has its checksum in its name and the manifest is written last, so readers see the
old or the new artifact, and a crash leaves the old one in place.
Checksums do not protect against malicious files, and compiled code would read foreign memory at an
index out of range; so all indices are checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import blocks
from groupnoise.exceptions import ModelFileError
from groupnoise.io.files import (
    ARTIFACT,
    MANIFEST,
    atomic_path,
    cleanup_on_failure,
    manifest_file_path,
    open_regular,
    read_manifest_file,
    sha256_of,
    sha256_of_stream,
    write_json,
)

FORMAT_VERSION = 1
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiuS]\d{1,4})', 'fortran_order': False, "
    rb"'shape': \(([\d, ]{0,60})\), \} *\n"
)
"""What numpy writes for plain row-major arrays of numbers and of text, and nothing else."""
FLOATS = ("f4", "f8")
INTEGERS = ("i4", "i8")
HASHED_AT_ONCE = 2**18


def write_folder(
    folder: Path | str, *, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write the arrays, then the manifest that names them; return the version this makes.

    The version is a digest of everything that determines answers: kind, scoring, category names,
    index parameters and arrays.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file; give a folder to write the artifact in.")
    with cleanup_on_failure(folder, "*.npy"):  # which no manifest names
        files = {name: _write_array(folder, name, array) for name, array in arrays.items()}
        identity = {
            "kind": manifest.get("kind"),
            "scoring": manifest.get("scoring"),
            "categories": manifest.get("categories"),
            "index": manifest.get("index"),
            "files": {name: entry["sha256"] for name, entry in files.items()},
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        header = {"format": ARTIFACT, "format_version": FORMAT_VERSION, "version": digest[:12]}
        write_json(folder / MANIFEST, {**manifest, **header, "files": files})
    for path in set(folder.glob("*-*.npy")) - {folder / entry["file"] for entry in files.values()}:
        path.unlink(missing_ok=True)
    return digest[:12]


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """Return the manifest of an artifact folder after checking its format."""
    return read_manifest_file(
        Path(folder) / MANIFEST, (ARTIFACT, FORMAT_VERSION), what="a groupnoise artifact",
        writer="`groupnoise export`", remedy="export the artifact again",
        error=ModelFileError, missing=ModelFileError,
    )  # fmt: skip


def read_arrays(
    folder: Path | str, manifest: Mapping[str, Any], *, memory_map: bool, verify: bool = False
) -> dict[str, NDArray[Any]]:
    """Return the arrays a manifest names.

    `folder`: where the manifest lies. `manifest`: from :func:`read_manifest`. `memory_map`: True
    maps the files and checks their length only: instant, whatever the size. False reads them and
    checks the very bytes it keeps against their checksums: the safe choice for a long-lived
    process, which a file truncated under a map would kill. `verify`: check the bytes of mapped
    files too, once.
    """
    entries = manifest.get("files")
    if not isinstance(entries, dict):
        raise ModelFileError(f"{Path(folder) / MANIFEST} names no files; export it again.")
    refused = ModelFileError(f"{Path(folder) / MANIFEST} names a file outside its own folder.")
    paths = {
        name: manifest_file_path(Path(folder), entry, refused) for name, entry in entries.items()
    }
    if not memory_map:
        check_memory_for(paths.values())
    return {
        name: read_array(path, entries[name], memory_map=memory_map, verify=verify)
        for name, path in paths.items()
    }


def read_folder(
    folder: Path | str, *, memory_map: bool, verify: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest of an artifact folder and the arrays it names.

    If an export replaces the folder in between, both are read again.
    """
    manifest = read_manifest(folder)
    try:
        return manifest, read_arrays(folder, manifest, memory_map=memory_map, verify=verify)
    except MissingFileError:
        manifest = read_manifest(folder)
        return manifest, read_arrays(folder, manifest, memory_map=memory_map, verify=verify)


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> dict[str, Any]:
    staged = folder / f"{name}.partial"
    with atomic_path(staged) as temporary:
        with temporary.open("wb") as stream:
            np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
        checksum = sha256_of(temporary)
    final = staged.replace(folder / f"{name}-{checksum[:16]}.npy")
    return {"file": final.name, "sha256": checksum, "bytes": final.stat().st_size}


class MissingFileError(ModelFileError):
    """A file named in a manifest is missing."""


def read_array(
    path: Path, entry: Mapping[str, Any], *, memory_map: bool, verify: bool = False
) -> NDArray[Any]:
    """Return the array of a file, mapped, or read and verified against its checksum.

    `entry`: what the manifest says of it: `bytes` and `sha256`. `memory_map`: True maps the file
    without reading it. `verify`: hold a mapped file to its checksum too; one that is read always
    is.
    """
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != entry.get("bytes"):
                raise ModelFileError(
                    f"{path} has {size} bytes where its manifest says {entry.get('bytes')}: it is "
                    "truncated or was altered. Export the artifact again."
                )
            dtype, shape = _read_header(stream)
            begin = stream.tell()
            if begin + math.prod(shape) * dtype.itemsize != size:
                raise ValueError(f"{size} bytes cannot hold shape {shape} of {dtype}")
            stream.seek(0)
            if memory_map:
                if verify:
                    _check_digest(path, sha256_of_stream(stream), entry)
                mapped = np.memmap(stream, dtype=dtype, mode="r", offset=begin, shape=shape)
                return np.asarray(mapped)  # the class of a map slows every slice of it
            data, digest = _read_and_hash(stream, size)
    except FileNotFoundError:
        raise MissingFileError(
            f"{path} is missing; restore it or export the artifact again."
        ) from None
    except MemoryError:
        raise ModelFileError(f"{path} does not fit in memory.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error}).") from None
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path} is not a plain .npy array ({error}).") from None
    _check_digest(path, digest, entry)
    # A view of the very bytes that were checked, without a second copy.
    return np.frombuffer(data, dtype=dtype, offset=begin).reshape(shape)


def _read_and_hash(stream: BufferedReader, size: int) -> tuple[NDArray[np.uint8], str]:
    """Return the first `size` bytes of a file, fewer where it ends, and their SHA-256.

    Each block is hashed while it is still in the cache of the processor. numpy asks for huge pages,
    which a million items need a fifth of the time to fill.
    """
    data = np.empty(size, dtype=np.uint8)
    content, digest, n_read = data.data, hashlib.sha256(), 0
    while n := stream.readinto(content[n_read : n_read + HASHED_AT_ONCE]):
        digest.update(content[n_read : n_read + n])
        n_read += n
    data.flags.writeable = False
    return data[:n_read], digest.hexdigest()


def _check_digest(path: Path, digest: str, entry: Mapping[str, Any]) -> None:
    if digest != entry.get("sha256"):
        raise ModelFileError(
            f"{path} does not match the checksum in its manifest: it is truncated or was altered. "
            "Export the artifact again."
        )


def check_memory_for(paths: Iterable[Path]) -> None:
    """Refuse to read files that together are larger than the memory of this machine."""
    needed = 0
    for path in paths:
        try:
            needed += path.stat().st_size
        except (OSError, ValueError):
            continue  # reading it says what is wrong
    if hasattr(os, "sysconf") and needed > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise ModelFileError(
            f"the arrays of this artifact take {needed / 1e9:.1f} GB, more than the memory of this "
            "machine."
        )


def _read_header(stream: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape from the header of a file, leaving the stream at the data."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as one of version 1")
    header = _HEADER.fullmatch(stream.read(int.from_bytes(stream.read(2), "little")))
    if header is None:
        raise ValueError("its header describes something else")
    dtype = np.dtype(header[1].decode())
    if dtype.itemsize == 0:
        raise ValueError("its entries take no space")
    return dtype, tuple(int(length) for length in header[2].split(b",") if length.strip())


def require_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    *,
    types: Collection[str],
    shape: tuple[int | None, ...],
) -> NDArray[Any]:
    """Return the named array, or raise an error if it is missing or of another type or shape."""
    if name not in arrays:
        raise ModelFileError(f"the stored {name} is missing.")
    array = arrays[name]
    kind = array.dtype.kind
    is_allowed = kind in types or f"{kind}{array.dtype.itemsize}" in types
    if not (is_allowed and array.dtype.isnative):
        raise ModelFileError(f"the stored {name} is of type {array.dtype}, which is not expected.")
    fits = len(array.shape) == len(shape) and all(
        requested is None or length == requested
        for length, requested in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted_shape = str(shape).replace("None", "any")
        raise ModelFileError(
            f"the stored {name} has shape {array.shape} where {wanted_shape} is needed."
        )
    return array


def check_positions(name: str, positions: NDArray[Any], n: int) -> None:
    """Refuse whole numbers outside 0 .. n - 1."""
    for _, part in blocks(positions):
        if not 0 <= int(part.min()) <= int(part.max()) < n:
            raise ModelFileError(f"the stored {name} points outside 0 to {n - 1}.")


def check_offsets(name: str, offsets: NDArray[Any], end: int, *, allow_empty: bool = True) -> None:
    """Refuse offsets that do not rise from 0 to `end`; equal neighbours are empty rows."""
    rises = offsets[1:] >= offsets[:-1] if allow_empty else offsets[1:] > offsets[:-1]
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != end or not rises.all():
        raise ModelFileError(f"the stored {name} does not rise from 0 to {end}.")


def check_numbers(name: str, values: NDArray[Any], *, largest: float | None = None) -> None:
    """Refuse NaN, infinite values, and those further from zero than `largest`."""
    bound = float(np.finfo(np.float64).max) if largest is None else largest
    for _, part in blocks(values):
        # Written so that NaN, which compares as False, is refused too.
        if part.size and not (-bound <= float(part.min()) and float(part.max()) <= bound):
            raise ModelFileError(f"the stored {name} holds values that are NaN or too large.")

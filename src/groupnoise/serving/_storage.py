"""Folders of plain arrays under a JSON manifest: checksummed, replaced atomically, never executed.

Every array file carries its checksum in its name and the manifest is written last, so a reader
sees one whole artifact or the other, and a crash leaves the old one in place.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._files import atomic_path, sha256_of, write_json
from groupnoise.exceptions import ModelFileError

FORMAT = "groupnoise-artifact"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


def write_folder(
    folder: Path | str, *, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write the arrays, then the manifest that names them; return the version this makes.

    The version is a digest of kind, scoring, category names, what the index is searched with, and
    contents: equal artifacts have equal versions, and what answers otherwise has another.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file; give a folder to write the artifact in.")
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: _write_array(folder, name, array) for name, array in arrays.items()}
    identity = {
        "kind": manifest.get("kind"),
        "scoring": manifest.get("scoring"),
        "categories": manifest.get("categories"),
        "index": manifest.get("index"),
        "files": {name: entry["sha256"] for name, entry in files.items()},
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "version": digest[:12]}
    write_json(folder / MANIFEST, {**manifest, **header, "files": files})
    _remove_stale(folder, keep={entry["file"] for entry in files.values()})
    return digest[:12]


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """Return the manifest of an artifact folder after checking that it is one of ours."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(
            f"{folder} holds no {MANIFEST}; give the folder that `groupnoise export` wrote."
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ModelFileError(
            f"{path} cannot be read as JSON ({error}); export the artifact again."
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not the manifest of a groupnoise artifact.")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {manifest.get('format_version')!r}; this release reads "
            f"version {FORMAT_VERSION}. Upgrade groupnoise or export again."
        )
    return manifest


def read_arrays(
    folder: Path | str, manifest: Mapping[str, Any], *, memory_map: bool
) -> dict[str, NDArray[Any]]:
    """Return the arrays a manifest names.

    Parameters
    ----------
    folder : path
        Where the manifest lies.
    manifest : mapping
        From :func:`read_manifest`.
    memory_map : bool
        True maps the files and checks their length only: instant, whatever the size. False reads
        them and checks the very bytes it keeps against their checksums: the safe choice for a
        long-lived process, which a file truncated under a map would kill.
    """
    entries = manifest.get("files")
    if not isinstance(entries, dict):
        raise ModelFileError(f"{Path(folder) / MANIFEST} names no files; export it again.")
    read = _map_array if memory_map else _read_array
    return {name: read(_file_of(Path(folder), entry), entry) for name, entry in entries.items()}


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> dict[str, Any]:
    staged = folder / f"{name}.partial"
    with atomic_path(staged) as temporary:
        with temporary.open("wb") as stream:
            np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
        checksum = sha256_of(temporary)
    final = staged.replace(folder / f"{name}-{checksum[:16]}.npy")
    return {"file": final.name, "sha256": checksum, "bytes": final.stat().st_size}


def _remove_stale(folder: Path, *, keep: set[str]) -> None:
    for path in folder.glob("*-*.npy"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def _file_of(folder: Path, entry: Any) -> Path:
    name = entry.get("file") if isinstance(entry, dict) else None
    # A manifest may come from anywhere: never follow a path out of its own folder.
    if not isinstance(name, str) or Path(name).name != name:
        raise ModelFileError(f"{folder / MANIFEST} names a file outside its own folder.")
    return folder / name


def _map_array(path: Path, entry: Mapping[str, Any]) -> NDArray[Any]:
    try:
        size = path.stat().st_size
        if size != entry.get("bytes"):
            raise ModelFileError(
                f"{path} has {size} bytes where its manifest says {entry.get('bytes')}: it is "
                "truncated or was altered. Export the artifact again."
            )
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be mapped as an array ({error}).") from None
    return array


def _read_array(path: Path, entry: Mapping[str, Any]) -> NDArray[Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error}).") from None
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ModelFileError(
            f"{path} does not match the checksum in its manifest: it is truncated or was altered. "
            "Export the artifact again."
        )
    return _array_in(data, path)


def _array_in(data: bytes, path: Path) -> NDArray[Any]:
    """View the array inside the bytes of a .npy file, without a second copy."""
    header = io.BytesIO(data[:4096])
    try:
        np.lib.format.read_magic(header)
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(header)
        if fortran_order or dtype.hasobject:
            raise ValueError("only plain row-major arrays are read")
        return np.frombuffer(data, dtype=dtype, offset=header.tell()).reshape(shape)
    except ValueError as error:
        raise ModelFileError(f"{path} is not a plain .npy array ({error}).") from None


def _missing(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is missing; restore it or export the artifact again.")

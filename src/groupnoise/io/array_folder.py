"""Folders of plain arrays under a JSON manifest: checksummed, replaced atomically, never executed.

Every array file carries its checksum in its name and the manifest is written last, so a reader
sees one whole artifact or the other, and a crash leaves the old one in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.exceptions import ModelFileError
from groupnoise.io.files import (
    atomic_path,
    file_in,
    new_folder,
    read_json,
    sha256_of,
    write_json,
)
from groupnoise.io.npy import MissingFileError, check_memory_for, read_array

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
    with _nothing_left_on_failure(folder):
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


@contextmanager
def _nothing_left_on_failure(folder: Path) -> Iterator[None]:
    """Make a folder; where the block fails, take away what it added, which no manifest names."""
    with new_folder(folder):
        before = set(folder.glob("*.npy"))
        try:
            yield
        except BaseException:
            for path in set(folder.glob("*.npy")) - before:
                path.unlink(missing_ok=True)
            raise


def read_manifest(folder: Path | str) -> dict[str, Any]:
    """Return the manifest of an artifact folder after checking that it is one of ours."""
    path = Path(folder) / MANIFEST
    try:
        manifest = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(
            f"{folder} holds no {MANIFEST}; give the folder that `groupnoise export` wrote."
        ) from None
    except (OSError, ValueError) as error:
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
    paths = {name: _file_of(Path(folder), entry) for name, entry in entries.items()}
    if not memory_map:
        check_memory_for(paths.values())
    return {
        name: read_array(path, entries[name], memory_map=memory_map) for name, path in paths.items()
    }


def read_folder(
    folder: Path | str, *, memory_map: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest of an artifact folder and the arrays it names.

    Where an export replaces the folder between the reading of the two, the new ones are returned.
    """
    manifest = read_manifest(folder)
    try:
        return manifest, read_arrays(folder, manifest, memory_map=memory_map)
    except MissingFileError:
        manifest = read_manifest(folder)
        return manifest, read_arrays(folder, manifest, memory_map=memory_map)


def _file_of(folder: Path, entry: Any) -> Path:
    try:
        return file_in(folder, entry.get("file") if isinstance(entry, dict) else None)
    except ValueError:
        raise ModelFileError(f"{folder / MANIFEST} names a file outside its own folder.") from None


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

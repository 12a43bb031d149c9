"""Data folders: a manifest and memory-mapped arrays, opened where a file is expected."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import strip_prefix
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import make_groups
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset, Windows
from groupnoise.io.files import DATA, MANIFEST, read_manifest_file, write_error_message, write_json
from groupnoise.io.tables.array_files import ArrayEntry, map_array, write_array

FORMAT_VERSION = 1
NOTE = "note_"
"""Prefix of the names of arrays among the notes; other notes are in the manifest."""

ORIGIN = "made_from.json"
"""File that records what a folder was made from; written last."""
PAUSE_SECONDS = 0.2

StoredData = BagDataset | PartialLabelDataset | ClickDataset | Windows


def write_groups(folder: str | Path, data: StoredData, *, overwrite: bool = False) -> Path:
    """Write a data set as a folder of plain arrays that `open_groups` maps into memory.

    Parameters
    ----------
    folder : path
        Appears whole or not at all.
    data : BagDataset, PartialLabelDataset, ClickDataset or Windows
        What to write; pictures for reports are left out.
    overwrite : bool, default=False
        Replace a data folder that is already there.

    Returns
    -------
    folder : Path
        Where the data lies now.
    """
    folder = Path(folder)
    kind, arrays, details = _to_arrays(data)
    with new_data_folder(folder, overwrite=overwrite) as building:
        entries = {
            name: write_array(building / f"{name}.npy", values) for name, values in arrays.items()
        }
        write_manifest(building, kind, entries, details)
    return folder


def open_groups(folder: str | Path, *, verify: bool = False) -> StoredData:
    """Open a data folder; its arrays stay on disk until they are used.

    Parameters
    ----------
    folder : path
        What `write_groups`, `convert_clicks` or `groupnoise data convert` wrote.
    verify : bool, default=False
        Compare every checksum first, which reads all of the data.

    Returns
    -------
    data : BagDataset, PartialLabelDataset, ClickDataset or Windows
        As it was written; the arrays are read-only.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    entries = manifest.get("arrays")
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise DataError(f"{folder / MANIFEST} lists no arrays; convert the data again.")
    arrays = {name: map_array(folder, entry, verify=verify) for name, entry in entries.items()}
    try:
        return _from_arrays(manifest, arrays)
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{folder / MANIFEST} is incomplete ({error}); convert the data again."
        ) from None


def is_data_folder(path: str | Path) -> bool:
    """Tell whether a path is a folder that `open_groups` can open."""
    try:
        return bool(_read_manifest(Path(path)))
    except (DataError, MissingDataError):
        return False


def write_manifest(
    folder: Path, kind: str, entries: Mapping[str, ArrayEntry], details: Mapping[str, Any]
) -> None:
    """Write the manifest, which completes a data folder."""
    write_json(
        folder / MANIFEST,
        {
            "format": DATA,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "arrays": dict(entries),
            **details,
        },
    )


@contextmanager
def new_data_folder(
    folder: Path, *, overwrite: bool = False, building: Path | None = None
) -> Iterator[Path]:
    """Yield a folder to build in, which replaces `folder` if the block succeeds.

    `folder`: the folder to be; it must not exist, or be a data folder that may be overwritten.
    `overwrite`: whether it may. `building`: a folder of that name is kept when the block is
    interrupted, so that work can resume in it later; by default a fresh one, which never stays.
    """
    if folder.exists() and not (overwrite and is_data_folder(folder)):
        if folder.is_dir() and not is_data_folder(folder):
            raise DataError(
                f"{folder} exists already and is no data folder, so it is never replaced; give "
                "another name."
            )
        remedy = "give another name" if folder.is_file() else "overwrite it, or give another name"
        raise DataError(f"{folder} exists already; {remedy}.")
    is_resumable = building is not None
    building = building or folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")
    try:
        building.mkdir(parents=True, exist_ok=is_resumable)
        yield building
        _move_into_place(building, folder)
    except Exception as error:
        shutil.rmtree(building, ignore_errors=True)
        if isinstance(error, OSError):
            raise DataError(write_error_message(folder, error)) from error
        raise
    except BaseException:  # interrupted, not failed
        if not is_resumable:
            shutil.rmtree(building, ignore_errors=True)
        raise


def record_origin(folder: Path, origin: Mapping[str, Any]) -> None:
    """Record what a data folder was made from; processes that wait for it continue."""
    write_json(folder / ORIGIN, origin)


def read_origin(folder: Path) -> Any:
    """Return the record of what a data folder was made from, if any."""
    try:
        return json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def wait_until_made(folder: Path, origin: Mapping[str, Any]) -> None:
    """Wait until another process has made the folder with this origin."""
    while read_origin(folder) != origin:
        time.sleep(PAUSE_SECONDS)


def make_once(
    folder: Path,
    make: Callable[[], object],
    origin: Mapping[str, Any],
    *,
    source: str | Path,
    wait: bool,
) -> None:
    """Make a data folder, unless an earlier call made it with the same origin.

    `wait`: wait for another process to make it. Raises DataError if the folder has another origin,
    or the source changed since.
    """
    if wait:
        wait_until_made(folder, origin)
    if not folder.exists():
        make()
        record_origin(folder, origin)
    elif read_origin(folder) != origin:
        raise DataError(
            f"{folder} was not made from {source} as it is now; remove it or give another folder."
        )


def _move_into_place(building: Path, folder: Path) -> None:
    if folder.exists():
        old = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")
        os.replace(folder, old)
        os.replace(building, folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(building, folder)


def _read_manifest(folder: Path) -> dict[str, Any]:
    return read_manifest_file(
        folder / MANIFEST, (DATA, FORMAT_VERSION), what="a groupnoise data folder",
        writer="`groupnoise data convert`", remedy="convert the data again",
        error=DataError, missing=MissingDataError,
    )  # fmt: skip


class _Form(NamedTuple):
    """How a kind of data set is stored.

    `groups`, `objects`: the field of its groups, and the name of their objects on disk.
    `arrays`, `details`: fields stored as arrays, and in the manifest.
    """

    dataset: type[Any]
    groups: str | None
    objects: str
    arrays: tuple[str, ...]
    details: tuple[str, ...] = ()


_FORMS = {
    "bags": _Form(
        BagDataset,
        "bags",
        "features",
        (
            *("labels", "instance_labels", "bag_ids", "source_rows"),
            *("coordinates", "patients", "split"),
        ),
        ("name", "class_names", "feature_names", "coordinate_names"),
    ),
    "candidates": _Form(
        PartialLabelDataset,
        None,
        "",
        ("features", "candidates", "truth", "weights"),
        ("name", "class_names", "feature_names"),
    ),
    "clicks": _Form(
        ClickDataset,
        "histories",
        "items",
        ("item_ids", "user_ids", "is_stray", "timestamps"),
        ("name", "titles", "categories", "notes"),
    ),
    "windows": _Form(Windows, "groups", "objects", ("users", "positions")),
}


def _to_arrays(data: StoredData) -> tuple[str, dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the kind, the arrays and the rest of a data set."""
    kind = next((kind for kind, each in _FORMS.items() if isinstance(data, each.dataset)), None)
    if kind is None:
        raise DataError(f"a {type(data).__name__} is not a data set that can be written.")
    form = _FORMS[kind]
    arrays = {name: getattr(data, name) for name in form.arrays}
    details = {name: getattr(data, name) for name in form.details}
    if form.groups is not None:
        groups = getattr(data, form.groups)
        arrays |= {form.objects: groups.objects, "offsets": groups.offsets}
        arrays["targets"] = groups.targets
    if isinstance(data, ClickDataset):
        arrays["items"] = arrays["items"].astype(item_dtype(data.n_items), copy=False)
        notes = {k: v for k, v in data.notes.items() if isinstance(v, np.ndarray)}
        details["notes"] = {k: v for k, v in data.notes.items() if k not in notes}
        arrays |= {NOTE + k: v for k, v in notes.items()}
    return kind, _known(arrays), _known(details)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _from_arrays(manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> StoredData:
    kind = manifest.get("kind")
    if kind not in _FORMS:
        raise KeyError(f"kind {kind!r} is unknown")
    form = _FORMS[kind]
    found: dict[str, Any] = {name: arrays[name] for name in form.arrays if name in arrays}
    found |= _known({name: manifest.get(name) for name in form.details})
    for name in ("feature_names", "coordinate_names"):
        if name in found:
            found[name] = tuple(found[name])
    if form.groups is not None:
        rows = arrays[form.objects], arrays["offsets"]
        found[form.groups] = (
            make_groups(*rows) if kind == "bags" else Groups(*rows, arrays.get("targets"))
        )
    if kind == "clicks":
        found["notes"] = {**manifest["notes"], **strip_prefix(NOTE, arrays)}
    return form.dataset(**found)


def item_dtype(n_items: int) -> np.dtype[Any]:
    """Return the smallest type that numbers a catalogue and torch can index with."""
    return np.dtype(np.int32 if n_items < 2**31 else np.int64)


Stored = TypeVar("Stored", BagDataset, PartialLabelDataset, ClickDataset)


def open_if_stored(source: Any, kind: type[Stored]) -> Stored | None:
    """Return the data set if `source` is a data folder, and None if it is anything else."""
    if not isinstance(source, (str, Path)) or not is_data_folder(source):
        return None
    data = open_groups(source)
    if not isinstance(data, kind):
        raise DataError(f"{source} holds a {type(data).__name__}, not a {kind.__name__}.")
    return data

"""Data folders: a manifest and memory-mapped arrays, opened where a file is expected."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import groups_of_rows
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset, Windows
from groupnoise.io.files import checked_manifest, why_not_written, write_json
from groupnoise.io.growing_arrays import ArrayEntry, map_array, write_array

FORMAT = "groupnoise-data"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
NOTE = "note_"
"""Begins the names of arrays that belong to the notes, which are otherwise in the manifest."""

ORIGIN = "made_from.json"
"""Written into a folder last: what it was made from, and so what it may serve for."""
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
    kind, arrays, details = _take_apart(data)
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
        return _put_together(manifest, arrays)
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
            "format": FORMAT,
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
    """Yield a folder to build in, which takes the place of `folder` only if the block succeeds.

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
        _put_in_place(building, folder)
    except Exception as error:
        shutil.rmtree(building, ignore_errors=True)
        if isinstance(error, OSError):
            raise DataError(why_not_written(folder, error)) from error
        raise
    except BaseException:  # interrupted, not failed
        if not is_resumable:
            shutil.rmtree(building, ignore_errors=True)
        raise


def record_origin(folder: Path, wanted: Mapping[str, Any]) -> None:
    """Say what a data folder was made from, which completes it for those who wait."""
    write_json(folder / ORIGIN, wanted)


def made_from(folder: Path) -> Any:
    """Return what a data folder was made from, or None if that is not known."""
    try:
        return json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def wait_until_made(folder: Path, wanted: Mapping[str, Any]) -> None:
    """Return once another process has made the folder from what is wanted."""
    while made_from(folder) != wanted:
        time.sleep(PAUSE_SECONDS)


def _put_in_place(building: Path, folder: Path) -> None:
    if folder.exists():
        old = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")
        os.replace(folder, old)
        os.replace(building, folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(building, folder)


def _read_manifest(folder: Path) -> dict[str, Any]:
    return checked_manifest(
        folder / MANIFEST, (FORMAT, FORMAT_VERSION), what="a groupnoise data folder",
        writer="`groupnoise data convert`", remedy="convert the data again",
        error=DataError, missing=MissingDataError,
    )  # fmt: skip


def _take_apart(data: StoredData) -> tuple[str, dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the kind, the arrays and the rest of a data set."""
    arrays: dict[str, NDArray[Any] | None]
    details: dict[str, Any]
    if isinstance(data, BagDataset):
        kind, details = "bags", _names_of(data)
        if data.coordinate_names is not None:
            details["coordinate_names"] = list(data.coordinate_names)
        arrays = {
            "features": data.bags.objects,
            "offsets": data.bags.offsets,
            "labels": data.labels,
            "instance_labels": data.instance_labels,
            "bag_ids": data.bag_ids,
            "source_rows": data.source_rows,
            "coordinates": data.coordinates,
            "patients": data.patients,
            "split": data.split,
        }
    elif isinstance(data, PartialLabelDataset):
        kind, details = "candidates", _names_of(data)
        arrays = {
            "features": data.features,
            "candidates": data.candidates,
            "truth": data.truth,
            "weights": data.weights,
        }
    elif isinstance(data, ClickDataset):
        notes = {k: v for k, v in data.notes.items() if not isinstance(v, np.ndarray)}
        kind, details = "clicks", {"name": data.name, "notes": notes}
        details.update(titles=data.titles, categories=data.categories)
        arrays = {
            "items": data.histories.objects.astype(item_dtype(data.n_items), copy=False),
            "offsets": data.histories.offsets,
            "item_ids": data.item_ids,
            "user_ids": data.user_ids,
            "is_stray": data.is_stray,
            "timestamps": data.timestamps,
            **{NOTE + k: v for k, v in data.notes.items() if isinstance(v, np.ndarray)},
        }
    elif isinstance(data, Windows):
        kind, details = "windows", {}
        arrays = {
            "objects": data.groups.objects,
            "offsets": data.groups.offsets,
            "targets": data.groups.targets,
            "users": data.users,
            "positions": data.positions,
        }
    else:
        raise DataError(f"a {type(data).__name__} is not a data set that can be written.")
    return kind, {name: array for name, array in arrays.items() if array is not None}, details


def _put_together(manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> StoredData:
    kind = manifest.get("kind")
    if kind == "bags":
        return BagDataset(
            name=manifest["name"],
            bags=groups_of_rows(arrays["features"], arrays["offsets"]),
            labels=arrays["labels"],
            class_names=manifest["class_names"],
            instance_labels=arrays.get("instance_labels"),
            feature_names=_feature_names(manifest),
            bag_ids=arrays.get("bag_ids"),
            source_rows=arrays.get("source_rows"),
            coordinates=arrays.get("coordinates"),
            coordinate_names=_feature_names(manifest, "coordinate_names"),
            patients=arrays.get("patients"),
            split=arrays.get("split"),
        )
    if kind == "candidates":
        return PartialLabelDataset(
            name=manifest["name"],
            features=arrays["features"],
            candidates=arrays["candidates"],
            class_names=manifest["class_names"],
            truth=arrays.get("truth"),
            feature_names=_feature_names(manifest),
            weights=arrays.get("weights"),
        )
    if kind == "clicks":
        return ClickDataset(
            name=manifest["name"],
            histories=Groups(arrays["items"], arrays["offsets"]),
            item_ids=arrays["item_ids"],
            user_ids=arrays["user_ids"],
            titles=manifest.get("titles"),
            categories=manifest.get("categories"),
            is_stray=arrays.get("is_stray"),
            timestamps=arrays.get("timestamps"),
            notes={
                **manifest["notes"],
                **{k.removeprefix(NOTE): v for k, v in arrays.items() if k.startswith(NOTE)},
            },
        )
    if kind == "windows":
        groups = Groups(arrays["objects"], arrays["offsets"], arrays["targets"])
        return Windows(groups, arrays["users"], arrays["positions"])
    raise KeyError(f"kind {kind!r} is unknown")


def _names_of(data: BagDataset | PartialLabelDataset) -> dict[str, Any]:
    names = {"name": data.name, "class_names": data.class_names}
    if data.feature_names is None:
        return names
    return {**names, "feature_names": list(data.feature_names)}


def _feature_names(
    manifest: Mapping[str, Any], key: str = "feature_names"
) -> tuple[str, ...] | None:
    names = manifest.get(key)
    return None if names is None else tuple(names)


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

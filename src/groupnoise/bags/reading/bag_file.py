"""One file per bag, or one group per bag of a large .h5: its features and coordinates."""

from __future__ import annotations

import pickle
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.reading.tables import FileOptions, find_truth, read_bag_table
from groupnoise.core.checks import require
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, GroupNoiseError, MissingColumnError
from groupnoise.io.columns.names import usual_column
from groupnoise.io.tables.sources import Report

HDF5 = (".h5", ".hdf5")
ZARR = (".zarr",)
"""Folders, which are one bag or hold a group per bag."""
TENSORS = (".pt", ".pth")
ARRAYS = (*HDF5, *ZARR, *TENSORS, ".npy", ".npz")
TABLES = (".csv", ".tsv", ".parquet")
SUFFIXES = (*ARRAYS, *TABLES)
MAPPED = (*HDF5, *ZARR, *TENSORS, ".npy")
"""Files whose shape is known before their content is read."""
FEATURES = ("features", "feats", "feature", "embeddings", "embedding", "x", "data")
COORDINATES = ("coords", "coordinates", "coord", "positions", "xy")
COORDINATE_NAMES = {1: ("position",), 2: ("x", "y"), 3: ("x", "y", "z")}
ANSWERS_GROUP = "groupnoise"
"""The group of an .h5 file that `predict --to source` adds, which is no bag."""
_NOT_WHOLE = "{} is not a whole file: it is cut off or damaged; fetch or write it again."


@dataclass(frozen=True)
class BagContent:
    """What a file holds of one bag.

    `features` (n_objects, n_features): an array, or what reads one when it is sliced.
    `coordinates` (n_objects, n_coordinates): where each object lies in its source.
    `feature_names`, `coordinate_names`: what the columns are called.
    `truth` (n_objects,): the words that say the label of each object. `label`: that of the bag.
    """

    features: Any
    coordinates: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    coordinate_names: tuple[str, ...] | None = None
    truth: NDArray[Any] | None = None
    label: str | None = None

    @property
    def coordinate_names_or_default(self) -> tuple[str, ...] | None:
        """What coordinates are called, by the file or as usual; None where there are none."""
        if self.coordinates is None:
            return None
        n = self.coordinates.shape[1]
        usual = COORDINATE_NAMES.get(n, tuple(f"coordinate_{k}" for k in range(n)))
        given = self.coordinate_names
        return given if given is not None and len(given) == n else usual


@dataclass(frozen=True)
class BagFile:
    """Where one bag lies.

    `bag_id`: the name of the file without its suffix, or of the group.
    `path`: the file.
    `group`: the group of a large .h5 file that is the bag.
    `coordinates`, `truth`: files of their own that hold these of its objects.
    """

    bag_id: str
    path: Path
    group: str | None = None
    coordinates: Path | None = field(default=None, compare=False)
    truth: Path | None = field(default=None, compare=False)

    @property
    def is_mapped(self) -> bool:
        """Whether its shape is known before its content is read."""
        return self.path.suffix.lower() in MAPPED

    def __str__(self) -> str:
        place = str(self.path) if self.group is None else f"{self.path}, group {self.group!r}"
        return f"bag {self.bag_id!r} ({place})"

    @contextmanager
    def open(self, spec: FileOptions) -> Iterator[BagContent]:
        """Yield the content, which may be read inside the block only."""
        suffix = self.path.suffix.lower()
        try:
            if suffix in HDF5:
                with require("h5py", extra="h5").File(self.path, "r") as file:
                    node = file if self.group is None else file[self.group]
                    yield self._validate(self._read_node(node, spec))
            elif suffix in ZARR:
                store = open_zarr(self.path)
                node = store if self.group is None else store[self.group]
                _check_codecs(node)
                yield self._validate(self._read_node(node, spec))
            elif suffix in TENSORS:
                yield self._validate(self._read_arrays(self._load_tensors(), spec))
            elif suffix == ".npy":
                mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
                yield self._validate(BagContent(mapped, self._own_coordinates()))
            elif suffix == ".npz":
                with np.load(self.path, allow_pickle=False) as archive:
                    arrays = {name: archive[name] for name in archive.files}
                yield self._validate(self._read_arrays(arrays, spec))
            else:
                matrix, names, coordinates, pair, truth = read_bag_table(self.path, spec)
                yield self._validate(BagContent(matrix, coordinates, names, pair or None, truth))
        except GroupNoiseError:
            raise
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, KeyError) as error:
            if isinstance(error, PermissionError):
                raise DataError(f"{self} may not be read by this user.") from None
            raise DataError(_NOT_WHOLE.format(self)) from None
        except ValueError as error:
            if "pickle" not in str(error).lower() and "object" not in str(error).lower():
                raise DataError(_NOT_WHOLE.format(self)) from None
            raise DataError(
                f"{self} holds pickled objects, which can run code and are never unpickled, or is "
                f"no {suffix} file at all; save its numbers again as a plain array."
            ) from None

    def patch_size(self) -> float | None:
        """Return how wide objects are in the units of their coordinates, if the file says it.

        CLAM and TRIDENT write it beside the coordinates.
        """
        said = self._coordinate_attributes()
        size: Any = said.get("patch_size_level0")
        if size is None and "patch_size" in said:
            size = said["patch_size"] * np.ravel(said.get("downsample", 1.0))[0]
        return _as_length(size)

    def slide_width(self) -> float | None:
        """Return how wide the slide is in the units of the coordinates, if TRIDENT wrote it."""
        return _as_length(self._coordinate_attributes().get("level0_width"))

    def _coordinate_attributes(self) -> dict[str, Any]:
        if self.path.suffix.lower() not in HDF5:
            return {}
        with require("h5py", extra="h5").File(self.path, "r") as file:
            node = file if self.group is None else file[self.group]
            found = _coordinates_of(node)[1] if hasattr(node, "keys") else None
            return {} if found is None else dict(found.attrs)

    def _read_node(self, node: Any, spec: FileOptions) -> BagContent:
        """Return the content of an HDF5 file, of a group of it or of a data set alone."""
        if not hasattr(node, "keys"):
            return BagContent(node, self._own_coordinates())
        sets = {name: node[name] for name in node if hasattr(node[name], "shape")}
        found = self._read_arrays(sets, spec)
        own = usual_column("label", [name for name in node.attrs if np.size(node.attrs[name]) == 1])
        if own is not None:
            found = replace(found, label=_decode_text(np.asarray(node.attrs[own]))[0])
        attributes = {} if found.coordinates is None else dict(_coordinates_of(sets)[1].attrs)
        names = attributes.get("names")
        if names is not None:
            return replace(found, coordinate_names=_decode_text(np.asarray(names)))
        return found

    def _read_arrays(self, arrays: Mapping[str, Any], spec: FileOptions) -> BagContent:
        """Tell features, coordinates and the truth of objects of named arrays apart."""
        features = spec.features
        listing = ", ".join(f"{name} {tuple(a.shape)}" for name, a in arrays.items())
        if features is not None:
            if not isinstance(features, str) or features not in arrays:
                raise MissingColumnError(
                    f"{self} has no array {features!r} to be the features; it holds {listing}.",
                    "features",
                )
            chosen = arrays[features]
        else:
            by_name = {name.lower(): name for name in arrays}
            usual = next((by_name[name] for name in FEATURES if name in by_name), None)
            spare = [
                name
                for name, array in arrays.items()
                if len(array.shape) >= 2 and name.lower() not in COORDINATES
            ]
            if usual is None and len(spare) != 1:
                raise DataError(
                    f"{self} has no array that looks like the features; name it with `features` "
                    f"(--features). It holds {listing or 'no array of numbers'}."
                )
            chosen = arrays[usual if usual is not None else spare[0]]
        found = _coordinates_of(arrays)[1]
        coordinates = self._own_coordinates() if found is None else np.asarray(found[...])
        names, places = (
            None if named is None else _decode_text(np.asarray(named))
            for named in (arrays.get("feature_names"), arrays.get("coords_names"))
        )
        truth = find_truth(list(arrays), spec.truth, str(self))
        said = None if truth is None else np.asarray(arrays[truth][...]).ravel()
        if spec.truth is None and said is not None and len(said) != chosen.shape[-2]:
            said = None  # of the bag as a whole
        alone = [name for name, array in arrays.items() if np.prod(array.shape) == 1]
        own = usual_column("label", alone)
        label = None if own is None else _decode_text(np.asarray(arrays[own][...]))[0]
        return BagContent(chosen, coordinates, names, places, said, label)

    def _load_tensors(self) -> dict[str, Any]:
        """Return the tensors of a file as arrays; nothing but tensors is ever unpickled."""
        import torch

        load = partial(torch.load, self.path, map_location="cpu", weights_only=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of plain pickles, which are refused below
                try:
                    content = load(mmap=True)
                except RuntimeError:  # files of old releases cannot be mapped
                    content = load()
        except pickle.UnpicklingError:
            raise DataError(
                f"{self} holds pickled objects, which can run code and are never unpickled; save "
                "the tensor of its features alone."
            ) from None
        except RuntimeError as error:
            raise OSError(str(error)) from None
        if isinstance(content, torch.Tensor):
            content = {"features": content}
        if isinstance(content, (list, tuple)):
            shapes = {tensor.shape for tensor in content if torch.is_tensor(tensor)}
            is_rows = len(shapes) == 1 and all(torch.is_tensor(t) and t.ndim == 1 for t in content)
            content = (
                {"features": torch.stack(list(content))} if is_rows else dict(enumerate(content))
            )
        parts = content.items() if isinstance(content, dict) else ()
        return {
            str(name): _to_numpy_dtype(part).numpy() if torch.is_tensor(part) else np.asarray(part)
            for name, part in parts
            if isinstance(part, (torch.Tensor, str, int, float))
        }

    def _own_coordinates(self) -> NDArray[Any] | None:
        if self.coordinates is None or not self.coordinates.is_file():
            return None
        return np.load(self.coordinates, allow_pickle=False)

    def _validate(self, content: BagContent) -> BagContent:
        """Refuse what is no matrix of numbers with one row per object."""
        shape, coordinates = tuple(content.features.shape), content.coordinates
        features = content.features
        if len(shape) == 3 and shape[0] == 1:  # a batch of one, as some encoders write it
            features, shape = np.asarray(features[0]), shape[1:]
        if coordinates is not None and coordinates.ndim == 3 and len(coordinates) == 1:
            coordinates = coordinates[0]
        if len(shape) != 2 or np.dtype(features.dtype).kind not in "fiub":
            raise DataError(
                f"{self} holds features of shape {shape} and type {features.dtype}; numbers of "
                "shape (objects, features) are needed."
            )
        if shape[0] == 0:
            raise DataError(f"{self} is empty; leave it out of the folder and of the labels.")
        if shape[1] == 0:
            raise DataError(f"{self} has no features; write it again.")
        if coordinates is not None and (coordinates.ndim != 2 or len(coordinates) != shape[0]):
            raise DataError(
                f"{self} has coordinates of shape {coordinates.shape} for {shape[0]} objects; one "
                "row per object is needed."
            )
        return replace(content, features=features, coordinates=coordinates)


def find_groups(path: Path, report: Report) -> list[BagFile]:
    """Return the bags of an .h5 or .zarr: its groups with arrays, or itself where it has none."""
    is_zarr = path.suffix.lower() in ZARR
    try:
        with ExitStack() as stack:
            if is_zarr:
                file = open_zarr(path)
            else:
                file = stack.enter_context(require("h5py", extra="h5").File(path, "r"))
            is_array = hasattr(file, "shape")
            groups = [] if is_array else sorted(_groups_within(file))
            sets = [] if is_array else sorted(name for name in file if hasattr(file[name], "shape"))
    except OSError:
        kind = "Zarr folder" if is_zarr else "HDF5 file"
        raise DataError(
            f"{path} is not a whole {kind}: it is cut off or damaged; fetch or write it again."
        ) from None
    if not groups and sets and not set(FEATURES) & set(map(str.lower, sets)):
        groups = sets  # one data set per bag
    if not groups:
        return [BagFile(path.stem, path)]
    if n_above := len({group.rpartition("/")[0] for group in groups} - {""}):
        above = counted(n_above, "others")
        report(f"took {counted(len(groups), 'groups')} below {above} of {path} as the bags")
    last = [group.rpartition("/")[2] for group in groups]
    are_alone = len(set(last)) == len(last)
    return [
        BagFile(name if are_alone else group, path, group)
        for name, group in zip(last, groups, strict=True)
    ]


def _groups_within(node: Any, above: str = "") -> Iterator[str]:
    """Yield the groups that hold arrays, or nothing at all, however deep they lie."""
    for name in node:
        child = node[name]
        if hasattr(child, "keys") and (above or name != ANSWERS_GROUP):
            held = [child[each] for each in child]
            if held and all(hasattr(each, "keys") for each in held):
                yield from _groups_within(child, f"{above}{name}/")
            else:
                yield f"{above}{name}"


def open_zarr(path: Path) -> Any:
    """Return the group or array of a .zarr folder; one that is none is refused as damaged."""
    zarr = require("zarr", extra="zarr")
    try:
        return zarr.open(str(path), mode="r")
    except (ValueError, KeyError, TypeError) as error:  # nothing in it says what it is
        raise OSError(str(error)) from None


def _check_codecs(node: Any) -> None:
    """Refuse a Zarr group or array that is decoded by unpickling, whatever its library would do."""
    arrays = [node] if hasattr(node, "shape") else [node[name] for name in node]
    for array in arrays:
        if hasattr(array, "shape"):
            packed = array.compressors if hasattr(array, "compressors") else (array.compressor,)
            codecs = (*(array.filters or ()), *packed)
            if any("pickle" in str(getattr(codec, "codec_id", "")) for codec in codecs):
                raise ValueError("it is pickled")


def _coordinates_of(arrays: Mapping[str, Any]) -> tuple[str, Any]:
    by_name = {name.lower(): name for name in arrays}
    name = next((by_name[name] for name in COORDINATES if name in by_name), "")
    return name, arrays.get(name)


def _as_length(value: Any) -> float | None:
    """Return what a file says as a length, if it is one."""
    is_one = isinstance(value, (int, float, np.number)) and np.isfinite(value) and value > 0
    return float(value) if is_one else None


def _decode_text(cells: NDArray[Any]) -> tuple[str, ...]:
    """Return text of an array; HDF5 keeps it as bytes."""
    return tuple(
        cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
        for cell in cells.ravel().tolist()
    )


def _to_numpy_dtype(tensor: Any) -> Any:
    """Return a tensor of a type that numpy has: bfloat16 becomes float32."""
    import torch

    detached = tensor.detach()
    if detached.layout != torch.strided:
        detached = detached.to_dense()
    return detached.float() if detached.dtype == torch.bfloat16 else detached

"""Bags from a folder with one file per bag, or one .h5 with a group per bag, and a label table."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from groupnoise.bags.reading.bag_file import (
    ARRAYS,
    HDF5,
    SUFFIXES,
    TABLES,
    TENSORS,
    ZARR,
    BagContent,
    BagFile,
    find_groups,
)
from groupnoise.bags.reading.label_table import (
    FEATURE_FOLDERS,
    LABEL_FILES,
    BagLabels,
    are_tables_of_bags,
    find_label_table,
    is_unrelated_table,
    labels_from_folders,
    lacks_id_columns,
    read_label_files,
    read_label_table,
)
from groupnoise.bags.reading.names import files_by_bag
from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.bags.reading.splits import (
    check_split,
    find_split_table,
    is_split_table,
    read_split,
)
from groupnoise.bags.reading.tables import file_options
from groupnoise.bags.reading.truth import (
    add_object_labels,
    read_labels_in_files,
    read_object_labels,
)
from groupnoise.core import streamed_groups
from groupnoise.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    offsets_from_sizes,
    release_pages,
)
from groupnoise.core.streamed_groups import make_groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset
from groupnoise.io.tables.sources import Report

TRIDENT_FEATURES = ("features_*", "*/features_*")
"""Folders of features, of one encoder each, below the folder of a job of TRIDENT."""


def is_bag_folder(source: Any, labels: Any = None, labels_needed: bool = True) -> bool:
    """Tell whether a source is a folder of bag files, or an .h5 with a group per bag.

    `source`: what the user gave. `labels`: the table of labels that came with it; with one, tables
    in the folder are bags too. `labels_needed`: without the need, so are tables that name no bags,
    and a file of one bag is a source by itself.
    """
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source)
    if path.is_file():
        return path.suffix.lower() in (HDF5 if labels_needed else (*HDF5, *TENSORS, ".npy"))
    if not path.is_dir():
        return False
    if path.suffix.lower() in ZARR:
        return True
    files = _files_below(path, None)[0]
    if labels is not None or find_label_table(path) is not None:
        return bool(files)
    arrays = [file for file in files if file.suffix.lower() in ARRAYS]
    if files and not arrays:
        return (files[0].parent != path or not labels_needed) and lacks_id_columns(files[0])
    return any(file.suffix.lower() != ".npz" for file in arrays) or len(arrays) > 1


def read_bag_folder(source: str | Path, labels: Any, options: BagReadOptions) -> BagDataset:
    """Read bags that lie in a file each, in the order of their ids.

    `labels`: the table of labels, if one was given.
    """
    check_split(options)
    report, gaps = options.report, options.fill
    path = Path(source)
    given = labels
    if labels is None and path.is_dir():
        labels = find_label_table(path)
        if labels is not None and options.labels_needed:
            report(f"took {labels} as the table of labels")
    bags = find_bag_files(path, labels, report)
    found: BagLabels | None = None
    if options.labels_needed:
        found = _find_labels(bags, labels, path, options)
        ids = [bag.bag_id for bag in bags]
        file = options.split_file
        if file is None and found.split is None and path.is_dir():
            file = find_split_table(path, report)
        if file is not None:
            sides = read_split(file, ids, found.patients, str(path), options)
            bags = [bag for bag, side in zip(bags, sides, strict=True) if side]
            found = found.split_by(sides, None if options.split_file is None else str(file))
    content, offsets = _read_all(bags, options)
    truth = None
    if found is not None and content.truth is not None:
        found, truth = add_object_labels(found, content.truth, bags, offsets, options)
    empty: BoolArray = np.zeros((len(bags), 0), dtype=np.bool_)
    columns: dict[str, Any] = {} if found is None else dict(found.columns)
    if isinstance(given, (str, Path)):  # a table in the folder is found again
        columns["labels"] = str(given)
    if options.truth is not None:
        columns["truth"] = options.truth
    if gaps is not None:
        columns["fill"] = gaps.learned
    return BagDataset(
        name=path.stem,
        bags=make_groups(content.features, offsets),
        labels=empty if found is None else found.labels,
        class_names=[] if found is None else found.class_names,
        instance_labels=truth,
        feature_names=content.feature_names,
        bag_ids=np.array([bag.bag_id for bag in bags]),
        columns=columns,
        coordinates=content.coordinates,
        coordinate_names=content.coordinate_names,
        patients=None if found is None else found.patients,
        split=None if found is None else found.split,
    )


def _find_labels(
    bags: Sequence[BagFile], labels: Any, path: Path, options: BagReadOptions
) -> BagLabels:
    """Return the labels of bags: of a table, a file each, folders called so, or the files."""
    ids = [bag.bag_id for bag in bags]
    if labels is not None:
        return read_label_table(labels, ids, str(path), options)
    if (path / "labels").is_dir():
        return read_label_files(path / "labels", ids)
    is_one = path.is_file() or path.suffix.lower() in ZARR
    places = [PurePath(bag.group or "") if is_one else bag.path.relative_to(path) for bag in bags]
    found = labels_from_folders(places, str(path), options.report, options.known)
    found = found or read_labels_in_files(bags, options)
    if found is not None:
        return found
    if is_one and len(bags) == 1:
        raise DataError(f"{path} is a single bag; give the folder of all of them, or one .h5.")
    is_beside = not is_one and places[0].parent == Path() and any(_bags_below(path))
    stray = f", and {places[0]} beside them elsewhere" if is_beside else ""
    kind, way = ("groups", "below a group") if is_one else ("files", "into a folder")
    raise DataError(
        f"{path} says no labels; give a table with the columns of the bag and its label (--labels "
        f"labels.csv), or put the {kind} of each label, three or more, {way} that is called "
        f"so{stray}."
    )


def find_bag_files(path: Path, labels: Any, report: Report) -> list[BagFile]:
    """Return where each bag lies, in the order of their ids.

    `path`: a folder or a large .h5 file. `labels`: a table that is no bag. `report`: told which
    folder below was taken.
    """
    if path.suffix.lower() in (*HDF5, *ZARR):
        return find_groups(path, report)
    if path.is_file():
        return [BagFile(path.stem, path)]
    files, folder = _files_below(path, labels)
    if folder != path:
        report(f"took the files in {folder} as the bags")
    elif n_below := len({file.parent for file in files} - {folder}):
        report(
            f"took {counted(len(files), 'files')} in {counted(n_below, 'folders')} below {path} as "
            "the bags"
        )
    if not files:
        raise DataError(
            f"{path} holds no file of a bag ({', '.join(SUFFIXES)}); give a folder with one per "
            "bag."
        )
    named = files_by_bag(files, folder)
    if folder.name != "features":
        return [BagFile(bag_id, named[bag_id]) for bag_id in sorted(named)]
    coordinates, truth = folder.parent / "coords", folder.parent / "inst_labels"
    has_truth = labels is None and truth.is_dir()
    return [
        BagFile(
            bag_id,
            named[bag_id],
            None,
            coordinates / f"{bag_id}.npy",
            truth / f"{bag_id}.npy" if has_truth else None,
        )
        for bag_id in sorted(named)
    ]


def _files_below(path: Path, labels: Any) -> tuple[list[Path], Path]:
    """Return the bag files of a folder, or of the folder below that a tool put them into."""
    folders = [path, *(path / name for name in FEATURE_FOLDERS if (path / name).is_dir())]
    of_job = [below for form in TRIDENT_FEATURES for below in sorted(path.glob(form))]
    of_job = [below for below in of_job if any(below.glob("*.h5"))]
    if len(of_job) == 1:
        folders += of_job
    tables = {(path / name).resolve() for name in LABEL_FILES}
    tables |= {file.resolve() for file in path.glob("*") if is_split_table(file)}
    if isinstance(labels, (str, Path)):
        tables.add(Path(labels).resolve())
    stray: list[Path] = []
    for folder in folders:
        try:
            entries = sorted(folder.iterdir())
        except PermissionError:
            raise DataError(
                f"{folder} may not be read by this user; change its permissions."
            ) from None
        files = [file for file in entries if _is_bag(file) and file.resolve() not in tables]
        arrays = [file for file in files if file.suffix.lower() in ARRAYS]
        may_be_beside = folder == path and files and not arrays and labels is None
        if (
            may_be_beside
            and (nested := _bags_in_folders(path))
            and is_unrelated_table(files[0], nested)
        ):
            return nested, path  # a table beside folders that are called by labels is about them
        if arrays or (files and labels is None):
            return arrays or files, folder  # a table among arrays is about them
        stray = stray or files  # or above them
    if len(of_job) > 1:
        raise DataError(
            f"{path} holds features of several encoders or sizes; give one of these folders: "
            f"{', '.join(map(str, of_job))}."
        )
    nested = _bags_in_folders(path)
    if stray and not any(file.suffix.lower() in ARRAYS for file in nested):
        return stray, stray[0].parent
    return nested, path


def _bags_in_folders(path: Path) -> list[Path]:
    """Return the bags in folders below: arrays, or tables in folders that are called by labels."""
    below = sorted(_bags_below(path))
    arrays = [file for file in below if file.suffix.lower() in ARRAYS]
    # Tables may be the parts of one.
    return arrays or (below if are_tables_of_bags(below, path) else [])


def _bags_below(path: Path) -> Iterator[Path]:
    """Yield the files of bags in folders below."""
    for file in path.glob("*/**/*"):
        inside = file.relative_to(path).parts[:-1]
        is_apart = any(part.startswith(".") or part.lower().endswith(ZARR) for part in inside)
        is_copy = inside[-1] == "pt_files" and (file.parents[1] / "h5_files").is_dir()  # of CLAM
        if _is_bag(file) and not is_apart and not is_copy:
            yield file


def _is_bag(file: Path) -> bool:
    """Tell whether a file is of a kind that holds a bag; what systems put beside it is none."""
    suffix = file.suffix.lower()
    is_kind = suffix in SUFFIXES and file.is_file() != (suffix in ZARR)
    return is_kind and not file.name.startswith(".")


def _read_all(bags: Sequence[BagFile], options: BagReadOptions) -> tuple[BagContent, IntArray]:
    """Return the objects of all bags, one after the other, and where each bag begins.

    Widths are compared before anything large is read.
    """
    gaps = options.fill
    sizes, places, dtypes, truth = [], [], set(), []
    tables = [bag.path for bag in bags if bag.path.suffix.lower() in TABLES]
    spec = file_options(tables if len(tables) == len(bags) else (), options)
    kept: dict[int, Any] = {}
    n_kept = 0
    first = None
    for number, bag in enumerate(bags):
        with bag.open(spec) as content:
            sizes.append(content.features.shape[0])
            dtypes.add(np.dtype(content.features.dtype))
            places.append(content.coordinates)
            truth.append(read_object_labels(content.truth, bag, sizes[-1]))
            if not bag.is_mapped and n_kept < streamed_groups.MAX_BYTES_IN_MEMORY:
                kept[number] = content.features  # what is read whole need not be read twice
                n_kept += content.features.nbytes
            if first is None:
                first = content
                width = content.features.shape[1]
                spec = replace(spec, names=content.feature_names or spec.names)
        _check_matches_first(bag, content, bags[0], width, first)
    assert first is not None
    offsets = offsets_from_sizes(sizes)
    matrix = _allocate((int(offsets[-1]), width), dtypes)
    for number, bag in enumerate(bags):
        rows = matrix[offsets[number] : offsets[number + 1]]
        if number in kept:
            rows[...] = kept.pop(number)
        else:
            with bag.open(spec) as content:
                rows[...] = content.features[...]
        if gaps is None:
            _check_finite(bag, rows)
        release_pages(matrix)
    if gaps is not None:
        gaps.fill_rows(matrix, spec.names or [f"feature {k}" for k in range(width)])
        for number, bag in enumerate(bags):
            _check_finite(bag, matrix[offsets[number] : offsets[number + 1]])
    coordinates = None
    if first.coordinates is not None:
        coordinates = np.concatenate([p for p in places if p is not None]).astype(np.float64)
    said = None if all(part is None for part in truth) else np.concatenate(
        [np.full(n, "") if part is None else part for n, part in zip(sizes, truth, strict=True)]
    )  # fmt: skip
    whole = BagContent(
        matrix, coordinates, first.feature_names, first.coordinate_names_or_default, said
    )
    return whole, offsets


def _check_matches_first(
    bag: BagFile, content: BagContent, other: BagFile, width: int, first: BagContent
) -> None:
    """Refuse a bag that differs from the first one in its columns."""
    found = content.features.shape[1]
    if found != width:
        raise DataError(
            f"{bag} has {found} features, but bag {other.bag_id!r} has {width}; all bags need "
            "features of the same encoder."
        )
    if content.feature_names != first.feature_names:
        raise DataError(
            f"{bag} names its features otherwise than bag {other.bag_id!r}; write both alike."
        )
    ours, theirs = content.coordinates, first.coordinates
    if (ours is None) != (theirs is None):
        without, has = (bag, other) if ours is None else (other, bag)
        raise DataError(
            f"{without} has no coordinates, but bag {has.bag_id!r} has; give them to all or none."
        )
    if ours is not None and theirs is not None and ours.shape[1] != theirs.shape[1]:
        raise DataError(
            f"{bag} has {ours.shape[1]} coordinates per object, but bag {other.bag_id!r} has "
            f"{theirs.shape[1]}."
        )


def _check_finite(bag: BagFile, rows: FloatArray) -> None:
    is_bad = ~np.isfinite(rows).all(axis=1)
    if is_bad.any():
        raise DataError(
            f"{bag} holds NaN or infinite values in {int(is_bad.sum())} of its "
            f"{counted(len(rows), 'rows')}, "
            f"the first in row {int(np.argmax(is_bad))}; fill missing numbers with the median of "
            "their column (`fill`, --fill median), or drop these rows."
        )


def _allocate(shape: tuple[int, int], dtypes: set[np.dtype[Any]]) -> FloatArray:
    """Return an array to fill: in memory, or mapped from a temporary file that nobody sees.

    In memory half precision becomes single; on disk it stays, for it is read piece by piece.
    """
    single = np.result_type(*dtypes, np.float32)
    if shape[0] * shape[1] * single.itemsize <= streamed_groups.MAX_BYTES_IN_MEMORY:
        return np.empty(shape, dtype=single)
    dtype = np.dtype(np.float16) if dtypes == {np.dtype(np.float16)} else single
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    place = tempfile.gettempdir()
    # Writing to a mapped file on a full disk would end the process without a word.
    if shutil.disk_usage(place).free < n_bytes:
        raise DataError(
            f"features of {n_bytes / 1e9:.1f} GB do not fit into {place}; set TMPDIR to a folder "
            "with more room, or give fewer bags."
        )
    with tempfile.TemporaryFile(prefix="groupnoise-", dir=place) as file:
        return np.memmap(file, dtype=dtype, shape=shape, mode="w+")

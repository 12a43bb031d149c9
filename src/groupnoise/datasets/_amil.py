"""SIVAL in its AMIL edition: one C4.5 task per object, with a label for every segment.

A task `X` is a pair of files. `X.names` declares the columns; `X.data` has one segment per line,
`bag, segment, 30 features, label.`, where label 1 means that the segment shows object X. The
tasks overlap: a bag of one object serves as a negative bag of others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from groupnoise._typing import FloatArray
from groupnoise.datasets._containers import BagDataset
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.groups import Groups


@dataclass
class _Bag:
    """The segments of one image, by their number, and those that show the object."""

    segments: dict[str, FloatArray] = field(default_factory=dict)
    witnesses: set[str] = field(default_factory=set)
    label: int | None = None


def load_amil(name: str, folder: str | Path) -> BagDataset:
    """Join the one-against-rest tasks of an AMIL folder into one multi-class set of bags.

    Parameters
    ----------
    name : str
        What to call the set.
    folder : path
        Holds one `.names` and one `.data` file per object.

    Returns
    -------
    BagDataset
        The bags of all objects whose files are there, sorted by their id; a bag whose object
        has no file, and so no witness, is left out. `instance_labels` is -1 for segments that
        do not show the object.
    """
    tasks = sorted(Path(folder).glob("*.data"))
    if not tasks:
        raise MissingDataError(
            f"{folder} holds no .data file; put the .names and .data files of AMIL-SIVAL there."
        )
    bags: dict[str, _Bag] = {}
    for label, path in enumerate(tasks):
        _add_task(bags, label, path)
    labelled = {bag_id: bag for bag_id, bag in sorted(bags.items()) if bag.label is not None}
    if not labelled:
        raise DataError(f"no segment in {folder} is labelled 1, so no bag has a class.")

    rows: list[FloatArray] = []
    instance_labels: list[int] = []
    for bag in labelled.values():
        for segment, features in bag.segments.items():
            rows.append(features)
            instance_labels.append(_class_of(bag, segment))
    classes = np.array([bag.label for bag in labelled.values()])
    sizes = [len(bag.segments) for bag in labelled.values()]
    return BagDataset(
        name=name,
        bags=Groups(np.stack(rows), np.concatenate([[0], np.cumsum(sizes)])),
        labels=classes[:, None] == np.arange(len(tasks)),
        class_names=[path.stem for path in tasks],
        instance_labels=np.array(instance_labels, dtype=np.int64),
    )


def _class_of(bag: _Bag, segment: str) -> int:
    return bag.label if bag.label is not None and segment in bag.witnesses else -1


def _add_task(bags: dict[str, _Bag], label: int, path: Path) -> None:
    """Add the segments of one task; what an earlier task already gave is not added again."""
    n_features = _declared_features(path.with_suffix(".names"))
    seen: set[tuple[str, str]] = set()
    for line_number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path} line {line_number}"
        cells = [cell.strip() for cell in line.strip().rstrip(".").split(",")]
        if len(cells) != n_features + 3:
            raise DataError(
                f"{place} has {len(cells)} values where {n_features + 3} are declared "
                f"(bag, segment, {n_features} features, label)."
            )
        bag_id, segment, *values, is_witness = cells
        if is_witness not in {"0", "1"}:
            raise DataError(f"{place} ends with {is_witness!r}, not with 0 or 1.")
        if (bag_id, segment) in seen:
            raise DataError(f"{place} gives segment {segment} of bag {bag_id} a second time.")
        seen.add((bag_id, segment))
        bag = bags.setdefault(bag_id, _Bag())
        if segment not in bag.segments:
            bag.segments[segment] = _numbers(values, place)
        if is_witness == "1":
            if bag.label not in (None, label):
                raise DataError(
                    f"{place} gives bag {bag_id} a second class; it has a witness in another file."
                )
            bag.label = label
            bag.witnesses.add(segment)


def _declared_features(path: Path) -> int:
    """Count the columns a `.names` file declares as continuous."""
    if not path.is_file():
        raise MissingDataError(f"{path} is missing; each .data file needs its .names file.")
    declarations = [line.split("|")[0] for line in _lines(path)]
    n_features = sum(bool(re.search(r":\s*continuous", line)) for line in declarations)
    if n_features == 0:
        raise DataError(f"{path} declares no continuous column, so there are no features.")
    return n_features


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}."
        ) from None


def _numbers(values: list[str], place: str) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{place} holds a feature that is no number: {error}.") from None

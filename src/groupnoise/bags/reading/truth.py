"""Labels of bags and of their objects stored with the files of bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.reading.bag_file import TABLES, BagFile
from groupnoise.bags.reading.label_table import BagLabels, encode_labels
from groupnoise.bags.reading.labels import read_bag_truth
from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.bags.reading.tables import FileOptions
from groupnoise.core.arrays import IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.labels.spellings import canonical_number
from groupnoise.io.tables.table import Table


def read_labels_in_files(bags: Sequence[BagFile], options: BagReadOptions) -> BagLabels | None:
    """Return the labels stored in the files of bags; None if the first has none."""
    words: list[str] = []
    for bag in bags:
        if bag.path.suffix.lower() in TABLES:
            return None
        with bag.open(FileOptions(options.features)) as content:
            if content.label is None and not words:
                return None
            if content.label is None:
                raise DataError(f"{bag} says no label, but bag {bags[0].bag_id!r} does; add it.")
            words.append(content.label)
    options.report("took the labels that the files of bags hold")
    return BagLabels(*encode_labels(words), None, None, {})


def read_object_labels(given: NDArray[Any] | None, bag: BagFile, size: int) -> NDArray[Any] | None:
    """Return the label of each object of a bag as text, None if its files have none."""
    values, place = given, str(bag.path)
    if bag.truth is not None:
        place = str(bag.truth.parent)
        try:
            values = np.load(bag.truth, allow_pickle=False).ravel()
        except (OSError, ValueError, EOFError):
            raise DataError(
                f"bag {bag.bag_id!r} has no readable labels of its objects in {place}; write them "
                "again, or move that folder away."
            ) from None
    if values is None:
        return None
    if len(values) != size:
        raise DataError(
            f"bag {bag.bag_id!r} has {counted(size, 'objects')} and "
            f"{counted(len(values), 'labels')} of them in {place}; one per object is needed."
        )
    words = (each.decode() if isinstance(each, bytes) else str(each) for each in values.tolist())
    return np.array(list(words))


def add_object_labels(
    found: BagLabels,
    words: NDArray[Any],
    bags: Sequence[BagFile],
    offsets: IntArray,
    options: BagReadOptions,
) -> tuple[BagLabels, IntArray]:
    """Return bag labels, and the class of each object, -1 if it has none or is unknown."""
    names = [*found.class_names, *options.known.classes]
    by_number = {canonical_number(name): name for name in names}
    bag_of_row = np.repeat(np.arange(len(bags)), np.diff(offsets))

    def locate(row: int) -> str:
        bag = int(bag_of_row[row])
        return f"bag {bags[bag].bag_id!r}, row {row - int(offsets[bag])}"

    cells = [by_number.get(canonical_number(word), word) for word in words.tolist()]
    column = options.truth or "truth"
    table = Table(pl.DataFrame({column: cells}), column, column, locate)
    classes, truth = read_bag_truth(
        table, column, found.class_names, found.labels, bag_of_row, options.known, options.report
    )
    labels = np.pad(found.labels, ((0, 0), (0, len(classes) - found.labels.shape[1])))
    return replace(found, labels=labels, class_names=classes), truth

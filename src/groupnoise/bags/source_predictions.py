"""Answers about objects written into the .h5 files that their features come from."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupnoise.bags.object_predictions import ObjectPredictions, write_h5_content
from groupnoise.bags.reading.bag_file import ANSWERS_GROUP, HDF5, BagFile
from groupnoise.bags.reading.folder import find_bag_files
from groupnoise.core.checks import require
from groupnoise.exceptions import DataError
from groupnoise.io.files import atomic_path
from groupnoise.io.tables.sources import ignore_report


def write_into_sources(
    source: str | Path, answers: ObjectPredictions, labels: Any = None
) -> list[Path]:
    """Add a group `groupnoise` to each .h5 file, in place of an earlier one.

    It holds what :func:`write_object_predictions` writes of a bag; of a file of several bags, a
    group per bag.
    A file is copied, added to and put in its place, so that it is whole at any time.

    Result: the files. `source`: the folder or file that the bags were read from. `labels`: the
    table of labels that came with it, which is no bag.
    """
    by_file = _files_of(source, labels)
    numbers = {bag_id: number for number, bag_id in enumerate(answers.bag_ids)}
    for path, bags in by_file.items():
        if path.suffix.lower() not in HDF5:
            raise DataError(
                f"{path} is no .h5 file, which answers could be written into; write them beside "
                "it with --to h5, csv or geojson."
            )
        strange = [bag.bag_id for bag in bags if bag.bag_id not in numbers]
        if strange:
            raise DataError(f"there is no answer about bag {strange[0]!r} of {path}.")
    for path, bags in by_file.items():
        with atomic_path(path) as temporary:
            shutil.copyfile(path, temporary)
            with require("h5py", extra="h5").File(temporary, "a") as file:
                if ANSWERS_GROUP in file:
                    del file[ANSWERS_GROUP]
                group = file.create_group(ANSWERS_GROUP)
                for bag in bags:
                    node = group if bag.group is None else group.create_group(bag.bag_id)
                    write_h5_content(node, answers, numbers[bag.bag_id])
            shutil.copymode(path, temporary)
    return list(by_file)


def _files_of(source: str | Path, labels: Any) -> Mapping[Path, list[BagFile]]:
    found: dict[Path, list[BagFile]] = {}
    for bag in find_bag_files(Path(source), labels, ignore_report):
        found.setdefault(bag.path, []).append(bag)
    return found

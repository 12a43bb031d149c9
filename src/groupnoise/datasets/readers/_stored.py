"""Data folders where a reader expects a file: opened, not converted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from groupnoise.datasets._containers import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.datasets._store import is_data_folder, open_groups
from groupnoise.exceptions import DataError

Stored = TypeVar("Stored", BagDataset, PartialLabelDataset, ClickDataset)


def open_if_stored(source: Any, kind: type[Stored]) -> Stored | None:
    """Return the data set if `source` is a data folder, and None if it is anything else."""
    if not isinstance(source, (str, Path)) or not is_data_folder(source):
        return None
    data = open_groups(source)
    if not isinstance(data, kind):
        raise DataError(f"{source} holds a {type(data).__name__}, not a {kind.__name__}.")
    return data

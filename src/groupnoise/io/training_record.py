"""What a model remembers of the data it was trained on, in its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.arrays import IntArray
from groupnoise.exceptions import ModelFileError
from groupnoise.io.files import write_json
from groupnoise.io.model_files import MANIFEST, read_manifest

KEY = "training_data"


@dataclass(frozen=True)
class TrainingRecord:
    """The data of a training, and what of it was held out.

    Attributes
    ----------
    name : str
        What the data is called.
    setting : str
        "mil", "pll" or "rs".
    fingerprint : str
        The checksum that `Setting.fingerprint` gives.
    n_groups : int
        How many groups there were, with those held out.
    held_out : list of int
        The groups that were held out; of click histories only their last click.
    options : dict
        Columns and the form of the file, as its reader takes them.
    """

    name: str
    setting: str
    fingerprint: str
    n_groups: int
    held_out: list[int] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> IntArray:
        """The groups that were held out, as an array."""
        return np.array(self.held_out, dtype=np.int64)


def write_training_record(folder: Path | str, record: TrainingRecord) -> None:
    """Add a record to the manifest of a model that was just saved.

    Parameters
    ----------
    folder : path
        What `save` of an estimator wrote.
    record : TrainingRecord
        What it was trained on.
    """
    manifest = read_manifest(folder)
    write_json(Path(folder) / MANIFEST, {**manifest, KEY: asdict(record)})


def read_training_record(folder: Path | str) -> TrainingRecord | None:
    """Return what a model remembers of its training; None if nothing, as when saved from Python.

    Parameters
    ----------
    folder : path
        A model folder.
    """
    found = read_manifest(folder).get(KEY)
    if found is None:
        return None
    try:
        return _checked(found)
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(
            f"{Path(folder) / MANIFEST} does not say in a readable way what the model was trained "
            "on; restore or refit it."
        ) from None


def _checked(found: Mapping[str, Any]) -> TrainingRecord:
    """Return a record whose parts have the right types: a manifest may come from anywhere."""
    held_out, n_groups = found["held_out"], found["n_groups"]
    options = found["options"]
    name, setting, fingerprint = (found[key] for key in ("name", "setting", "fingerprint"))
    is_text = all(isinstance(text, str) for text in (name, setting, fingerprint))
    if not is_text or not isinstance(options, dict):
        raise TypeError
    if not isinstance(n_groups, int) or not isinstance(held_out, list):
        raise TypeError
    if not all(isinstance(row, int) and 0 <= row < n_groups for row in held_out):
        raise ValueError
    return TrainingRecord(name, setting, fingerprint, n_groups, held_out, options)

"""Arrays from files that may come from anywhere: checked before anything is looked up with them.

A checksum only says that a file is what its manifest names, and whoever alters one can alter the
other. Compiled code that is handed an index out of range reads foreign memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import blocks
from groupnoise.exceptions import ModelFileError

FLOATS = ("f4", "f8")
INTEGERS = ("i4", "i8")


def stored_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    *,
    types: Collection[str],
    shape: tuple[int | None, ...],
) -> NDArray[Any]:
    """Return the named array, refused where it is missing or not of the type and shape needed.

    `arrays`: what a file held. `types`: kinds and sizes allowed, such as "f4"; "S" is text of any
    width. `shape`: None stands for any length.
    """
    if name not in arrays:
        raise ModelFileError(f"the stored {name} is missing.")
    array = arrays[name]
    kind = array.dtype.kind
    is_allowed = kind in types or f"{kind}{array.dtype.itemsize}" in types
    if not (is_allowed and array.dtype.isnative):
        raise ModelFileError(f"the stored {name} is of type {array.dtype}, which is not expected.")
    fits = len(array.shape) == len(shape) and all(
        requested is None or length == requested
        for length, requested in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted_shape = str(shape).replace("None", "any")
        raise ModelFileError(
            f"the stored {name} has shape {array.shape} where {wanted_shape} is needed."
        )
    return array


def check_positions(name: str, positions: NDArray[Any], n: int) -> None:
    """Refuse whole numbers outside 0 .. n - 1."""
    for _, part in blocks(positions):
        if not 0 <= int(part.min()) <= int(part.max()) < n:
            raise ModelFileError(f"the stored {name} points outside 0 to {n - 1}.")


def check_offsets(name: str, offsets: NDArray[Any], end: int, *, allow_empty: bool = True) -> None:
    """Refuse offsets that do not rise from 0 to `end`; equal neighbours are empty rows."""
    rises = offsets[1:] >= offsets[:-1] if allow_empty else offsets[1:] > offsets[:-1]
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != end or not rises.all():
        raise ModelFileError(f"the stored {name} does not rise from 0 to {end}.")


def check_numbers(name: str, values: NDArray[Any], *, largest: float | None = None) -> None:
    """Refuse NaN, infinite values, and those further from zero than `largest`."""
    bound = float(np.finfo(np.float64).max) if largest is None else largest
    for _, part in blocks(values):
        # Written so that NaN, which compares as False, is refused too.
        if part.size and not (-bound <= float(part.min()) and float(part.max()) <= bound):
            raise ModelFileError(f"the stored {name} holds values that are NaN or too large.")

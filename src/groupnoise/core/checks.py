"""The one place that words errors about shape, type and range."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import IntArray, blocks
from groupnoise.exceptions import (
    DataError,
    DataTypeError,
    EmptyGroupError,
    MissingExtraError,
    ParameterError,
)

MAX_ID_LENGTH = 1000
"""Characters of an id, wherever one is read, trained on, exported or asked for."""
MAX_COMPARED = 5000
"""Names beyond which none is looked for that is near: it would take a noticeable time."""


def check_positive(name: str, value: float, *, allow_zero: bool = False) -> None:
    """Refuse a parameter that is not a positive finite number."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if is_number and np.isfinite(value) and (value > 0 or (allow_zero and value == 0)):
        return
    bound = "zero or more" if allow_zero else "greater than zero"
    raise ParameterError(f"{name} must be a number {bound}; got {value!r}.")


def check_count(name: str, value: int, *, least: int = 1) -> None:
    """Refuse a parameter that is not a whole number of at least `least`."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}; got {value!r}.")


def check_fraction(name: str, value: float) -> None:
    """Refuse a parameter outside [0, 1]."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise ParameterError(f"{name} must lie between 0 and 1; got {value!r}.")


def check_dropout(value: float) -> None:
    """Refuse a dropout outside [0, 1): nothing can be learned where every unit is dropped."""
    check_fraction("dropout", value)
    if value == 1:
        raise ParameterError(f"dropout must be below 1; got {value!r}.")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse a parameter that is not one of the allowed words."""
    choices = list(allowed)
    if not isinstance(value, str) or value not in choices:
        listing = ", ".join(repr(choice) for choice in choices)
        meant = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ParameterError(f"{name} must be one of {listing}; got {value!r}{meant}.")


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that somebody who misspelt one probably meant.

    >>> closest_name("User_ID", ["item_id", "user_id"])
    'user_id'
    """
    by_lower_name = {each.lower(): each for each in known}
    if len(by_lower_name) > MAX_COMPARED:
        return None
    found = get_close_matches(name.lower(), by_lower_name, n=1)
    return by_lower_name[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return what to add to an error about a misspelt name; empty where none is near."""
    near = closest_name(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinite features, naming the first offending row."""
    if values.dtype.kind not in "fc":
        return
    row, n_bad = None, 0
    for first, part in blocks(values):
        is_bad = ~np.isfinite(part)
        if is_bad.any():
            n_bad += int(is_bad.sum())
            row = first + int(np.argwhere(is_bad)[0][0]) if row is None else row
    if row is not None:
        raise DataError(
            f"{name} holds {n_bad} NaN or infinite values, the first in row {row}. "
            "Impute or drop these rows first."
        )


def _hint_for_non_numeric(values: Any) -> str:
    """Say what holds no numbers, such as columns of a pandas frame, and what to do about it."""
    kind = type(values).__name__
    if isinstance(values, Mapping):
        return f"a {kind} was given; give the list of its values"
    if isinstance(values, Iterator):
        return f"a {kind} was given; give a list of what it yields"
    if hasattr(values, "collect"):
        return f"a {kind} was given; give what its collect() returns"
    if not hasattr(values, "columns") or not hasattr(values, "dtypes"):
        return ""
    kinds = zip(values.columns, values.dtypes, strict=True)
    found = [str(name) for name, kind in kinds if getattr(kind, "kind", "O") not in "fiubc"]
    if not found:
        return ""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return (
        f"{', '.join(map(repr, found[:3]))}{more} {'is' if len(found) == 1 else 'are'} not: leave "
        f"{'it' if len(found) == 1 else 'them'} out, or make numbers of categories, such as with "
        "pandas.get_dummies"
    )


def detached_values(name: str, values: Any) -> Any:
    """Return a tensor as the array it holds; masked values, which arrays do not know, are refused.

    Anything else is returned as it is.
    """
    if hasattr(values, "detach"):
        try:
            return values.detach().cpu().numpy()
        except (RuntimeError, TypeError):
            raise DataTypeError(
                f"{name} came as a tensor that is no array; give a list of plain tensors."
            ) from None
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(f"{name} holds masked values; fill them, or drop these rows first.")
    return values


def check_features(name: str, values: Any, *, width: int | None = None) -> NDArray[Any]:
    """Return `values` as a finite float matrix, one row per object."""
    if hasattr(values, "tocsr"):
        raise DataTypeError(f"sparse features are not supported; pass {name}.toarray() instead.")
    values = detached_values(name, values)
    try:
        matrix = np.asarray(values)
        own = values.dtypes if hasattr(values, "isna") and hasattr(values, "columns") else ()
        if {"m", "M"} & {getattr(kind, "kind", "O") for kind in (*own, matrix.dtype)}:
            raise TypeError("dates are not: make numbers of them, such as days since a date")
        if matrix.dtype.kind == "O" and len(own):  # NA of pandas is no number
            matrix = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if matrix.dtype.kind not in "fiubc":
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(
            f"{name} must be numeric with rows of one width, one row per object; "
            f"{_hint_for_non_numeric(values) or error}."
        ) from None
    if matrix.dtype.kind == "c":
        raise DataError(f"Complex data not supported; {name} must hold real numbers.")
    if matrix.ndim != 2:
        raise DataError(
            f"{name} must have two dimensions (rows, features); got shape {matrix.shape}. "
            "Reshape your data: a single row is X.reshape(1, -1), a single column "
            "X.reshape(-1, 1)."
        )
    if matrix.shape[0] == 0:
        raise DataError(f"{name} has 0 rows; at least one is needed.")
    if matrix.shape[1] == 0:
        raise DataError(
            f"{name} has 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required."
        )
    if width is not None and matrix.shape[1] != width:
        raise DataError(
            f"{name} has {matrix.shape[1]} features, but model is expecting {width} features "
            "as input, as in training."
        )
    check_finite(name, matrix)
    return matrix


def require(package: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(
            f"{package.split('.')[0]} is needed for this; install it with "
            f"`pip install 'groupnoise[{extra}]'`."
        ) from None


def as_rows(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return values as an array with at least one axis, without a copy where they are one."""
    try:
        rows = values if isinstance(values, np.ndarray) else np.asarray(values)
    except ValueError:
        raise DataError(f"{name} must hold rows of one width; some differ.") from None
    if rows.ndim == 0:
        raise DataError(f"{name} must be a list or an array; got the single value {values!r}.")
    return rows


def as_histories(histories: Any) -> list[Any]:
    """Return a list of histories, after checking that each holds ids and is none itself.

    >>> as_histories(["tea", "cup"])
    Traceback (most recent call last):
    ...
    groupnoise.exceptions.DataError: history 0 must be a sequence of item ids; got 'tea'. Wrap a \
single item in a list.
    """
    if isinstance(histories, (str, bytes, Mapping)) or not isinstance(histories, Iterable):
        raise DataError(
            f"histories must be sequences of item ids, one each; got {repr(histories)[:200]}."
        )
    rows = list(histories)
    for row, history in enumerate(rows):
        # The letters of a text would be taken for ids.
        if hasattr(history, "tocsr"):
            raise DataError(
                "a sparse matrix has no order of clicks; give the item ids of each user in a list."
            )
        if isinstance(history, (str, bytes)) or not hasattr(history, "__len__"):
            raise DataError(
                f"history {row} must be a sequence of item ids; got {history!r}. "
                "Wrap a single item in a list."
            )
    return rows


def check_group_ids(keys: NDArray[Any], name: str = "group id", of: str = "rows") -> None:
    """Refuse rows that belong to no group, and ids of several kinds, which have no order."""
    is_missing = np.zeros(len(keys), dtype=bool)
    if keys.dtype.kind in "fmM":
        is_missing = keys != keys
    elif keys.dtype.kind == "O":
        words = (None, "nan", "None", "<NA>", "NaT")
        is_missing = np.array([not isinstance(key, str) and str(key) in words for key in keys])
        if not is_missing.any() and len({isinstance(key, str) for key in keys}) > 1:
            raise DataError(f"{name}s mix text and numbers; make all of them text.")
    if is_missing.any():
        raise DataError(
            f"{int(is_missing.sum())} of {len(keys)} {of} have no {name}, the first is number "
            f"{int(is_missing.argmax())}; fill it in, or drop these {of}."
        )


def check_not_empty(sizes: NDArray[np.integer[Any]]) -> None:
    """Refuse groups of which some have no object, naming the first."""
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        raise EmptyGroupError(
            f"{len(empty)} of {len(sizes)} groups are empty, first at row {empty[0]}. "
            "Max-Matching needs an object to select; drop these rows before fitting."
        )


def checked_offsets(offsets: ArrayLike, n_objects: int) -> IntArray:
    """Return where groups begin and the last one ends, after checking that none is empty."""
    values = as_rows("offsets", offsets)
    if values.ndim != 1 or len(values) < 1 or values.dtype.kind not in "iu":
        raise DataError(
            f"offsets must be a row of whole numbers; got dtype {values.dtype}, "
            f"shape {values.shape}."
        )
    if len(values) == 1:
        raise DataError("0 groups were given; at least one is needed.")
    values = values.astype(np.int64, copy=False)
    if values[0] != 0 or values[-1] != n_objects:
        raise DataError(
            f"offsets must run from 0 to the number of objects ({n_objects}); "
            f"they run from {values[0]} to {values[-1]}."
        )
    for first, begins in blocks(values[:-1]):
        sizes = values[first + 1 : first + 1 + len(begins)] - begins
        if (sizes < 0).any():
            row = first + int(np.flatnonzero(sizes < 0)[0])
            raise DataError(
                f"offsets must not decrease: entry {row + 1} ({values[row + 1]}) is below "
                f"entry {row} ({values[row]})."
            )
        if not sizes.all():
            check_not_empty(np.diff(values))
    return values

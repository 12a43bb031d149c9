"""Parse labels, candidate labels and known true labels from all supported forms into arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.label_typos import warn_about_typos
from groupnoise.exceptions import DataError, EmptyGroupError, UnknownTargetError

_COLLECTIONS = (set, frozenset, list, tuple, np.ndarray)
LABEL_SEPARATORS = (",", ";", "|", "/", " or ", " oder ", " ou ")
"""What joins labels in one text, in files and by mistake in Python."""
UNKNOWN = -1
"""The column of a label that nobody knows."""


def read_label_sets(
    values: Any, *, name: str, classes: Any = None
) -> tuple[BoolArray, NDArray[Any]]:
    """Read one set of labels per row.

    Returns `indicator` (n_rows, n_classes): True where a row holds a class; `classes`: the label
    each column stands for. `values`: a 0/1 matrix (array, data frame or scipy sparse) of shape
    (n_rows, n_classes); a sequence of sets, lists or tuples of labels; or plain labels, each a set
    of one. Nested lists are read as lists of labels: give a matrix as an array. Without them they
    are the labels seen, sorted, or the column names of a data frame, or the column numbers of a
    matrix. Columns of a data frame are put in their order by name; numbers from 0 are no names, and
    stay as they come.
    """
    if values is None:
        raise DataError(
            f"the estimator requires y to be passed, but the target y is None; give {name}."
        )
    known = None if classes is None else _distinct_classes(classes)
    table: Any = values if sparse.issparse(values) else _as_matrix(values)
    if np.ndim(getattr(values, "columns", 0)) == 1 and values.shape[1] > 1:
        named = _distinct_classes(list(values.columns))  # a data frame names its classes itself
        if known is None:
            known = named
        else:
            table = table[:, _column_order(known, named, name)]
    if table is None:
        indicator, found = _from_rows(values, name, known)
    elif table.shape[1] == 1 and not sparse.issparse(table):
        _warn_about_column()
        indicator, found = _from_rows(np.asarray(table).ravel(), name, known)
    else:
        indicator = _from_matrix(table, name)
        found = np.arange(indicator.shape[1]) if known is None else known
        if len(found) != indicator.shape[1]:
            raise DataError(
                f"{name} has {indicator.shape[1]} columns, but there are {len(found)} classes; "
                "give one column per class."
            )
    if len(indicator) == 0:
        raise DataError(f"{name} has 0 rows; at least one is needed.")
    if classes is None:
        _check_two_classes(indicator, found, name)
        warn_about_typos(indicator, found, name)
    return indicator, found


def holds_plain_labels(values: Any) -> bool:
    """Tell plain labels, one per row, from sets of labels and matrices."""
    if values is None or sparse.issparse(values) or _as_matrix(values) is not None:
        return False
    return not any(isinstance(row, _COLLECTIONS) for row in values)


def _check_two_classes(indicator: BoolArray, classes: NDArray[Any], name: str) -> None:
    seen = classes[indicator.any(axis=0)]
    if len(seen) == 0:
        raise DataError(f"{name} holds no label in any row; every row is empty.")
    if len(seen) == 1:
        raise DataError(
            f"{name} holds only one class ({seen[0]!s}); a classifier needs two or more."
        )


def _distinct_classes(classes: Any) -> NDArray[Any]:
    """Return the classes as an array after refusing a label that is listed twice."""
    known = np.asarray(classes)
    if known.ndim != 1 or len(np.unique(known)) != len(known):
        raise DataError("classes must be a row of distinct labels.")
    return known


def _column_order(classes: NDArray[Any], named: NDArray[Any], name: str) -> IntArray:
    """Return the column of a data frame that stands for each class."""
    columns, expected = named.tolist(), classes.tolist()
    position = {label: number for number, label in enumerate(columns)}
    if position.keys() == set(expected):
        return np.array([position[label] for label in expected])
    if columns == list(range(len(expected))):
        return np.arange(len(expected))
    strange = [label for label in columns if label not in expected]
    if strange:
        raise UnknownTargetError(
            f"{name} has a column {strange[0]!r}, which is not one of the {len(expected)} classes."
        )
    missing = next(label for label in expected if label not in position)
    raise UnknownTargetError(f"{name} has no column for the class {missing!r}; give one per class.")


def _as_matrix(values: Any) -> NDArray[Any] | None:
    """Return array-likes of two dimensions as an array, anything else as None."""
    if isinstance(values, (list, tuple)) or not hasattr(values, "__array__"):
        return None
    array = np.asarray(values)
    return array if array.ndim == 2 else None


def _warn_about_column() -> None:
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected; it is read as plain labels.",
        DataConversionWarning,
        stacklevel=4,
    )


def _from_matrix(table: Any, name: str) -> BoolArray:
    """Return a 0/1 matrix as booleans, refusing any other value by its row."""
    dense = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
    try:
        wrong = (dense != 0) & (dense != 1)
    except TypeError:
        wrong = np.ones(dense.shape, dtype=bool)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"{name} is a matrix, so it may hold only 0 and 1; row {row} holds "
            f"{dense[row, column]!s}. Give labels as a list of sets instead."
        )
    return np.asarray(dense, dtype=bool)


def _from_rows(rows: Any, name: str, known: NDArray[Any] | None) -> tuple[BoolArray, NDArray[Any]]:
    """Read a sequence whose entries are labels or collections of labels."""
    is_sequence = isinstance(rows, (Sequence, np.ndarray)) or hasattr(rows, "__array__")
    if isinstance(rows, str) or not is_sequence:
        raise DataError(
            f"{name} must be a 0/1 matrix or a sequence of labels or of sets of labels; "
            f"got {type(rows).__name__}."
        )
    array = rows if isinstance(rows, (list, tuple)) else np.asarray(rows)
    if isinstance(array, np.ndarray) and array.ndim != 1:
        raise DataError(f"{name} must have one or two dimensions; got shape {array.shape}.")
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufU":
        sizes = np.ones(len(array), dtype=np.int64)
        flat: list[Any] | NDArray[Any] = array
    else:
        members = [tuple(row) if isinstance(row, _COLLECTIONS) else (row,) for row in array]
        sizes = np.array([len(row) for row in members], dtype=np.int64)
        flat = [label for row in members for label in row]
    row_of_label = np.repeat(np.arange(len(sizes)), sizes)
    labels = _label_array(flat, row_of_label, name)
    if known is None:
        known, columns = np.unique(labels, return_inverse=True)
    else:
        columns = _columns_of(labels, known, row_of_label, name)
    indicator = np.zeros((len(sizes), len(known)), dtype=bool)
    indicator[row_of_label, columns] = True
    twice = np.flatnonzero(indicator.sum(axis=1) != sizes)
    if len(twice):
        raise DataError(
            f"{name} lists a label twice in row {twice[0]}; list each label once, or give a 0/1 "
            "matrix as an array."
        )
    return indicator, known


def _label_array(
    labels: list[Any] | NDArray[Any], row_of_label: IntArray, name: str
) -> NDArray[Any]:
    """Return labels as an array of one kind: strings, or numbers that are whole."""
    if isinstance(labels, list):
        are_strings = [isinstance(label, str) for label in labels]
        if any(are_strings) and not all(are_strings):
            first = are_strings.index(False)
            if str(labels[first]) in ("nan", "None", "<NA>", "NaT"):
                raise DataError(f"{name} has no label in row {row_of_label[first]}; drop this row.")
            raise DataError(f"{name} mixes strings and others; use strings or numbers only.")
    try:
        array = np.asarray(labels)
        if array.dtype.kind == "U":
            return array
        numeric = array if array.dtype.kind in "biufmM" else array.astype(np.float64)
        (_,) = (numeric + 0.0).shape  # dates are no numbers
    except (TypeError, ValueError):
        raise DataError(f"{name} must hold strings or whole numbers as labels.") from None
    if numeric.dtype.kind == "f":
        missing = np.flatnonzero(~np.isfinite(numeric))
        if len(missing):
            raise DataError(
                f"{name} holds NaN or an infinite value in row {row_of_label[missing[0]]}; "
                "drop this row."
            )
        if (numeric != np.floor(numeric)).any():
            raise DataError(
                f"{name} holds continuous values; labels must be strings or whole numbers."
            )
    return numeric


def _columns_of(
    labels: NDArray[Any], known: NDArray[Any], row_of_label: IntArray, name: str
) -> IntArray:
    """Return the column of each label, refusing one that is not among the classes."""
    same_kind = (labels.dtype.kind == "U") == (known.dtype.kind == "U")
    order = np.argsort(known)
    if same_kind:
        position = np.minimum(np.searchsorted(known[order], labels), len(known) - 1)
        columns = order[position]
        unknown = np.flatnonzero(known[columns] != labels)
    else:
        columns, unknown = np.zeros(len(labels), dtype=np.int64), np.arange(len(labels))
    if len(unknown):
        raise UnknownTargetError(
            f"{name} holds {labels[unknown[0]].item()!r} in row {row_of_label[unknown[0]]}, which "
            f"is not one of the {len(known)} classes."
        )
    return columns


def read_candidate_sets(candidates: Any, classes: Any = None) -> tuple[BoolArray, NDArray[Any]]:
    """Read the candidate labels of each row.

    As :func:`read_label_sets` reads sets of labels, and at least one per row; a row may also be a
    mapping from label to weight. Raises EmptyGroupError if a row has no candidate.

    >>> indicator, classes = read_candidate_sets([{"ann", "bob"}, {"bob"}])
    >>> classes.tolist(), indicator.tolist()
    (['ann', 'bob'], [[True, True], [False, True]])
    """
    if _holds_mappings(candidates):
        candidates = [[label for label, weight in row.items() if weight] for row in candidates]
    elif classes is None:
        _check_not_joined(candidates)
    indicator, found = read_label_sets(candidates, name="candidates", classes=classes)
    empty = np.flatnonzero(~indicator.any(axis=1))
    if len(empty):
        raise EmptyGroupError(
            f"{len(empty)} of {len(indicator)} rows have no candidate label, the first is row "
            f"{empty[0]}; give each row at least one, or drop it."
        )
    return indicator, found


def read_candidate_weights(
    candidates: Any, indicator: BoolArray, classes: NDArray[Any]
) -> FloatArray | None:
    """Return the weights of candidates that are given as mappings such as `{"a": 0.7, "b": 0.3}`.

    Of shape (n_rows, n_classes): zero where a label is no candidate; None where candidates have no
    weights. `candidates`: what `read_candidate_sets` read.
    """
    if not _holds_mappings(candidates):
        return None
    column = {label: number for number, label in enumerate(classes.tolist())}
    weights = np.zeros(indicator.shape)
    for row, weighted in enumerate(candidates):
        for label, weight in weighted.items():
            is_number = isinstance(weight, (int, float, np.number)) and np.isfinite(weight)
            if not is_number or weight < 0:
                raise DataError(
                    f"row {row} of the candidates gives {label!r} the weight {weight!r}; weights "
                    "are numbers of zero or more."
                )
            if weight:
                weights[row, column[label]] = weight
    return weights


def _holds_mappings(values: Any) -> bool:
    """Tell rows that map labels to weights from sets of labels; all of them must."""
    is_list = isinstance(values, (list, tuple)) or (
        isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
    )
    if not is_list or not len(values):
        return False
    n_mappings = sum(isinstance(row, Mapping) for row in values)
    if 0 < n_mappings < len(values):
        raise DataError(
            f"{n_mappings} of {len(values)} rows map candidates to weights and the others do "
            "not; give all of them weights, or none."
        )
    return n_mappings > 0


def _check_not_joined(values: Any) -> None:
    """Refuse texts such as "ann, bob" that would become one class instead of two candidates."""
    is_list = isinstance(values, (list, tuple)) or hasattr(values, "dtype")
    if not is_list or not holds_plain_labels(values):
        return
    texts = {label for label in values if isinstance(label, str)}
    for separator in LABEL_SEPARATORS:
        joined = min((text for text in texts if separator in text), default=None)
        parts = {part.strip() for text in texts for part in text.split(separator)}
        # Sets of candidates share their labels; names such as "Paris, France" hold new ones.
        if joined is not None and len(parts) <= len(texts):
            raise DataError(
                f"{joined!r} looks like several candidates in one text; give each row a set of "
                f"labels, as in [{{each.strip() for each in text.split({separator!r})}} for text "
                "in y], or the text in a set of its own if it is one label."
            )


def correct_predictions(predicted: NDArray[Any], y: Any, classes: NDArray[Any]) -> BoolArray:
    """Tell which rows were answered with their true label, or with one of their candidates.

    `predicted`: labels a model answered with. `y`: true labels, or candidates in any form that
    `read_candidate_sets` takes. A true label the model never saw is answered wrong: a part of a
    cross-validation may lack it. `classes`: the labels the model knows.

    >>> classes = np.array(["ann", "bob"])
    >>> correct_predictions(classes, ["ann", "cleo"], classes).tolist()
    [True, False]
    """
    if holds_plain_labels(y):
        truth = np.asarray(y)
        check_equal_rows(predicted, truth)
        return np.asarray(predicted == truth, dtype=bool)
    candidates, _ = read_candidate_sets(y, classes)
    check_equal_rows(predicted, candidates)
    answers, _ = read_candidate_sets(predicted, classes)
    return np.asarray((candidates & answers).any(axis=1))


def check_equal_rows(rows: Any, indicator: NDArray[Any]) -> None:
    """Raise if candidates were given for another number of rows than there are."""
    if len(rows) != len(indicator):
        raise DataError(
            f"X has {len(rows)} rows, but candidates were given for {len(indicator)}; "
            "found input variables with inconsistent numbers of samples."
        )


def truth_columns(truth: Any, classes: NDArray[Any], n_objects: int, *, of: str) -> IntArray:
    """Return the column of each true label, -1 if unknown: None, NaN or an empty text.

    `of`: "rows" or "instances", for errors.
    """
    labels: Sequence[Any] = truth.tolist() if hasattr(truth, "tolist") else list(truth)
    if len(labels) != n_objects:
        raise DataError(
            f"truth has length {len(labels)} for {n_objects} {of}; give one label for each, None "
            "where it is not known."
        )
    column = {label: number for number, label in enumerate(classes.tolist())}
    found = np.full(n_objects, UNKNOWN, dtype=np.int64)
    for number, label in enumerate(labels):
        if label in column:
            found[number] = column[label]
        elif not _is_missing(label):
            known = ", ".join(map(repr, list(column)[:5])) + (", ..." if len(column) > 5 else "")
            raise DataError(
                f"truth says {label!r} of number {number} of the {of}, which is none of the labels "
                f"({known}); correct it, or say None where it is not known."
            )
    return found


def _is_missing(label: Any) -> bool:
    return label is None or str(label) in ("", "nan", "<NA>", "NaT")


def replace_by_truth(
    candidates: BoolArray, weights: ArrayLike | None, truth: IntArray
) -> tuple[BoolArray, ArrayLike | None]:
    """Replace the candidates of rows with known truth, which need not be among them, by the truth.

    Returns copies of candidates and weights. `truth`: column of the true label, -1 if unknown.
    """
    known = truth >= 0
    own = truth[known, None] == np.arange(candidates.shape[1])
    candidates = candidates.copy()
    candidates[known] = own
    if weights is not None:
        trusted = np.array(weights, dtype=np.float64)
        if trusted.shape == candidates.shape:  # another shape is refused where weights are read
            trusted[known] = own
        weights = trusted
    return candidates, weights

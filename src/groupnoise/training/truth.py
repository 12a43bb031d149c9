"""True labels of some objects beside the partial labels of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.exceptions import DataError

UNKNOWN = -1
"""The column of a label that nobody knows."""


def truth_columns(truth: Any, classes: NDArray[Any], n_objects: int, *, of: str) -> IntArray:
    """Return the column of each true label, -1 where it is not known.

    `truth`: True labels; None, NaN or empty text says that one is not known. `classes`: the labels
    that partial labels name. `n_objects`: how many there must be. `of`: what has labels, for
    errors: "rows" or "instances".
    """
    labels: Sequence[Any] = truth.tolist() if hasattr(truth, "tolist") else list(truth)
    if len(labels) != n_objects:
        raise DataError(
            f"truth holds {len(labels)} labels for {n_objects} {of}; give one for each, None where "
            "it is not known."
        )
    column = {label: number for number, label in enumerate(classes.tolist())}
    found = np.full(n_objects, UNKNOWN, dtype=np.int64)
    for number, label in enumerate(labels):
        if label in column:
            found[number] = column[label]
        elif not _is_gap(label):
            known = ", ".join(map(repr, list(column)[:5])) + (", ..." if len(column) > 5 else "")
            raise DataError(
                f"truth says {label!r} of number {number} of the {of}, which is none of the labels "
                f"({known}); correct it, or say None where it is not known."
            )
    return found


def _is_gap(label: Any) -> bool:
    return label is None or label == "" or (isinstance(label, float) and label != label)


def known_candidates(
    candidates: BoolArray, weights: ArrayLike | None, truth: IntArray
) -> tuple[BoolArray, ArrayLike | None]:
    """Return candidates and their weights with the true label alone where it is known.

    Returns `candidates` (n_rows, n_classes): a copy; `weights` (n_rows, n_classes): a copy.
    `candidates` (n_rows, n_classes): the candidate labels; a true label need not be among those of
    its row. `weights` (n_rows, n_classes): trust in each candidate. `truth`: the column of the true
    label, -1 where it is not known.
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

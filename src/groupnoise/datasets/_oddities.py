"""One sentence for each thing about a data set that is worth a look before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_NAMED = 8
"""A sentence names this many features or classes at most."""


def count_oddity(
    is_odd: NDArray[np.bool_], noun: str, remark: str, names: Sequence[str] | None = None
) -> list[str]:
    """Return one sentence on how many entries are odd, and which; none if there are none.

    Examples
    --------
    >>> count_oddity(np.array([True, False, True]), "class", "without a bag", ["a", "b", "c"])
    ['2 classes without a bag: a, c']
    """
    n_odd = int(is_odd.sum())
    if n_odd == 0:
        return []
    sentence = f"{_counted(n_odd, noun)} {remark}"
    if names is None:
        return [sentence]
    odd = [name for name, odd in zip(names, is_odd, strict=True) if odd]
    more = f" and {n_odd - MOST_NAMED} more" if n_odd > MOST_NAMED else ""
    return [f"{sentence}: {', '.join(odd[:MOST_NAMED])}{more}"]


def is_duplicate_row(features: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that repeat an earlier one exactly."""
    rows = np.ascontiguousarray(features)
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first = np.unique(as_bytes, return_index=True)
    repeated = np.ones(len(rows), dtype=bool)
    repeated[first] = False
    return repeated


def is_constant_feature(features: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the columns that hold one value only."""
    constant: NDArray[np.bool_] = features.min(axis=0) == features.max(axis=0)
    return constant


def scale_oddity(features: NDArray[Any]) -> list[str]:
    """Remark on features of very different spread, which distances and step sizes suffer from."""
    spread = features.std(axis=0, dtype=np.float64)
    spread = spread[spread > 0]
    if len(spread) and spread.max() > 100 * spread.min():
        return ["the features differ more than a hundredfold in spread; scale them"]
    return []


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"

"""Seeded random splits of plain rows: the 8:1:1 of the paper's bags and candidate labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groupnoise._checks import check_count
from groupnoise._random import RandomState, generator_from
from groupnoise._typing import IntArray
from groupnoise.exceptions import DataError, ParameterError


def split_rows(
    n_rows: int,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    random_state: RandomState = None,
) -> tuple[IntArray, ...]:
    """Cut row numbers at random into disjoint parts that together hold every row.

    Parameters
    ----------
    n_rows : int
        How many rows there are.
    fractions : sequence of float, default (0.8, 0.1, 0.1)
        The share of each part; they must sum to 1.
    random_state : int, numpy generator or None
        Decides the order.

    Returns
    -------
    tuple of int64 ndarray
        Sorted row numbers, one array per fraction. Every part is as near to its share as
        whole rows allow.

    Examples
    --------
    >>> train, validation, test = split_rows(20, random_state=0)
    >>> len(train), len(validation), len(test)
    (16, 2, 2)
    """
    check_count("n_rows", n_rows)
    shares = np.asarray(fractions, dtype=float)
    if shares.ndim != 1 or (shares <= 0).any() or not np.isclose(shares.sum(), 1):
        raise ParameterError(f"fractions must be positive and sum to 1; got {tuple(fractions)!r}.")
    # Rounding the running total keeps every part within one row of its share.
    cuts = np.rint(np.cumsum(shares)[:-1] * n_rows).astype(np.int64)
    order = generator_from(random_state).permutation(n_rows).astype(np.int64)
    parts = np.split(order, cuts)
    if any(len(part) == 0 for part in parts):
        raise DataError(
            f"{n_rows} rows are too few for the fractions {tuple(fractions)!r}: a part stays empty."
        )
    return tuple(np.sort(part) for part in parts)

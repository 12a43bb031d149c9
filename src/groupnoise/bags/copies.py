"""Bags that are there more than once: what was learned of one tells its copies by heart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, IntArray, release_pages
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted

BLOCK_VALUES = 1 << 20


def kept_together(patients: NDArray[Any] | None, copies: IntArray | None) -> NDArray[Any] | None:
    """Return whom each bag is held out with: the bags of its patient, and copies of any of them.

    `patients`: whom each bag comes from; None where each comes from another. `copies`: as
    :func:`copies_of_bags` returns it.
    """
    if copies is None or patients is None:
        return patients if copies is None else copies
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_bags = len(copies)
    codes = np.unique(patients, return_inverse=True)[1]
    edges = (np.ones(n_bags), (n_bags + codes, copies))
    _, parts = connected_components(coo_array(edges, shape=(2 * n_bags, 2 * n_bags)))
    return np.asarray(parts[copies])


def copies_of_bags(bags: Groups) -> IntArray | None:
    """Return the first bag of the same instances for each bag, in whatever order these stand.

    None where no bag has a copy. Bags are copies of each other if one of their instances at least
    stands in no other bag: where features are few words or categories, bags are alike by chance.
    """
    rows = _hashes_of_rows(bags.objects)
    sums = np.add.reduceat(rows, bags.offsets[:-1])
    _, first, code = np.unique(sums, return_index=True, return_inverse=True)
    if len(first) == len(bags):
        return None
    found = first[code]
    owner = found[bags.group_of_object]
    _, place = np.unique(rows, return_inverse=True)
    least, most = np.full(len(rows), len(bags)), np.zeros(len(rows), dtype=np.int64)
    np.minimum.at(least, place, owner)
    np.maximum.at(most, place, owner)
    is_own = np.logical_or.reduceat((least == most)[place], bags.offsets[:-1])
    found = np.where(is_own, found, np.arange(len(bags)))
    return found if (found != np.arange(len(bags))).any() else None


def about_copies(copies: IntArray, labels: BoolArray) -> str:
    """Say how many bags repeat an earlier one.

    `copies`: as :func:`copies_of_bags` returns it. `labels` (n_bags, n_classes): of the bags.
    """
    n_repeats = int((copies != np.arange(len(copies))).sum())
    said = f"{counted(n_repeats, 'bags')} with the instances of an earlier bag"
    differ = int((labels != labels[copies]).any(axis=1).sum())
    return f"{said}, {differ} of them under another label" if differ else said


def _hashes_of_rows(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number per row that two different rows hardly ever share."""
    wide = rows.reshape(len(rows), -1)
    generator = np.random.default_rng(0)
    factors = generator.integers(0, 2**63, wide.shape[1], dtype=np.uint64) * 2 + 1
    found = np.empty(len(wide), dtype=np.uint64)
    step = max(1, BLOCK_VALUES // max(1, wide.shape[1]))
    for begin in range(0, len(wide), step):
        # Zero has two signs.
        words = (wide[begin : begin + step].astype(np.float64) + 0.0).view(np.uint64)
        mixed = ((words ^ (words >> 32)) * factors).sum(axis=1)
        mixed ^= mixed >> 29
        mixed *= factors[0]
        found[begin : begin + step] = mixed ^ (mixed >> 32)
        release_pages(rows)
    return found

"""Bags that share instances, which must be held out together to avoid leaks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, IntArray, row_hashes
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted

MAX_ROWS = 4_000_000
"""Maximum instances of the search for partial overlaps."""
MAX_HOLDERS = 10
"""Maximum bags with an instance that counts as overlap; others are common by chance."""
MIN_SHARED = 2
"""Minimum shared instances of overlapping bags, besides half of the smaller bag."""


class SharedInstances(NamedTuple):
    """Bags that share instances with others.

    `copies`: for each bag the first bag with the same instances, in any order.
    `clusters`: bags that are held out together.
    `n_overlapping`: bags with half of the instances of another, apart from copies and bags of one
        patient.
    `forms_one_cluster`: whether overlaps connect most bags, so that they are held out apart anyway.
    """

    copies: IntArray
    clusters: IntArray
    n_overlapping: int
    forms_one_cluster: bool

    @property
    def n_copies(self) -> int:
        """How many bags have the instances of an earlier bag."""
        return int((self.copies != np.arange(len(self.copies))).sum())

    def findings(self, labels: BoolArray) -> list[str]:
        """Say how many bags share instances. `labels` (n_bags, n_classes): of the bags."""
        found = []
        if self.n_copies:
            differ = int((labels != labels[self.copies]).any(axis=1).sum())
            under = f", {differ} of them under another label" if differ else ""
            found.append(f"{counted(self.n_copies, 'bags')} with the instances of an earlier bag")
            found[-1] += under
        if self.n_overlapping:
            found.append(
                f"{counted(self.n_overlapping, 'bags')} with half of the instances of another bag, "
                "or more"
            )
        return found

    def reason(self, labels: BoolArray) -> str:
        """Say what was found and done. `labels` (n_bags, n_classes): of the bags."""
        done = "they are held out together"
        if self.forms_one_cluster:
            done = "too many hang together to be held out so"
        return f"{'; '.join(self.findings(labels))}: {done}."


OVERLAP_WARNING = (
    "most bags overlap in a row, so that held-out bags share instances with bags that were trained "
    "on: what they reach is too good; cut bags without overlap, or say whom they come from "
    "(patients=, --patient)."
)


def find_shared_instances(
    bags: Groups, patients: NDArray[Any] | None = None
) -> SharedInstances | None:
    """Find bags that share instances; None if there are none.

    `patients`: bags of one patient are held out together too.
    """
    rows, numbers = row_hashes(bags.objects), np.arange(len(bags))
    owner = bags.group_of_object
    copies = _copies(rows, bags.offsets, owner)
    links, same = _overlaps(rows, owner, copies), [copies]
    if patients is not None:
        same.append(np.unique(patients, return_inverse=True)[1])
        links = links[same[1][links[:, 0]] != same[1][links[:, 1]]]
    if not len(links) and (copies == numbers).all():
        return None
    largest = int(np.bincount(_clusters([copies], links)).max())
    forms_one_cluster = len(links) > 0 and 2 * largest > len(bags)
    clusters = _clusters(same, links[:0] if forms_one_cluster else links)
    return SharedInstances(copies, clusters, len(np.unique(links)), forms_one_cluster)


def hold_out_clusters(bags: Groups, patients: NDArray[Any] | None = None) -> NDArray[Any] | None:
    """Return the hold-out cluster of each bag, None if instances and patients give none."""
    shared = find_shared_instances(bags, patients)
    return patients if shared is None else shared.clusters


def _copies(rows: NDArray[np.uint64], offsets: IntArray, owner: IntArray) -> IntArray:
    """Return the first bag of the same instances for each bag.

    One of these instances at least stands in no other bag: where features are few words or
    categories, bags are alike by chance.

    `rows`: a number per instance. `offsets`: where each bag begins. `owner`: the bag of each
    instance.
    """
    numbers = np.arange(len(offsets) - 1)
    _, first, code = np.unique(
        np.add.reduceat(rows, offsets[:-1]), return_index=True, return_inverse=True
    )
    if len(first) == len(numbers):
        return numbers
    found = first[code]
    _, place = np.unique(rows, return_inverse=True)
    least, most = np.full(len(rows), len(numbers)), np.zeros(len(rows), dtype=np.int64)
    np.minimum.at(least, place, found[owner])
    np.maximum.at(most, place, found[owner])
    is_own = np.logical_or.reduceat((least == most)[place], offsets[:-1])
    return np.where(is_own, found, numbers)


def _overlaps(rows: NDArray[np.uint64], owner: IntArray, copies: IntArray) -> IntArray:
    """Return pairs of bags that hold half of the instances of one of them both, (n_pairs, 2).

    One of several copies stands for all. `rows`, `owner`: as in :func:`_copies`. `copies`: what
    that returned.
    """
    from scipy.sparse import coo_array, triu

    if len(rows) > MAX_ROWS:
        return np.zeros((0, 2), dtype=np.int64)
    first = (copies == np.arange(len(copies)))[owner]
    _, place = np.unique(rows[first], return_inverse=True)
    held = np.unique(np.c_[owner[first], place], axis=0)
    sizes = np.bincount(held[:, 0], minlength=len(copies))
    holders = np.bincount(held[:, 1])[held[:, 1]]
    held = held[(holders > 1) & (holders <= MAX_HOLDERS)]
    shape = (len(copies), int(place.max()) + 1)
    holds = coo_array((np.ones(len(held)), (held[:, 0], held[:, 1])), shape=shape).tocsr()
    both = triu(holds @ holds.T, k=1).tocoo()
    smaller = np.minimum(sizes[both.row], sizes[both.col])
    far = (both.data >= MIN_SHARED) & (2 * both.data >= smaller)
    return np.c_[both.row[far], both.col[far]].astype(np.int64)


def _clusters(same: list[IntArray], links: IntArray) -> IntArray:
    """Return the number of the cluster of each bag.

    `same`: numbers, of which bags of one stay together. `links` (n_links, 2): bags that do, too.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_bags = len(same[0])
    left, right = [links[:, 0]], [links[:, 1]]
    for number, codes in enumerate(same, start=1):
        left.append(np.arange(n_bags))
        right.append(number * n_bags + codes)
    ends = np.concatenate(left), np.concatenate(right)
    n_nodes = (len(same) + 1) * n_bags
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(n_nodes, n_nodes))
    parts: IntArray = connected_components(graph, directed=False)[1]
    return np.unique(parts[:n_bags], return_inverse=True)[1]

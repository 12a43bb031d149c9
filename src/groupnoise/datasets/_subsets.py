"""Some of the bags, rows or users of a data set, with everything that belongs to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise._typing import IntArray
from groupnoise.datasets._containers import BagDataset, PartialLabelDataset
from groupnoise.groups import Groups, ragged_rows


def subset_bags(dataset: BagDataset, rows: ArrayLike) -> BagDataset:
    """Return the bags at `rows` (indices or a boolean mask), truth and pictures included.

    Examples
    --------
    >>> from groupnoise.datasets import load_digit_bags
    >>> bags = load_digit_bags(10, random_state=0)
    >>> len(subset_bags(bags, [3, 1]).bags)
    2
    """
    picked = _picked(len(dataset.bags), rows)
    objects = ragged_rows(dataset.bags.offsets[picked], dataset.bags.sizes[picked])
    return replace(
        dataset,
        bags=dataset.bags.subset(picked),
        labels=dataset.labels[picked],
        instance_labels=_taken(dataset.instance_labels, objects),
        images=_taken(dataset.images, objects),
    )


def subset_rows(dataset: PartialLabelDataset, rows: ArrayLike) -> PartialLabelDataset:
    """Return the rows at `rows` (indices or a boolean mask), truth and pictures included.

    Examples
    --------
    >>> from groupnoise.datasets import load_digit_candidates
    >>> digits = load_digit_candidates(random_state=0)
    >>> subset_rows(digits, range(5)).features.shape
    (5, 64)
    """
    picked = _picked(len(dataset.features), rows)
    return replace(
        dataset,
        features=dataset.features[picked],
        candidates=dataset.candidates[picked],
        truth=_taken(dataset.truth, picked),
        images=_taken(dataset.images, picked),
    )


def keep_objects(dataset: BagDataset, kept: NDArray[np.bool_]) -> BagDataset:
    """Return the bags with only the objects where `kept` is True; no bag may become empty."""
    sizes = np.add.reduceat(kept, dataset.bags.offsets[:-1], dtype=np.int64)
    rows = np.flatnonzero(kept)
    return replace(
        dataset,
        bags=Groups(dataset.bags.objects[rows], np.concatenate([[0], np.cumsum(sizes)])),
        instance_labels=_taken(dataset.instance_labels, rows),
        images=_taken(dataset.images, rows),
    )


def _picked(n_rows: int, rows: ArrayLike) -> IntArray:
    """Return the indices of the rows asked for."""
    # An empty list would become an array of floats, which cannot index.
    wanted = np.asarray(rows, dtype=None if np.size(rows) else np.int64)
    picked: IntArray = np.arange(n_rows)[wanted]
    return picked


def _taken(values: NDArray[Any] | None, rows: IntArray) -> Any:
    return None if values is None else values[rows]

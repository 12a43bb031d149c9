"""Some of the bags, rows or columns of a data set, with everything that belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise._typing import IntArray
from groupnoise.datasets._containers import BagDataset, PartialLabelDataset
from groupnoise.exceptions import DataError
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
        bag_ids=_taken(dataset.bag_ids, picked),
        source_rows=_taken(dataset.source_rows, objects),
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
        source_rows=_taken(dataset.source_rows, rows),
    )


def select_features(dataset: Any, names: Sequence[str]) -> Any:
    """Return bags or rows with only the features of these names, in this order.

    Parameters
    ----------
    dataset : BagDataset or PartialLabelDataset
        Returned as it is if its features have no names.
    names : sequence of str
        The features a model learned from; a missing one is refused.

    Examples
    --------
    >>> rows = PartialLabelDataset(
    ...     "rows", np.array([[1.0, 2.0]]), np.ones((1, 1), bool), ["a"], feature_names=("x", "y")
    ... )
    >>> select_features(rows, ["y", "x"]).features.tolist()
    [[2.0, 1.0]]
    """
    own = dataset.feature_names
    if own is None or tuple(own) == tuple(names):
        return dataset
    refuse_missing_features(dataset.name, names, own)
    columns = [own.index(name) for name in names]
    named = replace(dataset, feature_names=tuple(names))
    if isinstance(named, PartialLabelDataset):
        return replace(named, features=named.features[:, columns])
    return replace(named, bags=Groups(named.bags.objects[:, columns], named.bags.offsets))


def refuse_missing_features(origin: str, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Refuse data without some of the features that a model learned from."""
    missing = [repr(name) for name in wanted if name not in there]
    if missing:
        shown = ", ".join(missing[:12])
        more = "" if len(missing) <= 12 else f" and {len(missing) - 12} more"
        raise DataError(
            f"{origin} lacks {len(missing)} of the {len(wanted)} columns that the model learned "
            f"from: {shown}{more}."
        )


def _picked(n_rows: int, rows: ArrayLike) -> IntArray:
    """Return the indices of the rows asked for."""
    # An empty list would become an array of floats, which cannot index.
    wanted = np.asarray(rows, dtype=None if np.size(rows) else np.int64)
    picked: IntArray = np.arange(n_rows)[wanted]
    return picked


def _taken(values: NDArray[Any] | None, rows: IntArray) -> Any:
    return None if values is None else values[rows]

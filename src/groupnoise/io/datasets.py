"""Data sets of each setting, and subsets of their rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    RandomState,
    generator_from,
    offsets_from_sizes,
    ragged_rows,
)
from groupnoise.core.checks import check_count
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.columns.names import plain_name

FEATURE_SEPARATOR = ": "
"""Separates a text column and a word in the name of a feature."""

BAG_FIELDS = ("labels", "bag_ids", "patients", "split")
INSTANCE_FIELDS = ("instance_labels", "images", "source_rows", "coordinates")
ROW_FIELDS = ("features", "candidates", "truth", "images", "weights", "source_rows")
"""Attributes with an entry per bag, per instance, and per row."""


@dataclass(frozen=True)
class BagDataset:
    """Bags of instances under bag labels (multiple-instance learning).

    Attributes
    ----------
    name : str
        What to call the set in tables.
    bags : Groups
        One group per bag, objects are feature rows, no targets.
    labels : bool ndarray of shape (n_bags, n_classes)
        Which classes each bag is labelled with; one True per row unless bags are multi-label.
    class_names : list of str
        One name per class.
    instance_labels : int64 ndarray of shape (n_objects,), optional
        True class of each instance, -1 where it is background or unknown.
    images : ndarray of shape (n_objects, height, width), optional
        A picture of each instance, for reports.
    feature_names : tuple of str, optional
        What the source calls the columns of the features.
    bag_ids : ndarray of shape (n_bags,), optional
        What the source calls each bag: whole numbers or text.
    source_rows : int64 ndarray of shape (n_objects,), optional
        The row of the source, from 0, that each instance was read from.
    columns : dict, optional
        Which columns of the source play which part: a name, or a list of names, by part.
    coordinates : float64 ndarray of shape (n_objects, n_coordinates), optional
        Where each instance lies in what it was cut from: a picture, a recording, a text.
    coordinate_names : tuple of str, optional
        What the coordinates are called: ("x", "y"), or ("begin", "end") of a stretch.
    patients : ndarray of shape (n_bags,), optional
        Whom each bag comes from; no hold-out has bags of one patient on both sides.
    split : ndarray of shape (n_bags,), optional
        "train", "validation" or "test", where the source says what to hold out.
    """

    setting: ClassVar[str] = "mil"
    name: str
    bags: Groups
    labels: BoolArray
    class_names: list[str]
    instance_labels: IntArray | None = None
    images: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    bag_ids: NDArray[Any] | None = None
    source_rows: IntArray | None = None
    columns: dict[str, Any] | None = None
    coordinates: FloatArray | None = None
    coordinate_names: tuple[str, ...] | None = None
    patients: NDArray[Any] | None = None
    split: NDArray[Any] | None = None

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of the bags, or their numbers where they have none."""
        return np.arange(len(self.bags)) if self.bag_ids is None else self.bag_ids


@dataclass(frozen=True)
class PartialLabelDataset:
    """Instances with candidate labels, one of them right (partial-label learning).

    Attributes
    ----------
    name : str
        What to call the set in tables.
    features : float ndarray of shape (n_rows, n_features)
        One row per instance, unscaled.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Candidate labels of each row; never empty, except in rows that are only to be predicted.
    class_names : list of str
        One name per class.
    truth : int64 ndarray of shape (n_rows,), optional
        The right label, -1 where unknown.
    images : ndarray of shape (n_rows, height, width), optional
        A picture of each row, for reports.
    feature_names : tuple of str, optional
        What the source calls the columns of the features.
    weights : float ndarray of shape (n_rows, n_classes), optional
        How likely the source says each candidate is; 0 where a label is none.
    source_rows : int64 ndarray of shape (n_rows,), optional
        The row of the source, from 0, that each row was read from.
    columns : dict, optional
        Which columns of the source play which part: a name, or a list of names, by part.
    """

    setting: ClassVar[str] = "pll"
    name: str
    features: FloatArray
    candidates: BoolArray
    class_names: list[str]
    truth: IntArray | None = None
    images: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    weights: FloatArray | None = None
    source_rows: IntArray | None = None
    columns: dict[str, Any] | None = None


@dataclass(frozen=True)
class ClickDataset:
    """Click histories, one per user, in time order (recommendation).

    Attributes
    ----------
    name : str
        What to call the set in tables.
    histories : Groups
        One group per user; objects are item indices into `item_ids`; no targets.
    item_ids : ndarray of shape (n_items,)
        The id each item index stands for, as it was in the source.
    user_ids : ndarray of shape (n_users,)
        The id of each user.
    titles, categories : list of str, optional
        One per item.
    is_stray : bool ndarray of shape (n_clicks,), optional
        True where a click is known to be noise (simulated data).
    notes : dict
        Counts worth reporting: rows read, users dropped and why.
    source_rows : int64 ndarray of shape (n_clicks,), optional
        The row of the source, from 0, that each click was read from.
    columns : dict, optional
        Which columns of the source play which part: a name, or a list of names, by part.
    timestamps : ndarray of shape (n_clicks,), optional
        When each click of `histories` happened: numbers as in the source, dates as seconds.
    """

    setting: ClassVar[str] = "rs"
    name: str
    histories: Groups
    item_ids: NDArray[Any]
    user_ids: NDArray[Any]
    titles: list[str] | None = None
    categories: list[str] | None = None
    is_stray: BoolArray | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    source_rows: IntArray | None = None
    columns: dict[str, Any] | None = None
    timestamps: NDArray[Any] | None = None

    @property
    def n_items(self) -> int:
        """The size of the catalogue."""
        return len(self.item_ids)


@dataclass(frozen=True)
class Windows:
    """Groups of clicks tied to the next click, with the user each came from.

    `groups`: objects are clicked items, targets the next item.
    `users`: row of `ClickDataset.histories` each window was cut from.
    `positions`: where in that history the target stands.
    """

    groups: Groups
    users: IntArray
    positions: IntArray


@dataclass(frozen=True)
class WindowSplit:
    """Training, validation and test windows of one click log."""

    train: Windows
    validation: Windows
    test: Windows
    notes: dict[str, Any] = field(default_factory=dict)


def single_label(labels: BoolArray) -> IntArray:
    """Return the class of each single-label bag, shape (n_bags,).

    Parameters
    ----------
    labels : bool ndarray of shape (n_bags, n_classes)
        One label per bag.

    Returns
    -------
    int64 ndarray of shape (n_bags,)
        The column of each bag's label, the first where it has several.
    """
    return np.argmax(labels, axis=1).astype(np.int64)


def subset_bags(dataset: BagDataset, rows: ArrayLike) -> BagDataset:
    """Return the bags at `rows` (indices or a boolean mask), truth and pictures included.

    >>> from groupnoise.bags import load_digit_bags
    >>> bags = load_digit_bags(10, random_state=0)
    >>> len(subset_bags(bags, [3, 1]).bags)
    2
    """
    picked = _row_numbers(len(dataset.bags), rows)
    objects = ragged_rows(dataset.bags.offsets[picked], dataset.bags.sizes[picked])
    return replace(
        dataset,
        bags=dataset.bags.subset(picked),
        **_subset_fields(dataset, BAG_FIELDS, picked),
        **_subset_fields(dataset, INSTANCE_FIELDS, objects),
    )


def subset_rows(dataset: PartialLabelDataset, rows: ArrayLike) -> PartialLabelDataset:
    """Return the rows at `rows` (indices or a boolean mask), truth and pictures included.

    >>> from groupnoise.candidates import load_digit_candidates
    >>> digits = load_digit_candidates(random_state=0)
    >>> subset_rows(digits, range(5)).features.shape
    (5, 64)
    """
    picked = _row_numbers(len(dataset.features), rows)
    return replace(dataset, **_subset_fields(dataset, ROW_FIELDS, picked))


def keep_objects(dataset: BagDataset, kept: NDArray[np.bool_]) -> BagDataset:
    """Return the bags with only the objects where `kept` is True; no bag may become empty."""
    sizes = np.add.reduceat(kept, dataset.bags.offsets[:-1], dtype=np.int64)
    rows = np.flatnonzero(kept)
    bags = Groups(dataset.bags.objects[rows], offsets_from_sizes(sizes))
    return replace(dataset, bags=bags, **_subset_fields(dataset, INSTANCE_FIELDS, rows))


def select_features(dataset: Any, names: Sequence[str]) -> Any:
    """Return bags or rows with only the features of these names, in this order.

    `dataset`: returned as it is if its features have no names. `names`: the features a model
    learned from; a missing one is refused.

    >>> rows = PartialLabelDataset(
    ...     "rows", np.array([[1.0, 2.0]]), np.ones((1, 1), bool), ["a"], feature_names=("x", "y")
    ... )
    >>> select_features(rows, ["y", "x"]).features.tolist()
    [[2.0, 1.0]]
    """
    own = dataset.feature_names
    if own is None or tuple(own) == tuple(names):
        return dataset
    check_no_missing_features(dataset.name, names, own)
    columns = [own.index(name) for name in names]
    named = replace(dataset, feature_names=tuple(names))
    if isinstance(named, PartialLabelDataset):
        return replace(named, features=named.features[:, columns])
    return replace(named, bags=Groups(named.bags.objects[:, columns], named.bags.offsets))


def check_no_missing_features(origin: str, requested: Sequence[str], there: Sequence[str]) -> None:
    """Refuse data without some of the features that a model learned from."""
    gone = [name for name in requested if name not in there]
    columns = _columns_of_words(gone, requested)
    learned = {columns.get(name, repr(name)) for name in requested}
    missing = list(dict.fromkeys(columns.get(name, repr(name)) for name in gone))
    spelt = {plain_name(name): name for name in there}
    near = [(spelt[plain_name(name)], name) for name in gone if plain_name(name) in spelt]
    hint = f"; rename {near[0][0]!r} to {near[0][1]!r}, and others so" if near else ""
    if missing and len(learned) == 1:
        raise DataError(
            f"{origin} lacks the column that the model learned from: {missing[0]}{hint}."
        )
    if missing:
        shown = ", ".join(missing[:12])
        more = "" if len(missing) <= 12 else f" and {len(missing) - 12} more"
        raise DataError(
            f"{origin} lacks {len(missing)} of the {len(learned)} columns that the model learned "
            f"from: {shown}{more}{hint}."
        )


def _columns_of_words(gone: Sequence[str], requested: Sequence[str]) -> dict[str, str]:
    """Return names for missing features that are all words of a missing text column."""
    of_all, of_gone = (
        Counter(name.rpartition(FEATURE_SEPARATOR)[0] for name in names)
        for names in (requested, gone)
    )
    columns = {name: name.rpartition(FEATURE_SEPARATOR)[0] for name in gone}
    return {
        name: f"{column!r} (text)"
        for name, column in columns.items()
        if column and of_gone[column] == of_all[column] > 1
    }


def _row_numbers(n_rows: int, rows: ArrayLike) -> IntArray:
    # An empty list would become an array of floats, which cannot index.
    requested = np.asarray(rows, dtype=None if np.size(rows) else np.int64)
    return np.arange(n_rows)[requested]


def _subset_fields(dataset: Any, names: Sequence[str], rows: IntArray) -> dict[str, Any]:
    """Return some rows of these attributes; None stays None."""
    values = {name: getattr(dataset, name) for name in names}
    return {name: None if each is None else each[rows] for name, each in values.items()}


def split_rows(
    n_rows: int, fractions: Sequence[float] = (0.8, 0.1, 0.1), *, random_state: RandomState = None
) -> tuple[IntArray, ...]:
    """Cut row numbers at random into disjoint parts that together hold every row.

    Sorted row numbers, one array per fraction, each as near to it as whole rows allow; fractions
    must sum to 1.

    >>> train, validation, test = split_rows(20, random_state=0)
    >>> len(train), len(validation), len(test)
    (16, 2, 2)
    """
    check_count("n_rows", n_rows)
    sizes = np.asarray(fractions, dtype=float)
    if sizes.ndim != 1 or (sizes <= 0).any() or not np.isclose(sizes.sum(), 1):
        raise ParameterError(f"fractions must be positive and sum to 1; got {tuple(fractions)!r}.")
    # Rounding the running total keeps every part within one row of its fraction.
    cuts = np.rint(np.cumsum(sizes)[:-1] * n_rows).astype(np.int64)
    order = generator_from(random_state).permutation(n_rows).astype(np.int64)
    parts = np.split(order, cuts)
    if any(len(part) == 0 for part in parts):
        raise DataError(
            f"{n_rows} rows are too few for the fractions {tuple(fractions)!r}: a part stays empty."
        )
    return tuple(np.sort(part) for part in parts)

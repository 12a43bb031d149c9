"""What a loaded data set looks like in each setting: groups, and the truth where it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import BoolArray, FloatArray, IntArray
from groupnoise.groups import Groups


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
    """

    name: str
    bags: Groups
    labels: BoolArray
    class_names: list[str]
    instance_labels: IntArray | None = None
    images: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    bag_ids: NDArray[Any] | None = None
    source_rows: IntArray | None = None


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
    """

    name: str
    features: FloatArray
    candidates: BoolArray
    class_names: list[str]
    truth: IntArray | None = None
    images: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None


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
    """

    name: str
    histories: Groups
    item_ids: NDArray[Any]
    user_ids: NDArray[Any]
    titles: list[str] | None = None
    categories: list[str] | None = None
    is_stray: BoolArray | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Counts worth reporting: rows read, users dropped and why."""

    @property
    def n_items(self) -> int:
        """The size of the catalogue."""
        return len(self.item_ids)


@dataclass(frozen=True)
class Windows:
    """Groups of clicks tied to the next click, with the user each came from.

    Attributes
    ----------
    groups : Groups
        Objects are clicked items, targets the next item.
    users : int64 ndarray of shape (n_groups,)
        Row of `ClickDataset.histories` each window was cut from.
    positions : int64 ndarray of shape (n_groups,)
        Where in that history the target stands.
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
    """Return the class of each single-label bag, shape (n_bags,)."""
    classes: IntArray = np.argmax(labels, axis=1).astype(np.int64)
    return classes

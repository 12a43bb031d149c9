"""Parse bags, bag labels and instance labels passed from Python."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import check_features, detached_values
from groupnoise.core.groups import Groups
from groupnoise.core.label_sets import read_label_sets, truth_columns
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError

MIN_RUNS = 6
"""Minimum runs of equal labels for the warning about ungrouped rows; plain rows may be sorted."""
NON_ARRAY_ATTRIBUTES = ("columns", "detach", "mask", "tocsr")
"""Attributes of frames, tensors, masked and sparse arrays that plain arrays lack."""
SCORERS = "sklearn.metrics._scorer"
MAX_FRAMES = 12
"""Maximum stack depth between a scorer and the prediction method."""


def as_bags(bags: Any, groups: Any = None) -> Groups:
    """Read bags of instances: finite feature rows, one group per bag, without targets.

    `bags`: groups; one array of shape (size, n_features) per bag, in a list or an object array; an
    array of shape (n_bags, size, n_features); or flat rows of shape (n_rows, n_features). `groups`
    (n_rows,): for flat rows, the bag each row belongs to; bags come in order of first appearance.
    Without it every row is a bag of its own, as in ordinary classification.

    Examples
    --------
    >>> as_bags([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]])
    Groups(2 groups, 3 objects, sizes 1-2)
    """
    if groups is not None:
        if isinstance(bags, Groups) or _array_rank(bags) not in (0, 2):
            raise DataError(
                "groups= goes with flat rows of shape (rows, features); these bags are grouped."
            )
        rows = check_features("bags", bags)
        return Groups.from_rows(rows, groups)[0]
    if isinstance(bags, StreamedGroups):
        return bags  # looked at when they were written
    if isinstance(bags, Groups):
        check_features("bags", bags.objects)
        return Groups(bags.objects, bags.offsets)
    bags = _as_list(detached_values("bags", bags))
    is_list = isinstance(bags, (list, tuple))
    if is_list and not bags:
        raise DataError("0 bags were given; at least one is needed.")
    if is_list and any(hasattr(bags[0], each) for each in NON_ARRAY_ATTRIBUTES):
        bags = [check_features("bags" if hasattr(bag, "columns") else "bag", bag) for bag in bags]
    if is_list and _array_rank(bags[0]) == 1 and _array_rank(bags) is None:
        raise DataError(
            f"bag 0 has shape {np.shape(bags[0])}; a bag has two dimensions, (size, features). A "
            "single feature is bag.reshape(-1, 1)."
        )
    if is_list and _array_rank(bags[0]) == 2:
        found = Groups.from_lists(bags)
    elif _array_rank(bags) == 3:
        found = Groups.from_array(bags)
    else:
        rows = check_features("bags", bags)
        return Groups(rows, np.arange(len(rows) + 1))
    check_features("bags", found.objects)
    return found


def warn_about_ungrouped_rows(bags: Any, groups: Any, labels: BoolArray) -> None:
    """Warn about rows without `groups` whose labels come in runs, as those of instances do."""
    if groups is not None or isinstance(bags, Groups) or holds_bags(bags):
        return
    n_runs = 1 + int((labels[1:] != labels[:-1]).any(axis=1).sum())
    by_chance = len(labels) * (1 - (labels.mean(axis=0) ** 2).sum())
    if max(MIN_RUNS, labels.shape[1] + 1) <= n_runs < by_chance / 2:
        warnings.warn(
            f"each of the {len(labels)} rows is a bag of its own, though their labels come in "
            f"{n_runs} runs, as those of instances in bags do; name the bag of each row (groups=).",
            UserWarning,
            stacklevel=3,
        )


def _as_list(bags: Any) -> Any:
    """Convert an object array of bags, as scikit-learn makes of ragged ones, to a list."""
    is_row = isinstance(bags, np.ndarray) and bags.dtype.kind == "O" and bags.ndim == 1
    return list(bags) if is_row else bags


def holds_bags(instances: Any) -> bool:
    """Return whether instances come in bags (Groups, list of arrays, 3-d array) or as rows."""
    instances = _as_list(instances)
    if isinstance(instances, (list, tuple)):
        return len(instances) > 0 and _array_rank(instances[0]) == 2
    return isinstance(instances, Groups) or _array_rank(instances) == 3


def check_no_scorer(instances: Any) -> None:
    """Raise if a scikit-learn scorer passes bags, since predictions are about instances.

    Otherwise it would return NaN because of different lengths.
    """
    if not holds_bags(instances):
        return
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        if frame.f_globals.get("__name__") == SCORERS:
            raise DataError(
                "`scoring` by name is for answers about rows, and of bags `predict` answers about "
                "their instances; leave it out, which gives the accuracy of bags, or give a "
                "function: scoring=lambda model, bags, y: accuracy_score(y, "
                "model.predict_bags(bags)), and model.bag_proba(bags) for probabilities."
            )
        frame = frame.f_back


def read_bag_labels(
    y: Any, n_bags: int, classes: Any = None, *, groups: Any = None
) -> tuple[BoolArray, NDArray[Any]]:
    """Read the labels of each bag.

    Returns `indicator` (n_bags, n_classes): True where a bag carries a label; `classes`: the label
    each column stands for. `y`: one label per bag; or, for bags with several labels or none, a
    sequence of sets of labels or a 0/1 matrix of shape (n_bags, n_classes). `n_bags`: how many bags
    there are. `classes`: the labels a fitted model knows. Without them they are taken from `y`.
    `groups`: the bag of each row, if the bags came as flat rows; `y` may then have one entry per
    row, equal inside a bag. A pandas series whose index names the bags goes by these names, others
    by the order in which bags first appear.

    Examples
    --------
    >>> indicator, classes = read_bag_labels(["fox", "none"], n_bags=2)
    >>> classes.tolist(), indicator.tolist()
    (['fox', 'none'], [[True, False], [False, True]])
    """
    if groups is not None:
        y = _in_bag_order(y, groups)
    indicator, found = read_label_sets(y, name="y", classes=classes)
    if groups is not None and len(indicator) == len(groups) != n_bags:
        indicator = _labels_per_bag(indicator, np.asarray(groups))
    if len(indicator) != n_bags:
        raise DataError(
            f"{counted(n_bags, 'bags')} came with {counted(len(indicator), 'labels')}; give one "
            "per bag."
        )
    return indicator, found


def _in_bag_order(y: Any, groups: Any) -> Any:
    """Return labels in the order of the bags; those of a series are aligned by its index."""
    if not hasattr(y, "loc") or len(y) == len(groups):
        return y
    index: Any = y.index
    # A mere count of the labels names no bags, even where bags are numbered.
    if type(index).__name__ == "RangeIndex" or not index.is_unique:
        return y
    names = list(dict.fromkeys(np.asarray(groups).tolist()))
    return y.loc[names] if set(index) == set(names) else y


def check_labelled(indicator: BoolArray) -> None:
    """Raise if a bag has no label."""
    unlabelled = np.flatnonzero(~indicator.any(axis=1))
    if len(unlabelled):
        raise DataError(
            f"{counted(len(unlabelled), 'bags')} without a label, first at row {unlabelled[0]}; "
            "drop them, or give them a label such as 'none'."
        )


def _array_rank(values: Any) -> int | None:
    """Return the number of dimensions of an array-like, None if its rows are ragged."""
    try:
        return np.asarray(values.detach() if hasattr(values, "detach") else values).ndim
    except ValueError:
        return None


def _labels_per_bag(indicator: BoolArray, groups: NDArray[Any]) -> BoolArray:
    """Return the labels of each bag from labels repeated on every row of it."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    differs = np.flatnonzero((indicator != indicator[first[inverse]]).any(axis=1))
    if len(differs):
        raise DataError(
            f"bag {groups[differs[0]].item()!r} has rows with different labels, first at row "
            f"{differs[0]}; a bag carries one set of labels."
        )
    return indicator[np.sort(first)]


def read_instance_labels(
    truth: Any, classes: NDArray[Any], bags: Groups, groups: ArrayLike | None
) -> IntArray | None:
    """Return the column of the true label of each instance, in the order of the bags.

    -1 where it is not known. `truth`: True labels in the order of the rows given; None where one is
    not known, or for all of them. `bags`: the bags, in memory. `groups`: the bag of each flat row,
    where they were given so.
    """
    if truth is None:
        return None
    if isinstance(bags, StreamedGroups):
        raise ParameterError("truth= goes with bags in memory; these are read from disk.")
    columns = truth_columns(truth, classes, bags.n_objects, of="instances")
    if groups is None:
        return columns
    return Groups.from_rows(columns[:, None], groups)[0].objects[:, 0].astype(np.int64)


def has_all_witnesses(truth: IntArray, labels: BoolArray, bag_of_row: IntArray) -> bool:
    """Return whether every label of every bag has an instance; the others are then background.

    `truth`: column of the true label of each instance, -1 for none. `labels` (n_bags, n_classes).
    `bag_of_row`: the bag of each instance.
    """
    known = truth >= 0
    has_witness = np.zeros(labels.shape, dtype=bool)
    has_witness[bag_of_row[known], truth[known]] = True
    return bool((has_witness | ~labels).all())


def add_known_instances(
    bags: Groups, labels: BoolArray, truth: IntArray
) -> tuple[Groups, BoolArray]:
    """Append every instance of known label as a bag of its own.

    It also stays in its bag unless its label is none of the bag's.

    Returns `bags`, and `labels` (n_bags + n_known, n_classes). `labels` (n_bags, n_classes).
    `truth`: column of the true label, -1 if unknown.
    """
    of_bag = bags.group_of_object
    known = truth >= 0
    kept = ~known | labels[of_bag, np.maximum(truth, 0)]
    left = np.bincount(of_bag[kept], minlength=len(bags))
    kept |= left[of_bag] == 0  # no bag is left empty
    sizes = np.bincount(of_bag[kept], minlength=len(bags))
    alone = Groups(bags.objects[known], np.arange(int(known.sum()) + 1))
    rest = Groups(bags.objects[kept], offsets_from_sizes(sizes))
    own: BoolArray = truth[known, None] == np.arange(labels.shape[1])
    return Groups.concat([rest, alone]), np.concatenate([labels, own])

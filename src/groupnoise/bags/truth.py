"""True labels of some instances beside the labels of bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.exceptions import ParameterError
from groupnoise.training.truth import truth_columns


def read_truth(
    truth: Any, classes: NDArray[Any], bags: Groups, groups: ArrayLike | None
) -> IntArray:
    """Return the column of the true label of each instance, in the order of the bags.

    -1 where it is not known. `truth`: True labels in the order of the rows given; None where one is
    not known. `bags`: the bags, in memory. `groups`: the bag of each flat row, where they were
    given so.
    """
    if isinstance(bags, StreamedGroups):
        raise ParameterError("truth= goes with bags in memory; these are read from disk.")
    columns = truth_columns(truth, classes, bags.n_objects, of="instances")
    if groups is None:
        return columns
    return Groups.from_rows(columns[:, None], groups)[0].objects[:, 0].astype(np.int64)


def taught_bags(bags: Groups, labels: BoolArray, truth: IntArray) -> tuple[Groups, BoolArray]:
    """Return the bags to learn from where the labels of some instances are known.

    Each known instance is a bag of its own, under its true label. It also stays in its bag, whose
    label is still to be carried by somebody, unless it is known to carry none of the bag's labels.

    Returns `bags`: the bags, then one for each known instance; `labels` (n_bags + n_known,
    n_classes): their labels. `labels`: of shape (n_bags, n_classes). `truth`: the column of the
    true label, -1 where it is not known.
    """
    of_bag = bags.group_of_object
    known = truth >= 0
    kept = ~known | labels[of_bag, np.maximum(truth, 0)]
    left = np.bincount(of_bag[kept], minlength=len(bags))
    kept |= left[of_bag] == 0  # no bag is left empty
    sizes = np.bincount(of_bag[kept], minlength=len(bags))
    alone = Groups(bags.objects[known], np.arange(int(known.sum()) + 1))
    rest = Groups(bags.objects[kept], np.concatenate([[0], np.cumsum(sizes)]))
    own: BoolArray = truth[known, None] == np.arange(labels.shape[1])
    return Groups.concat([rest, alone]), np.concatenate([labels, own])

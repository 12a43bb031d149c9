"""What a model says of a block of data, in columns, and the figures every setting shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import Columns, FloatArray, IntArray


class Findings(NamedTuple):
    """What was found about a block of data.

    `groups`: one row per group, in the order of the data.
    `objects`: one row per object, in the order of the data.
    `gain`: by how much likelier the labels of each source are than by their frequencies, in nats;
        None where the model was tried on held-out groups itself and says what it is worth.
    """

    groups: Columns
    objects: Columns
    gain: FloatArray | None = None


class Posterior(NamedTuple):
    """How sure a model is about which object of each group matches.

    `responsibility`: the probability of each object to be the one that matches; sums to one over a
        group.
    `chosen`: row of the most probable object of each group, among all objects; first wins ties.
    `probability`, `margin`, `entropy`: the share of the chosen object, its lead over the runner-up
        (a group of one leads by one), and the entropy of the shares in nats.
    """

    responsibility: FloatArray
    chosen: IntArray
    probability: FloatArray
    margin: FloatArray
    entropy: FloatArray


def object_posterior(scores: FloatArray, offsets: IntArray) -> Posterior:
    """Return the posterior over the objects of each group from their log scores.

    The softmax is taken at temperature one whatever selection the model was trained with, so
    that probabilities mean the same under hard and soft selection.

    `scores`: log scores, groups one after the other.

    Examples
    --------
    >>> found = object_posterior(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    >>> found.responsibility.tolist(), found.chosen.tolist(), found.margin.tolist()
    ([0.25, 0.75, 1.0], [1, 2], [0.5, 1.0])
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    values = np.asarray(scores, dtype=np.float64)
    odds = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), sizes))
    share = odds / np.repeat(np.add.reduceat(odds, starts), sizes)
    best = np.maximum.reduceat(share, starts)
    is_best = np.flatnonzero(share == np.repeat(best, sizes))
    chosen = is_best[np.searchsorted(is_best, starts)]
    others = share.copy()
    others[chosen] = 0.0
    surprise = -share * np.log(np.where(share > 0, share, 1.0))
    return Posterior(
        share,
        chosen,
        best,
        best - np.maximum.reduceat(others, starts),
        np.add.reduceat(surprise, starts),
    )


class ObjectTally:
    """How objects fared in the groups that hold them, of which there may be several or none.

    `n_objects`: how many objects there are.
    """

    def __init__(self, n_objects: int) -> None:
        self._responsibility = np.zeros(n_objects)
        self._times_chosen = np.zeros(n_objects, dtype=np.int64)

    def add(self, objects: IntArray, found: Posterior) -> None:
        """Count groups that hold these objects, groups one after the other."""
        np.maximum.at(self._responsibility, objects, found.responsibility)
        np.add.at(self._times_chosen, objects[found.chosen], 1)

    def columns(self) -> Columns:
        """Return the largest share of each object and how often it was chosen."""
        return {"responsibility": self._responsibility, "times_chosen": self._times_chosen}


def choice_columns(found: Posterior, starts: IntArray, log_weight: FloatArray) -> Columns:
    """Return the columns that tell of the object chosen in each group."""
    return {
        "chosen": found.chosen - starts,
        "probability": found.probability,
        "margin": found.margin,
        "entropy": found.entropy,
        "weight": np.exp(log_weight[found.chosen]),
    }


def class_columns(classes: NDArray[Any], class_names: list[str]) -> IntArray:
    """Return the column of a fitted model that stands for each class of a data set.

    A model trained on names knows classes by name; one trained on a 0/1 matrix, as in a
    cross-fit, numbers them in the order of the data, whatever they are called.
    """
    from groupnoise.exceptions import UnknownTargetError

    if classes.dtype.kind in "iu" and classes.tolist() == list(range(len(class_names))):
        return np.arange(len(class_names))
    known = {str(label): column for column, label in enumerate(classes.tolist())}
    missing = [name for name in class_names if name not in known]
    if not missing:
        return np.array([known[name] for name in class_names])
    raise UnknownTargetError(
        f"the model does not know the class {missing[0]!r} of the data; audit with a model that "
        "was fitted on the same classes, or cross-fit."
    )

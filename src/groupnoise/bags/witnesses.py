"""Bags at a chosen witness rate: the share of instances that carry a bag's label."""

from __future__ import annotations

import numpy as np

from groupnoise.core.arrays import BoolArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_fraction
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import BagDataset, keep_objects


def set_witness_rate(
    dataset: BagDataset, rate: float, *, random_state: RandomState = None
) -> BagDataset:
    """Thin out bags until a given share of their instances belongs to the bag's classes.

    Instances are only left out, never invented: witnesses where a bag has too many, others
    where it has too few. At least one witness of each class of a bag remains, so small bags
    come as near to the rate as whole instances allow.

    Parameters
    ----------
    dataset : BagDataset
        With instance labels; every bag needs a witness.
    rate : float
        The share of witnesses to reach, above 0.
    random_state : int, numpy generator or None
        Decides which instances go.

    Examples
    --------
    >>> from groupnoise.bags import load_digit_bags
    >>> bags = load_digit_bags(20, size=(8, 8), witness_rate=0.5, random_state=0)
    >>> bool((set_witness_rate(bags, 0.2, random_state=0).bags.sizes == 5).all())
    True
    """
    check_fraction("rate", rate)
    if rate == 0:
        raise ParameterError("rate must be above 0: a bag without a witness has no right answer.")
    truth = dataset.instance_labels
    if truth is None:
        raise DataError(f"{dataset.name} has no instance labels, so its witnesses are unknown.")
    generator = generator_from(random_state)
    bag_of_object = dataset.bags.group_of_object
    is_witness = (truth >= 0) & dataset.labels[bag_of_object, np.maximum(truth, 0)]
    kept = np.ones(len(truth), dtype=bool)
    for bag, (start, stop) in enumerate(
        zip(dataset.bags.offsets[:-1], dataset.bags.offsets[1:], strict=True)
    ):
        witnesses = start + np.flatnonzero(is_witness[start:stop])
        others = start + np.flatnonzero(~is_witness[start:stop])
        if len(witnesses) == 0:
            raise DataError(
                f"bag {bag} of {dataset.name} has no known witness; leave such bags out with "
                "`subset_bags` first."
            )
        if len(witnesses) > rate * (stop - start):
            needed = _one_of_each(truth[witnesses], generator)
            n_witnesses = max(int(needed.sum()), round(rate / (1 - rate) * len(others)))
            surplus = generator.permutation(witnesses[~needed])[n_witnesses - needed.sum() :]
        else:
            n_others = round((1 - rate) / rate * len(witnesses))
            surplus = generator.permutation(others)[n_others:]
        kept[surplus] = False
    return keep_objects(dataset, kept)


def _one_of_each(labels: IntArray, generator: np.random.Generator) -> BoolArray:
    """Mark one random entry of every distinct label."""
    order = generator.permutation(len(labels))
    _, first = np.unique(labels[order], return_index=True)
    marked = np.zeros(len(labels), dtype=bool)
    marked[order[first]] = True
    return marked

"""Sums, means, maxima and softmaxes over the instances of each bag, without padding."""

from __future__ import annotations

import torch
from torch import Tensor

from groupnoise.groups import Groups


class BagIndex:
    """Finds the instances of a batch of bags.

    Parameters
    ----------
    bags : Groups
        All bags.
    """

    def __init__(self, bags: Groups) -> None:
        self._starts = torch.from_numpy(bags.offsets[:-1].copy())
        self._sizes = torch.from_numpy(bags.sizes)

    def gather(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the instances of the bags of a batch, and the place in the batch of their bag."""
        sizes = self._sizes[batch]
        bag_of = torch.repeat_interleave(torch.arange(len(batch)), sizes)  # (n_instances,)
        first = sizes.cumsum(0) - sizes
        position = torch.arange(len(bag_of)) - first[bag_of]
        return self._starts[batch][bag_of] + position, bag_of


def bag_sum(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the sum of (n_instances, n_columns) values in each bag, (n_bags, n_columns)."""
    return values.new_zeros(n_bags, values.shape[1]).index_add(0, bag_of, values)


def bag_mean(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the mean of the values in each bag, (n_bags, n_columns)."""
    sizes = torch.bincount(bag_of, minlength=n_bags)
    return bag_sum(values, bag_of, n_bags) / sizes[:, None]


def bag_max(values: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return the largest value in each bag, (n_bags, n_columns); ties share the gradient."""
    index = bag_of[:, None].expand_as(values)
    lowest = values.new_full((n_bags, values.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, index, values, "amax", include_self=False)


def bag_softmax(scores: Tensor, bag_of: Tensor, n_bags: int) -> Tensor:
    """Return scores turned into weights that sum to one in each bag, same shape as scores."""
    highest = bag_max(scores.detach(), bag_of, n_bags)
    raised = (scores - highest[bag_of]).exp()
    return raised / bag_sum(raised, bag_of, n_bags)[bag_of]

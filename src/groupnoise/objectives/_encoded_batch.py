"""A batch as vectors: each distinct object and target encoded once, and who stands where."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from groupnoise.groups import GroupBatch
from groupnoise.matching import Candidates, MatchingModel


class DistinctObjects(NamedTuple):
    """The real objects of a batch without repetition.

    Attributes
    ----------
    inputs : Tensor of shape (n_distinct, ...)
        Distinct ids; feature rows stay as given.
    slot : int64 Tensor of shape (groups, size)
        Which of them stands at each place; at padding, any.
    """

    inputs: Tensor
    slot: Tensor

    @classmethod
    def of(cls, batch: GroupBatch) -> DistinctObjects:
        """Find the distinct objects of a batch; padding adds none."""
        objects, mask = batch.objects, batch.mask
        if objects.is_floating_point() or objects.dim() > 2:
            slot = mask.flatten().cumsum(0).sub_(1).clamp_min_(0)
            return cls(objects[mask], slot.view(mask.shape))
        real = objects.flatten()[mask.flatten().to(torch.uint8).argmax()]
        return cls(*torch.unique(torch.where(mask, objects, real), return_inverse=True))

    def at_places(self, values: Tensor) -> Tensor:
        """Lay values (n_distinct, ...) of the objects out as (groups, size, ...)."""
        return values.index_select(0, self.slot.flatten()).view(*self.slot.shape, *values.shape[1:])


class EncodedTargets(NamedTuple):
    """Vectors (n, dim) of targets and what is added to their logits (n,)."""

    vectors: Tensor
    offset: Tensor


class EncodedBatch(NamedTuple):
    """What pair matching over targets reads.

    Attributes
    ----------
    vectors : Tensor of shape (n_distinct, dim)
        f of the distinct objects.
    wanted : EncodedTargets
        The target of each group.
    candidates : EncodedTargets
        The set that is normalised over.
    """

    vectors: Tensor
    wanted: EncodedTargets
    candidates: EncodedTargets


def encode_batch(
    model: MatchingModel, objects: DistinctObjects, targets: Tensor, drawn: Candidates
) -> EncodedBatch:
    """Encode the objects of a batch, its targets (groups,) and the candidates drawn for it."""
    if drawn.is_everything:
        vectors, wanted, everything = model.encode_with_all_targets(objects.inputs, targets)
        offset = model.target_bias(drawn.ids)
        if offset is None:
            offset = everything.new_zeros(len(everything))
        return EncodedBatch(
            vectors,
            EncodedTargets(wanted, offset.index_select(0, targets)),
            EncodedTargets(everything, offset),
        )
    if drawn.holds_wanted:
        ids, n_added = drawn.ids, 0
        column = torch.searchsorted(ids, targets)
    else:
        distinct, column = torch.unique(targets, return_inverse=True)
        ids, n_added = torch.cat([distinct, drawn.ids]), len(distinct)
    vectors, encoded = model.encode(objects.inputs, ids)
    offset = model.target_bias(ids)
    if offset is None:
        offset = encoded.new_zeros(len(ids))
    if drawn.log_expected_count is not None:
        # Only what was sampled is corrected; an added target is there for certain.
        certain = encoded.new_zeros(n_added)
        offset = offset - torch.cat([certain, drawn.log_expected_count.to(encoded)])
    return EncodedBatch(
        vectors,
        EncodedTargets(encoded.index_select(0, column), offset.index_select(0, column)),
        EncodedTargets(encoded[n_added:], offset[n_added:]),
    )

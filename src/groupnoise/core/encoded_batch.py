"""A batch as vectors: each distinct object and target encoded once, and their products."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from groupnoise.core.batching import GroupBatch
from groupnoise.core.candidates import Candidates
from groupnoise.core.model import MatchingModel

PRODUCT_ELEMENTS = 1 << 22
"""Products held at a time; groups that have more are worked on block by block."""


def fits_products(n_groups: int, size: int) -> bool:
    """Return whether the (groups, size, size) products of a batch may be held at once."""
    return n_groups * size * size <= PRODUCT_ELEMENTS


def inner_products(members: Tensor) -> Tensor:
    """Return the products of the members of each group with each other.

    Of shape (groups, size, size): differentiable once, with one product in the backward pass where
    torch has two. `members` (groups, size, dim): vectors.
    """
    products: Tensor = _InnerProducts.apply(members)  # type: ignore[no-untyped-call]
    return products


def products_of_members(members: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the products of objects with their group's target, and with each other.

    Returns `with_target` of shape (groups, size) and `among_objects` of shape (groups, size, size).
    `members` (groups, size + 1, dim): objects of each group, and its target as the last member.
    """
    if not fits_products(*members.shape[:2]):
        return torch.bmm(members[:, :-1], members[:, -1:].transpose(1, 2)).squeeze(-1), None
    products = inner_products(members)
    return products[:, :-1, -1], products[:, :-1, :-1]


class _InnerProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, members: Tensor) -> Tensor:
        ctx.save_for_backward(members)
        return torch.bmm(members, members.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (members,) = ctx.saved_tensors
        return torch.bmm(upstream + upstream.transpose(1, 2), members)


class DistinctObjects(NamedTuple):
    """The real objects of a batch without repetition.

    `inputs` (n_distinct, ...): distinct ids; feature rows stay as given.
    `slot` (groups, size): which of them stands at each position; at padding, any.
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

    def at_positions(self, values: Tensor) -> Tensor:
        """Lay values (n_distinct, ...) of the objects out as (groups, size, ...)."""
        return values.index_select(0, self.slot.flatten()).view(*self.slot.shape, *values.shape[1:])


class EncodedBatch(NamedTuple):
    """What pair matching over targets reads.

    `vectors` (n_distinct, dim): f of the distinct objects.
    `members` (groups, size + 1, dim): f of the object at each position, and g of the group's target
        as the last member.
    `target_offset`: added to the logits of the group's target.
    `candidates` (n_candidates, dim): g of the set that is normalized over.
    `offset`: added to the logits of the candidates.
    """

    vectors: Tensor
    members: Tensor
    target_offset: Tensor
    candidates: Tensor
    offset: Tensor


def encode_batch(
    model: MatchingModel, objects: DistinctObjects, targets: Tensor, drawn: Candidates
) -> EncodedBatch:
    """Encode the objects of a batch, its targets (groups,) and the candidates drawn for it."""
    n_objects = len(objects.inputs)
    if drawn.is_everything:
        vectors, target_vectors, candidates = model.encode_with_all_targets(objects.inputs, targets)
        column = torch.arange(len(targets), device=targets.device)
        members = _members(torch.cat([vectors, target_vectors]), objects.slot, n_objects + column)
        offset = _offsets(model, drawn, drawn.ids, candidates)
        return EncodedBatch(vectors, members, offset.index_select(0, targets), candidates, offset)
    if drawn.holds_targets:
        added = targets[:0]
        column = torch.searchsorted(drawn.ids, targets)
    else:
        added, column = torch.unique(targets, return_inverse=True)
    ids = torch.cat([added, drawn.ids])
    encoded = model.encode(objects.inputs, ids)
    members = _members(encoded, objects.slot, n_objects + column)
    vectors, _, candidates = encoded.split([n_objects, len(added), len(drawn.ids)])
    offset = _offsets(model, drawn, ids, encoded)
    return EncodedBatch(
        vectors, members, offset.index_select(0, column), candidates, offset[len(added) :]
    )


def _members(encoded: Tensor, slot: Tensor, target_slot: Tensor) -> Tensor:
    positions = torch.cat([slot, target_slot.unsqueeze(-1)], 1)  # (groups, size + 1)
    return encoded.index_select(0, positions.flatten()).view(*positions.shape, -1)


def _offsets(model: MatchingModel, drawn: Candidates, ids: Tensor, like: Tensor) -> Tensor:
    """Return what is added to the logits of targets, those drawn being the last of them."""
    offset = model.target_bias(ids)
    if offset is None:
        offset = like.new_zeros(len(ids))
    if drawn.log_expected_count is None:
        return offset
    # Only what was sampled is corrected; an added target is there for certain.
    certain = like.new_zeros(len(ids) - len(drawn.ids))
    return offset - torch.cat([certain, drawn.log_expected_count.to(like)])

"""Inner products inside groups: all that dot-product matching and weighting read of vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

PRODUCT_ELEMENTS = 1 << 22
"""Products held at a time; groups that have more are worked on block by block."""


def fits_products(n_groups: int, size: int) -> bool:
    """Return whether the (groups, size, size) products of a batch may be held at once."""
    return n_groups * size * size <= PRODUCT_ELEMENTS


def inner_products(members: Tensor) -> Tensor:
    """Return the products of the members of each group with each other.

    Parameters
    ----------
    members : Tensor of shape (groups, size, dim)
        Vectors.

    Returns
    -------
    Tensor of shape (groups, size, size)
        Differentiable once, with one product in the backward pass where torch has two.
    """
    products: Tensor = _InnerProducts.apply(members)  # type: ignore[no-untyped-call]
    return products


def products_of_members(members: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the products of objects with their group's target, and with each other.

    Parameters
    ----------
    members : Tensor of shape (groups, size + 1, dim)
        Objects of each group, and its target as the last member.

    Returns
    -------
    with_target : Tensor of shape (groups, size)
    among_objects : Tensor of shape (groups, size, size), or None if they are too many to hold
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

"""Inner products inside groups against plain products, and batches too large to hold them."""

import torch

from groupnoise.core import batching as module
from groupnoise.core.batching import inner_products, member_products


def members():
    values = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return values.requires_grad_()


def test_products_equal_the_plain_ones_with_their_gradient():
    vectors = members()
    assert torch.autograd.gradcheck(inner_products, [vectors])
    torch.testing.assert_close(
        inner_products(vectors), torch.einsum("gad,gbd->gab", vectors, vectors)
    )


def test_products_too_many_to_hold_are_left_out_but_for_those_with_the_target(monkeypatch):
    vectors = members()
    with_target, among_objects = member_products(vectors)
    assert among_objects.shape == (3, 3, 3)
    monkeypatch.setattr(module, "PRODUCT_ELEMENTS", 3 * 4 * 4 - 1)
    alone, nothing = member_products(vectors)
    assert nothing is None
    torch.testing.assert_close(alone, with_target)

"""Softmax and log-sum-exp over the real entries of padded rows, with stated degenerate cases."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last axis, zero where `mask` is False.

    A row without any real entry is all zero, with zero gradient.
    """
    filled = scores.masked_fill(~mask, -torch.inf)
    # A row of -inf would give NaN; any finite row will do, since the mask zeroes it again.
    filled = filled.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return filled.softmax(-1) * mask


def masked_logsumexp(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the log-sum-exp over the last axis of the entries where `mask` is True.

    A row without any real entry is -inf, with zero gradient.
    """
    some = mask.any(-1)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(~some.unsqueeze(-1), 0.0)
    return filled.logsumexp(-1).masked_fill(~some, -torch.inf)

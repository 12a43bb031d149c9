"""Recency: in ordered groups the objects next to the target are likelier to match it."""

from __future__ import annotations

from torch import Tensor


def log_recency(mask: Tensor, rate: float) -> Tensor:
    """Return a log prior that falls by `rate` with each object between an object and the target.

    Parameters
    ----------
    mask : bool Tensor of shape (groups, size)
        True where an object is real; objects stand in order, the one next to the target last.
    rate : float
        0 trusts all objects alike; with log(2) each step back halves the trust.

    Returns
    -------
    Tensor of shape (groups, size)
        Zero for the last object of a group and at padding.

    Examples
    --------
    >>> import torch
    >>> log_recency(torch.tensor([[True, True, True], [True, False, False]]), 0.5).tolist()
    [[-1.0, -0.5, -0.0], [-0.0, 0.0, 0.0]]
    """
    objects_after = mask.sum(-1, keepdim=True) - mask.cumsum(-1)  # (groups, size)
    return (-rate * objects_after).masked_fill(~mask, 0.0)

"""The absent-class term: objects carry no mass on targets their group is known not to have."""

from __future__ import annotations

import torch
from torch import Tensor


def log_allowed_mass(log_probabilities: Tensor, allowed: Tensor, mask: Tensor) -> Tensor:
    """Return the mean log mass that the objects of a group put on allowed targets.

    Parameters
    ----------
    log_probabilities : Tensor of shape (groups, size, n_targets)
        log P(target | object).
    allowed : bool Tensor of shape (groups, n_targets)
        Targets the group is labelled with, and the background target where there is one.
    mask : bool Tensor of shape (groups, size)
        True where an object is real.

    Returns
    -------
    Tensor of shape (groups,)
        At most zero; zero when no object has mass elsewhere.
    """
    inside = log_probabilities.masked_fill(~allowed.unsqueeze(1), -torch.inf).logsumexp(-1)
    return inside.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)

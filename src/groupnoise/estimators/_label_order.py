"""Labels that stand in an order: what speaks for a label speaks a little for its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor


def spread_over_neighbours(log_probabilities: Tensor, deviation: float) -> Tensor:
    """Return probabilities averaged over the labels around each label.

    Exact ages are hard to tell apart, and rare ones are learned from a few rows; the mass around
    an age is known better than its own.

    Parameters
    ----------
    log_probabilities : Tensor of shape (n_rows, n_labels)
        Labels in their order.
    deviation : float
        Deviation of the Gaussian average, in places; 0 changes nothing.

    Returns
    -------
    Tensor of shape (n_rows, n_labels)
        Log probabilities; rows sum to one.
    """
    if deviation == 0.0:
        return log_probabilities
    place = torch.arange(log_probabilities.shape[-1], dtype=log_probabilities.dtype)
    distance = (place.unsqueeze(-1) - place) / deviation
    # Column by column, so that the first and last label do not lose for having one side only.
    weights = (-0.5 * distance.square()).softmax(0)
    averaged = log_probabilities.exp() @ weights
    return averaged.clamp_min(torch.finfo(averaged.dtype).tiny).log().log_softmax(-1)

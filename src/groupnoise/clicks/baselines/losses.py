"""What the neural recommenders minimise, and the dense histories they read."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from groupnoise.clicks.windows import sliding_windows
from groupnoise.core.arrays import IntArray
from groupnoise.core.groups import Groups


def binary_loss(positive: Tensor, negatives: Tensor, is_negative: Tensor) -> Tensor:
    r"""Return :math:`-\log\sigma(s_y) - \sum_j \log\sigma(-s_j)`, shape (...).

    `positive`: logit of each target. `negatives` (..., n_negatives): logits of the items drawn
    against it. `is_negative` (..., n_negatives): False where the draw hit the target itself, which
    then does not count.
    """
    against = F.softplus(negatives).masked_fill(~is_negative, 0.0)
    return F.softplus(-positive) + against.sum(-1)


def hinge_loss(
    positive: Tensor, negatives: Tensor, is_negative: Tensor, *, margin: float
) -> Tensor:
    r"""Return :math:`\sum_j [m - s_y + s_j]_+`, shape (...); parameters as in `binary_loss`."""
    violation = F.relu(margin - positive.unsqueeze(-1) + negatives)
    return violation.masked_fill(~is_negative, 0.0).sum(-1)


def sampled_softmax_loss(
    queries: Tensor, table: Tensor, targets: Tensor, negatives: Tensor
) -> Tensor:
    r"""Return the cross-entropy of the target against uniformly drawn items, shape (n,).

    A drawn item stands for :math:`|Y| / m` items of the catalogue, so the logarithm of that is
    added to its logit; the sum over draws then estimates the full normalizer without bias.

    `queries`: of shape (n, dim). `table` (n_items, dim): item vectors; a logit is an inner product.
    `negatives`: items drawn once for the whole batch; a draw that equals the target is left out.
    """
    positive = (queries * table[targets]).sum(-1, keepdim=True)  # (n, 1)
    weight = torch.log(torch.tensor(len(table) / len(negatives), dtype=queries.dtype))
    drawn = queries @ table[negatives].T + weight  # (n, n_negatives)
    drawn = drawn.masked_fill(negatives == targets.unsqueeze(-1), -torch.inf)
    return torch.logsumexp(torch.cat([positive, drawn], dim=-1), dim=-1) - positive.squeeze(-1)


def draw_negatives(
    targets: Tensor, n_items: int, n_negatives: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw items uniformly for each target; return them and whether they differ from it."""
    drawn = torch.randint(n_items, (*targets.shape, n_negatives), generator=generator)
    drawn = drawn.to(targets.device)
    return drawn, drawn != targets.unsqueeze(-1)


def training_windows(training: Groups, size: int, n_targets: int, fill: int) -> Groups:
    """Return windows whose targets are the clicks that follow, shape (n_groups, n_targets).

    Groups that have targets already are used as they are, with that one target. From whole
    histories sliding windows are cut; `fill` stands where a history ends too soon.
    """
    if training.targets is not None:
        return Groups(training.objects, training.offsets, training.targets[:, None])
    windows = sliding_windows(training, size)
    first = training.offsets[windows.histories] + windows.positions
    following = first[:, None] + np.arange(n_targets)
    inside = following < training.offsets[windows.histories + 1, None]
    last = training.n_objects - 1
    targets = np.where(inside, training.objects[np.minimum(following, last)], fill)
    return Groups(windows.groups.objects, windows.groups.offsets, targets)


def right_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding before them, shape (n_groups, size)."""
    position = np.arange(size)
    index = groups.offsets[1:, None] - size + position
    is_real = index >= groups.offsets[:-1, None]
    return np.where(is_real, groups.objects[np.maximum(index, 0)], fill).astype(np.int64)


def left_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding after them, shape (n_groups, size)."""
    kept = np.minimum(groups.sizes, size)[:, None]
    position = np.arange(size)
    index = groups.offsets[1:, None] - kept + position
    last = groups.n_objects - 1
    return np.where(position < kept, groups.objects[np.minimum(index, last)], fill).astype(np.int64)

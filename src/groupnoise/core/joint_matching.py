"""Matching with groups on both sides: log P(object, target | group) over all pairs of a group.

A bag of instances with a set of candidate labels hides one true pair. Its pairs are what is
selected among, so the group handed to the objective has one position per (object, target) pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groupnoise.core.batching import GroupBatch
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import Matching
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting


@dataclass(frozen=True)
class JointMatching:
    """Log probability of every pair of an object and a candidate target of a group.

    `candidates` (n_groups, n_targets): the targets each training group may have; exactly one of
        them is right.
    `pooling`: temperature at which the objects of a group speak for a target, see
        :func:`log_joint_probability`.
    """

    candidates: Tensor
    pooling: float = 1.0

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with the candidate targets of their groups."""
        candidates = self.candidates[batch.rows.cpu()].to(batch.rows.device)
        return match_pairs(model, batch, candidates, self.pooling)


def match_pairs(
    model: MatchingModel, batch: GroupBatch, candidates: Tensor, pooling: float
) -> Matching:
    """Return the matching whose positions are pairs, object by object.

    `log_pair` and `mask` have shape (groups, size * n_targets); `features` stay those of objects,
    (groups, size, n_targets), as :class:`PerObjectWeighting` wants them. `model`: encodes objects;
    its targets are known by id. `batch`: objects are feature rows; targets are not read.
    `candidates` (groups, n_targets): which targets pair with the objects of each group. `pooling`:
    see :func:`log_joint_probability`.
    """
    vectors = model.encode_objects(batch.objects[batch.mask])
    logits = model.logits(vectors, torch.arange(model.n_targets, device=vectors.device))
    padded = logits.new_zeros(*batch.mask.shape, model.n_targets)
    padded = padded.masked_scatter(batch.mask.unsqueeze(-1), logits)
    log_joint = log_joint_probability(padded, batch.mask, pooling)
    mask = batch.mask.unsqueeze(-1) & candidates.unsqueeze(1)
    return Matching(
        log_pair=log_joint.masked_fill(~mask, 0.0).flatten(1),
        mask=mask.flatten(1),
        features=padded.log_softmax(-1),
        log_probabilities=None,
    )


def log_joint_probability(logits: Tensor, mask: Tensor, pooling: float = 1.0) -> Tensor:
    """Return log P(object, target | group), which sums to one over the pairs of a group.

    P(target | group) is the softmax over targets of pooling * logsumexp(logit / pooling) over
    objects, P(object | target, group) the softmax over objects of logit / pooling. At 1 both
    together are one softmax over all pairs; towards 0 the best object alone speaks for a target,
    and the larger the pooling the more all of them do.

    Of shape (groups, size, n_targets): zero at padding. `logits` (groups, size, n_targets): f(x) .
    g(y); what stands at padding is not read. `mask` (groups, size): True where an object is real;
    at least one in each group.
    """
    real = mask.unsqueeze(-1)
    cooled = (logits / pooling).masked_fill(~real, -torch.inf)
    log_target = (pooling * cooled.logsumexp(1)).log_softmax(-1)  # (groups, n_targets)
    return (cooled.log_softmax(1) + log_target.unsqueeze(1)).masked_fill(~real, 0.0)


@dataclass(frozen=True)
class PerObjectWeighting:
    """Group weighting of objects, handed on to every pair an object is part of.

    `weighting`: weighs objects among the other objects of their group.
    """

    weighting: Weighting

    @property
    def similarity(self) -> Similarity:
        """S of Eq. 6."""
        return self.weighting.similarity

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features of objects (groups, size, dim) to log weights of pairs, as `mask`."""
        n_groups, size, _ = features.shape
        pairs = mask.view(n_groups, size, -1)
        log_weight = self.weighting(features, pairs.any(-1), products).unsqueeze(-1)
        return log_weight.expand_as(pairs).masked_fill(~pairs, 0.0).flatten(1)

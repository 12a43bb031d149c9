"""Group weighting, Eq. 5: log P(object | group) from the likeness of an object to the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from groupnoise.matching import Dot, Similarity, masked_softmax

BLOCK_ELEMENTS = 1 << 22
"""Similarities held at a time; a larger batch of groups is weighted block by block."""


class Weighting(Protocol):
    """Returns log P(object | group)."""

    @property
    def similarity(self) -> Similarity:
        """S of Eq. 5, which decides what kind of features are wanted."""
        ...

    def __call__(self, features: Tensor, mask: Tensor) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        ...


@dataclass(frozen=True)
class SigmoidWeighting:
    """The paper's form: sigmoid of S(context of the other objects, object).

    A group of one has no context; weight 1 leaves it plain pair matching.
    """

    similarity: Similarity = field(default_factory=Dot)

    def __call__(self, features: Tensor, mask: Tensor) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        score = context_scores(features, mask, self.similarity)
        has_company = mask.sum(-1, keepdim=True) > 1
        return F.logsigmoid(score).masked_fill(~(mask & has_company), 0.0)


@dataclass(frozen=True)
class ContrastiveWeighting:
    """The authors' code: softmax of an object's context score against those of strangers.

    The strangers of a group are objects of other groups of the batch, each scored in the context
    of this group. As in that code attention weights carry no gradient and an object's own
    similarity enters the softmax as zero instead of being left out.

    Parameters
    ----------
    similarity : Similarity
        S of Eq. 5.
    n_strangers : int
        How many objects of other groups an object is held against.
    """

    similarity: Similarity = field(default_factory=Dot)
    n_strangers: int = 100

    def __call__(self, features: Tensor, mask: Tensor) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        attention = self._attention(features, features, mask, own=True)
        own = self.similarity.matched(self.similarity.context(attention, features), features)
        strangers = self._strangers(features, mask)  # (groups, n_strangers, dim)
        if strangers is None:
            return torch.zeros_like(own)
        attention = self._attention(strangers, features, mask, own=False)
        others = self.similarity.matched(self.similarity.context(attention, features), strangers)
        level = torch.logaddexp(own, others.logsumexp(-1, keepdim=True))
        return (own - level).masked_fill(~mask, 0.0)

    def _attention(self, left: Tensor, features: Tensor, mask: Tensor, *, own: bool) -> Tensor:
        similarity = self.similarity.between(left, features).detach()
        if own:
            similarity = similarity * (1.0 - torch.eye(similarity.shape[-1]).to(similarity))
        return masked_softmax(similarity, mask.unsqueeze(1))

    def _strangers(self, features: Tensor, mask: Tensor) -> Tensor | None:
        """Pick objects of other groups at even distances, so that no generator is needed."""
        if len(features) == 1:
            return None
        flat = features[mask]  # (n_real, dim), ordered by group
        sizes = mask.sum(-1)
        start = sizes.cumsum(0) - sizes
        elsewhere = len(flat) - sizes  # objects of other groups
        step = torch.arange(self.n_strangers, device=sizes.device)
        hop = step * elsewhere.unsqueeze(-1) // self.n_strangers  # (groups, n_strangers)
        index = (start + sizes).unsqueeze(-1) + hop
        return flat[index % len(flat)]


def context_scores(features: Tensor, mask: Tensor, similarity: Similarity) -> Tensor:
    """Return S(c, h(x)) with c the mixture of the *other* objects, shape (groups, size).

    Objects are taken in blocks, and a block is computed again in the backward pass, once the
    similarities of a batch would not fit in BLOCK_ELEMENTS: memory stays linear in the objects.
    """
    n_groups, size, _ = features.shape
    block = max(1, BLOCK_ELEMENTS // (n_groups * size))
    if block >= size:
        return _block_scores(features, mask, 0, size, similarity)
    parts = [
        checkpoint(
            _block_scores,
            features,
            mask,
            start,
            min(start + block, size),
            similarity,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for start in range(0, size, block)
    ]
    return torch.cat(parts, dim=-1)


def _block_scores(
    features: Tensor, mask: Tensor, start: int, stop: int, similarity: Similarity
) -> Tensor:
    block = features[:, start:stop]  # (groups, block, dim)
    place = torch.arange(features.shape[1], device=features.device)
    is_self = place == place[start:stop].unsqueeze(-1)  # (block, size)
    others = mask.unsqueeze(1) & ~is_self  # (groups, block, size)
    attention = masked_softmax(similarity.between(block, features), others)
    return similarity.matched(similarity.context(attention, features), block)

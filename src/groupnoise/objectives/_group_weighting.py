"""Group weighting, Eq. 5: log P(object | group) from the likeness of an object to the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.matching import Dot, Similarity, masked_softmax
from groupnoise.objectives._context import context_scores, in_blocks, is_self


class Weighting(Protocol):
    """Returns log P(object | group)."""

    @property
    def similarity(self) -> Similarity:
        """S of Eq. 5, which decides what kind of features are wanted."""
        ...

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size).

        `products` are the inner products of the features, (groups, size, size), where they are
        known already.
        """
        ...


@dataclass(frozen=True)
class SigmoidWeighting:
    """The paper's form: sigmoid of S(context of the other objects, object).

    A group of one has no context; weight 1 leaves it plain pair matching.
    """

    similarity: Similarity = field(default_factory=Dot)

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        score = context_scores(features, mask, self.similarity, products)
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

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        strangers = self._strangers(features, mask)  # (groups, n_strangers, dim)
        if strangers is None:
            return features.new_zeros(mask.shape)

        def own_score(rows: slice) -> Tensor:
            block = features[:, rows]
            attended = self.similarity.between(block, features).detach()
            attended = attended.masked_fill(is_self(mask, rows), 0.0)
            return self._score(attended, features, block, mask)

        own = in_blocks(own_score, mask)
        attended = self.similarity.between(strangers, features).detach()
        others = self._score(attended, features, strangers, mask)  # (groups, n_strangers)
        level = torch.logaddexp(own, others.logsumexp(-1, keepdim=True))
        return (own - level).masked_fill(~mask, 0.0)

    def _score(self, attended: Tensor, features: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
        """Return S of queries (groups, n, dim) and the contexts they attend to, (groups, n)."""
        attention = masked_softmax(attended, mask.unsqueeze(1))
        return self.similarity.matched(self.similarity.context(attention, features), queries)

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

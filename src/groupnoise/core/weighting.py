"""Group weighting, Eq. 6: log P(object | group) from how alike objects are, S of that equation.

Similarities of a group form a (size, size) array. Of large groups it is made for a block of
objects at a time, and made again in the backward pass: memory is linear in the objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from groupnoise.core import batching
from groupnoise.core.batching import fits_products, inner_products


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


class Similarity(Protocol):
    """A similarity of features, and the mixture of features that serves as context."""

    @property
    def uses_probabilities(self) -> bool:
        """Whether features are log-probabilities over targets (h = Eq. 5) instead of vectors."""
        ...

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        """Return S of every pair of `left` (groups, a, dim) and `right` (groups, b, dim)."""
        ...

    def context(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return mixtures of features (groups, b, dim), one for each of a, of their kind.

        `weights` (groups, a, b): attention of a to b.
        """
        ...

    def matched(self, context: Tensor, features: Tensor) -> Tensor:
        """Return S(context, features) position by position, both (groups, a, dim)."""
        ...


@dataclass(frozen=True)
class Dot(Similarity):
    """The inner product of feature vectors, times `scale`."""

    scale: float = 1.0
    uses_probabilities = False

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the inner products of every pair."""
        return self.scale * (left @ right.transpose(-1, -2))

    def context(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return the weighted sums of the vectors."""
        return weights @ features

    def matched(self, context: Tensor, features: Tensor) -> Tensor:
        """Return the inner products of contexts and vectors, position by position."""
        return self.scale * (context * features).sum(-1)


@dataclass(frozen=True)
class NegativeKL(Similarity):
    """The negative Kullback-Leibler divergence of class probabilities, times `scale`.

    Features are log-probabilities; the context is a mixture of distributions, kept on log scale.
    Paper: the direction is not stated; the first argument of S is the reference distribution.
    """

    scale: float = 1.0
    uses_probabilities = True

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        """Return -KL(left || right) of every pair."""
        probabilities = left.exp()
        negative_entropy = (probabilities * left).sum(-1, keepdim=True)  # (groups, a, 1)
        return self.scale * (probabilities @ right.transpose(-1, -2) - negative_entropy)

    def context(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return the log of the mixed probabilities."""
        mixed = weights @ features.exp()
        # An all-masked row mixes to zero; the smallest normal number keeps its log finite.
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()

    def matched(self, context: Tensor, features: Tensor) -> Tensor:
        """Return -KL(context || features) position by position."""
        return self.scale * (context.exp() * (features - context)).sum(-1)


def context_scores(
    features: Tensor, mask: Tensor, similarity: Similarity, products: Tensor | None = None
) -> Tensor:
    """Return S(c, h(x)) with c the mixture of the *other* objects, shape (groups, size).

    It means nothing at padding and for an object without company. `products`: inner products of the
    features, if they are known already.
    """
    if isinstance(similarity, Dot):
        return _dot_scores(features, mask, similarity.scale, products)

    def score(rows: slice) -> Tensor:
        block = features[:, rows]  # (groups, block, dim)
        others = mask.unsqueeze(1) & ~is_self(mask, rows)
        attention = masked_softmax(similarity.between(block, features), others)
        return similarity.matched(similarity.context(attention, features), block)

    return in_blocks(score, mask)


def is_self(mask: Tensor, rows: slice) -> Tensor:
    """Return where the objects at `rows` meet themselves, shape (rows, size)."""
    position = torch.arange(mask.shape[1], device=mask.device)
    return position == position[rows].unsqueeze(-1)


def in_blocks(score: Callable[[slice], Tensor], mask: Tensor) -> Tensor:
    """Score all objects, a block at a time if they are many: shape (groups, size).

    `score`: maps a slice of positions to scores (groups, block); may hold (groups, block, size)
    values.
    """
    blocks = _blocks(mask)
    if len(blocks) == 1:
        return score(blocks[0])
    parts = [
        checkpoint(score, rows, use_reentrant=False, preserve_rng_state=False) for rows in blocks
    ]
    return torch.cat(parts, dim=-1)


def _blocks(mask: Tensor) -> list[slice]:
    n_groups, size = mask.shape
    width = max(1, batching.PRODUCT_ELEMENTS // max(1, n_groups * size))
    return [slice(start, min(start + width, size)) for start in range(0, size, width)]


def _dot_scores(features: Tensor, mask: Tensor, scale: float, products: Tensor | None) -> Tensor:
    """Return context scores under the dot product, from similarities alone.

    The product of a mixture with a vector is the mixture of the products, so that a score is
    sum_j attention_j * similarity_j and no context vector is ever made. Its derivative by
    similarity_j is attention_j * (1 + similarity_j - score).
    """
    scores: Tensor
    if products is None and fits_products(*mask.shape):
        products = inner_products(features)
    if products is None:
        scores = _BlockwiseScores.apply(features, mask, scale)  # type: ignore[no-untyped-call]
    else:
        scores = _ScoresOfProducts.apply(products, mask, scale)  # type: ignore[no-untyped-call]
    return scores


class _ScoresOfProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, products: Tensor, mask: Tensor, scale: float) -> Tensor:
        similarity = products * scale
        attention = _attention(similarity, mask, 0, torch.empty_like(similarity))
        scores = (attention * similarity).sum(1)
        ctx.save_for_backward(similarity, attention, scores)
        ctx.scale = scale
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        similarity, attention, scores = ctx.saved_tensors
        change = (similarity + (1.0 - scores).unsqueeze(1)).mul_(attention)
        return change.mul_((ctx.scale * upstream).unsqueeze(1)), None, None


class _BlockwiseScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, mask: Tensor, scale: float) -> Tensor:
        scores = features.new_empty(mask.shape)
        for rows, similarity, attention in _attended_blocks(features, mask, scale):
            torch.sum(attention.mul_(similarity), 1, out=scores[:, rows])
        ctx.save_for_backward(features, mask, scores)
        ctx.scale = scale
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        features, mask, scores = ctx.saved_tensors
        weight, shift = (ctx.scale * upstream).unsqueeze(1), (1.0 - scores).unsqueeze(1)
        gradient = torch.zeros_like(features)
        for rows, similarity, attention in _attended_blocks(features, mask, ctx.scale):
            change = similarity.add_(shift[..., rows]).mul_(attention).mul_(weight[..., rows])
            # A similarity moves both of its objects.
            gradient[:, rows] += torch.bmm(change.transpose(1, 2), features)
            gradient.baddbmm_(change, features[:, rows])
        return gradient, None, None


def _attended_blocks(
    features: Tensor, mask: Tensor, scale: float
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield the positions of a block, its similarities and its attention, (groups, size, block).

    Both stand in the same memory for every block, to be read before the next is asked for: left
    to itself the allocator of the C library breaks its free memory up, and takes as much from
    the system as all blocks together need.
    """
    blocks = _blocks(mask)
    largest = (*mask.shape, blocks[0].stop)
    similarities, attentions = (features.new_empty(math.prod(largest)) for _ in range(2))
    for rows in blocks:
        shape = (*mask.shape, rows.stop - rows.start)
        similarity = similarities[: math.prod(shape)].view(shape)
        torch.bmm(features, features[:, rows].transpose(1, 2), out=similarity).mul_(scale)
        buffer = attentions[: math.prod(shape)].view(shape)
        yield rows, similarity, _attention(similarity, mask, rows.start, buffer)


def _attention(similarity: Tensor, mask: Tensor, start: int, out: Tensor) -> Tensor:
    """Return, in `out`, how objects from `start` on attend to the others of their group.

    In (groups, size, block) the objects attended to stand in rows: torch is slow at reducing a
    short last axis.
    """
    padding = ~mask.unsqueeze(-1)
    itself = torch.diagonal(out.copy_(similarity), -start, 1, 2)
    out.masked_fill_(padding, -torch.inf)
    itself.fill_(-torch.inf)
    out.sub_(out.amax(1, keepdim=True)).exp_()
    out.div_(out.sum(1, keepdim=True))
    # The softmax of an object alone is NaN; it attends to nothing.
    itself.fill_(0.0)
    return out.masked_fill_(padding, 0.0)


class Weighting(Protocol):
    """Returns log P(object | group)."""

    @property
    def similarity(self) -> Similarity:
        """S of Eq. 6, which decides what kind of features are needed."""
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
    """The authors' code: softmax of an object's context score against those of negatives.

    The negatives of a group are objects of other groups of the batch, each scored in the context of
    this group. As in that code attention weights carry no gradient and an object's own similarity
    enters the softmax as zero instead of being left out.

    `negatives` (n_negatives, dim): features that every object is held against instead, so that the
        weights of a group do not depend on the rest of its batch. Training takes what the batch
        has.
    """

    similarity: Similarity = field(default_factory=Dot)
    n_negatives: int = 100
    negatives: Tensor | None = field(default=None, compare=False, repr=False)

    def against(self, negatives: Tensor) -> ContrastiveWeighting:
        """Return this weighting with fixed negatives (n_negatives, dim), for answers."""
        return replace(self, negatives=negatives)

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features (groups, size, dim) to log weights (groups, size)."""
        negatives = self._negatives(features, mask)  # (groups, n_negatives, dim)
        if negatives is None:
            return features.new_zeros(mask.shape)

        def own_score(rows: slice) -> Tensor:
            block = features[:, rows]
            attended = self.similarity.between(block, features).detach()
            attended = attended.masked_fill(is_self(mask, rows), 0.0)
            return self._score(attended, features, block, mask)

        own = in_blocks(own_score, mask)
        attended = self.similarity.between(negatives, features).detach()
        others = self._score(attended, features, negatives, mask)  # (groups, n_negatives)
        normalizer = torch.logaddexp(own, others.logsumexp(-1, keepdim=True))
        return (own - normalizer).masked_fill(~mask, 0.0)

    def _score(self, attended: Tensor, features: Tensor, queries: Tensor, mask: Tensor) -> Tensor:
        """Return S of queries (groups, n, dim) and the contexts they attend to, (groups, n)."""
        attention = masked_softmax(attended, mask.unsqueeze(1))
        return self.similarity.matched(self.similarity.context(attention, features), queries)

    def _negatives(self, features: Tensor, mask: Tensor) -> Tensor | None:
        """Pick objects of other groups at even distances, so that no generator is needed."""
        if self.negatives is not None:
            return self.negatives.expand(len(features), *self.negatives.shape)
        if len(features) == 1:
            return None
        flat = features[mask]  # (n_real, dim), ordered by group
        sizes = mask.sum(-1)
        start = sizes.cumsum(0) - sizes
        elsewhere = len(flat) - sizes  # objects of other groups
        step = torch.arange(self.n_negatives, device=sizes.device)
        hop = step * elsewhere.unsqueeze(-1) // self.n_negatives  # (groups, n_negatives)
        index = (start + sizes).unsqueeze(-1) + hop
        return flat[index % len(flat)]

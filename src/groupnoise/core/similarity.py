"""S of Eq. 6: how alike two objects of a group are; softmaxes over padded rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from groupnoise.core.docstrings import inherit_docstring


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
        """Return mixtures of features.

        Of shape (groups, a, dim): one context for each of a, of the kind of the features. `weights`
        (groups, a, b): attention of a to b. `features` (groups, b, dim): vectors, or
        log-probabilities over targets.
        """
        ...

    def matched(self, context: Tensor, features: Tensor) -> Tensor:
        """Return S(context, features) position by position, both (groups, a, dim)."""
        ...


@inherit_docstring
@dataclass(frozen=True)
class Dot(Similarity):
    """The inner product of feature vectors, times `scale`.

    Parameters
    ----------
    scale : float, default=1.0
        Multiplies the product.
    """

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


@inherit_docstring
@dataclass(frozen=True)
class NegativeKL(Similarity):
    """The negative Kullback-Leibler divergence of class probabilities, times `scale`.

    Features are log-probabilities; the context is a mixture of distributions, kept on log scale.
    Paper: the direction is not stated; the first argument of S is the reference distribution.

    Parameters
    ----------
    scale : float, default=1.0
        Multiplies the divergence.
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

"""GroupObjective: pair matching plus group weighting, then selection (Eq. 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import FloatArray, IntArray, offsets_of
from groupnoise.core.checks import check_choice
from groupnoise.core.pair_matching import Matching, log_allowed_mass
from groupnoise.core.selection import All, Marginal, Max, Selection, Tempered, TopK, log_recency
from groupnoise.core.similarity import Dot, NegativeKL, Similarity
from groupnoise.core.weighting import ContrastiveWeighting, SigmoidWeighting, Weighting
from groupnoise.exceptions import ParameterError

NAMED_OBJECTIVES: dict[str, dict[str, str | float]] = {
    "pairwise": {"selection": "all", "weighting_strength": 0.0},
    "matching": {"selection": "all", "weighting_strength": 1.0},
    "maximizing": {"selection": "max", "weighting_strength": 0.0},
    "max_matching": {"selection": "max", "weighting_strength": 1.0},
}
"""The paper's ablation: four values of (selection, weighting strength)."""


class LossOutput(NamedTuple):
    """The loss of each group and what each object had to do with it.

    `per_group`: the negative score of each group.
    `scores` (groups, size): log P(target | object) + strength * log P(object | group) + log
        recency; zero at padding.
    `log_weight` (groups, size): log P(object | group); zero without a weighting.
    `responsibility` (groups, size): the part each object has in its group's score.
    """

    per_group: Tensor
    scores: Tensor
    log_weight: Tensor
    responsibility: Tensor

    @property
    def chosen(self) -> Tensor:
        """Position of the largest responsibility in each group, (groups,); ties go to the first."""
        return self.responsibility.argmax(-1)


@dataclass(frozen=True)
class GroupObjective:
    """The loss of a group, from three replaceable parts.

    Parameters
    ----------
    selection : Selection
        How the scores of objects become the score of their group.
    weighting : Weighting, optional
        Group weighting; None leaves pair matching alone.
    weighting_strength : float, default=1.0
        Lambda: multiplies the log weights. 1 is the paper's, 0 removes the term.
    absent_strength : float, default=0.0
        Multiplies the absent-class term; 0 (the paper) leaves it out.
    recency : float, default=0.0
        How fast trust falls with the distance to the target in ordered groups, see
        :func:`groupnoise.core.selection.log_recency`; 0 (the paper) ignores the order.
    """

    selection: Selection = field(default_factory=Max)
    weighting: Weighting | None = None
    weighting_strength: float = 1.0
    absent_strength: float = 0.0
    recency: float = 0.0

    def __call__(
        self, matching: Matching, *, allowed: Tensor | None = None, progress: float = 1.0
    ) -> LossOutput:
        """Return the loss of each group."""
        log_weight = self.log_weight(matching.features, matching.mask, matching.products)
        scores = matching.log_pair + self.log_trust(log_weight, matching.mask)
        log_score, responsibility = self.selection(scores, matching.mask, progress)
        loss = -log_score
        if self.absent_strength and allowed is not None and matching.log_probabilities is not None:
            log_mass = log_allowed_mass(matching.log_probabilities, allowed, matching.mask)
            loss = loss - self.absent_strength * log_mass
        return LossOutput(loss, scores, log_weight, responsibility)

    def log_weight(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Return log P(object | group), shape (groups, size); zero where it has no say.

        `features` (groups, size, dim): h of the objects: vectors, or log-probabilities over
        targets. `products` (groups, size, size): their inner products, if they are known already.
        """
        if self.weighting is None or self.weighting_strength == 0.0:
            return features.new_zeros(mask.shape)
        return self.weighting(features, mask, products)

    def log_trust(self, log_weight: Tensor, mask: Tensor) -> Tensor:
        """Return what a score adds to pair matching, shape (groups, size).

        Lambda times the log weight, and the log of the recency prior.
        """
        trust = self.weighting_strength * log_weight
        return trust + log_recency(mask, self.recency) if self.recency else trust


def make_selection(
    name: str | Selection, *, temperature: float | Sequence[float] = (1.0, 0.3), k: int = 2
) -> Selection:
    """Return a selection by name; an object that already is one passes through."""
    if callable(name):
        return name
    check_choice("selection", name, ("max", "marginal", "tempered", "top_k", "all"))
    if name == "tempered":
        path = np.asarray(temperature)
        if path.shape not in ((), (2,)) or path.dtype.kind not in "iuf":
            raise ParameterError(
                f"temperature must be a number or a (start, end) pair; got {temperature!r}."
            )
        start, end = np.broadcast_to(path, 2).astype(np.float64).tolist()
        return Tempered(start, end)
    if name == "top_k":
        return TopK(k)
    plain: dict[str, Selection] = {"max": Max(), "marginal": Marginal(), "all": All()}
    return plain[name]


def make_weighting(
    form: str | Weighting | None, *, similarity: str | Similarity = "dot", scale: float = 1.0
) -> Weighting | None:
    """Return a group weighting by name; None, or an object that is one, passes through.

    `form` (one of "sigmoid", "contrastive"): the paper's form, or that of the authors' code.
    `similarity` (one of "dot", "neg_kl"): s of Eq. 6. `scale`: multiplies S where it is given by
    name; an object has a scale of its own.
    """
    if form is None or not isinstance(form, str):
        return form
    check_choice("weighting", form, ("sigmoid", "contrastive"))
    if isinstance(similarity, str):
        check_choice("similarity", similarity, ("dot", "neg_kl"))
        similarity = Dot(scale) if similarity == "dot" else NegativeKL(scale)
    if form == "sigmoid":
        return SigmoidWeighting(similarity)
    return ContrastiveWeighting(similarity)


class ObjectScores(NamedTuple):
    """Which object of each group matched, and how every object scored.

    `chosen`: position inside its group of the object that matches best.
    `scores`: matching score of every object, groups one after the other.
    `log_weight`: log P(object | group), before it is multiplied by the weighting strength.
    `responsibility`: the part of each object in its group; sums to one over a group under soft
        selection.
    """

    chosen: IntArray
    scores: FloatArray
    log_weight: FloatArray
    responsibility: FloatArray
    offsets: IntArray


def mean_probability(log_probabilities: list[Tensor], weights: list[float] | None = None) -> Tensor:
    """Return the log of the probability that members give on average, shape of each."""
    if weights is not None:
        pairs = zip(log_probabilities, weights, strict=True)
        return torch.stack([each + math.log(weight) for each, weight in pairs]).logsumexp(0)
    return torch.stack(log_probabilities).logsumexp(0) - math.log(len(log_probabilities))


def mean_output(outputs: list[LossOutput]) -> LossOutput:
    """Return the average of what members say of one batch."""
    return LossOutput(*(torch.stack(parts).mean(0) for parts in zip(*outputs, strict=True)))


def object_scores(outputs: list[tuple[LossOutput, Tensor]]) -> ObjectScores:
    """Put the outputs of several batches, each with its mask, in one table."""
    chosen, scores, weights, responsibilities, sizes = [], [], [], [], []
    for output, mask in outputs:
        # A mask may have gaps (candidate labels), so a position in the row is not one in the group.
        rank = torch.cumsum(mask, -1) - 1
        best = output.scores.masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
        chosen.append(rank.gather(-1, best).squeeze(-1).numpy())
        scores.append(output.scores[mask].numpy())
        weights.append(output.log_weight[mask].numpy())
        responsibilities.append(output.responsibility[mask].numpy())
        sizes.append(mask.sum(-1).numpy())
    return ObjectScores(
        np.concatenate(chosen),
        np.concatenate(scores),
        np.concatenate(weights),
        np.concatenate(responsibilities),
        offsets_of(np.concatenate(sizes)),
    )

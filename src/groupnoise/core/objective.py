"""GroupObjective: pair matching plus group weighting, then selection (Eq. 3); selections; recency.

A selection makes one score of the scores of a group's objects, and returns the responsibility of
each object for it: the derivative of the group's score by the object's score. Ties under `max` go
to the first object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.pair_matching import Matching, log_allowed_mass
from groupnoise.core.weighting import (
    ContrastiveWeighting,
    Dot,
    NegativeKL,
    SigmoidWeighting,
    Similarity,
    Weighting,
    masked_logsumexp,
    masked_softmax,
)
from groupnoise.exceptions import ParameterError

NAMED_OBJECTIVES: dict[str, dict[str, str | float]] = {
    "pairwise": {"selection": "all", "weighting_strength": 0.0},
    "matching": {"selection": "all", "weighting_strength": 1.0},
    "maximizing": {"selection": "max", "weighting_strength": 0.0},
    "max_matching": {"selection": "max", "weighting_strength": 1.0},
}
"""The paper's ablation: four values of (selection, weighting strength)."""


class Selected(NamedTuple):
    """The scores of the groups, and the part each object has in them, zero at padding.

    Shapes (groups,) and (groups, size).
    """

    log_score: Tensor
    responsibility: Tensor


class Selection(Protocol):
    """Turns scores of objects into a score of their group."""

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Select among the scores of each group."""
        ...


@dataclass(frozen=True)
class Max:
    """The best object alone: the paper's Eq. 3."""

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Return the largest score; the responsibility is one at the object chosen."""
        best = scores.masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
        responsibility = torch.zeros_like(scores).scatter_(-1, best, 1.0)
        return Selected(scores.gather(-1, best).squeeze(-1), responsibility)


@dataclass(frozen=True)
class Marginal:
    """Log-sum-exp: the first line of the paper's theorem, of which `Max` is a lower bound."""

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Return the log of the summed probabilities; the responsibility is the posterior."""
        if bool(mask.all()):  # as in most batches of windows: a third of the operations
            log_score = scores.logsumexp(-1)
            return Selected(log_score, (scores - log_score.unsqueeze(-1)).detach().exp_())
        return Selected(masked_logsumexp(scores, mask), masked_softmax(scores.detach(), mask))


@dataclass(frozen=True)
class Tempered:
    """temperature * logsumexp(score / temperature): marginal at 1, max towards 0.

    Parameters
    ----------
    start : float, default=1.0
        Temperature at the beginning of training.
    end : float, default=0.3
        Temperature at its end; in between it follows a geometric path.
    """

    start: float = 1.0
    end: float = 0.3

    def __post_init__(self) -> None:
        check_positive("temperature start", self.start)
        check_positive("temperature end", self.end)

    def temperature(self, progress: float) -> float:
        """Return the temperature after a fraction `progress` of the training.

        Parameters
        ----------
        progress : float
            Between 0 and 1.

        Returns
        -------
        float
            `start` at 0, `end` at 1.
        """
        return float(self.start ** (1.0 - progress) * self.end**progress)

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Return the tempered score; the responsibility is the softmax at that temperature."""
        temperature = self.temperature(progress)
        cooled = scores / temperature
        return Selected(
            temperature * masked_logsumexp(cooled, mask), masked_softmax(cooled.detach(), mask)
        )


@dataclass(frozen=True)
class TopK:
    """The mean of the `k` best scores; a smaller group uses all it has.

    Parameters
    ----------
    k : int, default=2
        How many scores are averaged.
    """

    k: int = 2

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Return the mean over the best; they are equally responsible."""
        ranked = scores.masked_fill(~mask, -torch.inf)
        best = ranked.topk(min(self.k, scores.shape[-1]), dim=-1).indices
        responsibility = torch.zeros_like(scores).scatter_(-1, best, 1.0) * mask
        responsibility = responsibility / responsibility.sum(-1, keepdim=True)
        return Selected((scores.masked_fill(~mask, 0.0) * responsibility).sum(-1), responsibility)


@dataclass(frozen=True)
class All:
    """The sum over every object: no selection, as in Pairwise and Matching of the paper."""

    def __call__(self, scores: Tensor, mask: Tensor, progress: float = 1.0) -> Selected:
        """Return the summed scores; every real object has a responsibility of one."""
        return Selected(scores.masked_fill(~mask, 0.0).sum(-1), mask.to(scores.dtype))


def log_recency(mask: Tensor, rate: float) -> Tensor:
    """Return a log prior that falls by `rate` with each object between an object and the target.

    Zero for the last object of a group, the one next to the target, and at padding. With log(2)
    each step back halves the trust.

    >>> import torch
    >>> log_recency(torch.tensor([[True, True, True], [True, False, False]]), 0.5).tolist()
    [[-1.0, -0.5, -0.0], [-0.0, 0.0, 0.0]]
    """
    objects_after = mask.sum(-1, keepdim=True) - mask.cumsum(-1)  # (groups, size)
    return (-rate * objects_after).masked_fill(~mask, 0.0)


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

    `weighting`: None leaves pair matching alone.
    `weighting_strength`: lambda: multiplies the log weights. 1 is the paper's, 0 removes the term.
    `absent_strength`: multiplies the absent-class term; 0 (the paper) leaves it out.
    `recency`: how fast trust falls with the distance to the target in ordered groups, see
        :func:`log_recency`; 0 (the paper) ignores the order.
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

        `products`: inner products of the features, if they are known already.
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

    "sigmoid" is the paper's form, "contrastive" that of the authors' code. `scale`: multiplies S
    where it is given by name; an object has a scale of its own.
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


def average_log_probabilities(
    log_probabilities: list[Tensor], weights: list[float] | None = None
) -> Tensor:
    """Return the log of the probability that members give on average, shape of each."""
    if weights is not None:
        pairs = zip(log_probabilities, weights, strict=True)
        return torch.stack([each + math.log(weight) for each, weight in pairs]).logsumexp(0)
    return torch.stack(log_probabilities).logsumexp(0) - math.log(len(log_probabilities))


def average_outputs(outputs: list[LossOutput]) -> LossOutput:
    """Return the average of what members say of one batch."""
    return LossOutput(*(torch.stack(parts).mean(0) for parts in zip(*outputs, strict=True)))


def collect_object_scores(outputs: list[tuple[LossOutput, Tensor]]) -> ObjectScores:
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
        offsets_from_sizes(np.concatenate(sizes)),
    )

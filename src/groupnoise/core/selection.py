"""Selection: from the scores of a group's objects to one score of the group; recency.

Each selection also returns the responsibility of each object for the result: the derivative of
the group's score by the object's score. Ties under `max` go to the first object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.similarity import masked_logsumexp, masked_softmax


class Selected(NamedTuple):
    """The scores of the groups, and the responsibilities of their objects.

    Attributes
    ----------
    log_score : Tensor of shape (groups,)
        The score of each group.
    responsibility : Tensor of shape (groups, size)
        The part each object has in its group's score, zero at padding.
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

    Of shape (groups, size): zero for the last object of a group and at padding. `mask` (groups,
    size): True where an object is real; objects stand in order, the one next to the target last.
    `rate`: 0 trusts all objects alike; with log(2) each step back halves the trust.

    Examples
    --------
    >>> import torch
    >>> log_recency(torch.tensor([[True, True, True], [True, False, False]]), 0.5).tolist()
    [[-1.0, -0.5, -0.0], [-0.0, 0.0, 0.0]]
    """
    objects_after = mask.sum(-1, keepdim=True) - mask.cumsum(-1)  # (groups, size)
    return (-rate * objects_after).masked_fill(~mask, 0.0)

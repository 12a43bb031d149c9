"""The set that pair matching normalizes over: all, a shared sample, or the rest of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from groupnoise.core.checks import check_count

MULTINOMIAL_IDS = 1 << 24
"""The most ids that torch draws from by their chances."""


@dataclass(frozen=True)
class Candidates:
    """Candidates of one batch.

    `log_expected_count`: subtracted from the logits, so that a sample estimates the whole (logQ).
    `holds_targets`: whether the target of every row is among `ids`; if not, it is added row by row.
    `is_everything`: whether `ids` are all there are, in order: nothing then needs to be looked up.
    """

    ids: Tensor
    log_expected_count: Tensor | None
    holds_targets: bool
    is_everything: bool = False


class CandidateSource(Protocol):
    """Draws the candidates of a batch."""

    def draw(self, target_ids: Tensor, generator: torch.Generator) -> Candidates:
        """Return the candidates of a batch."""
        ...


@dataclass(frozen=True)
class FullCandidates(CandidateSource):
    """Every id: the exact softmax of Eq. 5."""

    n_ids: int

    def draw(self, target_ids: Tensor, generator: torch.Generator) -> Candidates:
        """Return all ids, in order."""
        return Candidates(
            torch.arange(self.n_ids, device=target_ids.device),
            None,
            holds_targets=True,
            is_everything=True,
        )


@dataclass(frozen=True)
class SampledCandidates(CandidateSource):
    """One sample of negatives shared by the batch, so that scoring is a matrix product.

    `n_negatives`: how many are drawn, with replacement.
    `probabilities` (n_ids,): chance of each id; uniform by default.
    `corrected`: whether to subtract the log of the expected count from each sampled logit, which
        makes the sampled denominator an unbiased estimate of the full one.
    """

    n_ids: int
    n_negatives: int
    probabilities: Tensor | None = None
    corrected: bool = True

    def __post_init__(self) -> None:
        check_count("n_negatives", self.n_negatives)

    def draw(self, target_ids: Tensor, generator: torch.Generator) -> Candidates:
        """Return a fresh sample; the targets are not part of it on purpose."""
        if self.probabilities is None:
            ids = torch.randint(self.n_ids, (self.n_negatives,), generator=generator)
            log_expected = torch.full((self.n_negatives,), self.n_negatives / self.n_ids).log()
        else:
            ids = self._weighted_ids(self.probabilities, generator)
            log_expected = (self.n_negatives * self.probabilities[ids]).log()
        ids, log_expected = ids.to(target_ids.device), log_expected.to(target_ids.device)
        return Candidates(ids, log_expected if self.corrected else None, holds_targets=False)

    def _weighted_ids(self, probabilities: Tensor, generator: torch.Generator) -> Tensor:
        if self.n_ids <= MULTINOMIAL_IDS:
            return torch.multinomial(
                probabilities, self.n_negatives, replacement=True, generator=generator
            )
        # An id is drawn where a uniform number falls into its step of the cumulated chances.
        steps = probabilities.double().cumsum(0)
        uniform = torch.rand(self.n_negatives, dtype=torch.float64, generator=generator)
        return torch.searchsorted(steps, uniform * steps[-1], right=True).clamp_max(self.n_ids - 1)


@dataclass(frozen=True)
class InBatchCandidates(CandidateSource):
    """The distinct targets of the batch itself.

    `frequencies` (n_ids,): fraction of the training groups that have each id as target; corrects
        for common ids being candidates more often. None leaves the logits as they are.
    """

    frequencies: Tensor | None = None

    def draw(self, target_ids: Tensor, generator: torch.Generator) -> Candidates:
        """Return each distinct id of the batch once."""
        ids = torch.unique(target_ids)
        if self.frequencies is None:
            return Candidates(ids, None, holds_targets=True)
        # The chance that an id is the target at least once in a batch of this size.
        frequencies = self.frequencies[ids.cpu()].to(ids.device)
        chance = 1.0 - (1.0 - frequencies).pow(len(target_ids))
        return Candidates(ids, chance.clamp_min(1e-12).log(), holds_targets=True)

"""What is known of the objects of a group before any training, added to pair matching."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groupnoise.groups import GroupBatch
from groupnoise.matching import MatchingModel
from groupnoise.objectives._pair_matching import Matcher, Matching


@dataclass(frozen=True)
class PriorMatching:
    """Pair matching with a fixed log weight for each object of each group.

    Parameters
    ----------
    pair : Matcher
        Scores the objects, which must be ids.
    log_prior : Tensor of shape (n_groups, n_ids)
        Added to log P(target | object): how far each id is trusted in each training group, up to
        a constant per group.
    """

    pair: Matcher
    log_prior: Tensor

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with its targets."""
        matching = self.pair(model, batch, generator)
        trust = self.log_prior[batch.rows].gather(1, batch.objects)
        log_pair = matching.log_pair + trust.masked_fill(~matching.mask, 0.0)
        return matching._replace(log_pair=log_pair)

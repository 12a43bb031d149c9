"""Scores of many histories for ranking at size: slices of the catalogue, or of the histories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.clicks.mixture import Float32Array, Mixture
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.model import MatchingModel

MIN_EXPONENT = -80.0
"""exp of anything below comes near the smallest number of single precision."""


class ItemSlices(NamedTuple):
    """Scores of many histories for a few items at a time.

    Taken item by item, every distinct query is scored once for all histories, and nothing as
    large as the catalogue times the histories is ever held. Scores are not on log scale.

    `items` (n_items, dim + 2): vectors of all items, their bias, and a one for the log-normalizer.
    `mixture`: the histories; its queries end in a one for the bias and in the log-normalizer taken
        off.
    """

    items: Tensor
    mixture: Mixture

    @torch.no_grad()
    def scores(self, items: slice, rows: IntArray | None = None) -> FloatArray:
        """Return the scores of a slice of items after the histories, or after those in `rows`.

        Of shape (n_rows, n_items of the slice). `rows`: the histories to score; all by default.
        """
        mixture = self.mixture if rows is None else self.mixture.take(rows)
        shares = (torch.from_numpy(mixture.queries) @ self.items[items].t()).exp_()
        mixed: FloatArray = F.embedding_bag(
            torch.from_numpy(mixture.query_of),
            shares,
            torch.from_numpy(mixture.offsets[:-1]),
            mode="sum",
            per_sample_weights=torch.from_numpy(np.exp(mixture.log_weight)),
        ).numpy()
        return mixed


class HistoryLogits(NamedTuple):
    """Scores, before the softmax, of histories that are one query each and are read once.

    `items` (n_items, dim + 1): vectors of all items, and their bias.
    `queries` (n_histories, dim + 1): the histories, and a one for the bias.
    """

    items: Float32Array
    queries: Float32Array

    def whole_rows(self, rows: slice) -> FloatArray:
        """Return the scores of all items after some histories.

        Of shape (n_rows, n_items).
        """
        return np.asarray(self.queries[rows] @ self.items.T)


@torch.no_grad()
def history_logits(model: MatchingModel, mixture: Mixture) -> HistoryLogits:
    """Return histories that were read, to be scored a few at a time.

    `model`, `mixture`: as in :func:`groupnoise.clicks.history_scores.score_catalogue`; one query
    each.
    """
    everything = torch.arange(model.n_targets)
    targets, bias = model.encode_targets(everything), model.target_bias(everything)
    offset = targets.new_zeros(len(targets)) if bias is None else bias
    items = torch.cat([targets, offset.unsqueeze(-1)], -1).numpy()
    return HistoryLogits(items, np.pad(mixture.queries, ((0, 0), (0, 1)), constant_values=1.0))


@torch.no_grad()
def item_slices(model: MatchingModel, mixture: Mixture) -> ItemSlices | None:
    """Prepare scores by slices of items, or return None where probabilities may underflow.

    `model`, `mixture`: as in :func:`groupnoise.clicks.history_scores.score_catalogue`.
    """
    queries, everything = torch.from_numpy(mixture.queries), torch.arange(model.n_targets)
    targets, bias = model.encode_targets(everything), model.target_bias(everything)
    log_denominator = log_normalizer(queries, targets, bias)
    # By Cauchy and Schwarz no logit is larger than this, on either side of zero.
    largest = queries.norm(dim=-1).amax() * targets.norm(dim=-1).amax()
    offset = targets.new_zeros(len(targets)) if bias is None else bias
    smallest = float(mixture.log_weight.min()) - log_denominator.amax() - largest + offset.amin()
    if smallest < MIN_EXPONENT:
        return None
    one = queries.new_ones(1)
    rows = torch.cat([queries, one.expand(len(queries), 1), -log_denominator.unsqueeze(-1)], -1)
    items = torch.cat([targets, offset.unsqueeze(-1), one.expand(len(targets), 1)], -1)
    return ItemSlices(items, mixture._replace(queries=rows.numpy()))

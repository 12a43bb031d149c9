"""Scores of next items for histories: over the whole catalogue, or for some.

MM+ sums, over the clicks of a history, the probability of an item given the click times the trust
in the click. The first depends on the click alone, so it is computed once per distinct click.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.similarity import masked_logsumexp
from groupnoise.training.estimator import ObjectScores


class ItemVectors(NamedTuple):
    """What a recall service needs of a model.

    Attributes
    ----------
    query : float32 ndarray of shape (n_items, dim)
        f of every item.
    target : float32 ndarray of shape (n_items, dim)
        g of every item.
    bias : float32 ndarray of shape (n_items,)
        Bias of every item as a target.
    """

    query: NDArray[np.float32]
    target: NDArray[np.float32]
    bias: NDArray[np.float32]


MIN_EXPONENT = -80.0
"""exp of anything below comes near the smallest number of single precision."""


def recent_clicks(histories: Groups, size: int) -> tuple[Tensor, Tensor]:
    """Return the last `size` clicks of each history, padded, and a mask of those that are real.

    Parameters
    ----------
    histories : Groups
        Clicked items in time order, at least one in each.
    size : int
        The most clicks a recommendation is made from.

    Returns
    -------
    clicks : int64 Tensor of shape (groups, size of the largest)
    mask : bool Tensor of the same shape
    """
    taken = np.minimum(histories.sizes, size)
    place = np.arange(taken.max())
    end = histories.offsets[1:, None]
    mask = place < taken[:, None]
    clicks = histories.objects[np.minimum(end - taken[:, None] + place, end - 1)]
    return torch.from_numpy(clicks.astype(np.int64)), torch.from_numpy(mask)


@torch.no_grad()
def score_catalogue(
    model: MatchingModel, objective: GroupObjective, clicks: Tensor, mask: Tensor
) -> Tensor:
    """Return the log score of every item after each history.

    Parameters
    ----------
    model : MatchingModel
        The trained tables.
    objective : GroupObjective
        Says how far each click is trusted.
    clicks : int64 Tensor of shape (groups, size)
        Item indices, padded with any.
    mask : bool Tensor of shape (groups, size)
        True where a click is real.

    Returns
    -------
    Tensor of shape (groups, n_items)
    """
    distinct, slot = torch.unique(clicks, return_inverse=True)
    vectors = model.encode_objects(distinct)
    log_trust = _log_trust(objective, vectors[slot], mask)
    logits = model.logits(vectors, torch.arange(model.n_targets))  # (n_distinct, n_items)
    if clicks.shape[1] == 1:
        log_pair = logits.log_softmax(-1)
        return log_pair.index_select(0, slot[:, 0]).add_(log_trust)
    shares = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
    log_weight = (log_trust - shares.sum(-1).log()[slot]).masked_fill(~mask, -torch.inf)
    level = log_weight.amax(-1, keepdim=True)
    # A weighted sum of rows is what an embedding bag computes, several times faster than logs.
    mixed = F.embedding_bag(slot, shares, mode="sum", per_sample_weights=(log_weight - level).exp())
    vanished = (mixed.amin(-1) == 0.0).nonzero().squeeze(-1)
    scores = mixed.log_().add_(level)
    if len(vanished):
        # Items far below all others leave the range of exp; such rows are summed on log scale.
        used, used_slot = torch.unique(slot[vanished], return_inverse=True)
        log_pair = model.logits(vectors[used], torch.arange(model.n_targets)).log_softmax(-1)
        trusted = log_trust[vanished].masked_fill(~mask[vanished], -torch.inf)
        scores[vanished] = _log_mixed(log_pair, used_slot, trusted)
    return scores


def _log_mixed(log_pair: Tensor, slot: Tensor, log_weight: Tensor) -> Tensor:
    """Return the log of weighted sums of the exponentials of rows, shape (groups, n_items).

    Parameters
    ----------
    log_pair : Tensor of shape (n_distinct, n_items)
        The rows on log scale.
    slot : int64 Tensor of shape (groups, size)
        The rows of each sum.
    log_weight : Tensor of shape (groups, size)
        The log of their weights; -inf leaves one out.
    """
    # Place by place: all terms at once would be as large as the catalogue times all clicks.
    total = log_pair.new_full((len(slot), log_pair.shape[1]), -torch.inf)
    for rows, weights in zip(slot.unbind(-1), log_weight.unbind(-1), strict=True):
        total = torch.logaddexp(total, log_pair[rows] + weights.unsqueeze(-1))
    return total


class ItemSlices(NamedTuple):
    """Scores of many histories for a few items at a time.

    Taken item by item, every distinct click is scored once for all histories, and nothing as
    large as the catalogue times the histories is ever held. Scores are not on log scale.

    Attributes
    ----------
    clicks : Tensor of shape (n_distinct, dim + 2)
        Vectors of the distinct clicks, a one for the bias, and the normalizer taken off.
    items : Tensor of shape (n_items, dim + 2)
        Vectors of all items, their bias, and a one for the normalizer.
    slot : int64 Tensor of shape (groups, size)
        Which row of `clicks` each click is.
    weight : Tensor of shape (groups, size)
        How far each click is trusted; 0 at padding.
    """

    clicks: Tensor
    items: Tensor
    slot: Tensor
    weight: Tensor

    @torch.no_grad()
    def scores(self, items: slice, rows: IntArray | None = None) -> FloatArray:
        """Return the scores of a slice of items after the histories, or after those in `rows`."""
        clicks, slot, weight = self.clicks, self.slot, self.weight
        if rows is not None:
            distinct, slot = torch.unique(slot[rows], return_inverse=True)
            clicks, weight = clicks[distinct], weight[rows]
        shares = (clicks @ self.items[items].t()).exp_()
        mixed: FloatArray = F.embedding_bag(
            slot, shares, mode="sum", per_sample_weights=weight
        ).numpy()
        return mixed


@torch.no_grad()
def item_slices(
    model: MatchingModel, objective: GroupObjective, clicks: Tensor, mask: Tensor
) -> ItemSlices | None:
    """Prepare scores by slices of items, or return None where probabilities may underflow.

    Parameters
    ----------
    model, objective, clicks, mask
        As in :func:`score_catalogue`.
    """
    distinct, slot = torch.unique(clicks, return_inverse=True)
    vectors = model.encode_objects(distinct)
    everything = torch.arange(model.n_targets)
    targets, bias = model.encode_targets(everything), model.target_bias(everything)
    level = log_normalizer(vectors, targets, bias)
    log_trust = _log_trust(objective, vectors[slot], mask).masked_fill(~mask, -torch.inf)
    # By Cauchy and Schwarz no logit is larger than this, on either side of zero.
    largest = vectors.norm(dim=-1).amax() * targets.norm(dim=-1).amax()
    offset = targets.new_zeros(len(targets)) if bias is None else bias
    smallest = log_trust[mask].amin() - level.amax() - largest + offset.amin()
    if smallest < MIN_EXPONENT:
        return None
    one = vectors.new_ones(1)
    return ItemSlices(
        torch.cat([vectors, one.expand(len(vectors), 1), -level.unsqueeze(-1)], -1),
        torch.cat([targets, offset.unsqueeze(-1), one.expand(len(targets), 1)], -1),
        slot,
        log_trust.exp(),
    )


@torch.no_grad()
def score_items(
    model: MatchingModel, objective: GroupObjective, clicks: Tensor, mask: Tensor, items: Tensor
) -> Tensor:
    """Return the log score of the named items after each history.

    Parameters
    ----------
    model, objective, clicks, mask
        As in :func:`score_catalogue`.
    items : int64 Tensor of shape (groups, n_candidates)
        Item indices.

    Returns
    -------
    Tensor of shape (groups, n_candidates)
    """
    distinct, slot = torch.unique(clicks, return_inverse=True)
    vectors = model.encode_objects(distinct)
    everything = torch.arange(model.n_targets)
    level = log_normalizer(vectors, model.encode_targets(everything), model.target_bias(everything))
    features = vectors[slot]
    log_weight = _log_trust(objective, features, mask) - level[slot]
    targets = model.encode_targets(items.flatten()).view(*items.shape, -1)
    logits = features @ targets.transpose(1, 2)  # (groups, size, n_candidates)
    bias = model.target_bias(items)
    if bias is not None:
        logits += bias.unsqueeze(1)
    terms = (logits + log_weight.unsqueeze(-1)).transpose(1, 2)
    return masked_logsumexp(terms, mask.unsqueeze(1).expand(-1, items.shape[1], -1))


def among_all_clicks(found: ObjectScores, is_known: BoolArray, sizes: IntArray) -> ObjectScores:
    """Return scores of known clicks at their places among all clicks of their histories.

    Parameters
    ----------
    found : ObjectScores
        Of the known clicks, at least one in each history.
    is_known : bool ndarray of shape (n_clicks,)
        Which of all clicks these are.
    sizes : int64 ndarray of shape (n_histories,)
        How many clicks each history has, known or not.

    Returns
    -------
    ObjectScores
        Unknown clicks have a score and weight of -inf, and no share.
    """
    place = np.flatnonzero(is_known)
    offsets = np.concatenate([[0], np.cumsum(sizes)])

    def spread(values: FloatArray, fill: float) -> FloatArray:
        full = np.full(len(is_known), fill, dtype=values.dtype)
        full[place] = values
        return full

    return ObjectScores(
        place[found.offsets[:-1] + found.chosen] - offsets[:-1],
        spread(found.scores, -np.inf),
        spread(found.log_weight, -np.inf),
        spread(found.responsibility, 0.0),
        offsets,
    )


def _log_trust(objective: GroupObjective, features: Tensor, mask: Tensor) -> Tensor:
    """Return what the scores of clicks add to pair matching, shape (groups, size)."""
    return objective.log_trust(objective.log_weight(features, mask), mask)

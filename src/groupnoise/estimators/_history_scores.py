"""Scores of next items for histories: over the whole catalogue, or for named items.

MM+ sums, over the clicks of a history, the probability of an item given the click times the trust
in the click. The first depends on the click alone, so it is computed once per distinct click.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.matching import MatchingModel, log_normaliser, masked_logsumexp
from groupnoise.objectives import GroupObjective


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
    # Items far below all others leave the range of exp; such rows are summed on log scale.
    for row in vanished.tolist():
        real = mask[row]
        log_pair = model.logits(vectors[slot[row, real]], torch.arange(model.n_targets))
        terms = log_pair.log_softmax(-1) + log_trust[row, real].unsqueeze(-1)
        scores[row] = terms.logsumexp(0)
    return scores


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
    level = log_normaliser(vectors, model.encode_targets(everything), model.target_bias(everything))
    features = vectors[slot]
    log_weight = _log_trust(objective, features, mask) - level[slot]
    targets = model.encode_targets(items.flatten()).view(*items.shape, -1)
    logits = features @ targets.transpose(1, 2)  # (groups, size, n_candidates)
    bias = model.target_bias(items)
    if bias is not None:
        logits += bias.unsqueeze(1)
    terms = (logits + log_weight.unsqueeze(-1)).transpose(1, 2)
    return masked_logsumexp(terms, mask.unsqueeze(1).expand(-1, items.shape[1], -1))


def _log_trust(objective: GroupObjective, features: Tensor, mask: Tensor) -> Tensor:
    """Return what the scores of clicks add to pair matching, shape (groups, size)."""
    return objective.log_trust(objective.log_weight(features, mask), mask)

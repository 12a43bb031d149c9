"""Scores of next items for histories on torch: over the catalogue, by slices, or of named items.

A scoring rule has turned each history into weighted queries. The probability of an item given a
query depends on the query alone, so it is computed once per distinct query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.clicks.evaluation.ranking import RowScores
from groupnoise.clicks.mixture import (
    Float32Array,
    ItemVectors,
    Mixture,
    popular_negatives,
    recent_clicks,
    unique_inverse,
)
from groupnoise.clicks.scoring import GroupWeight, ScoringRule
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, ObjectScores
from groupnoise.core.weighting import (
    ContrastiveWeighting,
    Dot,
    NegativeKL,
    SigmoidWeighting,
    Weighting,
)

READ_AT_ONCE = 1024
"""Histories from which an encoder leaves out clicks at a time."""

_FORMS = {SigmoidWeighting: "sigmoid", ContrastiveWeighting: "contrastive"}
MIN_EXPONENT = -80.0
"""exp of anything below comes near the smallest number of single precision."""


def rule_from_objective(
    objective: GroupObjective, *, scope: str, window_size: int | None, popularity: FloatArray
) -> ScoringRule:
    """Return the scoring rule with the group weighting of an objective."""
    weighting = objective.weighting
    named: dict[str, Any] = {"weighting": None}
    if weighting is not None:
        similarity = weighting.similarity
        form = _FORMS.get(type(weighting))
        if form is None or not isinstance(similarity, (Dot, NegativeKL)):
            named["weighting"] = _as_numpy(weighting)
        else:
            named["weighting"] = form
            named["similarity"] = "dot" if isinstance(similarity, Dot) else "neg_kl"
            named["similarity_scale"] = similarity.scale
        if isinstance(weighting, ContrastiveWeighting):
            named["negatives"] = popular_negatives(popularity, weighting.n_negatives)
    return ScoringRule(
        scope=scope,
        window_size=window_size,
        weighting_strength=objective.weighting_strength,
        recency=objective.recency,
        **named,
    )


def _as_numpy(weighting: Weighting) -> GroupWeight:
    """Return a custom weighting as a function of arrays."""

    def log_group_weight(features: Float32Array) -> Float32Array:
        with torch.no_grad():
            mask = torch.ones(features.shape[:2], dtype=torch.bool)
            log_weight: Float32Array = weighting(torch.from_numpy(features), mask).numpy()
        return log_weight

    log_group_weight.__qualname__ = type(weighting).__name__
    return log_group_weight


@torch.no_grad()
def batch_independent_objective(
    objective: GroupObjective, rule: ScoringRule, model: MatchingModel
) -> GroupObjective:
    """Return an objective whose weights do not depend on the rest of the batch.

    `rule`: has the negatives of a contrastive weighting.
    """
    if not isinstance(objective.weighting, ContrastiveWeighting):
        return objective
    negatives = model.encode_objects(torch.tensor(rule.negatives))
    return replace(objective, weighting=objective.weighting.against(negatives))


@torch.no_grad()
def encode_histories(model: MatchingModel, rule: ScoringRule, histories: Groups) -> Mixture:
    """Return the weighted queries of histories under a rule."""

    def features_of(items: IntArray) -> Float32Array:
        return model.encode_objects(torch.from_numpy(items)).detach().numpy()

    return rule.mixture(features_of, histories.objects.astype(np.int64), histories.offsets)


@torch.no_grad()
def score_catalogue(model: MatchingModel, mixture: Mixture) -> Tensor:
    """Return the log score of every item after each history, shape (groups, n_items)."""
    queries = torch.from_numpy(mixture.queries)
    query_of, log_weight = torch.from_numpy(mixture.query_of), torch.from_numpy(mixture.log_weight)
    logits = model.logits(queries, torch.arange(model.n_targets))  # (n_queries, n_items)
    if len(query_of) == len(mixture.offsets) - 1:  # one query each
        log_pair = logits.log_softmax(-1)
        return log_pair.index_select(0, query_of).add_(log_weight.unsqueeze(-1))
    likelihoods = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
    log_weight = log_weight - likelihoods.sum(-1).log()[query_of]
    highest = np.maximum.reduceat(log_weight.numpy(), mixture.offsets[:-1])  # (groups,)
    peak = torch.from_numpy(np.repeat(highest, np.diff(mixture.offsets)))
    # A weighted sum of rows is what an embedding bag computes, several times faster than logs.
    mixed = F.embedding_bag(
        query_of,
        likelihoods,
        torch.from_numpy(mixture.offsets[:-1]),
        mode="sum",
        per_sample_weights=(log_weight - peak).exp(),
    )
    vanished = (mixed.amin(-1) == 0.0).nonzero().squeeze(-1)
    scores = mixed.log_().add_(torch.from_numpy(highest).unsqueeze(-1))
    if len(vanished):
        # Items far below all others leave the range of exp; such rows are summed on log scale.
        scores[vanished] = _log_mixed(model, mixture.take(vanished.numpy()))
    return scores


def _log_mixed(model: MatchingModel, mixture: Mixture) -> Tensor:
    """Return what :func:`score_catalogue` does, with every sum on log scale."""
    everything = torch.arange(model.n_targets)
    log_pair = model.logits(torch.from_numpy(mixture.queries), everything).log_softmax(-1)
    total = log_pair.new_full((len(mixture.offsets) - 1, model.n_targets), -torch.inf)
    for histories, terms in mixture.by_size():
        # Term by term: all at once would be as large as the catalogue times all clicks.
        for column in terms.T:
            term = log_pair[mixture.query_of[column]]
            term += torch.from_numpy(mixture.log_weight[column]).unsqueeze(-1)
            total[histories] = torch.logaddexp(total[histories], term)
    return total


@torch.no_grad()
def score_items(model: MatchingModel, mixture: Mixture, items: Tensor) -> Tensor:
    """Return the log score of the named items after each history, shape of `items`."""
    queries, everything = torch.from_numpy(mixture.queries), torch.arange(model.n_targets)
    log_denominator = log_normalizer(
        queries, model.encode_targets(everything), model.target_bias(everything)
    )
    log_weight = torch.from_numpy(mixture.log_weight) - log_denominator[mixture.query_of]
    scores = queries.new_empty(items.shape)
    for histories, terms in mixture.by_size():
        positives = items[histories]
        targets = model.encode_targets(positives.flatten()).view(*positives.shape, -1)
        logits = queries[mixture.query_of[terms]] @ targets.transpose(1, 2)
        bias = model.target_bias(positives)
        if bias is not None:
            logits += bias.unsqueeze(1)
        logits += log_weight[terms].unsqueeze(-1)  # (groups of this size, size, n_candidates)
        scores[histories] = logits.logsumexp(1)
    return scores


def evidence_of_clicks(rule: ScoringRule, vectors: ItemVectors, groups: Groups) -> ObjectScores:
    """Return the contribution of each click to the score of the next item.

    Responsibilities are the normalised positive contributions; log weights those of the positions.
    Clicks before the window score 0. `rule`: adds evidence over a history. `groups`: item indices
    with targets.
    """
    scores = _encoder_evidence(rule, vectors, groups)
    summed = replace(rule, encoders=())
    log_weight = np.full(groups.n_objects, -np.inf, dtype=np.float32)
    responsibility = np.zeros(groups.n_objects, dtype=np.float32)
    chosen = np.empty(len(groups), dtype=np.int64)
    assert groups.targets is not None
    for row, (history, target) in enumerate(zip(groups, groups.targets, strict=True)):
        window = history[-(rule.n_clicks or 0) :]
        span = slice(groups.offsets[row + 1] - len(window), groups.offsets[row + 1])
        evidence = summed.click_evidence(vectors.query[window]) @ vectors.target[target]
        evidence += scores[span]
        positive = np.maximum(evidence, 0.0)
        scores[span], log_weight[span] = (
            evidence,
            rule.log_position_weight(len(window)),
        )
        responsibility[span] = (
            positive / positive.sum() if positive.any() else np.exp(log_weight[span])
        )
        chosen[row] = len(history) - len(window) + int(evidence.argmax())
    return ObjectScores(chosen, scores, log_weight, responsibility, groups.offsets)


def _encoder_evidence(rule: ScoringRule, vectors: ItemVectors, groups: Groups) -> Float32Array:
    """Return by how much each click raises the encoders' scores of the target, (n_clicks,)."""
    lost = np.zeros(groups.n_objects, dtype=np.float32)
    if not rule.encoders:
        return lost
    assert groups.targets is not None
    for start in range(0, len(groups), READ_AT_ONCE):
        block = groups[start : start + READ_AT_ONCE]
        clicks, begins = recent_clicks(block.objects.astype(np.int64), block.offsets, rule.n_clicks)
        sizes = np.diff(begins)
        distinct, click_of = unique_inverse(clicks)
        of_click = np.repeat(np.asarray(block.targets), sizes)
        own = groups.offsets[start] + np.repeat(block.offsets[1:] - begins[1:], sizes)
        own += np.arange(len(clicks))
        for encoder in rule.encoders:
            part = encoder.click_effects(vectors.query[distinct], click_of, begins)
            dimensions = slice(encoder.begin, encoder.begin + encoder.width)
            lost[own] += np.einsum("nd,nd->n", part, vectors.target[of_click, dimensions])
    return lost


def restore_unknown_clicks(
    known: ObjectScores, is_known: BoolArray, sizes: IntArray
) -> ObjectScores:
    """Return scores of known clicks at their positions among all clicks of their histories.

    Unknown clicks have a score and weight of -inf, and no responsibility. `known`: of the known
    clicks, at least one in each history. `sizes`: the length of each history, unknown ones
    included.
    """
    position = np.flatnonzero(is_known)
    offsets = offsets_from_sizes(sizes)

    def spread(values: FloatArray, fill: float) -> FloatArray:
        full = np.full(len(is_known), fill, dtype=values.dtype)
        full[position] = values
        return full

    return ObjectScores(
        position[known.offsets[:-1] + known.chosen] - offsets[:-1],
        spread(known.scores, -np.inf),
        spread(known.log_weight, -np.inf),
        spread(known.responsibility, 0.0),
        offsets,
    )


class ItemSlices(NamedTuple):
    """Scores of many histories for a few items at a time.

    Every distinct query is scored once for all histories, and the full matrix of histories and
    items is never held in memory. Scores are not on log scale.

    `items` (n_items, dim + 2): vectors of all items, their bias, and a one for the log-normalizer.
    `mixture`: the histories; its queries end in a one for the bias and in the log-normalizer taken
        off.
    """

    items: Tensor
    mixture: Mixture

    @torch.no_grad()
    def scores(self, items: slice, rows: IntArray | None = None) -> FloatArray:
        """Return the scores of a slice of items after the histories, or after those in `rows`."""
        mixture = self.mixture if rows is None else self.mixture.take(rows)
        likelihoods = (torch.from_numpy(mixture.queries) @ self.items[items].t()).exp_()
        return F.embedding_bag(
            torch.from_numpy(mixture.query_of),
            likelihoods,
            torch.from_numpy(mixture.offsets[:-1]),
            mode="sum",
            per_sample_weights=torch.from_numpy(np.exp(mixture.log_weight)),
        ).numpy()


@torch.no_grad()
def history_logits(model: MatchingModel, mixture: Mixture) -> RowScores:
    """Return a function that scores encoded histories, each one query, a few at a time.

    Its scores are logits of all items: the denominator of the softmax changes no order.
    """
    everything = torch.arange(model.n_targets)
    targets, bias = model.encode_targets(everything), model.target_bias(everything)
    offset = targets.new_zeros(len(targets)) if bias is None else bias
    items = torch.cat([targets, offset.unsqueeze(-1)], -1).numpy()
    queries = np.pad(mixture.queries, ((0, 0), (0, 1)), constant_values=1.0)
    return lambda rows: np.asarray(queries[rows] @ items.T)


@torch.no_grad()
def item_slices(model: MatchingModel, mixture: Mixture) -> ItemSlices | None:
    """Prepare scores by slices of items, or return None where probabilities may underflow."""
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

"""Pair matching, Eq. 5: log P(target | object) over candidates; prior and absent terms.

Only real objects are encoded, each distinct id once, and the denominator is computed once per
distinct object: the padded (groups, size, candidates) array of the formula never exists.
With groups on both sides (a bag of instances and a set of candidate labels hide one true pair) the
group handed to the objective has one position per (object, target) pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.batching import (
    DistinctObjects,
    EncodedBatch,
    GroupBatch,
    encode_batch,
    member_products,
)
from groupnoise.core.candidates import Candidates, CandidateSource
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.model import MatchingModel
from groupnoise.core.weighting import Similarity, Weighting
from groupnoise.exceptions import ParameterError


class Matching(NamedTuple):
    """What the model says of a batch.

    `log_pair` (groups, size): log P(target | object); zero at padding.
    `mask` (groups, size): True where an object is real.
    `features` (groups, size, dim): h of group weighting: vectors f(x), or log-probabilities over
        all targets. What stands at padding has no meaning.
    `log_probabilities` (groups, size, n_targets): present when they were asked for.
    `products` (groups, size, size): inner products of the features inside each group, where pair
        matching has made them.
    """

    log_pair: Tensor
    mask: Tensor
    features: Tensor
    log_probabilities: Tensor | None
    products: Tensor | None = None


class Matcher(Protocol):
    """Matches the objects of a batch with its targets: the first part of the objective."""

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Return what the model says of a batch; `generator` decides what is sampled."""
        ...


@dataclass(frozen=True)
class PairMatching:
    """log P(target | object), normalized over targets (the paper), over objects, or both ways.

    `source`: draws the candidates: targets, or object ids when normalizing over objects alone.
    `normalize`: Eq. 5 divides by the sum over targets. Over objects it is the ordinary classifier
        when objects are labels. "both" is the mean of the two log probabilities: an object that is
        in every group cannot win by being common, nor a target by being easy.
    `with_probabilities`: whether to return log P(. | object) over all candidates, which must then
        be the full set.
    `object_source`: draws the objects for "both", whose `source` draws targets. With probabilities
        the objects of the batch are taken, which may be feature rows.
    `over_workers`: adds up log-sum-exps over the objects of all workers that share a batch, see
        :class:`~groupnoise.training.workers.Workers`; "both" with probabilities needs it then.
    """

    source: CandidateSource
    normalize: Literal["targets", "objects", "both"] = "targets"
    with_probabilities: bool = False
    object_source: CandidateSource | None = None
    over_workers: Callable[[Tensor], Tensor] | None = None

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with its targets."""
        objects = DistinctObjects.of(batch)
        if self.with_probabilities and self.normalize != "objects":
            return self._over_all_targets(model, batch, objects, generator)
        if self.normalize == "objects":
            features = objects.at_positions(model.encode_objects(objects.inputs))
            target_vectors, products = model.encode_targets(batch.targets), None
            dot = torch.bmm(features, target_vectors.unsqueeze(-1)).squeeze(-1)
            log_pair = self._over_objects(
                model, objects, dot, target_vectors, self.source, generator
            )
        else:
            drawn = self.source.draw(batch.all_targets, generator)
            encoded = encode_batch(model, objects, batch.targets, drawn)
            features, target_vectors = encoded.members[:, :-1], encoded.members[:, -1]
            dot, products = member_products(encoded.members)
            log_pair = _over_targets(batch.targets, objects, dot, encoded, drawn)
            if self.normalize == "both":
                if self.object_source is None:
                    raise ParameterError(
                        'normalize="both" needs an object_source beside its source.'
                    )
                among_objects = self._over_objects(
                    model, objects, dot, target_vectors, self.object_source, generator
                )
                log_pair = 0.5 * (log_pair + among_objects)
        log_pair = log_pair.masked_fill(~batch.mask, 0.0)
        return Matching(log_pair, batch.mask, features, None, products)

    def _over_all_targets(
        self,
        model: MatchingModel,
        batch: GroupBatch,
        objects: DistinctObjects,
        generator: torch.Generator,
    ) -> Matching:
        """Match with the probabilities of all targets kept, for objectives that read them."""
        vectors = model.encode_objects(objects.inputs)
        logits = self._all_logits(model, vectors, batch, generator)  # (n_distinct, n_targets)
        log_all = logits.log_softmax(-1)
        column = batch.targets.unsqueeze(-1)
        log_pair = log_all[objects.slot, column]
        if self.normalize == "both":
            among_objects = logits - self._normalizer_of_targets(logits)
            log_pair = 0.5 * (log_pair + among_objects[objects.slot, column])
        features = objects.at_positions(log_all)
        return Matching(log_pair.masked_fill(~batch.mask, 0.0), batch.mask, features, features)

    def _over_objects(
        self,
        model: MatchingModel,
        objects: DistinctObjects,
        dot: Tensor,
        targets: Tensor,
        source: CandidateSource,
        generator: torch.Generator,
    ) -> Tensor:
        drawn = source.draw(objects.inputs, generator)
        if not drawn.holds_targets or drawn.log_expected_count is not None:
            raise ParameterError(
                'normalize="objects" takes all objects or those of the batch as candidates; '
                'a sample and its correction belong to normalize="targets".'
            )
        normalizer = log_normalizer(targets, model.encode_objects(drawn.ids))  # (groups,)
        # The bias of a target is the same for every object and cancels.
        return dot - normalizer.unsqueeze(-1)

    def _normalizer_of_targets(self, logits: Tensor) -> Tensor:
        """Return the log-sum-exp of each target over the objects of the batch, (n_targets,)."""
        normalizer = logits.logsumexp(0)
        return normalizer if self.over_workers is None else self.over_workers(normalizer)

    def _all_logits(
        self, model: MatchingModel, vectors: Tensor, batch: GroupBatch, generator: torch.Generator
    ) -> Tensor:
        ids = self.source.draw(batch.targets, generator).ids
        if len(ids) != model.n_targets:
            raise ParameterError(
                f"probabilities need all {model.n_targets} targets as candidates; the source drew "
                f"{len(ids)}. Use FullCandidates."
            )
        return model.logits(vectors, ids)


def _over_targets(
    targets: Tensor, objects: DistinctObjects, dot: Tensor, encoded: EncodedBatch, drawn: Candidates
) -> Tensor:
    """Return log P(target | object) at every position, shape (groups, size)."""
    logit = dot + encoded.target_offset.unsqueeze(-1)
    if drawn.holds_targets:
        normalizer = log_normalizer(encoded.vectors, encoded.candidates, encoded.offset)
        return logit - objects.at_positions(normalizer)
    queries, query, excluded = _queries(encoded.vectors, objects.slot, targets, drawn.ids)
    others = log_normalizer(queries, encoded.candidates, encoded.offset, excluded)
    others = others.index_select(0, query.flatten()).view_as(logit)
    # The target against the rest: logit - log(exp(logit) + exp(others)).
    return F.logsigmoid(logit - others)


def _queries(
    vectors: Tensor, slot: Tensor, targets: Tensor, sample: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """Decide which denominators are needed when a sampled negative may equal the target.

    A distinct object needs one denominator for all groups whose target was not sampled. Where it
    was, which is rare, every position of the group gets one of its own without copies of it.

    Returns `queries` (n_queries, dim): the object each denominator belongs to; `query` (groups,
    size): which denominator each position uses; `excluded`: (denominator, sampled column) pairs to
    leave out.
    """
    collides = torch.isin(targets, sample).nonzero().squeeze(-1)
    if not len(collides):
        return vectors, slot, None
    at = slot[collides]  # (n_colliding, size)
    own = torch.arange(len(vectors), len(vectors) + at.numel(), device=at.device).view_as(at)
    queries = torch.cat([vectors, vectors.index_select(0, at.flatten())])
    row, column = (targets[collides].unsqueeze(-1) == sample).nonzero(as_tuple=True)
    excluded = (own[row].flatten(), column.repeat_interleave(at.shape[1]))
    return queries, slot.index_copy(0, collides, own), excluded


@dataclass(frozen=True)
class PriorMatching:
    """Pair matching with a fixed log weight for each object of each group.

    `pair`: scores the objects, which must be ids.
    `log_prior` (n_groups, n_ids): added to log P(target | object): how far each id is trusted in
        each training group, up to a constant per group.
    """

    pair: Matcher
    log_prior: Tensor

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with its targets."""
        matching = self.pair(model, batch, generator)
        trust = self.log_prior[batch.rows.cpu()].to(batch.rows.device).gather(1, batch.objects)
        log_pair = matching.log_pair + trust.masked_fill(~matching.mask, 0.0)
        return matching._replace(log_pair=log_pair)


def log_allowed_mass(log_probabilities: Tensor, allowed: Tensor, mask: Tensor) -> Tensor:
    """Return the mean log mass that the objects of a group put on allowed targets, at most zero.

    `log_probabilities` (groups, size, n_targets). `allowed` (groups, n_targets): targets the group
    is labelled with, and the background target where there is one.
    """
    inside = log_probabilities.masked_fill(~allowed.unsqueeze(1), -torch.inf).logsumexp(-1)
    return inside.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)


@dataclass(frozen=True)
class JointMatching:
    """Log probability of every pair of an object and a candidate target of a group.

    `candidates` (n_groups, n_targets): the targets each training group may have; exactly one of
        them is right.
    `pooling`: temperature at which the objects of a group speak for a target, see
        :func:`log_joint_probability`.
    """

    candidates: Tensor
    pooling: float = 1.0

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with the candidate targets of their groups."""
        candidates = self.candidates[batch.rows.cpu()].to(batch.rows.device)
        return match_pairs(model, batch, candidates, self.pooling)


def match_pairs(
    model: MatchingModel, batch: GroupBatch, candidates: Tensor, pooling: float
) -> Matching:
    """Return the matching whose positions are pairs, object by object.

    `log_pair` and `mask` have shape (groups, size * n_targets); `features` stay those of objects,
    (groups, size, n_targets), as :class:`PerObjectWeighting` wants them. Targets of the batch are
    not read: `candidates` (groups, n_targets) says which pair with the objects of each group.
    """
    vectors = model.encode_objects(batch.objects[batch.mask])
    logits = model.logits(vectors, torch.arange(model.n_targets, device=vectors.device))
    padded = logits.new_zeros(*batch.mask.shape, model.n_targets)
    padded = padded.masked_scatter(batch.mask.unsqueeze(-1), logits)
    log_joint = log_joint_probability(padded, batch.mask, pooling)
    mask = batch.mask.unsqueeze(-1) & candidates.unsqueeze(1)
    return Matching(
        log_pair=log_joint.masked_fill(~mask, 0.0).flatten(1),
        mask=mask.flatten(1),
        features=padded.log_softmax(-1),
        log_probabilities=None,
    )


def log_joint_probability(logits: Tensor, mask: Tensor, pooling: float = 1.0) -> Tensor:
    """Return log P(object, target | group), which sums to one over the pairs of a group.

    P(target | group) is the softmax over targets of pooling * logsumexp(logit / pooling) over
    objects, P(object | target, group) the softmax over objects of logit / pooling. At 1 both
    together are one softmax over all pairs; towards 0 the best object alone speaks for a target,
    and the larger the pooling the more all of them do. Of the shape of the logits (groups, size,
    n_targets), zero at padding.
    """
    real = mask.unsqueeze(-1)
    cooled = (logits / pooling).masked_fill(~real, -torch.inf)
    log_target = (pooling * cooled.logsumexp(1)).log_softmax(-1)  # (groups, n_targets)
    return (cooled.log_softmax(1) + log_target.unsqueeze(1)).masked_fill(~real, 0.0)


@dataclass(frozen=True)
class PerObjectWeighting:
    """Group weighting of objects, handed on to every pair an object is part of."""

    weighting: Weighting

    @property
    def similarity(self) -> Similarity:
        """S of Eq. 6."""
        return self.weighting.similarity

    def __call__(self, features: Tensor, mask: Tensor, products: Tensor | None = None) -> Tensor:
        """Map features of objects (groups, size, dim) to log weights of pairs, as `mask`."""
        n_groups, size, _ = features.shape
        pairs = mask.view(n_groups, size, -1)
        log_weight = self.weighting(features, pairs.any(-1), products).unsqueeze(-1)
        return log_weight.expand_as(pairs).masked_fill(~pairs, 0.0).flatten(1)

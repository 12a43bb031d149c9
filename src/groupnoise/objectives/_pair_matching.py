"""Pair matching, Eq. 4: log P(target | object) over a named set of candidates.

Only real objects are encoded, each distinct id once, and the denominator is computed once per
distinct object: the padded (groups, size, candidates) array of the formula never exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from groupnoise.exceptions import ParameterError
from groupnoise.groups import GroupBatch
from groupnoise.matching import Candidates, CandidateSource, MatchingModel, log_normaliser


class Matching(NamedTuple):
    """What the model says of a batch.

    Attributes
    ----------
    log_pair : Tensor of shape (groups, size)
        log P(target | object); zero at padding.
    mask : bool Tensor of shape (groups, size)
        True where an object is real.
    features : Tensor of shape (groups, size, dim)
        h of group weighting: vectors f(x), or log-probabilities over all targets. What stands at
        padding has no meaning.
    log_probabilities : Tensor of shape (groups, size, n_targets), optional
        Present when they were asked for.
    """

    log_pair: Tensor
    mask: Tensor
    features: Tensor
    log_probabilities: Tensor | None


class Matcher(Protocol):
    """Matches the objects of a batch with its targets: the first part of the objective."""

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Return what the model says of a batch; `generator` decides what is sampled."""
        ...


@dataclass(frozen=True)
class PairMatching:
    """log P(target | object), normalised over targets (the paper), over objects, or both ways.

    Parameters
    ----------
    source : CandidateSource
        Draws the candidates: targets, or object ids when normalising over objects alone.
    normalize : {"targets", "objects", "both"}
        Eq. 4 divides by the sum over targets. Over objects it is the ordinary classifier when
        objects are labels. "both" is the mean of the two log probabilities: an object that is in
        every group cannot win by being common, nor a target by being easy.
    with_probabilities : bool
        Whether to return log P(. | object) over all candidates, which must then be the full set.
    object_source : CandidateSource, optional
        Draws the objects for "both", whose `source` draws targets. With probabilities the
        objects of the batch are taken, which may be feature rows.
    over_workers : callable, optional
        Adds up log-sum-exps over the objects of all workers that share a batch, see
        :class:`groupnoise.training.Workers`; "both" with probabilities needs it then.
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
        objects = _encode_objects(model, batch)
        if self.normalize == "objects":
            targets = model.encode_targets(batch.targets)  # (groups, dim)
            log_pair = self._over_objects(model, objects, targets, self.source, generator)
            return _padded(batch, log_pair, objects.vectors, objects.place)
        if self.with_probabilities:
            logits = self._all_logits(model, objects.vectors, batch, generator)
            log_all = logits.log_softmax(-1)
            wanted_column = batch.targets[objects.group]
            log_pair = log_all[objects.place, wanted_column]
            if self.normalize == "both":
                among_objects = logits - self._level_of_targets(logits)
                log_pair = 0.5 * (log_pair + among_objects[objects.place, wanted_column])
            matching = _padded(batch, log_pair, log_all, objects.place)
            return matching._replace(log_probabilities=matching.features)
        drawn = self.source.draw(batch.all_targets, generator)
        wanted, candidates = _encode_targets(model, drawn, batch.targets)
        log_pair = self._over_targets(batch, objects, drawn, wanted, candidates)
        if self.normalize == "both":
            if self.object_source is None:
                raise ParameterError('normalize="both" needs an object_source beside its source.')
            over_objects = self._over_objects(
                model, objects, wanted.vectors, self.object_source, generator
            )
            log_pair = 0.5 * (log_pair + over_objects)
        return _padded(batch, log_pair, objects.vectors, objects.place)

    def _over_targets(
        self,
        batch: GroupBatch,
        objects: _Objects,
        drawn: Candidates,
        wanted: _Encoded,
        candidates: _Encoded,
    ) -> Tensor:
        logit = objects.dot(wanted.vectors) + wanted.offset[objects.group]
        if drawn.holds_wanted:
            level = log_normaliser(objects.vectors, candidates.vectors, candidates.offset)
            return logit - level[objects.place]
        query, source, excluded = _queries(
            objects.place, len(objects.vectors), batch.targets[objects.group], drawn.ids
        )
        queries = objects.vectors.index_select(0, source)
        others = log_normaliser(queries, candidates.vectors, candidates.offset, excluded)
        return logit - torch.logaddexp(logit, others[query])

    def _over_objects(
        self,
        model: MatchingModel,
        objects: _Objects,
        targets: Tensor,
        source: CandidateSource,
        generator: torch.Generator,
    ) -> Tensor:
        drawn = source.draw(objects.inputs, generator)
        if not drawn.holds_wanted or drawn.log_expected_count is not None:
            raise ParameterError(
                'normalize="objects" takes all objects or those of the batch as candidates; '
                'a sample and its correction belong to normalize="targets".'
            )
        level = log_normaliser(targets, model.encode_objects(drawn.ids))  # (groups,)
        # The bias of a target is the same for every object and cancels.
        return objects.dot(targets) - level[objects.group]

    def _level_of_targets(self, logits: Tensor) -> Tensor:
        """Return the log-sum-exp of each target over the objects of the batch, (n_targets,)."""
        level = logits.logsumexp(0)
        return level if self.over_workers is None else self.over_workers(level)

    def _all_logits(
        self,
        model: MatchingModel,
        vectors: Tensor,
        batch: GroupBatch,
        generator: torch.Generator,
    ) -> Tensor:
        ids = self.source.draw(batch.targets, generator).ids
        if len(ids) != model.n_targets:
            raise ParameterError(
                f"probabilities need all {model.n_targets} targets as candidates; the source drew "
                f"{len(ids)}. Use FullCandidates."
            )
        return model.logits(vectors, ids)


class _Objects(NamedTuple):
    """The real objects of a batch, each distinct one encoded once.

    Attributes
    ----------
    inputs : Tensor of shape (n_distinct, ...)
        Distinct ids; feature rows stay as given.
    vectors : Tensor of shape (n_distinct, dim)
        f of them.
    place : int64 Tensor of shape (n_real,)
        Which distinct one each real object is.
    group : int64 Tensor of shape (n_real,)
        Which group it belongs to.
    """

    inputs: Tensor
    vectors: Tensor
    place: Tensor
    group: Tensor

    def dot(self, targets: Tensor) -> Tensor:
        """Return f(x) . g(y) of each real object with its group's target, shape (n_real,)."""
        own = self.vectors.index_select(0, self.place)
        return (own * targets.index_select(0, self.group)).sum(-1)


def _encode_objects(model: MatchingModel, batch: GroupBatch) -> _Objects:
    inputs = batch.objects[batch.mask]  # (n_real, ...)
    if inputs.is_floating_point() or inputs.dim() > 1:
        place = torch.arange(len(inputs), device=inputs.device)
    else:
        inputs, place = torch.unique(inputs, return_inverse=True)
    group = batch.mask.nonzero()[:, 0]
    return _Objects(inputs, model.encode_objects(inputs), place, group)


def _padded(batch: GroupBatch, log_pair: Tensor, table: Tensor, place: Tensor) -> Matching:
    """Lay the values of real objects out by group; what stands at padding is never read."""
    slot = place.new_zeros(batch.mask.shape).masked_scatter(batch.mask, place)
    return Matching(
        log_pair=log_pair.new_zeros(batch.mask.shape).masked_scatter(batch.mask, log_pair),
        mask=batch.mask,
        features=table.index_select(0, slot.flatten()).view(*slot.shape, -1),
        log_probabilities=None,
    )


class _Encoded(NamedTuple):
    """Vectors (n, dim) and what is added to their logits (n,)."""

    vectors: Tensor
    offset: Tensor


def _encode_targets(
    model: MatchingModel, drawn: Candidates, targets: Tensor
) -> tuple[_Encoded, _Encoded]:
    """Encode the targets of the groups and the candidates, each distinct one once."""
    if drawn.holds_wanted:
        ids, start = drawn.ids, 0
        column = torch.searchsorted(ids, targets)
    else:
        wanted, column = torch.unique(targets, return_inverse=True)
        ids, start = torch.cat([wanted, drawn.ids]), len(wanted)
    vectors = model.encode_targets(ids)
    offset = model.target_bias(ids)
    if offset is None:
        offset = vectors.new_zeros(len(ids))
    if drawn.log_expected_count is not None:
        # Only what was sampled is corrected; an added target is there for certain.
        certain = vectors.new_zeros(start)
        offset = offset - torch.cat([certain, drawn.log_expected_count.to(vectors)])
    return (
        _Encoded(vectors[column], offset[column]),
        _Encoded(vectors[start:], offset[start:]),
    )


def _queries(
    place: Tensor, n_distinct: int, wanted: Tensor, sample: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """Decide which denominators are needed when a sampled negative may equal the target.

    An object needs one denominator for all groups whose target was not sampled, and one more for
    each sampled target it meets, from which that target's copies are left out.

    Returns
    -------
    query : Tensor of shape (n_real,)
        Which denominator each object of the batch uses.
    source : Tensor of shape (n_queries,)
        Which distinct object each denominator belongs to.
    excluded : pair of Tensors or None
        (denominator, sampled column) pairs to leave out.
    """
    plain = torch.arange(n_distinct, device=place.device)
    collides = torch.isin(wanted, sample)
    if not collides.any():
        return place, plain, None
    n_wanted = int(wanted.max()) + 1
    keys, which = torch.unique(place[collides] * n_wanted + wanted[collides], return_inverse=True)
    query = place.masked_scatter(collides, n_distinct + which)
    row, column = (keys.unsqueeze(-1) % n_wanted == sample).nonzero(as_tuple=True)
    return query, torch.cat([plain, keys // n_wanted]), (row + n_distinct, column)

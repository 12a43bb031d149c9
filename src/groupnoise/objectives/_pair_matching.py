"""Pair matching, Eq. 4: log P(target | object) over a named set of candidates.

Only real objects are encoded, each distinct id once, and the denominator is computed once per
distinct object: the padded (groups, size, candidates) array of the formula never exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

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
        h of group weighting: vectors f(x), or log-probabilities over all targets.
    log_probabilities : Tensor of shape (groups, size, n_targets), optional
        Present when they were asked for.
    """

    log_pair: Tensor
    mask: Tensor
    features: Tensor
    log_probabilities: Tensor | None


@dataclass(frozen=True)
class PairMatching:
    """log P(target | object), normalised over targets (the paper) or over objects.

    Parameters
    ----------
    source : CandidateSource
        Draws the candidates: targets, or object ids when normalising over objects.
    normalize : {"targets", "objects"}
        Eq. 4 divides by the sum over targets. Over objects it is the ordinary classifier when
        objects are labels.
    with_probabilities : bool
        Whether to return log P(. | object) over all candidates, which must then be the full set.
    """

    source: CandidateSource
    normalize: Literal["targets", "objects"] = "targets"
    with_probabilities: bool = False

    def __call__(
        self, model: MatchingModel, batch: GroupBatch, generator: torch.Generator
    ) -> Matching:
        """Match the objects of a batch with its targets."""
        flat = batch.objects[batch.mask]  # (n_real, ...)
        group = batch.mask.nonzero()[:, 0]  # (n_real,)
        distinct, place = _distinct(flat)
        vectors = model.encode_objects(distinct)  # (n_distinct, dim)
        if self.normalize == "objects":
            log_pair = self._over_objects(model, batch, flat, group, vectors[place], generator)
            return self._padded(batch, log_pair, vectors[place], None)
        if self.with_probabilities:
            log_all = self._log_probabilities(model, vectors, batch, generator)[place]
            log_pair = log_all.gather(-1, batch.targets[group].unsqueeze(-1)).squeeze(-1)
            return self._padded(batch, log_pair, log_all, log_all)
        log_pair = self._over_targets(model, batch, vectors, place, group, generator)
        return self._padded(batch, log_pair, vectors[place], None)

    def _over_targets(
        self,
        model: MatchingModel,
        batch: GroupBatch,
        vectors: Tensor,
        place: Tensor,
        group: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        drawn = self.source.draw(batch.targets, generator)
        wanted, candidates = _encode_targets(model, drawn, batch.targets)
        logit = (vectors[place] * wanted.vectors[group]).sum(-1) + wanted.offset[group]
        if drawn.holds_wanted:
            return logit - log_normaliser(vectors, candidates.vectors, candidates.offset)[place]
        query, source, excluded = _queries(place, batch.targets[group], drawn.ids)
        others = log_normaliser(vectors[source], candidates.vectors, candidates.offset, excluded)
        return logit - torch.logaddexp(logit, others[query])

    def _over_objects(
        self,
        model: MatchingModel,
        batch: GroupBatch,
        objects: Tensor,
        group: Tensor,
        vectors: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        targets = model.encode_targets(batch.targets)  # (groups, dim)
        drawn = self.source.draw(objects, generator)
        if not drawn.holds_wanted or drawn.log_expected_count is not None:
            raise ParameterError(
                'normalize="objects" takes all objects or those of the batch as candidates; '
                'a sample and its correction belong to normalize="targets".'
            )
        level = log_normaliser(targets, model.encode_objects(drawn.ids))  # (groups,)
        # The bias of a target is the same for every object and cancels.
        return (vectors * targets[group]).sum(-1) - level[group]

    def _log_probabilities(
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
        return model.logits(vectors, ids).log_softmax(-1)

    @staticmethod
    def _padded(
        batch: GroupBatch, log_pair: Tensor, features: Tensor, log_all: Tensor | None
    ) -> Matching:
        padded = features.new_zeros(*batch.mask.shape, features.shape[-1])
        padded = padded.masked_scatter(batch.mask.unsqueeze(-1), features)
        return Matching(
            log_pair=log_pair.new_zeros(batch.mask.shape).masked_scatter(batch.mask, log_pair),
            mask=batch.mask,
            features=padded,
            log_probabilities=None if log_all is None else padded,
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


def _distinct(objects: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct ids and where each object finds its own; feature rows stay as given."""
    if objects.is_floating_point() or objects.dim() > 1:
        return objects, torch.arange(len(objects))
    ids, place = torch.unique(objects, return_inverse=True)
    return ids, place


def _queries(
    place: Tensor, wanted: Tensor, sample: Tensor
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
    collides = torch.isin(wanted, sample)
    if not collides.any():
        used, query = torch.unique(place, return_inverse=True)
        return query, used, None
    key = torch.stack([place, torch.where(collides, wanted, -1)], dim=1)
    pairs, query = torch.unique(key, dim=0, return_inverse=True)
    hit = (pairs[:, 1:] == sample) & (pairs[:, 1:] >= 0)  # (n_queries, n_sample)
    row, column = hit.nonzero(as_tuple=True)
    return query, pairs[:, 0], (row, column)

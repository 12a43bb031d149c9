"""Quantifiers: the probability that a target is present in a group, from those of its objects.

A present target needs *some* object, an absent one *no* object at all; both log probabilities are
returned. Groups are segments of a flat array without padding; any number of axes (the models of a
search, the targets) may follow the objects.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.checks import check_choice
from groupnoise.exceptions import DataError

QUANTIFIERS = ("noisy_or", "max", "soft_max", "odds", "average")
SOFT_MAX_STRENGTH = 2.5
"""Of the soft maximum of Settles, Craven and Ray (2008): 0 is the mean, large values the max."""
MAX_SET_SIZE = 8
"""Targets of one group whose exact likelihood is computed: the work doubles with each."""
MAX_SUBSET_VALUES = 1 << 22
"""Values of objects and subsets of targets that are held at a time."""
_TINY = 1e-30


class Presence(NamedTuple):
    """Log probabilities that a target is absent from a group, and that it is present.

    `log_absent`, `log_present` (n_groups, ...): axes after the groups are those of the objects.
    """

    log_absent: Tensor
    log_present: Tensor

    @property
    def log_odds(self) -> Tensor:
        """The logit of presence."""
        return self.log_present - self.log_absent


class Segments:
    """Groups as consecutive runs of a flat array of objects.

    `sizes`: objects of each group, at least one.
    """

    def __init__(self, sizes: Tensor) -> None:
        if len(sizes) and int(sizes.min()) < 1:
            raise DataError("every group needs at least one object.")
        self.sizes = sizes
        self.group = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over each group, shape (n_groups, ...)."""
        return values.new_zeros((len(self), *values.shape[1:])).index_add_(0, self.group, values)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over each group, shape (n_groups, ...)."""
        return self.total(values) / self._sizes_like(values)

    def largest(self, values: Tensor) -> Tensor:
        """Return the maximum of each group, shape (n_groups, ...)."""
        index = self.group.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
        start = values.new_full((len(self), *values.shape[1:]), -torch.inf)
        return start.scatter_reduce_(0, index, values, "amax")

    def logsumexp(self, values: Tensor) -> Tensor:
        """Return the log of the summed exponentials of each group, shape (n_groups, ...)."""
        peak = self.largest(values.detach())
        peak = torch.where(peak.isfinite(), peak, torch.zeros_like(peak))
        return peak + self.total((values - peak[self.group]).exp()).log()

    def log_mean_exp(self, values: Tensor) -> Tensor:
        """Return the log of the mean exponential of each group, shape (n_groups, ...)."""
        return self.logsumexp(values) - self._sizes_like(values).log()

    def _sizes_like(self, values: Tensor) -> Tensor:
        return self.sizes.to(values.dtype).view(-1, *[1] * (values.dim() - 1))


class _Log1mExp(torch.autograd.Function):
    """One operation forwards and one backwards, where autograd would follow twenty."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        positive = values.clamp(min=_TINY)
        small, large = -torch.expm1(-positive), -torch.exp(-positive)
        return torch.where(values < math.log(2.0), small.log_(), large.log1p_())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (values,) = ctx.saved_tensors
        slope = torch.expm1(values.clamp(min=_TINY)).reciprocal_()
        return gradients[0] * slope.masked_fill_(values < _TINY, 0.0)


def log1mexp(values: Tensor) -> Tensor:
    """Return log(1 - exp(-x)) of positive x, exact where x is small and where it is large.

    Numbers below 1e-30 count as 1e-30.
    """
    return _Log1mExp.apply(values)  # type: ignore[no-untyped-call]


def log_complement(log_probabilities: Tensor) -> Tensor:
    """Return log(1 - p) from log p."""
    eps = torch.finfo(log_probabilities.dtype).eps
    return log1mexp((-log_probabilities).clamp(min=eps / 2))


def presence(quantifier: str, log_match: Tensor, log_other: Tensor, segments: Segments) -> Presence:
    r"""Return the log probabilities of absence and presence of each target in each group.

    With :math:`p_i` the probability that object i matches the target,

    ========== ==========================================================================
    noisy_or   present with :math:`1 - \prod_i (1 - p_i)`: at least one matches, else none
    max        present with :math:`\max_i p_i`: the best object decides, on both sides
    soft_max   present with :math:`\sum_i p_i e^{a p_i} / \sum_i e^{a p_i}`, a = 2.5 (MILR)
    odds       odds :math:`\frac1n \sum_i p_i / (1 - p_i)`: exactly one object matches
    average    log odds :math:`\frac1n \sum_i \log p_i / (1 - p_i)`: all objects vote
    ========== ==========================================================================

    Two tensors of shape (n_groups, ...). `log_match`, `log_other` (n_objects, ...): log p and log(1
    - p) of each object, groups one after the other.
    """
    check_choice("quantifier", quantifier, QUANTIFIERS)
    if quantifier == "noisy_or":
        log_absent = segments.total(log_other)
        log_present = log1mexp(-log_absent)
        if bool((log_absent > -_TINY).any()):
            # Where all p are next to nothing their sum is the probability of any.
            faint = segments.logsumexp(log_match)
            log_present = torch.where(log_absent > -_TINY, faint, log_present)
        return Presence(log_absent, log_present)
    if quantifier == "max":
        # log(1 - p) falls where log p rises, so that both come from the same object.
        return Presence(-segments.largest(-log_other), segments.largest(log_match))
    if quantifier == "soft_max":
        matched = log_match.exp()
        raised = (SOFT_MAX_STRENGTH * matched).exp()
        total = segments.total(raised)
        tiny = torch.finfo(log_match.dtype).tiny
        log_present = (segments.total(raised * matched) / total).clamp(min=tiny).log()
        missed = segments.total(raised * log_other.exp()) / total
        return Presence(missed.clamp(min=tiny).log(), log_present)
    log_odds = log_match - log_other
    pooled = segments.log_mean_exp(log_odds) if quantifier == "odds" else segments.mean(log_odds)
    return Presence(F.logsigmoid(-pooled), F.logsigmoid(pooled))


def mixture_log_odds(
    logits: Tensor, segments: Segments, rate_logit: Tensor, constant: Tensor
) -> Tensor:
    r"""Return the log odds of presence if a fraction of the objects of positive groups matches.

    In a group that has the target each object matches with probability :math:`\rho`, and an
    object that matches is :math:`e^{z_i}` times as likely as one that does not: the log odds are
    :math:`c + \sum_i \log(1 - \rho + \rho e^{z_i})`.

    Of shape (n_groups, ...). `logits` (n_objects, ...): z of each object, groups one after the
    other.
    """
    log_rate, log_rest = F.logsigmoid(rate_logit), F.logsigmoid(-rate_logit)
    return constant + segments.total(torch.logaddexp(log_rest, log_rate + logits))


def log_label_likelihood(found: Presence, labels: Tensor) -> Tensor:
    """Return the log likelihood of the labels of each group, targets taken as independent."""
    return torch.where(labels, found.log_present, found.log_absent).sum(-1)


class LabelSets:
    """Index of groups by the size of their label set, reused by many likelihoods.

    `labels` (n_groups, n_targets): the set of each group.
    """

    def __init__(self, labels: Tensor, segments: Segments) -> None:
        self.labels = labels
        set_size = labels.sum(1)
        self.parts = []
        for size in sorted({*set_size.tolist()} - {0}):
            rows = (set_size == size).nonzero().flatten()
            objects = torch.isin(segments.group, rows).nonzero().flatten()
            column = labels[rows].nonzero()[:, 1].view(len(rows), size)
            position = torch.searchsorted(rows, segments.group[objects])
            part = Segments(segments.sizes[rows])
            self.parts.append((size, rows, objects, column[position], part))


def log_set_likelihood(
    log_probabilities: Tensor, labels: Tensor | LabelSets, segments: Segments, n_free: int = 0
) -> Tensor:
    r"""Return the exact log likelihood of the *set* of targets of each group.

    Every object has one target, of the group's set Y or free (background); every target of Y
    occurs. That is the sum over all assignments :math:`z` with these properties of
    :math:`\prod_i p_{z_i}(x_i)`, computed by inclusion and exclusion over the subsets of Y, each
    a product over objects. For more than `MAX_SET_SIZE` targets the events that a target occurs are
    taken as independent (noisy-or), given that no object lies outside the set.

    Of shape (n_groups, ...). `log_probabilities` (n_objects, ..., n_targets): log P(target |
    object); the last `n_free` targets are free. `labels` (n_groups, n_targets - n_free): the set of
    each group, not empty unless `n_free` is positive. `n_free`: targets that any object may have
    and no group is asked for.
    """
    sets = labels if isinstance(labels, LabelSets) else LabelSets(labels, segments)
    labels = sets.labels
    n_named = log_probabilities.shape[-1] - n_free
    free = labels.new_ones((len(labels), n_free))
    inside = torch.cat([labels, free], dim=1)[segments.group]
    inside = inside.view(len(inside), *[1] * (log_probabilities.dim() - 2), -1)
    log_mass = log_probabilities.masked_fill(~inside, -torch.inf).logsumexp(-1)
    # Given the set, each object has one of its targets: q sums to one over them.
    log_q = (log_probabilities - log_mass.unsqueeze(-1))[..., :n_named]
    total = segments.total(log_mass)
    occur = total.new_zeros(total.shape)
    for size, rows, objects, column, part in sets.parts:
        picked = log_q.index_select(0, objects)
        index = column.view(len(objects), *[1] * (picked.dim() - 2), size)
        picked = picked.gather(-1, index.expand(*picked.shape[:-1], size))
        is_exact = 1 < size <= MAX_SET_SIZE
        found = (_log_all_occur if is_exact else _log_each_occurs)(picked, part)
        occur = occur.index_copy(0, rows, found)
    return total + occur


def _log_each_occurs(picked: Tensor, part: Segments) -> Tensor:
    """Return the sum of log P(target occurs) over targets, taken as independent."""
    return presence("noisy_or", picked, log_complement(picked), part).log_present.sum(-1)


def _log_all_occur(picked: Tensor, part: Segments) -> Tensor:
    """Return log P(every target of the set occurs | all objects are inside).

    `picked` (n_objects, ..., size): log q of the targets that each group has.
    """
    q, size = picked.exp(), picked.shape[-1]
    # P(all occur) = sum over subsets S of (-1)^|S| P(no object has a target of S).
    subset = torch.arange(1, 1 << size, device=q.device).unsqueeze(1)
    holds = (subset >> torch.arange(size, device=q.device) & 1).to(q.dtype)  # (n_subsets, size)
    signs = 1.0 - 2.0 * (holds.sum(1) % 2)
    exact = q.new_ones((len(part), *picked.shape[1:-1]))
    n_at_once = max(1, MAX_SUBSET_VALUES // max(1, q.numel() // size))
    for held, sign in zip(holds.split(n_at_once), signs.split(n_at_once), strict=True):
        outside = (1.0 - q @ held.t()).clamp(min=_TINY).log()
        exact = exact + part.total(outside).exp() @ sign
    sound = exact > math.sqrt(torch.finfo(q.dtype).eps)
    log_exact = exact.clamp(min=_TINY).log()
    if bool(sound.all()):
        return log_exact
    # Alternating terms cancel where the probability is small; there targets are independent.
    return torch.where(sound, log_exact, _log_each_occurs(picked, part))

"""Settings of ensemble members, and the likelihoods of bags given instance logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import (
    QUANTIFIERS,
    LabelSets,
    Presence,
    Segments,
    log_complement,
    log_label_likelihood,
    log_set_likelihood,
    mixture_log_odds,
    presence,
)
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.training.saver import current_saves, fingerprint

LIKELIHOODS = (*QUANTIFIERS, "mixture", "inherited", "label_set", "matching")
BAG_QUANTIFIERS = {
    "inherited": "average",
    "label_set": "noisy_or",
    "matching": "noisy_or",
    "pseudo_labels": "noisy_or",
}
"""Quantifiers that predict bags for likelihoods that are not quantifiers."""
NOISY_OR_ALTERNATIVES = ("odds", "max")
"""Quantifiers that held-out bags may prefer: where a label is in a few of many instances, the sum
over all of them drowns it."""
FORESTS = (TREES, RANDOM_TREES) = ("trees", "random trees")
"""Encoders of members that are forests, of positive and negative bags."""
PSEUDO_LABELS, KERNEL = "pseudo_labels", "kernel"
"""The likelihood and the encoder of a student of other members (:mod:`.self_training`)."""
STATISTICS = "statistics"
"""The likelihood of whole-bag members, which do not predict instances."""
MAX_LOG_ODDS = 30.0
"""Log odds of bags are cut off here."""
TEMPERATURES = (1.0, 0.7)
ABSENT_STRENGTH = 0.5
"""Of the absent-class term of "matching"."""


@dataclass(frozen=True)
class MemberSettings:
    """Hyperparameters of a member.

    `likelihood`: a quantifier of `groupnoise.core.quantifier`; "mixture" (a share of the instances
        of a positive bag is positive, and learned); "inherited" (each instance has a label of its
        bag), "label_set" (exact likelihood of the set of labels) or "matching" (the paper's, both
        normalisations, tempered).
    `scaling`: of the features; "pieces" and "landmarks" are for tables of few ones (`Scaler`).
    `encoder` (one of "identity", "mlp", "trees", "random trees"): linear, with one hidden layer, or
        a forest, whose likelihood is "inherited", its thresholds sought or drawn.
    `hidden`: its width.
    `dropout`: share of its units dropped in training.
    `background`: whether instances may have a target that no bag is asked for.
    `weight_decay`: half of it times the squared weights is added to the mean loss of a bag.
    `learning_rate`: largest step size of Adam.
    `max_epochs`: steps over the whole data.
    `width`: of the kernel of "statistics" and of a student.
    """

    likelihood: str = "noisy_or"
    scaling: str = "standard"
    encoder: str = "identity"
    hidden: int = 32
    dropout: float = 0.0
    background: bool = False
    weight_decay: float = 0.1
    learning_rate: float = 0.1
    max_epochs: int = 150
    width: float = 1.0

    @property
    def batch(self) -> tuple[Any, ...]:
        """What members share that can be trained together: all but likelihood and decay."""
        each = vars(self).items()
        return tuple(value for name, value in each if name not in ("likelihood", "weight_decay"))

    def with_scaled_decay(self, n_compared: int, n_bags: int) -> MemberSettings:
        """Return what was taken on some bags as all of them are trained on.

        Weight decay is what is known of the weights before any bag, so that beside the mean over
        more bags it counts for less.
        """
        return replace(self, weight_decay=self.weight_decay * n_compared / n_bags)


@dataclass(frozen=True)
class BagProblem:
    """Labelled bags in flat form.

    `segments`: where the bags are.
    `labels` (n_bags, n_named): the labels bags are asked for: all classes but a negative one.
    `has_negative`: whether bags may have none of these labels, as a class is negative or some have
        no label: then the negative class, or background, is the free target of every instance.
    """

    segments: Segments
    labels: BoolArray
    has_negative: bool

    @property
    def n_named(self) -> int:
        """How many labels bags are asked for."""
        return int(self.labels.shape[1])

    def n_free(self, settings: MemberSettings) -> int:
        """Return how many targets no bag is asked for: the negative one, or a background."""
        return int(self.has_negative or settings.background)

    def is_binary(self, settings: MemberSettings) -> bool:
        """Return whether a single logit suffices."""
        return self.n_named == 1 and self.n_free(settings) == 1

    @cached_property
    def label_sets(self) -> LabelSets:
        """The labels as the exact likelihood of a set reads them."""
        labels = torch.from_numpy(self.labels).to(self.segments.sizes.device)
        return LabelSets(labels, self.segments)

    def to(self, device: torch.device) -> BagProblem:
        """Return the same bags with their tensors on a device."""
        return BagProblem(Segments(self.segments.sizes.to(device)), self.labels, self.has_negative)

    def subset(self, bags: IntArray) -> BagProblem:
        """Return some of the bags."""
        return BagProblem(
            Segments(self.segments.sizes[torch.from_numpy(bags)]),
            self.labels[bags],
            self.has_negative,
        )


def make_problem(bags: Groups, labels: BoolArray, has_negative: bool) -> BagProblem:
    """Return the :class:`BagProblem` of bags and labels."""
    return BagProblem(Segments(torch.from_numpy(np.asarray(bags.sizes))), labels, has_negative)


class Batch:
    """Members that are trained side by side, some copies of each.

    `rows` (n_rows, n_features): scaled instances, in memory or read from disk bag by bag.
    `bag_weights` (n_bags, n_copies): 0 holds a bag out of a copy.
    """

    def __init__(
        self,
        rows: Tensor | StreamedGroups,
        problem: BagProblem,
        bag_weights: Tensor,
        settings: Sequence[MemberSettings],
        generator: torch.Generator,
    ) -> None:
        self.rows, self.problem, self.settings = rows, problem, settings
        self.bag_weights, self.generator = bag_weights, generator
        self.n_copies = bag_weights.shape[1]
        self.mixture = torch.zeros(2, len(settings) * self.n_copies, 1)
        self.width = rows.shape[1] if isinstance(rows, Tensor) else rows.width

    def columns(self, number: int) -> slice:
        """Return where the copies of a member are among the models."""
        return slice(number * self.n_copies, (number + 1) * self.n_copies)

    def rows_of(self, bags: Tensor) -> Tensor:
        """Return the instances of some bags, one bag after the other."""
        if isinstance(self.rows, StreamedGroups):
            return torch.from_numpy(self.rows.gathered(bags.numpy()))
        sizes = self.problem.segments.sizes
        part = Segments(sizes[bags])
        offset = part.sizes.cumsum(0) - part.sizes
        starts = (sizes.cumsum(0) - sizes)[bags]
        return self.rows[torch.arange(len(part.group)) + (starts - offset)[part.group]]

    def _saves(self) -> Any:
        """Return where this training is saved, None where it is not."""
        fit = current_saves()
        return None if fit is None else fit.training(self.settings, fingerprint(self._origins()))

    @abstractmethod
    def _origins(self) -> Iterator[Tensor]:
        """Yield what tells this training from others of the same fit."""


def log_match(logits: Tensor, binary: bool, n_named: int) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 - p) of the named targets, shape (n_rows, ..., n_named)."""
    if binary:
        return F.logsigmoid(logits), F.logsigmoid(-logits)
    log_p = logits.log_softmax(-1)[..., :n_named]
    return log_p, log_complement(log_p)


def bag_quantifiers(settings: MemberSettings) -> tuple[str, ...]:
    """Return the quantifiers by which a member may answer of bags, its own first."""
    own = BAG_QUANTIFIERS.get(settings.likelihood, settings.likelihood)
    if settings.encoder in FORESTS:
        return QUANTIFIERS
    return (own, *NOISY_OR_ALTERNATIVES) if own == "noisy_or" else (own,)


def bag_presence(
    logits: Tensor,
    problem: BagProblem,
    settings: MemberSettings,
    mixture: Tensor | None = None,
    answer: str | None = None,
) -> Presence:
    """Return how likely each label is in each bag, by a quantifier.

    `mixture`: of "mixture", as in :func:`bag_loss`. `answer`: the quantifier, by default the
    member's own.
    """
    if settings.likelihood == "mixture":
        assert mixture is not None
        pooled = mixture_log_odds(logits, problem.segments, mixture[0], mixture[1])
        return Presence(F.logsigmoid(-pooled), F.logsigmoid(pooled))
    rule = answer or bag_quantifiers(settings)[0]
    ours, others = log_match(logits, problem.is_binary(settings), problem.n_named)
    return presence(rule, ours, others, problem.segments)


def bag_loss(
    logits: Tensor,
    problem: BagProblem,
    labels: Tensor,
    settings: MemberSettings,
    counted: Tensor,
    progress: float,
    mixture: Tensor | None = None,
) -> Tensor:
    """Return the negative log likelihood of each bag under each model, (n_bags, n_models).

    `logits` (n_rows, n_models, n_targets): of the instances; the last axis is one logit for
    positive and negative bags. `labels`: of shape (n_bags, 1, n_named). `counted` (n_bags,
    n_models): which bags a model learns from; others take no part in any normalisation. `progress`:
    how much of the training is done, for the temperature of "matching". `mixture` (2, n_models, 1):
    of "mixture": the logit of the share of positive instances, and a constant.
    """
    segments, n_named = problem.segments, problem.n_named
    binary = problem.is_binary(settings)
    if settings.likelihood in (*QUANTIFIERS, "mixture"):
        found = bag_presence(logits, problem, settings, mixture)
        return -log_label_likelihood(found, labels)
    if settings.likelihood == "inherited" and binary:
        sign = torch.where(labels[segments.group], 1.0, -1.0)
        return -segments.mean(F.logsigmoid(sign * logits)).squeeze(-1)
    n_free = problem.n_free(settings)
    log_p = (
        torch.cat([F.logsigmoid(logits), F.logsigmoid(-logits)], -1)
        if binary
        else (logits.log_softmax(-1))
    )
    if settings.likelihood == "label_set":
        return -log_set_likelihood(log_p, problem.label_sets, segments, n_free)
    free = labels.new_ones((len(labels), 1, n_free))
    inside = torch.cat([labels, free], -1)[segments.group]
    log_mass = log_p.masked_fill(~inside, -torch.inf).logsumexp(-1)
    if settings.likelihood == "inherited":
        return -segments.mean(log_mass)
    # The paper's matching, normalised over the targets and over the instances.
    hidden = ~counted[segments.group].unsqueeze(-1)
    among = logits - logits.masked_fill(hidden, -torch.inf).logsumexp(0, keepdim=True)
    pair = 0.5 * (log_p + among)[..., :n_named]
    start, end = TEMPERATURES
    temperature = start ** (1.0 - progress) * end**progress
    score = temperature * segments.logsumexp(pair / temperature)
    matched: Tensor = (score * labels).sum(-1) / labels.sum(-1).clamp(min=1)
    return -matched - ABSENT_STRENGTH * segments.mean(log_mass)

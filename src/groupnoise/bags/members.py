"""Members of an automatic fit: small models under one likelihood of bags, many at a time.

All folds and all weight decays of one setting are columns of the same arrays, so that a step of
Adam over whole data trains all of them. What comes out are ordinary matching models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.encoders import EmbeddingEncoder, IdentityEncoder, MLPEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.quantifier import (
    QUANTIFIERS,
    Presence,
    Segments,
    log_complement,
    log_label_likelihood,
    log_set_likelihood,
    presence,
)
from groupnoise.core.streamed_groups import StreamedGroups

LIKELIHOODS = (*QUANTIFIERS, "inherited", "label_set", "matching")
TEMPERATURES = (1.0, 0.7)
ABSENT_STRENGTH = 0.5
"""Of the absent-class term of "matching"."""
MAX_STEP_ROWS = 1 << 16
"""Instances that one step looks at; of longer data each step draws as many bags."""
WARM_UP = 0.1
BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class MemberSettings:
    """What tells one member from another.

    Parameters
    ----------
    likelihood : str, default="noisy_or"
        A quantifier of `groupnoise.core.quantifier`; "inherited" (each instance has a label
        of its bag), "label_set" (exact likelihood of the set of labels) or "matching" (the
        paper's, both normalisations, tempered).
    scaling : {"standard", "l2", "power", "none"}, default="standard"
        Scaling of the features.
    encoder : {"identity", "mlp"}, default="identity"
        Linear, or with one hidden layer.
    hidden : int, default=32
        Its width.
    dropout : float, default=0.0
        Share of its units dropped in training.
    background : bool, default=False
        Whether instances may have a target that no bag is asked for.
    weight_decay : float, default=0.1
        Half of it times the squared weights is added to the mean loss of a bag.
    learning_rate : float, default=0.1
        Largest step size of Adam.
    max_epochs : int, default=150
        Steps over the whole data.
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


@dataclass(frozen=True)
class BagProblem:
    """Labelled bags as members see them.

    Parameters
    ----------
    segments : Segments
        Where the bags are.
    labels : bool ndarray of shape (n_bags, n_named)
        The labels bags are asked for: all classes but a negative one.
    has_negative : bool
        Whether a class is negative: then it is the free target of every instance.
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
        """Tell whether one logit says everything."""
        return self.n_named == 1 and self.n_free(settings) == 1

    def subset(self, bags: IntArray) -> BagProblem:
        """Return some of the bags."""
        return BagProblem(
            Segments(self.segments.sizes[torch.from_numpy(bags)]),
            self.labels[bags],
            self.has_negative,
        )


def log_match(logits: Tensor, binary: bool, n_named: int) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 - p) of the named targets, shape (n_rows, ..., n_named)."""
    if binary:
        return F.logsigmoid(logits), F.logsigmoid(-logits)
    log_p = logits.log_softmax(-1)[..., :n_named]
    return log_p, log_complement(log_p)


def bag_presence(logits: Tensor, problem: BagProblem, settings: MemberSettings) -> Presence:
    """Return how likely each label is in each bag, by the quantifier of the member.

    Likelihoods that are no quantifier answer by noisy-or.
    """
    rule = settings.likelihood if settings.likelihood in QUANTIFIERS else "noisy_or"
    if settings.likelihood == "inherited":
        rule = "average"
    ours, others = log_match(logits, problem.is_binary(settings), problem.n_named)
    return presence(rule, ours, others, problem.segments)


def bag_loss(
    logits: Tensor,
    problem: BagProblem,
    labels: Tensor,
    settings: MemberSettings,
    counted: Tensor,
    progress: float,
) -> Tensor:
    """Return the negative log likelihood of each bag under each model, (n_bags, n_models).

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_models, n_targets)
        Of the instances; the last axis is one logit for positive and negative bags.
    problem : BagProblem
        The bags.
    labels : bool Tensor of shape (n_bags, 1, n_named)
        Their labels.
    settings : MemberSettings
        The likelihood.
    counted : bool Tensor of shape (n_bags, n_models)
        Which bags a model learns from; others take no part in any normalisation.
    progress : float
        How much of the training is done, for the temperature of "matching".
    """
    segments, n_named = problem.segments, problem.n_named
    binary = problem.is_binary(settings)
    if settings.likelihood in QUANTIFIERS:
        ours, others = log_match(logits, binary, n_named)
        found = presence(settings.likelihood, ours, others, segments)
        return -log_label_likelihood(found, labels)
    if settings.likelihood == "inherited" and binary:
        sign = torch.where(labels[segments.group], 1.0, -1.0)
        inherited: Tensor = -segments.mean(F.logsigmoid(sign * logits)).squeeze(-1)
        return inherited
    n_free = problem.n_free(settings)
    log_p = (
        torch.cat([F.logsigmoid(logits), F.logsigmoid(-logits)], -1)
        if binary
        else (logits.log_softmax(-1))
    )
    if settings.likelihood == "label_set":
        return -log_set_likelihood(log_p, labels.squeeze(1), segments, n_free)
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


class MemberBatch:
    """Models of one setting that are trained together.

    Parameters
    ----------
    rows : Tensor of shape (n_rows, n_features) or StreamedGroups
        Scaled instances, in memory or read from disk bag by bag.
    problem : BagProblem
        Their bags.
    bag_weights : Tensor of shape (n_bags, n_models)
        How much each bag counts for each model; 0 holds it out. Columns sum to one.
    weight_decay : sequence of float
        Of each model.
    settings : MemberSettings
        All else.
    generator : torch.Generator
        Decides the initial weights, and the bags of a step where they are too many.
    """

    def __init__(
        self,
        rows: Tensor | StreamedGroups,
        problem: BagProblem,
        bag_weights: Tensor,
        weight_decay: Sequence[float],
        settings: MemberSettings,
        generator: torch.Generator,
    ) -> None:
        self.rows, self.problem, self.settings = rows, problem, settings
        self.bag_weights, self.generator = bag_weights, generator
        self.weight_decay = torch.tensor(weight_decay)
        self.labels = torch.from_numpy(problem.labels).unsqueeze(1)
        self.width = rows.shape[1] if isinstance(rows, Tensor) else rows.width
        n_models, width = bag_weights.shape[1], self.width
        n_out = 1 if problem.is_binary(settings) else problem.n_named + problem.n_free(settings)
        # One draw for all models: folds shall differ in their bags alone.
        if settings.encoder == "identity":
            first = _normal((width, n_out), 0.01 if n_out > 1 else 0.0, generator)
            self.weights = [_for_each(first, n_models), torch.zeros(n_models, n_out)]
        else:
            first = _normal((width, settings.hidden), width**-0.5, generator)
            last = _normal((settings.hidden, n_out), 0.5 * settings.hidden**-0.5, generator)
            self.weights = [
                _for_each(first, n_models),
                torch.zeros(n_models, settings.hidden),
                _for_each(last, n_models),
                torch.zeros(n_models, n_out),
            ]
        if n_out == 1:
            self.weights[-1].fill_(_first_bias(settings.likelihood, problem.segments))

    def logits(self, rows: Tensor, *, training: bool = False) -> Tensor:
        """Return the logits of rows under every model, (n_rows, n_models, n_out)."""
        first = self.weights[0]
        n_models, width, out = first.shape
        flat = rows @ first.transpose(0, 1).reshape(width, n_models * out)
        values = flat.view(len(rows), n_models, out) + self.weights[1]
        if self.settings.encoder == "identity":
            return values
        values = F.relu(values)
        if training and self.settings.dropout:
            # One mask for all models: drawing is what takes the time.
            keep = 1.0 - self.settings.dropout
            mask = torch.empty(len(rows), 1, out).bernoulli_(keep, generator=self.generator)
            values = values * (mask / keep)
        if self.weights[2].shape[-1] == 1:
            return (values * self.weights[2].squeeze(-1)).sum(-1, keepdim=True) + self.weights[3]
        mixed = torch.bmm(values.transpose(0, 1), self.weights[2]).transpose(0, 1)
        return mixed + self.weights[3]

    def train(self) -> MemberBatch:
        """Train all models and return them."""
        for tensor in self.weights:
            tensor.requires_grad_()
        optimizer = torch.optim.Adam(
            self.weights, lr=self.settings.learning_rate, betas=BETAS, fused=True
        )
        n_steps = self.settings.max_epochs
        for step in range(n_steps):
            for group in optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * _rate(step, n_steps)
            optimizer.zero_grad()
            self._loss(step / n_steps).backward()
            optimizer.step()
        for tensor in self.weights:
            tensor.requires_grad_(False)
        return self

    def _loss(self, progress: float) -> Tensor:
        rows, problem, labels, weights = self._part()
        each = bag_loss(
            self.logits(rows, training=True), problem, labels, self.settings, weights > 0, progress
        )
        loss = torch.where(weights > 0, each * weights, 0.0).sum()
        norm = sum(((tensor**2).sum((1, 2)) for tensor in self.weights[::2]), torch.zeros(()))
        return loss + 0.5 * (self.weight_decay * norm).sum()

    def _part(self) -> tuple[Tensor, BagProblem, Tensor, Tensor]:
        """Return the rows, bags, labels and weights of a step."""
        if isinstance(self.rows, Tensor) and len(self.rows) <= MAX_STEP_ROWS:
            return self.rows, self.problem, self.labels, self.bag_weights
        sizes = self.problem.segments.sizes
        order = torch.randperm(len(sizes), generator=self.generator)
        n_bags = int((sizes[order].cumsum(0) <= MAX_STEP_ROWS).sum().clamp(min=1))
        bags = order[:n_bags].sort().values
        rows = self._rows_of(bags)
        weights = self.bag_weights[bags]
        weights = weights / weights.sum(0).clamp(min=torch.finfo(weights.dtype).tiny)
        problem = self.problem.subset(bags.numpy())
        return rows, problem, self.labels[bags], weights

    def _rows_of(self, bags: Tensor) -> Tensor:
        """Return the instances of some bags, one bag after the other."""
        if isinstance(self.rows, StreamedGroups):
            return torch.from_numpy(self.rows.gathered(bags.numpy()))
        sizes = self.problem.segments.sizes
        part = Segments(sizes[bags])
        offset = part.sizes.cumsum(0) - part.sizes
        starts = (sizes.cumsum(0) - sizes)[bags]
        return self.rows[torch.arange(len(part.group)) + (starts - offset)[part.group]]

    def model(self, number: int) -> MatchingModel:
        """Return one of the models as others read it, background or negative last."""
        arrays = [tensor[number].detach().clone() for tensor in self.weights]
        if self.problem.is_binary(self.settings):
            # The logit is that of the named target; the free one stays at zero.
            arrays[-2] = torch.cat([arrays[-2], torch.zeros_like(arrays[-2])], dim=1)
            arrays[-1] = torch.cat([arrays[-1], torch.zeros_like(arrays[-1])])
        model = build_member(self.width, len(arrays[-1]), self.settings)
        if self.settings.encoder == "identity":
            state = {"target_encoder.weight": arrays[0].t().contiguous()}
        else:
            state = {
                "object_encoder.layers.0.weight": arrays[0].t().contiguous(),
                "object_encoder.layers.0.bias": arrays[1],
                "object_encoder.layers.1.weight": arrays[2].t().contiguous(),
                "object_encoder.layers.1.bias": torch.zeros(len(arrays[-1])),
                "target_encoder.weight": torch.eye(len(arrays[-1])),
            }
        model.load_state_dict({**state, "bias": arrays[-1].unsqueeze(1)})
        return model.eval()


def build_member(n_features: int, n_targets: int, settings: MemberSettings) -> MatchingModel:
    """Return the untrained model of a member."""
    generator = torch.Generator().manual_seed(0)
    is_linear = settings.encoder == "identity"
    encoder = (
        IdentityEncoder()
        if is_linear
        else MLPEncoder(n_features, (settings.hidden,), n_targets, generator=generator)
    )
    dim = n_features if is_linear else n_targets
    table = EmbeddingEncoder(n_targets, dim, std=0.01, generator=generator)
    return MatchingModel(encoder, table, n_targets=n_targets, has_bias=True)


def _normal(shape: tuple[int, ...], std: float, generator: torch.Generator) -> Tensor:
    return torch.empty(shape).normal_(0.0, 1.0, generator=generator) * std


def _for_each(weights: Tensor, n_models: int) -> Tensor:
    return weights.unsqueeze(0).repeat(n_models, 1, 1)


def _first_bias(likelihood: str, segments: Segments) -> float:
    """Return the constant under which a bag is as likely positive as negative at the start."""
    if likelihood == "noisy_or":
        chance = 1.0 - 0.5 ** (1.0 / float(segments.sizes.float().mean()))
        return math.log(chance / (1.0 - chance))
    return -1.0 if likelihood == "max" else 0.0


def _rate(step: int, n_steps: int) -> float:
    """Return the share of the step size: a short warm-up, then a cosine to zero."""
    share = (step + 1) / n_steps
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (share - WARM_UP) / (1.0 - WARM_UP)))

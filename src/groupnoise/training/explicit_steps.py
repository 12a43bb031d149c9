"""Training steps with explicit gradients, without autograd.

A step on a small batch consists of about a hundred small operations whose overhead exceeds their
computation. For few labels as objects and rows encoded by a linear map or perceptron as targets,
forward and backward pass are written here over the table of all (row, label) logits; those of ids
are in `core/table_objective.py`. All other objectives use autograd, with the same values up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from groupnoise.core.batching import GroupBatch, fits_products
from groupnoise.core.candidates import FullCandidates, InBatchCandidates
from groupnoise.core.compiled import training_kernels
from groupnoise.core.encoders import EmbeddingEncoder, LinearEncoder, MLPEncoder, dropout_factors
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, Marginal, Max, Tempered
from groupnoise.core.pair_matching import Matcher, PairMatching, PriorMatching
from groupnoise.core.table_objective import TableObjective
from groupnoise.core.weighting import Dot, SigmoidWeighting
from groupnoise.training.optimizer import RowAdam

SELECTIONS = (Max, Marginal, Tempered)
"""Those whose responsibilities are the derivatives of the score of a group."""
MASKED_LOGIT = 1e30
"""Subtracted from masked logits; unlike infinity it gives a number for a single object."""


class _Weighed(NamedTuple):
    """Group weighting of the candidates of a row, and its slopes.

    `log_weight` (groups, size): log P(object | group), times its strength.
    `slope` (groups, size, size): of the second object's part of a score by each similarity.
    `pairs`: where each similarity stands in the flat table between labels.
    """

    log_weight: Tensor
    slope: Tensor
    pairs: Tensor


class _Forward(NamedTuple):
    """Intermediate results for the backward pass.

    `layers`: inputs of each layer of the encoder, and factors of its outputs, None for the last.
    `rows` (groups, dim): the encoded rows.
    `among_labels`, `among_rows` (groups, n_labels): softmaxes of the logits.
    """

    objects: Tensor
    order: Tensor
    layers: list[tuple[Tensor, Tensor | None]]
    rows: Tensor
    among_labels: Tensor
    among_rows: Tensor | None
    responsibility: Tensor
    weighed: _Weighed | None


class LabelObjective:
    """The objective of a model whose objects are labels and whose targets are feature rows."""

    def __init__(self, model: MatchingModel, pair: Matcher, objective: GroupObjective) -> None:
        self._objective, self._inputs = objective, model.target_inputs
        self._log_prior = pair.log_prior if isinstance(pair, PriorMatching) else None
        plain = pair.pair if isinstance(pair, PriorMatching) else pair
        assert isinstance(plain, PairMatching)
        self._over_rows = plain.normalize == "both"
        labels, encoder = model.object_encoder, model.target_encoder
        assert isinstance(labels, EmbeddingEncoder)
        assert isinstance(encoder, (LinearEncoder, MLPEncoder))
        self._table, self._encoder = labels.weight, encoder
        layers = encoder.layers if isinstance(encoder, MLPEncoder) else [encoder]
        self._layers = [each for each in layers if isinstance(each, LinearEncoder)]
        self._forward: _Forward | None = None

    @classmethod
    def of(
        cls, model: MatchingModel, pair: Matcher, objective: GroupObjective
    ) -> LabelObjective | None:
        """Return the objective in this form, None if it needs autograd."""
        plain = pair.pair if isinstance(pair, PriorMatching) else pair
        labels, weighting = model.object_encoder, objective.weighting
        if not isinstance(plain, PairMatching) or type(labels) is not EmbeddingEncoder:
            return None
        sources = (plain.source, plain.object_source)
        among_labels = sources[plain.normalize == "both"]
        is_plain = (
            type(model) is MatchingModel
            and type(model.target_encoder) in (LinearEncoder, MLPEncoder)
            and model.target_inputs is not None
            and not labels.sparse
            and (model.bias, model.precision) == (None, None)
            and plain.normalize in ("objects", "both")
            and (plain.normalize != "both" or sources[0] == InBatchCandidates())
            and among_labels == FullCandidates(len(labels.weight))
            and not plain.with_probabilities
            and type(objective.selection) in SELECTIONS
            and not (objective.absent_strength or objective.recency)
            and (
                weighting is None
                or (type(weighting) is SigmoidWeighting and type(weighting.similarity) is Dot)
            )
        )
        return cls(model, pair, objective) if is_plain else None

    def takes(self, batch: GroupBatch) -> bool:
        """Return whether a batch is undivided, with distinct targets, and fits into memory."""
        n_groups, size = batch.mask.shape
        return (
            batch.objects.device.type == "cpu"
            and batch.objects.dim() == 2
            and batch.shared_targets is None
            and len(batch.targets.unique()) == n_groups
            and fits_products(n_groups, size)
        )

    @torch.no_grad()
    def losses(
        self, batch: GroupBatch, generator: torch.Generator, progress: float = 1.0
    ) -> Tensor:
        """Return the loss of each group."""
        del generator  # nothing is sampled
        # In this order pair matching encodes rows, which decides what dropout drops.
        targets, order = batch.targets, torch.arange(len(batch))
        if self._over_rows:
            targets, order = targets.sort()
        objects, mask = batch.objects[order].long(), batch.mask[order]
        assert self._inputs is not None
        layers, rows = self._encoded(self._inputs[targets])
        logits = rows @ self._table.t()
        among_labels = logits.log_softmax(1)
        log_pair, among_rows = among_labels.gather(1, objects), None
        if self._over_rows:
            log_among_rows = logits.log_softmax(0)
            log_pair = 0.5 * (log_pair + log_among_rows.gather(1, objects))
            among_rows = log_among_rows.exp_()
        if self._log_prior is not None:
            log_pair += self._log_prior[batch.rows[order]].gather(1, objects)
        weighed = self._weighed(objects, mask)
        scores = log_pair if weighed is None else log_pair + weighed.log_weight
        log_score, responsibility = self._selected(scores, mask, progress)
        self._forward = _Forward(
            objects, order, layers, rows, among_labels.exp_(), among_rows, responsibility, weighed
        )
        return torch.empty_like(log_score).index_copy_(0, order, -log_score)

    @torch.no_grad()
    def find_gradients(self, upstream: Tensor) -> None:
        """Set the gradient of every parameter for the last losses.

        `upstream` (groups,): weights of the losses.
        """
        assert self._forward is not None
        forward, self._forward = self._forward, None
        slope = forward.responsibility * -upstream[forward.order].unsqueeze(1)
        # Of the score of a group by each of the logits that its objects stand for.
        at_logits = torch.zeros_like(forward.among_labels).scatter_add_(1, forward.objects, slope)
        by_label = at_logits - forward.among_labels * at_logits.sum(1, keepdim=True)
        if forward.among_rows is not None:
            by_label += at_logits
            by_label -= forward.among_rows * at_logits.sum(0)
            by_label *= 0.5
        gradient = by_label.t() @ forward.rows
        if forward.weighed is not None:
            n_labels = len(self._table)
            change = (forward.weighed.slope * slope.unsqueeze(1)).flatten()
            between = self._table.new_zeros(n_labels, n_labels)
            between.view(-1).index_add_(0, forward.weighed.pairs, change)
            # A similarity moves both of its objects.
            gradient.addmm_(between + between.t(), self._table)
        self._table.grad = gradient
        self._backward(forward.layers, by_label @ self._table)

    def _encoded(self, inputs: Tensor) -> tuple[list[tuple[Tensor, Tensor | None]], Tensor]:
        """Return what each layer read and by what its outputs were multiplied, and the last."""
        *hidden, last = self._layers
        encoder, read = self._encoder, list[tuple[Tensor, Tensor | None]]()
        for layer in hidden:
            values = F.linear(inputs, layer.weight, layer.bias)
            # Written as numbers at once: truth values take longer to convert.
            kept = torch.gt(values, 0.0, out=torch.empty_like(values))
            if isinstance(encoder, MLPEncoder) and encoder.training and encoder.dropout > 0.0:
                kept *= dropout_factors(values, encoder.dropout, encoder.generator)
            read.append((inputs, kept))
            inputs = values.mul_(kept)
        return [*read, (inputs, None)], F.linear(inputs, last.weight, last.bias)

    def _backward(self, read: list[tuple[Tensor, Tensor | None]], slope: Tensor) -> None:
        """Set the gradients of the layers of the encoder, given that of its outputs."""
        for number in range(len(self._layers) - 1, -1, -1):
            inputs, layer = read[number][0], self._layers[number]
            layer.weight.grad, layer.bias.grad = slope.t() @ inputs, slope.sum(0)
            if number:
                factors = read[number - 1][1]
                assert factors is not None
                slope = (slope @ layer.weight).mul_(factors)

    def _selected(self, scores: Tensor, mask: Tensor, progress: float) -> tuple[Tensor, Tensor]:
        selection = self._objective.selection
        if not isinstance(selection, Tempered):
            found = selection(scores, mask, progress)
            return found.log_score, found.responsibility
        temperature = selection.temperature(progress)
        cooled = (scores / temperature).masked_fill_(~mask, -torch.inf)
        log_score = cooled.logsumexp(1)
        return temperature * log_score, cooled.sub_(log_score.unsqueeze(1)).exp_()

    def _weighed(self, objects: Tensor, mask: Tensor) -> _Weighed | None:
        """Return the group weighting, None without one."""
        weighting, strength = self._objective.weighting, self._objective.weighting_strength
        if weighting is None or strength == 0.0:
            return None
        scale = weighting.similarity.scale  # type: ignore[attr-defined]
        n_labels = len(self._table)
        pairs = (objects.unsqueeze(2) * n_labels + objects.unsqueeze(1)).flatten()
        between = (self._table @ self._table.t()).mul_(scale).flatten()
        # (groups, attended to, attending)
        similarity = between.index_select(0, pairs).view(*objects.shape, -1)
        real = mask.to(similarity.dtype)
        attention = similarity + ((real - 1.0) * MASKED_LOGIT).unsqueeze(2)
        torch.diagonal(attention, 0, 1, 2).fill_(-MASKED_LOGIT)
        attention = attention.softmax(1)
        score = (attention * similarity).sum(1)
        # An object alone attends to nothing, and its weight is one.
        has_say = real.mul_(real.sum(1, keepdim=True) > 1).mul_(strength)
        log_weight = F.logsigmoid(score).mul_(has_say)
        steep = torch.sigmoid(-score).mul_(has_say).mul_(scale)
        # Of sum_j attention_j * similarity_j by similarity_j.
        slope = (similarity + (1.0 - score).unsqueeze(1)).mul_(attention).mul_(steep.unsqueeze(1))
        return _Weighed(log_weight, slope, pairs)


def find_explicit_step(
    model: MatchingModel,
    pair: Matcher,
    objective: GroupObjective,
    optimizers: Sequence[Optimizer],
    *,
    n_steps: int = 0,
) -> ExplicitStep | None:
    """Return the explicit step of a training, None if it needs autograd.

    `n_steps`: of the whole training; loops are compiled for a long one.
    """
    if len(optimizers) != 1:
        return None
    (optimizer,) = optimizers
    if isinstance(optimizer, RowAdam):
        tables = TableObjective.of(model, pair, objective)
        if tables is None:
            return None
        tables.kernels = training_kernels(n_steps)  # compiled only where they are used

        def move_rows(upstream: Tensor) -> None:
            for found in tables.gradients(upstream):
                optimizer.move_rows(found, tables.kernels)

        return ExplicitStep(tables, move_rows)
    labels = LabelObjective.of(model, pair, objective)
    if labels is None:
        return None

    def move(upstream: Tensor) -> None:
        labels.find_gradients(upstream)
        optimizer.step()

    return ExplicitStep(labels, move)


class ExplicitStep:
    """A training step in two halves: the loss of a batch, then the update by `move`."""

    def __init__(
        self, objective: TableObjective | LabelObjective, move: Callable[[Tensor], None]
    ) -> None:
        self._objective, self._move = objective, move
        self._upstream: Tensor | None = None

    def loss(
        self,
        batch: GroupBatch,
        generator: torch.Generator,
        *,
        weights: Tensor | None = None,
        progress: float = 1.0,
    ) -> float | None:
        """Return the mean loss of a batch, None if the batch is too large."""
        if not self._objective.takes(batch):
            return None
        losses = self._objective.losses(batch, generator, progress)
        upstream = torch.ones_like(losses) if weights is None else weights.to(losses)
        self._upstream = upstream / len(losses)
        return float(losses @ self._upstream)

    def descend(self) -> None:
        """Update the parameters for the batch of the last loss."""
        assert self._upstream is not None
        upstream, self._upstream = self._upstream, None
        self._move(upstream)

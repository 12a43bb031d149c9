"""Loss and gradient of the whole objective on tables of vectors, in as few operations as there are.

A step of a recommender taken part by part is some hundred small operations, each of which costs
more to call than to compute, and a dozen arrays that are new each time. Where objects and targets
are ids, candidates are sampled and the weighting is made of inner products, the forward and the
backward pass are written down here over distinct rows, in memory that is kept from step to step.
Every other objective takes its parts one after the other, with the same values up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.core.batching import GroupBatch, fits_products
from groupnoise.core.candidates import SampledCandidates
from groupnoise.core.chunked_softmax import KEPT_ELEMENTS, shifted_exponentials
from groupnoise.core.compiled import Kernels
from groupnoise.core.encoders import EmbeddingEncoder, LookedUpRows
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import All, GroupObjective, Marginal, Max, Tempered, TopK
from groupnoise.core.pair_matching import Matcher, PairMatching
from groupnoise.core.weighting import Dot, SigmoidWeighting

SELECTIONS = (Max, Marginal, Tempered, TopK, All)
"""Those whose responsibilities are the derivatives of the score of a group."""
FEW_ACTIVE = 0.6
"""Share of the denominators with a gradient below which the others are left out of products."""


class RowGradient(NamedTuple):
    """The gradient of the rows of a table that a batch has looked up.

    `table` (n_rows, dim): the parameter.
    `rows`: which rows, each once, in any order.
    `current` (n, dim): their values, to be overwritten at will.
    `gradient` (n, dim): the gradient.
    """

    table: Tensor
    rows: Tensor
    current: Tensor
    gradient: Tensor


class _Denominators(NamedTuple):
    """The sum over the candidates, for each distinct object and for positions with fewer of them.

    `numerators` (n_objects, n_candidates): exponentials of the logits less their shift.
    `total`: their sums.
    `colliding`: positions of groups whose target is a candidate, which is left out there; `own`
        (n_colliding, n_candidates) are their numerators, `own_total` the sums.
    """

    numerators: Tensor
    total: Tensor
    colliding: Tensor | None = None
    own: Tensor | None = None
    own_total: Tensor | None = None


class _Forward(NamedTuple):
    """What the backward pass reads of the forward pass.

    `responsibility`, `pair_slope` (groups, size): slopes of the score of a group by the score of an
        object, and of that by its logit.
    `weight_slope` (size, size, groups): of the score of an object by its similarities.
    """

    slots: LookedUpRows
    vectors: Tensor
    candidates: Tensor
    denominators: _Denominators
    responsibility: Tensor
    pair_slope: Tensor
    weight_slope: Tensor | None


class TableObjective:
    """The objective of a model whose objects and targets are rows of tables.

    `model`, `source`, `objective`: such as :meth:`of` has found to fit.
    `kernels`: compiled loops over the members of groups; None leaves them to torch.
    """

    def __init__(
        self,
        model: MatchingModel,
        source: SampledCandidates,
        objective: GroupObjective,
        kernels: Kernels | None = None,
    ) -> None:
        self._model, self._source, self._objective = model, source, objective
        self.kernels = kernels
        encoders = dict.fromkeys((model.object_encoder, model.target_encoder))
        self._tables = [each.weight for each in encoders if isinstance(each, EmbeddingEncoder)]
        self._place = np.zeros(max(len(table) for table in self._tables), dtype=np.int64)
        self._space: dict[str, Tensor] = {}
        self._forward: _Forward | None = None

    @classmethod
    def of(
        cls,
        model: MatchingModel,
        pair: Matcher,
        objective: GroupObjective,
        kernels: Kernels | None = None,
    ) -> TableObjective | None:
        """Return the objective in this form, None where it has parts that need another."""
        weighting = objective.weighting
        tables = (model.object_encoder, model.target_encoder)
        if not isinstance(pair, PairMatching) or type(pair.source) is not SampledCandidates:
            return None
        is_plain = (
            type(model) is MatchingModel
            and all(type(table) is EmbeddingEncoder and table.sparse for table in tables)
            and (model.bias is None or model.sparse)
            and (model.target_inputs, model.precision) == (None, None)
            and (pair.normalize, pair.with_probabilities) == ("targets", False)
            and type(objective.selection) in SELECTIONS
            and not objective.absent_strength
            and (
                weighting is None
                or (type(weighting) is SigmoidWeighting and type(weighting.similarity) is Dot)
            )
        )
        return cls(model, pair.source, objective, kernels) if is_plain else None

    def takes(self, batch: GroupBatch) -> bool:
        """Tell whether a batch holds ids, and its products and logits fit into memory."""
        n_groups, size = batch.mask.shape
        return (
            batch.objects.device.type == "cpu"
            and {batch.objects.dtype, batch.targets.dtype} <= {torch.int32, torch.int64}
            and (batch.objects.dim(), batch.targets.dim()) == (2, 1)
            and fits_products(n_groups, size + 1)
            and n_groups * size * self._source.n_negatives <= KEPT_ELEMENTS
        )

    @torch.no_grad()
    def losses(
        self, batch: GroupBatch, generator: torch.Generator, progress: float = 1.0
    ) -> Tensor:
        """Return the loss of each group."""
        drawn = self._source.draw(batch.all_targets, generator)
        n_groups, size = batch.mask.shape
        shared = len(self._tables) == 1
        slots = LookedUpRows.of(batch, drawn.ids.numpy(), self._place, shared=shared)
        vectors = self._look_up(slots)
        products = self._products(vectors, slots.members.view(n_groups, size + 1))
        candidates = vectors.index_select(0, slots.candidates)
        logit, offset, bias = products[:, :-1, -1], None, self._model.bias
        if bias is not None:
            logit = logit + bias.index_select(0, batch.targets)
            offset = bias.index_select(0, drawn.ids).squeeze(-1)
        if drawn.log_expected_count is not None:
            correction = drawn.log_expected_count.to(vectors)
            offset = -correction if offset is None else offset - correction
        logits = self._taken("logits", (slots.n_objects, len(drawn.ids)))
        score = _scoring(offset)
        others, denominators = _log_sums(
            score(vectors[: slots.n_objects], candidates, logits),
            slots.objects,
            slots.collisions,
            lambda at: score(vectors.index_select(0, at), candidates, None),
        )
        lead = logit - others.view_as(logit)
        log_weight, weight_slope = self._weighed(products[:, :-1, :-1], batch.mask)
        scores = F.logsigmoid(lead) + self._objective.log_trust(log_weight, batch.mask)
        log_score, responsibility = self._objective.selection(scores, batch.mask, progress)
        self._forward = _Forward(
            slots,
            vectors,
            candidates,
            denominators,
            responsibility,
            torch.sigmoid(-lead),
            weight_slope,
        )
        return -log_score

    @torch.no_grad()
    def gradients(self, upstream: Tensor) -> list[RowGradient]:
        """Return the gradient of the losses that were last asked for, table by table.

        In memory that the next batch overwrites. `upstream` (groups,): what each loss counts.
        """
        assert self._forward is not None
        forward, self._forward = self._forward, None
        slots, vectors = forward.slots, forward.vectors
        grad_scores = forward.responsibility * -upstream.unsqueeze(-1)
        grad_logit = grad_scores * forward.pair_slope  # (groups, size)
        n_groups, size = grad_logit.shape
        grad_products = vectors.new_zeros(n_groups, size + 1, size + 1)
        if forward.weight_slope is not None:
            # A similarity moves both of its objects.
            change = (forward.weight_slope * grad_scores.t()).permute(2, 0, 1)
            torch.add(change, change.transpose(1, 2), out=grad_products[:, :-1, :-1])
        grad_products[:, :-1, -1] = grad_logit
        grad_products[:, -1, :-1] = grad_logit
        gradient = self._taken("gradient", vectors.shape)
        queries = vectors[: slots.n_objects]
        slopes, active = _slopes(forward.denominators, grad_logit.reshape(-1), slots.objects)
        if active is None:
            torch.mm(slopes, forward.candidates, out=gradient[: slots.n_objects])
            gradient[slots.n_objects :] = 0.0
        else:
            queries = queries.index_select(0, active)
            gradient.zero_()
            gradient.index_add_(0, active, torch.mm(slopes, forward.candidates))
        gradient.index_add_(0, slots.candidates, torch.mm(slopes.t(), queries))
        self._add_products(vectors, slots.members, grad_products, gradient)
        found = [
            RowGradient(table, slots.rows[part], vectors[part], gradient[part])
            for table, part in self._parts(slots)
        ]
        if self._model.bias is not None:
            values = torch.cat([grad_logit.sum(-1), slopes.sum(0)])
            found.append(_bias_gradient(self._model.bias, slots, values))
        return found

    def _products(self, vectors: Tensor, members: Tensor) -> Tensor:
        """Return the products of the members of each group, (groups, size + 1, size + 1)."""
        if self.kernels is not None:
            products = self._taken("products", (*members.shape, members.shape[1]))
            self.kernels.products(vectors.numpy(), members.numpy(), products.numpy())
            return products
        rows = self._taken("members", (members.numel(), vectors.shape[1]))
        torch.index_select(vectors, 0, members.view(-1), out=rows)
        rows = rows.view(*members.shape, -1)
        return torch.bmm(rows, rows.transpose(1, 2))

    def _add_products(
        self, vectors: Tensor, members: Tensor, slopes: Tensor, gradient: Tensor
    ) -> None:
        if self.kernels is not None:
            members = members.view(slopes.shape[:2])
            arrays = (vectors, members, slopes, gradient)
            self.kernels.add_products(*(each.numpy() for each in arrays))
            return
        rows = self._taken("members", (*slopes.shape[:2], vectors.shape[1]))
        moved = self._taken("gradient of members", rows.shape)
        gradient.index_add_(0, members, torch.bmm(slopes, rows, out=moved).flatten(0, 1))

    def _taken(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return memory for an array, the same in every step unless it has to grow."""
        n_elements = prod(shape)
        space = self._space.get(name)
        if space is None or space.numel() < n_elements:
            space = self._tables[0].new_empty(n_elements + n_elements // 8)
            self._space[name] = space
        return torch.as_strided(space, shape, _dense_strides(shape))

    def _look_up(self, slots: LookedUpRows) -> Tensor:
        """Return the distinct rows, (n, dim)."""
        vectors = self._taken("vectors", (len(slots.rows), self._tables[0].shape[1]))
        for table, part in self._parts(slots):
            torch.index_select(table.detach(), 0, slots.rows[part], out=vectors[part])
        return vectors

    def _parts(self, slots: LookedUpRows) -> Iterator[tuple[Tensor, slice]]:
        """Yield each table, and which of the distinct rows are its own."""
        begins = [0] if len(self._tables) == 1 else [0, slots.n_objects]
        yield from zip(
            self._tables, map(slice, begins, [*begins[1:], len(slots.rows)]), strict=True
        )

    def _weighed(self, products: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return log P(object | group), and the slope of its part of a score by each similarity.

        Of shape (groups, size), and (size, size, groups) with the objects attended to first: torch
        is slow at reducing a short last axis.
        """
        weighting, strength = self._objective.weighting, self._objective.weighting_strength
        if weighting is None or strength == 0.0:
            return products.new_zeros(mask.shape), None
        scale = weighting.similarity.scale  # type: ignore[attr-defined]
        similarity = products.permute(1, 2, 0).contiguous().mul_(scale)
        attention = similarity.clone()
        itself = torch.diagonal(attention, 0, 0, 1)
        itself.fill_(-torch.inf)
        has_padding = not mask.numpy().all()
        if has_padding:
            attention.masked_fill_(~mask.t().unsqueeze(1), -torch.inf)
        attention.sub_(attention.amax(0)).exp_()
        attention.div_(attention.sum(0))
        # The softmax of an object alone is NaN; it attends to nothing.
        itself.fill_(0.0)
        if has_padding:
            attention.masked_fill_(~mask.t().unsqueeze(1), 0.0)
        score = (attention * similarity).sum(0)  # (size, groups)
        log_weight, slope = F.logsigmoid(score), torch.sigmoid(-score)
        if has_padding or len(score) == 1:
            alone = ~(mask & (mask.sum(-1, keepdim=True) > 1)).t()
            log_weight.masked_fill_(alone, 0.0)
            slope.masked_fill_(alone, 0.0)
        # Of sum_j attention_j * similarity_j by similarity_j.
        change = similarity.add_(1.0 - score).mul_(attention)
        return log_weight.t(), change.mul_(slope.mul_(scale * strength))


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _scoring(offset: Tensor | None) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    """Return a function of queries, candidates and where their logits go."""
    if offset is None:
        return lambda queries, candidates, out: torch.mm(queries, candidates.t(), out=out)
    return lambda queries, candidates, out: torch.addmm(offset, queries, candidates.t(), out=out)


def _log_sums(
    logits: Tensor,
    at_objects: Tensor,
    collisions: tuple[Tensor, Tensor, Tensor] | None,
    score: Callable[[Tensor], Tensor],
) -> tuple[Tensor, _Denominators]:
    """Return the log-sum-exp over the candidates at every position, flat.

    `logits` (n_objects, n_candidates): are overwritten. `at_objects`: the object at each position.
    `collisions`: pairs that do not count. `score`: returns the logits of objects once more, since
    what is left out at a position may be all that counts elsewhere.
    """
    shift, numerators, total = shifted_exponentials(logits)
    others = (shift + total.log()).index_select(0, at_objects)
    if collisions is None:
        return others, _Denominators(numerators, total)
    positions, rows, columns = collisions
    own_logits = score(at_objects.index_select(0, positions))
    own_logits[rows, columns] = -torch.inf
    own_shift, own, own_total = shifted_exponentials(own_logits)
    others[positions] = own_shift + own_total.log()
    return others, _Denominators(numerators, total, positions, own, own_total)


def _slopes(
    denominators: _Denominators, grad_logit: Tensor, at_objects: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return the slope of the loss by the logits of all candidates, and whose it is.

    Of shape (n_active, n_candidates): for the objects `active`, None being all of them. Under max
    selection only the chosen objects have a slope. `grad_logit`: of the logit of the target at each
    position, flat.
    """
    numerators, total, colliding, own, own_total = denominators
    upstream = weight = -grad_logit
    if colliding is not None:
        weight = upstream.clone()
        weight[colliding] = 0.0
    per_object = torch.zeros_like(total).index_add_(0, at_objects, weight)
    active, has_slope = None, grad_logit.numpy() != 0
    if has_slope.sum() < FEW_ACTIVE * len(total):
        touched = np.zeros(len(total), dtype=bool)
        touched[at_objects.numpy()[has_slope]] = True
        active = torch.from_numpy(np.flatnonzero(touched))
        numerators, total, per_object = (
            values.index_select(0, active) for values in (numerators, total, per_object)
        )
    slopes = numerators.mul_((per_object / total).unsqueeze(-1))
    if colliding is not None and own is not None and own_total is not None:
        # Where no candidate is left there is nothing to divide, and no slope.
        own_weight = upstream[colliding] / own_total.masked_fill(own_total == 0, 1.0)
        at, own = at_objects[colliding], own * own_weight.unsqueeze(-1)
        if active is not None:
            counts = own_weight != 0
            at, own = torch.searchsorted(active, at[counts]), own[counts]
        slopes.index_add_(0, at, own)
    return slopes, active


def _bias_gradient(bias: Tensor, slots: LookedUpRows, values: Tensor) -> RowGradient:
    """Return the gradient of biases, given that of each time one is read."""
    read = np.zeros(len(slots.rows), dtype=bool)
    read[slots.others.numpy()] = True
    distinct = torch.from_numpy(np.flatnonzero(read))
    gradient = values.new_zeros(len(read)).index_add_(0, slots.others, values)[distinct]
    rows = slots.rows[distinct]
    return RowGradient(bias, rows, bias.index_select(0, rows), gradient.unsqueeze(-1))

"""Gradients of a step of a training of evidence, and the optimizer of its large tables."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.clicks.evidence.model import EvidenceModel
from groupnoise.clicks.evidence.steps import (
    EvidencePlan,
    Lookup,
    SequenceBatch,
    SharedTensors,
    StepLoops,
    draw_dropout,
    prepare_batches,
    split_evenly,
)
from groupnoise.training.optimizer import BETAS, EPSILON, LightOptimizer, move_by_adam

MAX_TAIL = 256
"""Missed steps after which moments no longer move a row."""
MAX_FADED = 500
"""Missed steps after which moments have decayed to zero."""


def descend_loss(
    model: EvidenceModel,
    clicks: Tensor,
    plan: EvidencePlan,
    noise: torch.Generator,
    lookup: Lookup = F.embedding,
    *,
    pool: Executor | None = None,
    n_parts: int = 1,
    n_sets: int = 1,
    loops: StepLoops | None = None,
) -> float:
    """Return the mean loss of all next clicks of some sequences, and accumulate its gradient.

    `clicks` (n, size): sequences, padded at their ends with `n_items`. `plan`: says how many clicks
    are dropped and how many negatives are drawn. `lookup`: called with items and a table; returns
    their rows. `pool`: threads that each take a part of the sequences; a step of many small
    operations has more of two threads that wait for each other once than of threads in each
    operation. What is drawn is the same. `n_sets`: parts that each draw what stands for the
    catalogue beside their own targets, whatever the threads: fewer scores than beside all targets.
    `loops`: compiled; None leaves everything to torch.
    """
    size = clicks.shape[1] - 1
    making = None
    if pool is not None and len(clicks) >= n_parts:
        making = pool.submit(SharedTensors.of, model, size, loops)
    batches = prepare_batches(
        model, _split_sets(clicks, n_sets, model.n_items), plan, noise, lookup
    )
    drawn = [draw_dropout(model, batch) for batch in batches]
    n_targets = sum(len(batch.positive) for batch in batches)
    if pool is None or making is None:
        shared = SharedTensors.of(model, size, loops)
        losses = [
            batch.loss(model, shared, own) * (len(batch.positive) / n_targets)
            for batch, own in zip(batches, drawn, strict=True)
        ]
        loss = torch.stack(losses).sum()
        loss.backward()
        return loss.item()
    shared = making.result()
    encoder = model.encoder
    others = [] if encoder is None or shared.products else list(encoder.parameters())
    own_table, *own_products = (_detached(each) for each in (shared.table, *shared.products))
    of_parts = shared._replace(table=own_table, products=own_products)

    def descend(cut: _Cut) -> tuple[float, tuple[Tensor, ...]]:
        leaves = [_detached(each) for each in (cut.part.features, *cut.part[3:5])]
        part = cut.part._replace(features=leaves[0], vectors=leaves[1], bias=leaves[2])
        bytes_of = drawn[cut.number]
        own = None if bytes_of is None else [each[cut.rows, cut.columns] for each in bytes_of]
        loss = part.loss(model, of_parts, own) * (len(part.positive) / n_targets)
        inputs = [*leaves, own_table, *own_products, *others]
        return loss.item(), torch.autograd.grad(loss, inputs)

    cuts = [
        _Cut(number, *cut)
        for number, batch in enumerate(batches)
        for cut in batch.parts(-(-n_parts // len(batches)))
    ]
    found = list(pool.map(descend, cuts))
    slopes = [_sum_in_place(each) for each in zip(*(own[3:] for _, own in found), strict=True)]
    made = (shared.table, *shared.products)
    passing = pool.submit(torch.autograd.backward, made, slopes[: len(made)])
    for parameter, slope in zip(others, slopes[len(made) :], strict=True):
        parameter.grad = slope
    roots: list[Tensor] = []
    upstream: list[Tensor] = []
    for number, batch in enumerate(batches):
        own_parts = [
            (cut, own) for cut, (_, own) in zip(cuts, found, strict=True) if cut.number == number
        ]
        features = torch.zeros_like(batch.features)
        for cut, own in own_parts:
            features[cut.rows, cut.columns] = own[0]
        roots += [batch.features, batch.vectors, batch.bias]
        upstream += [features, *(_sum_in_place([own[n] for _, own in own_parts]) for n in (1, 2))]
    torch.autograd.backward(roots, upstream)
    passing.result()
    return sum(loss for loss, _ in found)


class _Cut(NamedTuple):
    """A part of the sequences of a set, with the number of the set."""

    number: int
    rows: slice
    columns: slice
    part: SequenceBatch


def _split_sets(clicks: Tensor, n_sets: int, fill: int) -> list[Tensor]:
    """Cut sequences into sets of about as many targets, each as long as its longest."""
    sizes = (clicks != fill).sum(1).cpu().numpy()
    return [
        clicks[begin:end, : int(sizes[begin:end].max())]
        for begin, end in split_evenly(sizes - 1, n_sets)
    ]


def _detached(values: Tensor) -> Tensor:
    """Return detached values that require a gradient."""
    return values.detach().requires_grad_()


def _sum_in_place(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of arrays, in place of the first."""
    total, *others = parts
    for each in others:
        total += each
    return total


@dataclass
class _LookedUpRows:
    """Rows that the current step looks up."""

    table: Tensor
    ids: Tensor
    rows: Tensor
    first: Tensor
    second: Tensor
    anchor: Tensor


class DeferredAdam(LightOptimizer):
    """Dense Adam with decay towards anchors, applied to rows when they are looked up.

    A dense step moves every row: those without a gradient by their remaining moments, and a little
    towards their anchor. Here that is deferred until a row is next looked up, and computed from
    sums over the steps it missed, which depend only on the step of its last lookup:

        p_t - a = (p_s - a) prod_i D_i
                  - m_s / (sqrt(v_s) + eps) * sum_j c_j r^(j-s) prod_(i >= j) D_i

    with s < i, j <= t, D the share that decay leaves, c the step size with the corrections of Adam
    and r = beta_1 / sqrt(beta_2). Values are those of the dense steps up to rounding, and to how
    eps, far below the root of any second moment that matters, fades beside it.

    `tables`: tables of shape (rows, dim).
    `anchors`: what each decays towards.
    `learning_rate`: step size; follow a schedule by `param_groups[0]["lr"]`.
    `weight_decay`: learning_rate * weight_decay of the way to the anchor is gone each step.
    `betas`: decay of the first and second moments.
    """

    def __init__(
        self,
        tables: Sequence[Tensor],
        anchors: Sequence[Tensor],
        learning_rate: float,
        *,
        weight_decay: float,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        super().__init__(tables, {"lr": learning_rate, "weight_decay": weight_decay})
        self._betas = betas
        self._anchors = {id(table): anchor for table, anchor in zip(tables, anchors, strict=True)}
        self._reads: list[_LookedUpRows] = []
        some, device = tables[0].detach(), tables[0].device
        ratio = betas[0] / betas[1] ** 0.5
        missed = torch.arange(MAX_TAIL, 0, -1, dtype=some.dtype, device=device)
        self._tail = ratio**missed  # of the oldest step first
        self._last = {
            id(table): torch.zeros(len(table), dtype=torch.int64, device=device) for table in tables
        }
        self._n_steps = 0  # since all rows were last settled
        self._moved, self._left = some.new_zeros(1), some.new_ones(1)

    def lookup(self, ids: Tensor, table: Tensor) -> Tensor:
        """Return rows of a table as they are now, with gradients for the next step.

        Of shape (n, dim). `ids`: rows, any of them repeatedly; a table is looked up once in a step.
        `table` (rows, dim): one of the tables.
        """
        place = torch.zeros(len(table), dtype=torch.int64, device=table.device)
        place[ids] = 1
        distinct = place.nonzero().squeeze(-1)
        place[distinct] = torch.arange(len(distinct), device=table.device)
        read = self._up_to_date(table, distinct)
        read.rows.requires_grad_()
        self._reads.append(read)
        return F.embedding(place[ids], read.rows)

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Update the rows that were looked up, and record the step for all others."""
        rate = float(self.param_groups[0]["lr"])
        decay = min(1.0, rate * self.param_groups[0]["weight_decay"])
        n_taken = 0.0
        for read in self._reads:
            state = self.state[read.table]
            rows = read.rows.detach()
            assert read.rows.grad is not None
            moments = (read.first, read.second)
            move_by_adam(rows, read.rows.grad, moments, state["step"], rate, self._betas)
            rows.lerp_(read.anchor, decay)
            self._write_back(read, rows, self._n_steps + 1)
            n_taken = float(state["step"])
        self._reads.clear()
        self._note_missed(n_taken, rate, 1.0 - decay)

    def _note_missed(self, n_taken: float, rate: float, left: float) -> None:
        """Add a step to the sums of missed steps."""
        first, second = self._betas
        size = rate * (1 - second**n_taken) ** 0.5 / (1 - first**n_taken)
        n_near = min(self._n_steps + 1, MAX_TAIL)
        self._moved[-n_near:].add_(self._tail[-n_near:], alpha=size)
        self._moved = F.pad(self._moved.mul_(left), (0, 1))
        self._left = F.pad(self._left.mul_(left), (0, 1), value=1.0)
        self._n_steps += 1

    @torch.no_grad()
    def flush(self) -> None:
        """Apply all deferred updates; call it before a whole table is read."""
        for table in self.param_groups[0]["params"]:
            everything = torch.arange(len(table), device=table.device)
            read = self._up_to_date(table, everything)
            self._write_back(read, read.rows, 0)
        self._n_steps = 0
        self._moved, self._left = torch.zeros_like(self._moved[:1]), torch.ones_like(self._left[:1])

    @torch.no_grad()
    def _up_to_date(self, table: Tensor, ids: Tensor) -> _LookedUpRows:
        """Return rows and moments with their deferred updates applied."""
        state = self._state_of(table)
        last = self._last[id(table)].index_select(0, ids)
        rows, first, second, anchor = (
            each.index_select(0, ids)
            for each in (table, state["exp_avg"], state["exp_avg_sq"], self._anchors[id(table)])
        )
        moved = self._moved.index_select(0, last).unsqueeze(-1)
        left = self._left.index_select(0, last).unsqueeze(-1)
        rows.sub_(anchor).mul_(left)
        rows.addcdiv_(first * moved, second.sqrt().add_(EPSILON), value=-1).add_(anchor)
        missed = (self._n_steps - last).clamp_max_(MAX_FADED).to(rows.dtype).unsqueeze(-1)
        first.mul_(self._betas[0] ** missed)
        second.mul_(self._betas[1] ** missed)
        return _LookedUpRows(table, ids, rows, first, second, anchor)

    def _write_back(self, read: _LookedUpRows, rows: Tensor, n_steps: int) -> None:
        """Write rows back, up to date after `n_steps`."""
        state = self.state[read.table]
        read.table.data.index_copy_(0, read.ids, rows)
        state["exp_avg"].index_copy_(0, read.ids, read.first)
        state["exp_avg_sq"].index_copy_(0, read.ids, read.second)
        self._last[id(read.table)].index_fill_(0, read.ids, n_steps)

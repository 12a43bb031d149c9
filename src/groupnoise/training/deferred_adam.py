"""Adam on large tables whose rows decay towards an anchor, at the cost of the rows that are read.

A dense step moves every row: those without a gradient by what is left of their moments, and a
little towards their anchor. Here that is made up for when a row is next read, from sums over the
steps it missed, which depend on nothing but the step it was last read in:

    p_t - a = (p_s - a) prod_i D_i - m_s / (sqrt(v_s) + eps) * sum_j c_j r^(j-s) prod_(i >= j) D_i

with s < i, j <= t, D the share that decay leaves, c the step size with the corrections of Adam and
r = beta_1 / sqrt(beta_2). Values are those of the dense steps up to rounding, and to how eps, far
below the root of any second moment that matters, fades beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.adam import adam

from groupnoise.training.optimizer import BETAS, EPSILON, LightOptimizer

MAX_TAIL = 256
"""Missed steps after which moments move a row no further."""
MAX_FADED = 500
"""Missed steps after which moments fade no further: they are nothing by then."""


@dataclass
class _Read:
    """Rows that the present step reads."""

    table: Tensor
    ids: Tensor
    rows: Tensor
    first: Tensor
    second: Tensor
    anchor: Tensor


class DeferredAdam(LightOptimizer):
    """Dense Adam with decay towards anchors, taken row by row when rows are read.

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
        self._reads: list[_Read] = []
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
        read = self._current(table, distinct)
        read.rows.requires_grad_()
        self._reads.append(read)
        return F.embedding(place[ids], read.rows)

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Update the rows that were looked up, and note what all others miss."""
        rate = float(self.param_groups[0]["lr"])
        decay = min(1.0, rate * self.param_groups[0]["weight_decay"])
        n_taken = 0.0
        for read in self._reads:
            state = self.state[read.table]
            rows = read.rows.detach()
            adam(
                [rows],
                [read.rows.grad],  # type: ignore[list-item]
                [read.first],
                [read.second],
                [],
                [state["step"]],
                fused=True,
                amsgrad=False,
                beta1=self._betas[0],
                beta2=self._betas[1],
                lr=rate,
                weight_decay=0.0,
                eps=EPSILON,
                maximize=False,
            )
            rows.lerp_(read.anchor, decay)
            self._keep(read, rows, self._n_steps + 1)
            n_taken = float(state["step"])
        self._reads.clear()
        self._note_missed(n_taken, rate, 1.0 - decay)

    def _note_missed(self, n_taken: float, rate: float, left: float) -> None:
        """Add a step to what rows miss, by the step they were last read in."""
        first, second = self._betas
        size = rate * (1 - second**n_taken) ** 0.5 / (1 - first**n_taken)
        n_near = min(self._n_steps + 1, MAX_TAIL)
        self._moved[-n_near:].add_(self._tail[-n_near:], alpha=size)
        self._moved = F.pad(self._moved.mul_(left), (0, 1))
        self._left = F.pad(self._left.mul_(left), (0, 1), value=1.0)
        self._n_steps += 1

    @torch.no_grad()
    def settle(self) -> None:
        """Bring all rows up to date; call it before a table is read whole."""
        for table in self.param_groups[0]["params"]:
            everything = torch.arange(len(table), device=table.device)
            read = self._current(table, everything)
            self._keep(read, read.rows, 0)
        self._n_steps = 0
        self._moved, self._left = torch.zeros_like(self._moved[:1]), torch.ones_like(self._left[:1])

    @torch.no_grad()
    def _current(self, table: Tensor, ids: Tensor) -> _Read:
        """Return rows with their moments, all as they are now."""
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
        return _Read(table, ids, rows, first, second, anchor)

    def _keep(self, read: _Read, rows: Tensor, n_steps: int) -> None:
        """Write rows back, up to date after so many steps."""
        state = self.state[read.table]
        read.table.data.index_copy_(0, read.ids, rows)
        state["exp_avg"].index_copy_(0, read.ids, read.first)
        state["exp_avg_sq"].index_copy_(0, read.ids, read.second)
        self._last[id(read.table)].index_fill_(0, read.ids, n_steps)

    def _state_of(self, table: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[table]
        if not state:
            state["step"] = torch.zeros((), device=table.device)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        return state

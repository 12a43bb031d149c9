"""Selection before the softmax: the evidence of all clicks is added, then normalised over items.

With w_h(k) the weight of a click that k later clicks followed, in block h of the dimensions,

    s(y | X) = b_y + sum_h (sum_i w_h(k_i)) ** -a_h * sum_i w_h(k_i) f_h(x_i) . g_h(y),
    P(y | X) = softmax over y of s(y | X).

A history is one context vector, so the exact softmax costs one product per target however long the
history is. The blocks hold different memories: some fade after a click or two, some hardly. An
encoder may read the same vectors in order and add to the context; see
:mod:`groupnoise.clicks.evidence.recurrence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from groupnoise.clicks.evaluation.ranking_slices import clicked_before
from groupnoise.clicks.evidence.recurrence import Recurrence
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
from groupnoise.clicks.scoring import MIN_TOTAL, ScoringRule
from groupnoise.core.arrays import BoolArray, FloatArray, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.decisions.halving import standard_error
from groupnoise.training.state import FIRST, SECOND, STEPS, Moments

FADING_RATES = (0.03, 0.1, 0.3, 1.0)
"""Decay of the initial weight of a click in each block, on log scale per later click."""
MIN_LOG_WEIGHT = -12.0
INITIAL_EXPONENT = 0.5
MAX_HELD_OUT = 2000
"""Held-out clicks that options are compared on."""
MAX_QUERIES, MAX_QUERY_SCORES = 8000, 1 << 27
"""Held-out clicks that options are compared on where histories remain that no option is trained on,
and the most scores of a trial for them."""
MIN_HELD_OUT = 20
MANY_HELD_OUT = 200
"""Histories of three clicks or more below which some of two are held out from too."""
PAIRS_HELD_OUT = 0.2
"""Share of the histories of two clicks that may be held out from."""
GAIN_CUT = 20
MAX_SCORES = 1 << 25
"""Held-out scores in memory at a time, for each part of the evidence."""
CLEAR = 1.0
"""Standard errors by which the metric on held-out clicks must exceed that of popularity."""


@dataclass(frozen=True)
class Evidence:
    """The parameters of additive evidence.

    `objects` (n_items, dim): f of every item.
    `targets` (n_items, dim): g of every item.
    `bias`: bias of every item as a target.
    `block_widths`: dimensions of each block.
    `position_weights` (n_blocks, history_length): the weight of a click by the number of later
        clicks.
    `exponents`: of the sum of weights that each block is divided by: 0 adds, 1 averages.
    `encoders`: read a history in order and add to its context.
    """

    objects: NDArray[np.float32]
    targets: NDArray[np.float32]
    bias: NDArray[np.float32]
    block_widths: tuple[int, ...]
    position_weights: NDArray[np.float32]
    exponents: tuple[float, ...]
    encoders: tuple[Recurrence, ...] = ()

    def scaled(self, weight: float) -> Evidence:
        """Return evidence whose scores, the bias included, are multiplied by `weight`."""
        return replace(
            self,
            objects=(self.objects * np.float32(weight)).astype(np.float32),
            bias=(self.bias * np.float32(weight)).astype(np.float32),
            encoders=tuple(encoder.scaled(weight) for encoder in self.encoders),
        )

    def rule(self) -> ScoringRule:
        """Return the scoring rule that adds this evidence."""
        weights = self.position_weights.astype(np.float64).round(7)
        return ScoringRule(
            normalization="history",
            window_size=int(weights.shape[1]),
            weighting=None,
            block_widths=self.block_widths,
            position_weights=tuple(map(tuple, weights.tolist())),
            exponents=self.exponents,
            encoders=self.encoders,
        )


def sum_evidence(parts: Sequence[Evidence]) -> Evidence:
    """Return evidence whose scores are the sums of the scores of all parts."""
    length = max(part.position_weights.shape[1] for part in parts)
    weights = [
        np.pad(part.position_weights, ((0, 0), (0, length - part.position_weights.shape[1])))
        for part in parts
    ]
    begins = np.cumsum([0, *(part.objects.shape[1] for part in parts)]).tolist()
    return Evidence(
        np.concatenate([part.objects for part in parts], axis=1),
        np.concatenate([part.targets for part in parts], axis=1),
        np.sum([part.bias for part in parts], axis=0, dtype=np.float32),
        tuple(width for part in parts for width in part.block_widths),
        np.concatenate(weights),
        tuple(exponent for part in parts for exponent in part.exponents),
        tuple(
            encoder.moved(begin)
            for part, begin in zip(parts, begins, strict=False)
            for encoder in part.encoders
        ),
    )


def position_table(weights: Tensor) -> Tensor:
    """Return the weight of each click in the context after each click.

    Of shape (n_blocks, size, size): of the clicks (last axis) in the context after each (second
    axis), 0 for later ones. `weights` (n_blocks, size): of a click by the number of later clicks.
    """
    return _PositionTable.apply(weights)  # type: ignore[no-untyped-call]


class _PositionTable(torch.autograd.Function):
    """A table that is constant along its diagonals, whose gradient is summed along them."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor) -> Tensor:
        # Row t, read from its end: windows of the weights that move by one, newest click first.
        size = weights.shape[1]
        return F.pad(weights.flip(1), (0, size - 1)).unfold(1, size, 1).flip(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        n_blocks, size, _ = upstream.shape
        # Read with rows one shorter than they are, the table has its diagonals as columns.
        wide = F.pad(upstream.flip(1), (0, size)).view(n_blocks, -1)
        wide = wide[:, : size * (2 * size - 1)].view(n_blocks, size, 2 * size - 1)
        return wide.sum(1)[:, :size].flip(1)


class EvidenceModel(nn.Module):
    """Item vectors, and the weights of clicks in each block by position from the end.

    `objects` (n_items, dim): initial f of every item, and g too.
    `bias`: initial bias of every item as a target.
    `history_length`: the number of latest clicks that are used.
    `shared`: whether f and g share one table.
    `encoder`: reads the vectors of a history in order and adds to its context.
    """

    def __init__(
        self,
        objects: NDArray[np.float32],
        bias: NDArray[np.float32],
        *,
        history_length: int,
        shared: bool,
        encoder: RecurrentEncoder | None = None,
    ) -> None:
        super().__init__()
        self.n_items, self.dim = objects.shape
        self.n_blocks = min(len(FADING_RATES), self.dim)
        self.objects = nn.Parameter(torch.from_numpy(objects.copy()))
        self.targets = self.objects if shared else nn.Parameter(torch.from_numpy(objects.copy()))
        self.bias = nn.Parameter(torch.from_numpy(bias.copy()))
        rates = torch.tensor(FADING_RATES[: self.n_blocks]).unsqueeze(-1)
        fading = -rates * torch.arange(history_length)
        self.log_weights = nn.Parameter(fading.clamp_min(MIN_LOG_WEIGHT))  # (blocks, length)
        odds = INITIAL_EXPONENT / (1 - INITIAL_EXPONENT)
        self.exponent_logits = nn.Parameter(torch.full((self.n_blocks,), float(np.log(odds))))
        self.encoder = encoder

    @property
    def block_widths(self) -> tuple[int, ...]:
        """Dimensions of each block; they differ by one at most."""
        cuts = np.linspace(0, self.dim, self.n_blocks + 1).astype(int)
        return tuple(np.diff(cuts).tolist())

    @property
    def exponents(self) -> Tensor:
        """Exponents of the sums of weights that divide the blocks, shape (blocks,)."""
        return torch.sigmoid(self.exponent_logits)

    def tables(self, size: int) -> Tensor:
        """Return the weights of `size` clicks in each context, shape (blocks, size, size)."""
        weights = self.log_weights.exp()
        counted = F.pad(weights[:, :size], (0, max(0, size - weights.shape[1])))
        total = counted.cumsum(-1).clamp_min(MIN_TOTAL)  # (blocks, size)
        scale = total.pow(-self.exponents.unsqueeze(-1))
        return position_table(counted) * scale.unsqueeze(-1)

    def contexts_by_step(
        self, features: Tensor, dropped: Tensor | None = None, table: Tensor | None = None
    ) -> Tensor:
        """Return the context after each click, without the output of an encoder, (size, n, dim).

        `features` (size, n, dim): f of the clicks, oldest first, followed by padding. `dropped`
        (size, n): factors of each click, 0 where it is dropped in training. `table`: the result of
        :meth:`tables`, which is called by default.
        """
        size, n, _ = features.shape
        table = self.tables(size) if table is None else table
        vectors = features if dropped is None else features * dropped.unsqueeze(-1)
        widths = self.block_widths
        if len(set(widths)) == 1:
            # One product for all blocks and sequences.
            parts = vectors.reshape(size, n, self.n_blocks, -1).permute(2, 0, 1, 3)
            added = torch.bmm(table, parts.reshape(self.n_blocks, size, -1))
            added = added.view(self.n_blocks, size, n, -1).permute(1, 2, 0, 3).reshape_as(features)
        else:
            blocks = zip(table, vectors.split(widths, dim=-1), strict=True)
            added = torch.cat([torch.tensordot(own, part, 1) for own, part in blocks], -1)
        return added

    @torch.no_grad()
    def evidence(self) -> Evidence:
        """Return the learned parameters as arrays.

        Weights are normalised so that a last click has weight one: then the vector of an item is
        the context of a history of this item alone.
        """
        scale = self.scale
        return Evidence(
            (self.objects * scale).numpy(),
            self.targets.detach().numpy().copy(),
            self.bias.detach().numpy().copy(),
            self.block_widths,
            (self.log_weights - self.log_weights[:, :1]).exp().numpy(),
            tuple(round(value, 7) for value in self.exponents.tolist()),
            () if self.encoder is None else (self.encoder.as_arrays(scale),),
        )

    @property
    def scale(self) -> Tensor:
        """The factor of f in :meth:`evidence`, shape (dim,): the weight of a last click alone."""
        last = (1 - self.exponents) * self.log_weights[:, 0]
        return last.exp().repeat_interleave(torch.tensor(self.block_widths)).detach()

    def rescale(self, moments: Moments) -> None:
        """Rescale optimizer moments, in place, to the parameters of :meth:`evidence`.

        The gradient of a scaled vector is divided by the scale.
        """
        scale = self.scale.numpy()
        for name in [name for name in moments if name.startswith(("log_", "exponent_"))]:
            del moments[name]  # of what is learned once
        for kind, power in ((FIRST, 1), (SECOND, 2)):
            if self.targets is self.objects:
                moments[f"targets.{kind}"] = moments[f"objects.{kind}"].copy()
                moments[f"targets.{STEPS}"] = moments[f"objects.{STEPS}"]
            moments[f"objects.{kind}"] /= scale**power
            if self.encoder is not None:
                moments[f"encoder.project.weight.{kind}"] *= scale**power


class HeldOut(NamedTuple):
    """Histories with some last clicks held out, and these clicks as targets."""

    training: Groups
    queries: Groups


def hold_out_last(
    histories: Groups, generator: np.random.Generator, max_users: int = MAX_HELD_OUT
) -> HeldOut | None:
    """Hold out the last click of some histories of at least three; None where they are few.

    In a log of pairs some of these are held out from too, and the others train.
    """
    eligible = np.flatnonzero(histories.sizes >= 3)
    if len(eligible) < MANY_HELD_OUT:
        pairs = generator.permutation(np.flatnonzero(histories.sizes == 2))
        eligible = np.concatenate([eligible, pairs[: int(PAIRS_HELD_OUT * len(pairs))]])
    if len(eligible) < MIN_HELD_OUT:
        return None
    rows = np.sort(generator.permutation(eligible)[:max_users])
    last = histories.offsets[rows + 1] - 1
    sizes = histories.sizes
    sizes[rows] -= 1
    objects = np.asarray(histories.objects)
    training = Groups(np.delete(objects, last), offsets_from_sizes(sizes))
    queries = training.subset(rows)
    return HeldOut(training, Groups(queries.objects, queries.offsets, objects[last]))


def add_queries(
    held: HeldOut, others: Groups | None, n_items: int, generator: np.random.Generator
) -> HeldOut:
    """Add the last clicks of histories that no option is trained on, if there are any.

    Up to 8000 queries in all, fewer in a large catalogue.
    """
    n_more = min(MAX_QUERIES, MAX_QUERY_SCORES // n_items) - len(held.queries)
    if others is None or n_more <= 0:
        return held
    more = hold_out_last(others, generator, n_more)
    if more is None:
        return held
    parts = (held.queries, more.queries)
    queries = Groups(
        np.concatenate([part.objects for part in parts]),
        offsets_from_sizes(np.concatenate([part.sizes for part in parts])),
        np.concatenate([np.asarray(part.targets) for part in parts]),
    )
    return HeldOut(held.training, queries)


def gains(scores: FloatArray, queries: Groups) -> FloatArray:
    """Return the discounted gain of each target, ranked among the items not in its history.

    A repeated item is ranked among all items. 1 / log2(1 + rank) down to rank 20, 0 below; half of
    the ties are ahead. `scores` (n_histories, n_items): overwritten. `queries`: histories with
    targets.
    """
    rows = np.arange(len(queries))
    targets = np.asarray(queries.targets)
    positive = scores[rows, targets].copy()
    is_out = ~clicked_before(queries, targets)[queries.group_of_object]
    scores[queries.group_of_object[is_out], queries.objects[is_out]] = -np.inf
    scores[rows, targets] = -np.inf
    ahead = (scores > positive[:, None]).sum(axis=1) + 0.5 * (scores == positive[:, None]).sum(
        axis=1
    )
    return np.where(ahead < GAIN_CUT, 1.0 / np.log2(ahead + 2.0), 0.0)


def evidence_scores(evidence: Evidence, histories: Groups) -> FloatArray:
    """Return the scores of all items after each history, (n_histories, n_items)."""
    clicks = np.asarray(histories.objects, dtype=np.int64)
    mixture = evidence.rule().mixture(
        lambda items: evidence.objects[items], clicks, histories.offsets
    )
    return np.asarray(mixture.queries @ evidence.targets.T + evidence.bias)


def evidence_gains(evidence: Evidence, queries: Groups) -> FloatArray:
    """Return the gain of each held-out click, shape (n_histories,)."""
    return gains_by_block(lambda part: evidence_scores(evidence, part), queries, len(evidence.bias))


def gains_by_block(
    scores_of: Callable[[Groups], FloatArray], queries: Groups, n_items: int
) -> FloatArray:
    """Return the gain of each held-out click, scored block by block, shape (n_histories,)."""
    step = max(1, MAX_SCORES // n_items)
    blocks = [queries[start : start + step] for start in range(0, len(queries), step)]
    return np.concatenate([gains(scores_of(block), block) for block in blocks])


def popularity_warning(gain: FloatArray, popular: FloatArray, is_again: BoolArray) -> list[str]:
    """Return a warning if held-out clicks are not predicted better than by popularity.

    Only clicks on new items are compared if there are enough: repeats are easy to predict. Each of
    shape (n_held,): the `gain` of the model, `popular` of popularity, and whether the user had
    clicked the item before.
    """
    has_both = is_again.any() and (~is_again).sum() >= MIN_HELD_OUT
    judged = ~is_again if has_both else np.ones_like(is_again)
    own, other = gain[judged], popular[judged]
    lead = float((own - other).mean())
    if lead > CLEAR * standard_error(own - other):
        return []
    on_new = " on items new to their user" if has_both else ""
    how, luck = ("no better", "") if lead <= 0 else ("hardly better", ", which may be luck")
    return [
        f"held-out clicks{on_new} are predicted {how} ({own.mean():.4f}) than by popularity "
        f"({other.mean():.4f}){luck}; look at whether clicks follow from each other, and whether "
        "users and items were read from the right columns."
    ]

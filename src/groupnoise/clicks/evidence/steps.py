"""Steps of a training of evidence: the plan, the batches and their loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groupnoise.clicks.evidence.model import EvidenceModel
from groupnoise.clicks.evidence.recurrence_loops import (
    Dropped,
    RowLoops,
    encode_prefixes,
    row_loops,
)
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.chunked_softmax import cross_entropy
from groupnoise.core.compiled import Kernel, cross_entropy_kernel
from groupnoise.core.encoders import n_kept_values

MIN_DEFERRED = 8
"""Ratio of items to those looked up by a batch from which updates of the others are deferred."""
MIN_READS = 200_000
"""Clicks of a training from which compiling its loops pays off."""
MIN_DRAWN = 64
"""Least negatives of a training with deferred updates: some of them are no targets."""

Lookup = Callable[[Tensor, Tensor], Tensor]


class StepLoops(NamedTuple):
    """Compiled loops of a step: over the rows of an encoder, and of the softmax."""

    rows: RowLoops
    slopes: Kernel


def step_loops(n_reads: int) -> StepLoops | None:
    """Return the compiled loops for a training, None where torch is used."""
    if n_reads < MIN_READS:
        return None
    rows, slopes = row_loops(), cross_entropy_kernel()
    return None if rows is None or slopes is None else StepLoops(rows, slopes)


@dataclass(frozen=True, kw_only=True)
class EvidencePlan:
    """The hyperparameters of a training of :class:`EvidenceModel`.

    `max_epochs`: passes over the clicks; the step size falls linearly to zero over them.
    `batch_size`: targets per step.
    `learning_rate`: Adam step size.
    `weight_decay`: decay of the vectors towards their initial ones: learning_rate * weight_decay of
        the way each step.
    `dropout`: chance of a click to be left out of the contexts of a batch.
    `n_negatives`: items drawn beside all targets of a batch, or of half a large one, whose sum
        stands for all others; None, or a catalogue hardly larger, takes the exact softmax.
    `levelling`: how soon the loss of a target levels off that the clicks before it do not tell; see
        :func:`groupnoise.core.chunked_softmax.levelled`. 0 is the cross-entropy.
    """

    max_epochs: int = 6
    batch_size: int = 1024
    learning_rate: float = 5e-3
    weight_decay: float = 1.0
    dropout: float = 0.2
    n_negatives: int | None = 1500
    levelling: float = 0.0

    def __post_init__(self) -> None:
        check_count("max_epochs", self.max_epochs)
        check_count("batch_size", self.batch_size)
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)
        check_dropout(self.dropout)
        if self.n_negatives is not None:
            check_count("n_negatives", self.n_negatives)
        check_positive("levelling", self.levelling, allow_zero=True)

    @classmethod
    def of(
        cls, parameters: Mapping[str, Any], max_epochs: int, rate_scale: float = 1.0
    ) -> EvidencePlan:
        """Return the plan of an option; `rate_scale`: multiplies the step size that it states."""
        return cls(
            max_epochs=max_epochs,
            batch_size=parameters["batch_size"],
            learning_rate=rate_scale * parameters["learning_rate"],
            weight_decay=parameters["weight_decay"],
            n_negatives=None if parameters["candidates"] == "full" else parameters["n_negatives"],
            levelling=parameters.get("levelling", 0.0),  # of logs learned from before it was there
        )

    def uses_deferred_adam(self, n_items: int) -> bool:
        """Tell whether a batch looks up so few items that updates of the others are deferred."""
        if self.n_negatives is None or self.n_negatives < MIN_DRAWN:
            return False
        return n_items >= MIN_DEFERRED * (2 * self.batch_size + self.n_negatives)

    def work_of_step(self, model: EvidenceModel) -> float:
        """Return the approximate number of multiplications of the forward pass of a batch."""
        n_scored = model.n_items
        if self.n_negatives is not None:
            n_scored = min(n_scored, self.n_negatives + self.batch_size)
        encoder = () if model.encoder is None else model.encoder.parameters()
        width = model.targets.shape[1]
        return float(self.batch_size * (n_scored * width + sum(each.numel() for each in encoder)))


class SharedTensors(NamedTuple):
    """Tensors that all parts of a batch share.

    `table`: the result of :meth:`EvidenceModel.tables`.
    `products`: matrices of an encoder for compiled loops; empty with torch.
    `loops`: compiled; None for torch.
    """

    table: Tensor
    products: Sequence[Tensor] = ()
    loops: StepLoops | None = None

    @classmethod
    def of(cls, model: EvidenceModel, size: int, loops: StepLoops | None = None) -> SharedTensors:
        """Return the shared tensors of sequences of at most `size` targets."""
        encoder = model.encoder
        if loops is None or encoder is None or not encoder.drops:
            return cls(model.tables(size), (), loops)
        return cls(model.tables(size), encoder.products(), loops)


class SequenceBatch(NamedTuple):
    """The inputs of the loss of a batch; steps come before sequences.

    `features` (size, n, dim): f of the clicks.
    `dropped` (size, n): factors of their evidence.
    `is_real` (size, n): whether a click follows; None where one always does.
    `vectors` (n_candidates, dim), `bias` (n_candidates,): of the candidates.
    `positive` (n_targets,): the index of each next click among them.
    `levelling`: of the loss.
    """

    features: Tensor
    dropped: Tensor | None
    is_real: Tensor | None
    vectors: Tensor
    bias: Tensor
    positive: Tensor
    levelling: float

    def loss(
        self, model: EvidenceModel, shared: SharedTensors, drawn: Sequence[Tensor] | None
    ) -> Tensor:
        """Return the mean loss; `drawn` is the dropout of the encoder."""
        at_target = None
        if self.is_real is not None:
            at_target = self.is_real.reshape(-1).nonzero().squeeze(-1)

        def at_targets(values: Tensor) -> Tensor:
            """Return rows (n_targets, dim) of (size, n, dim)."""
            values = values.flatten(0, 1)
            return values if at_target is None else values.index_select(0, at_target)

        encoder, (size, n) = model.encoder, self.features.shape[:2]
        table = shared.table[:, :size, :size]
        contexts = at_targets(model.contexts_by_step(self.features, self.dropped, table))
        if encoder is not None and not shared.products:
            contexts = contexts + at_targets(encoder.by_step(self.features, drawn))
        elif encoder is not None and shared.loops is not None:
            rows = np.arange(size * n).reshape(size, n)
            if self.is_real is not None:
                real = self.is_real.numpy()
                rows = np.where(real, np.cumsum(real).reshape(size, n) - 1, -1)
            contexts = contexts + encode_prefixes(
                at_targets(self.features),
                rows,
                Dropped(
                    [at_targets(each).numpy() for each in drawn or ()],
                    n_kept_values(encoder.dropout),
                ),
                shared.products,
                shared.loops.rows,
            )
        loop = None if shared.loops is None else shared.loops.slopes
        return cross_entropy(contexts, self.vectors, self.bias, self.positive, loop, self.levelling)

    def parts(self, n_parts: int) -> list[tuple[slice, slice, SequenceBatch]]:
        """Cut the sequences into parts of similar numbers of targets."""
        size, n = self.features.shape[:2]
        real = self.features.new_ones(size, n).bool() if self.is_real is None else self.is_real
        place = self.positive.new_zeros(size, n)
        place[real] = self.positive
        found = []
        for begin, end in split_evenly(real.sum(0).numpy(), n_parts):
            n_steps = int(real[:, begin:end].any(1).sum())
            rows, columns = slice(0, n_steps), slice(begin, end)
            own = real[rows, columns]
            part = self._replace(
                features=self.features[rows, columns],
                dropped=None if self.dropped is None else self.dropped[rows, columns],
                is_real=None if bool(own.all()) else own,
                positive=place[rows, columns][own],
            )
            found.append((rows, columns, part))
        return found


def split_evenly(sizes: IntArray, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of non-empty parts of similar sums."""
    reached = np.cumsum(np.append(0, sizes))
    goals = np.arange(1, n_parts) * (reached[-1] / n_parts)
    ends = np.abs(reached - goals[:, None]).argmin(1).tolist()
    both = zip([0, *ends], [*ends, len(sizes)], strict=True)
    return [(begin, end) for begin, end in both if begin < end]


def draw_dropout(model: EvidenceModel, batch: SequenceBatch) -> list[Tensor] | None:
    """Draw the dropout of the encoder for a batch, None without an encoder."""
    return None if model.encoder is None else list(model.encoder.draw(batch.features.shape[:2]))


def prepare_batches(
    model: EvidenceModel,
    sets: Sequence[Tensor],
    plan: EvidencePlan,
    noise: torch.Generator,
    lookup: Lookup,
) -> list[SequenceBatch]:
    """Look up the vectors of sets of sequences, and draw dropout and candidates.

    `sets`: sequences (n, size), padded at their ends.
    """
    drafts, reads, candidates = [], [], []
    for clicks in sets:
        steps = clicks.t()  # one step of all sequences after the other, as an encoder reads them
        before, after = steps[:-1], steps[1:]
        is_real = after != model.n_items
        has_padding = not bool(is_real.all())
        targets = after[is_real] if has_padding else after.reshape(-1)
        dropped = None
        if model.training and plan.dropout:
            kept = torch.rand(before.t().shape, generator=noise) >= plan.dropout
            dropped = kept.t().to(before.device) / (1 - plan.dropout)
        read = before.reshape(-1)
        reads.append(read.masked_fill(~is_real.reshape(-1), 0) if has_padding else read)
        drawn = _sample_candidates(targets, model.n_items, plan.n_negatives, noise)
        bias: Tensor = model.bias
        if drawn is not None:
            candidates.append(drawn[0])
            bias, targets = bias.index_select(0, drawn[0]) + drawn[1], drawn[2]
        draft = (dropped, is_real if has_padding else None), (bias, targets)
        drafts.append((before.shape, drawn is None, *draft))
    if model.targets is model.objects:
        # Looked up together: one gradient as large as the table, and not two.
        rows = iter(_rows(lookup, [*reads, *candidates], model.objects))
        features = [next(rows) for _ in reads]
    else:
        features = _rows(lookup, reads, model.objects)
        rows = iter(_rows(lookup, candidates, model.targets))
    found = []
    for own, (shape, is_all, of_clicks, of_items) in zip(features, drafts, strict=True):
        vectors = model.targets if is_all else next(rows)
        found.append(
            SequenceBatch(own.view(*shape, -1), *of_clicks, vectors, *of_items, plan.levelling)
        )
    return found


def _rows(lookup: Lookup, ids: Sequence[Tensor], table: Tensor) -> list[Tensor]:
    """Return the rows of a table for each of some lists, looked up at once."""
    if not ids:
        return []
    found = lookup(torch.cat([*ids]), table)
    return list(torch.split(found, [len(each) for each in ids]))


def _sample_candidates(
    targets: Tensor, n_items: int, n_negatives: int | None, noise: torch.Generator
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the candidates of a batch, the offsets of their logits, and the targets among them.

    The candidates are the distinct targets and random negatives, each of which represents an equal
    share of all other items: the expected sum of exponentials is that over the catalogue. None
    where all items are candidates.
    """
    place = torch.zeros(n_items, dtype=torch.int64, device=targets.device)
    place[targets] = 1
    distinct = place.nonzero().squeeze(-1)
    if n_negatives is None or len(distinct) + n_negatives >= n_items:
        return None
    drawn = torch.randint(n_items, (n_negatives,), generator=noise).to(targets.device)
    drawn = drawn[place[drawn] == 0]
    if not len(drawn):
        return None
    stands_for = float(np.log((n_items - len(distinct)) / len(drawn)))
    offset = torch.zeros(len(distinct) + len(drawn), device=targets.device)
    offset[len(distinct) :] = stands_for
    place[distinct] = torch.arange(len(distinct), device=targets.device)
    return torch.cat([distinct, drawn]), offset, place[targets]

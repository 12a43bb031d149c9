"""Training of added evidence: every click of a history but the first is a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from groupnoise.clicks.evidence import EvidenceModel
from groupnoise.clicks.evidence_saves import EvidenceProgress, TrainingSaves
from groupnoise.core.arrays import IntArray, ProgressCallback, ragged_rows, torch_generator
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.chunked_softmax import cross_entropy
from groupnoise.core.device import CPU, answering_on_cpu, current_device
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, TrainingError
from groupnoise.training.deferred_adam import DeferredAdam
from groupnoise.training.moments import Moments, moments_of, restore_moments
from groupnoise.training.optimizer import Adam

ENCODER_RATE = 0.4
"""Step size of an encoder in units of that of the vectors."""
ENCODER_DECAY = 0.01
WARM_UP_STEPS = 200
"""Steps over which the step size of an encoder rises."""
MAX_GRADIENT = 1.0
"""Longest gradient of an encoder; a longer one is shortened."""

BETAS = (0.9, 0.98)
"""Of Adam: second moments that follow sooner than usual, since items are rare."""
MIN_DEFERRED = 8
"""Items for each one that a batch looks up, from which the others make up for steps later."""
MIN_DRAWN = 64
"""Negatives of which some are sure to be no targets where a catalogue is so large."""

Lookup = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class EvidencePlan:
    """The numbers that decide a training of :class:`EvidenceModel`.

    `max_epochs`: passes over the clicks; the step size falls linearly to zero over them.
    `batch_size`: targets per step.
    `learning_rate`: Adam step size.
    `weight_decay`: decay of the vectors towards their initial ones: learning_rate * weight_decay of
        the way each step.
    `dropout`: chance of a click to be left out of the contexts of a batch.
    `n_negatives`: items drawn beside all targets of a batch, whose sum stands for all others; None,
        or a catalogue hardly larger, takes the exact softmax.
    """

    max_epochs: int = 6
    batch_size: int = 1024
    learning_rate: float = 5e-3
    weight_decay: float = 1.0
    dropout: float = 0.2
    n_negatives: int | None = 1500

    def __post_init__(self) -> None:
        check_count("max_epochs", self.max_epochs)
        check_count("batch_size", self.batch_size)
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)
        check_dropout(self.dropout)
        if self.n_negatives is not None:
            check_count("n_negatives", self.n_negatives)

    def defers(self, n_items: int) -> bool:
        """Tell whether a batch looks up so few items that rows are updated when they are read.

        `n_items`: size of the catalogue.
        """
        if self.n_negatives is None or self.n_negatives < MIN_DRAWN:
            return False
        return n_items >= MIN_DEFERRED * (2 * self.batch_size + self.n_negatives)

    def work_of_step(self, model: EvidenceModel) -> float:
        """Return about how many multiplications a batch takes forward.

        Of the scores of all candidates, and of the encoder.
        """
        n_scored = model.n_items
        if self.n_negatives is not None:
            n_scored = min(n_scored, self.n_negatives + self.batch_size)
        encoder = () if model.encoder is None else model.encoder.parameters()
        width = model.targets.shape[1]
        return float(self.batch_size * (n_scored * width + sum(each.numel() for each in encoder)))


def training_sequences(histories: Groups, length: int) -> Groups:
    """Cut histories so that every click but the first is the target of one sequence.

    Result: sequences of 2 to `length + 1` clicks, cut from the end of each history. `histories`:
    item indices in time order. `length`: the most targets of a sequence, which then holds one click
    more. Raises DataError if no history has two clicks.

    Examples
    --------
    >>> [part.tolist() for part in training_sequences(Groups.from_lists([[1, 2, 3, 4], [5]]), 2)]
    [[1, 2], [2, 3, 4]]
    """
    n_targets = histories.sizes - 1
    if not n_targets.any():
        raise DataError("no history has two clicks; there is no next click to learn from.")
    n_parts = -(-n_targets // length)
    rows = np.repeat(np.arange(len(histories)), n_parts)
    from_end = np.repeat(np.cumsum(n_parts), n_parts) - 1 - np.arange(len(rows))
    ends = histories.offsets[rows + 1] - length * from_end
    starts = np.maximum(ends - length - 1, histories.offsets[rows])
    sizes = ends - starts
    return Groups(
        np.asarray(histories.objects)[ragged_rows(starts, sizes)],
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def train_evidence(
    model: EvidenceModel,
    histories: Groups,
    plan: EvidencePlan,
    generator: np.random.Generator,
    *,
    anchors: Sequence[Tensor] | None = None,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
    saves: TrainingSaves | None = None,
    moments: Moments | None = None,
) -> list[dict[str, Any]]:
    """Train a model in place on every next click of the histories.

    Result: one record per epoch: epoch, n_epochs, loss, learning_rate, seconds, validation.
    `histories`: item indices in time order.
    `plan`: epochs, step size, regularisation.
    `generator`: decides the order, the dropped clicks and the negatives.
    `anchors`: what f, and g if it has a table of its own, decay towards; by default their initial
        values.
    `validate`: called after each epoch; larger is better, and the best epoch's weights are kept.
    `on_epoch`: called with the record of each epoch.
    `saves`: where the state is saved after each epoch, and resumed from.
    `moments`: what the optimizers of an earlier training remember; they are replaced by those of
        this one.
    Raises TrainingError if the loss is no longer a number.
    """
    device = current_device()
    model.to(device)
    sequences = training_sequences(histories, model.log_weights.shape[1])
    noise = torch_generator(generator)
    tables = list({id(table): table for table in (model.objects, model.targets)}.values())
    anchors = [each.detach().clone().to(device) for each in anchors or tables]
    others = [model.bias, model.log_weights, model.exponent_logits]
    lookup: Lookup = F.embedding
    deferred: list[DeferredAdam] = []
    if plan.defers(model.n_items):
        decay = plan.weight_decay
        rows_optimizer = DeferredAdam(
            tables, anchors, plan.learning_rate, weight_decay=decay, betas=BETAS
        )
        lookup, deferred = rows_optimizer.lookup, [rows_optimizer]
    dense = [] if deferred else tables
    optimizer = Adam([*dense, *others], plan.learning_rate, betas=BETAS)
    of_encoder = [] if model.encoder is None else list(model.encoder.parameters())
    encoder_rate = ENCODER_RATE * plan.learning_rate
    encoder_optimizer = (
        Adam(of_encoder, encoder_rate, weight_decay=ENCODER_DECAY, betas=BETAS)
        if of_encoder
        else None
    )
    optimizers: list[Optimizer] = [
        each for each in (optimizer, encoder_optimizer, *deferred) if each is not None
    ]
    if moments:
        restore_moments(model, optimizers, moments)
    progress = EvidenceProgress(
        model,
        optimizers,
        generator,
        [noise] if model.encoder is None else [noise, model.encoder.generator],
    )
    if saves is not None:
        saves.restore(progress)
    for epoch in range(len(progress.records), plan.max_epochs):
        started = time.perf_counter()
        model.train()
        batches = list(_batches(sequences.sizes - 1, plan.batch_size, generator))
        loss_sum, rate = 0.0, plan.learning_rate
        for step, rows in enumerate(batches):
            if saves is not None:
                saves.heed_stop()
            left = 1 - (epoch + step / len(batches)) / plan.max_epochs
            rate = plan.learning_rate * left
            clicks = _padded(sequences.subset(rows), fill=model.n_items).to(device)
            loss = batch_loss(model, clicks, plan, noise, lookup)
            model.zero_grad(set_to_none=True)
            loss.backward()
            for each in (optimizer, *deferred):
                each.param_groups[0]["lr"] = rate
                each.step()
            if encoder_optimizer is not None:
                warm = min(1.0, (epoch * len(batches) + step + 1) / WARM_UP_STEPS)
                encoder_optimizer.param_groups[0]["lr"] = encoder_rate * left * warm
                torch.nn.utils.clip_grad_norm_(of_encoder, MAX_GRADIENT)
                encoder_optimizer.step()
            if plan.weight_decay and not deferred:
                with torch.no_grad():
                    for table, anchor in zip(tables, anchors, strict=True):
                        table.lerp_(anchor, min(1.0, rate * plan.weight_decay))
            loss_sum += loss.item()
        mean = loss_sum / len(batches)
        if not np.isfinite(mean):
            raise TrainingError(
                f"the loss became {mean} in epoch {epoch + 1}; lower learning_rate "
                f"({plan.learning_rate})."
            )
        for each in deferred:
            each.settle()
        model.eval()
        record: dict[str, Any] = {
            "epoch": epoch + 1,
            "n_epochs": plan.max_epochs,
            "loss": mean,
            "learning_rate": rate,
            "seconds": time.perf_counter() - started,
        }
        if validate is not None:
            with answering_on_cpu(model, device):
                record["validation"] = float(validate())
            if record["validation"] > progress.best:
                progress.best = record["validation"]
                progress.kept = {name: value.clone() for name, value in model.state_dict().items()}
        progress.records.append(record)
        if saves is not None:
            saves.save(progress)
        if on_epoch is not None:
            on_epoch(record)
    if moments is not None:
        moments.clear()
        moments.update(moments_of(model, optimizers))
    if progress.kept:
        model.load_state_dict(progress.kept)
    model.eval()
    model.to(CPU)
    return progress.records


def batch_loss(
    model: EvidenceModel,
    clicks: Tensor,
    plan: EvidencePlan,
    noise: torch.Generator,
    lookup: Lookup = F.embedding,
) -> Tensor:
    """Return the mean loss of all next clicks of some sequences.

    `model`: read; gradients flow to its tables. `clicks` (n, size): sequences, padded at their ends
    with `n_items`. `plan`: says how many clicks are dropped and how many negatives are drawn.
    `lookup`: called with items and a table; returns their rows.
    """
    steps = clicks.t()  # one step of all sequences after the other, as an encoder reads them
    before, after = steps[:-1], steps[1:]
    is_real = after.reshape(-1) != model.n_items
    at_target = None if bool(is_real.all()) else is_real.nonzero().squeeze(-1)
    targets = after.reshape(-1) if at_target is None else after.reshape(-1)[at_target]
    dropped = None
    if model.training and plan.dropout:
        kept = torch.rand(before.t().shape, generator=noise) >= plan.dropout
        dropped = kept.t().to(before.device) / (1 - plan.dropout)
    read = before.reshape(-1)
    if at_target is not None:
        read = read.masked_fill(~is_real, 0)
    drawn = _candidates(targets, model.n_items, plan.n_negatives, noise)
    vectors: Tensor = model.targets
    bias: Tensor = model.bias
    positive = targets
    if drawn is None:
        features = lookup(read, model.objects)
    else:
        candidates, offset, positive = drawn
        bias = bias.index_select(0, candidates) + offset
        if model.targets is model.objects:
            # Looked up together: one gradient as large as the table, and not two.
            rows = lookup(torch.cat([read, candidates]), model.objects)
            features, vectors = rows.split([len(read), len(candidates)])
        else:
            features = lookup(read, model.objects)
            vectors = lookup(candidates, model.targets)
    contexts = model.contexts_by_step(features.view(*before.shape, -1), dropped).flatten(0, 1)
    if at_target is not None:
        contexts = contexts.index_select(0, at_target)  # (n_targets, dim)
    return cross_entropy(contexts, vectors, bias, positive)


def _candidates(
    targets: Tensor, n_items: int, n_negatives: int | None, noise: torch.Generator
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return what stands for the catalogue in a batch, what is added to its logits, and targets.

    The distinct targets stand for themselves, and items drawn at random for all others, each for
    as many as there are: the expected sum of exponentials is that over the catalogue. Targets are
    told by their places among the candidates. None where the catalogue is to stand for itself.
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


def _batches(
    sizes: IntArray, batch_size: int, generator: np.random.Generator
) -> Iterator[IntArray]:
    """Yield rows of about `batch_size` targets together, of much the same size, in any order."""
    noisy = sizes + generator.random(len(sizes)) * np.maximum(3.0, 0.3 * sizes)
    order = np.argsort(noisy, kind="stable")
    batch = (np.cumsum(sizes[order]) - 1) // batch_size
    cuts = np.flatnonzero(np.diff(batch)) + 1
    parts = np.split(order, cuts)
    for number in generator.permutation(len(parts)):
        yield parts[number]


def _padded(sequences: Groups, fill: int) -> Tensor:
    """Return sequences as rows of one table, padded at their ends."""
    sizes = sequences.sizes
    table = np.full((len(sequences), int(sizes.max())), fill, dtype=np.int64)
    table[np.arange(table.shape[1]) < sizes[:, None]] = sequences.objects
    return torch.from_numpy(table)

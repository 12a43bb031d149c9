"""Training of added evidence: every click of a history but the first is a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from groupnoise.clicks.evidence.descent import DeferredAdam, descend_loss
from groupnoise.clicks.evidence.model import EvidenceModel
from groupnoise.clicks.evidence.steps import EvidencePlan, Lookup, step_loops
from groupnoise.core.arrays import (
    IntArray,
    ProgressCallback,
    offsets_from_sizes,
    ragged_rows,
    strip_prefix,
    torch_generator,
)
from groupnoise.core.device import CPU, current_device, evaluating_on_cpu
from groupnoise.core.groups import Groups
from groupnoise.core.threads import MIN_PARALLEL_WORK, thread_pool
from groupnoise.exceptions import DataError, TrainingError
from groupnoise.training.optimizer import Adam
from groupnoise.training.saver import TrainingSaves
from groupnoise.training.state import (
    MOMENTS,
    Moments,
    moments_of,
    numbered_parameters,
    restore_moments,
)

ENCODER_RATE = 0.4
"""Step size of an encoder in units of that of the vectors."""
ENCODER_DECAY = 0.01
WARM_UP_STEPS = 200
"""Steps over which the step size of an encoder rises."""
MAX_GRADIENT = 1.0
"""Norm at which the gradient of an encoder is clipped."""

MIN_UNITS = 2
"""Pairs of the longest sequences in a batch from which sequences are kept in pairs."""
MIN_SET = 512
"""Targets of half a batch from which it draws candidates of its own."""
MAX_PARTS = 4
"""Most threads that share the sequences of a batch."""

BETAS = (0.9, 0.98)
"""Of Adam: second moments with a shorter memory than usual, since items are rare."""


def training_sequences(histories: Groups, length: int) -> Groups:
    """Cut histories so that every click but the first is the target of one sequence.

    Result: sequences of 2 to `length + 1` clicks, cut from the end of each history. `length`: the
    most targets of a sequence, which then holds one click more. Raises DataError if no history has
    two clicks.

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
        np.asarray(histories.objects)[ragged_rows(starts, sizes)], offsets_from_sizes(sizes)
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
    `plan`: epochs, step size, regularisation.
    `generator`: decides the order, the dropped clicks and the negatives.
    `anchors`: values that f, and g if it has a table of its own, decay towards; by default their
        initial values.
    `validate`: called after each epoch; larger is better, and the best epoch's weights are kept.
    `saves`: where the state is saved after each epoch, and resumed from.
    `moments`: optimizer states of an earlier training, replaced by those of this one.
    Raises TrainingError if the loss is no longer a number.
    """
    device = current_device()
    model.to(device)
    sequences = training_sequences(histories, model.log_weights.shape[1])
    noise = torch_generator(generator)
    optimizers = _Optimizers(model, plan, anchors)
    if moments:
        restore_moments(model, optimizers.every, moments)
    draws = [noise] if model.encoder is None else [noise, model.encoder.generator]
    progress = EvidenceTrainingState(model, optimizers.every, generator, draws)
    if saves is not None:
        saves.restore(progress)
    learned, shares = list(model.parameters()), _BatchSplit.of(model, plan, sequences)
    n_targets = int((sequences.sizes - 1).sum())
    loops = step_loops(plan.max_epochs * n_targets) if device == CPU else None
    with thread_pool(shares.n_parts) as pool:
        descend = partial(
            descend_loss, model, plan=plan, noise=noise, lookup=optimizers.lookup, pool=pool,
            n_parts=shares.n_parts, n_sets=shares.n_sets, loops=loops,
        )  # fmt: skip
        for epoch in range(len(progress.records), plan.max_epochs):
            started = time.perf_counter()
            model.train()
            batches = list(_batches(sequences.sizes - 1, plan.batch_size, generator, shares.unit))
            loss_sum, rate = 0.0, plan.learning_rate
            for step, rows in enumerate(batches):
                if saves is not None:
                    saves.check_stop()
                clicks = _pad_sequences(sequences, rows, fill=model.n_items).to(device)
                for parameter in learned:
                    parameter.grad = None
                loss_sum += descend(clicks)
                left = 1 - (epoch + step / len(batches)) / plan.max_epochs
                rate = optimizers.step(left, epoch * len(batches) + step + 1, pool)
            optimizers.flush()
            model.eval()
            record = _epoch_record(epoch + 1, plan, loss_sum / len(batches))
            record |= {"learning_rate": rate, "seconds": time.perf_counter() - started}
            if shares.n_sets > 1 and (plan.n_negatives or model.n_items) < model.n_items:
                record["candidate_sets"] = shares.n_sets
            if validate is not None:
                with evaluating_on_cpu(model, device):
                    record["validation"] = float(validate())
            progress.add(record)
            if saves is not None:
                saves.save(progress)
            if on_epoch is not None:
                on_epoch(record)
    if moments is not None:
        moments.clear()
        moments.update(moments_of(model, optimizers.every))
    if progress.kept:
        model.load_state_dict(progress.kept)
    model.eval()
    model.to(CPU)
    return progress.records


def _epoch_record(epoch: int, plan: EvidencePlan, loss: float) -> dict[str, Any]:
    """Return the record of an epoch; refuse a loss that is no number."""
    if not np.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} in epoch {epoch}; lower learning_rate ({plan.learning_rate})."
        )
    return {"epoch": epoch, "n_epochs": plan.max_epochs, "loss": loss}


class _BatchSplit(NamedTuple):
    """How the sequences of a batch are split over threads.

    `n_parts`: threads. `unit`: sequences that stay together. `n_sets`: parts with candidates of
    their own.
    """

    n_parts: int
    unit: int
    n_sets: int

    @classmethod
    def of(cls, model: EvidenceModel, plan: EvidencePlan, sequences: Groups) -> _BatchSplit:
        """Return the split for a model and sequences; candidates do not depend on threads."""
        # Without an encoder a step is few large operations, which threads share as well.
        is_large = model.encoder is not None and plan.work_of_step(model) >= MIN_PARALLEL_WORK
        is_shared = is_large and current_device() == CPU
        longest = (sequences.sizes - 1).max()
        # Two threads have as much to do where a batch has as many long sequences for each.
        unit = 2 if is_large and plan.batch_size >= MIN_UNITS * 2 * longest else 1
        n_sets = unit if plan.batch_size >= unit * MIN_SET else 1
        return cls(min(torch.get_num_threads(), MAX_PARTS) if is_shared else 1, unit, n_sets)


class _Optimizers:
    """The optimizers of a training: of the tables of items, of the encoder, and of the rest.

    `anchors`: as in :func:`train_evidence`.
    """

    def __init__(
        self, model: EvidenceModel, plan: EvidencePlan, anchors: Sequence[Tensor] | None
    ) -> None:
        self._plan = plan
        self._tables = list({id(table): table for table in (model.objects, model.targets)}.values())
        device = model.objects.device
        self._anchors = [each.detach().clone().to(device) for each in anchors or self._tables]
        self.lookup: Lookup = F.embedding
        self._deferred: list[DeferredAdam] = []
        rate, decay = plan.learning_rate, plan.weight_decay
        if plan.uses_deferred_adam(model.n_items):
            deferred = DeferredAdam(
                self._tables, self._anchors, rate, weight_decay=decay, betas=BETAS
            )
            self.lookup, self._deferred = deferred.lookup, [deferred]
        dense = [] if self._deferred else self._tables
        others = [model.bias, model.log_weights, model.exponent_logits]
        self._main = Adam([*dense, *others], rate, betas=BETAS)
        self._of_encoder: list[Adam] = []
        if model.encoder is not None:
            weights, own_rate = list(model.encoder.parameters()), ENCODER_RATE * rate
            self._of_encoder = [Adam(weights, own_rate, weight_decay=ENCODER_DECAY, betas=BETAS)]
        self.every: list[Optimizer] = [self._main, *self._of_encoder, *self._deferred]

    def step(self, left: float, n_steps: int, pool: Executor | None) -> float:
        """Take a step along the gradients, and return its size."""
        rate, decay = self._plan.learning_rate * left, self._plan.weight_decay
        moving = []
        for each in self._of_encoder:
            warm = min(1.0, n_steps / WARM_UP_STEPS)
            each.param_groups[0]["lr"] = ENCODER_RATE * self._plan.learning_rate * left * warm
            if pool is None:
                _step_clipped(each)
            else:
                moving.append(pool.submit(_step_clipped, each))
        for of_rows in (self._main, *self._deferred):
            of_rows.param_groups[0]["lr"] = rate
            of_rows.step()
        if decay and not self._deferred:
            with torch.no_grad():
                for table, anchor in zip(self._tables, self._anchors, strict=True):
                    table.lerp_(anchor, min(1.0, rate * decay))
        for moved in moving:
            moved.result()
        return rate

    def flush(self) -> None:
        """Bring all rows of the tables up to date."""
        for each in self._deferred:
            each.flush()


def _step_clipped(optimizer: Optimizer) -> None:
    """Take a step with a clipped gradient."""
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAX_GRADIENT)
    optimizer.step()


def _batches(
    sizes: IntArray, batch_size: int, generator: np.random.Generator, unit: int = 1
) -> Iterator[IntArray]:
    """Yield batches of about `batch_size` targets, of similar sizes, in random order.

    `unit`: rows that stay together, so that a batch can be cut into as many similar parts.
    """
    noisy = sizes + generator.random(len(sizes)) * np.maximum(3.0, 0.3 * sizes)
    order = np.argsort(noisy, kind="stable")
    reached = np.cumsum(sizes[order])
    last = np.minimum(np.arange(len(order)) // unit * unit + unit, len(order)) - 1
    batch = (reached[last] - 1) // batch_size
    cuts = np.flatnonzero(np.diff(batch)) + 1
    parts = np.split(order, cuts)
    for number in generator.permutation(len(parts)):
        yield parts[number]


def _pad_sequences(sequences: Groups, rows: IntArray, fill: int) -> Tensor:
    """Return some sequences as rows of one table, padded at their ends."""
    starts, ends = sequences.offsets[rows, None], sequences.offsets[rows + 1, None]
    places = starts + np.arange(int((ends - starts).max()))
    objects = np.asarray(sequences.objects)[np.minimum(places, ends - 1)]
    return torch.from_numpy(np.where(places < ends, objects, fill))


@dataclass
class EvidenceTrainingState:
    """The state of a training of evidence, from which it can be resumed.

    `optimizers`: with their moments.
    `generator`: of the order of batches.
    `draws`: generators of dropped clicks and negatives.
    `records`: one per finished epoch.
    `best`: best validation so far.
    `kept`: the weights that reached it.
    """

    model: nn.Module
    optimizers: list[Optimizer]
    generator: np.random.Generator
    draws: list[torch.Generator]
    records: list[dict[str, Any]] = field(default_factory=list)
    best: float = -np.inf
    kept: dict[str, Tensor] = field(default_factory=dict)

    def add(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch; keep its weights if it is the best so far."""
        self.records.append(record)
        if record.get("validation", -np.inf) > self.best:
            self.best = record["validation"]
            self.kept = {name: value.clone() for name, value in self.model.state_dict().items()}

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as JSON values and arrays."""
        arrays = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        arrays |= {f"kept.{name}": value for name, value in self.kept.items()}
        for name, parameter, optimizer in numbered_parameters(self.optimizers):
            state = optimizer.state[parameter]
            arrays |= {f"{MOMENTS}{name}.{key}": value for key, value in state.items()}
        for number, draw in enumerate(self.draws):
            arrays[f"draw.{number}"] = draw.get_state()
        content = {
            "generator": self.generator.bit_generator.state,
            "records": self.records,
            "best": None if np.isinf(self.best) else self.best,
        }
        return content, {name: value.detach().cpu().numpy() for name, value in arrays.items()}

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a packed state."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        self.model.load_state_dict(strip_prefix("model.", tensors))
        self.kept = strip_prefix("kept.", tensors)
        for name, parameter, optimizer in numbered_parameters(self.optimizers):
            state = strip_prefix(f"{MOMENTS}{name}.", tensors)
            optimizer.state[parameter] = {
                key: value.to(parameter.device) for key, value in state.items()
            }
        for number, draw in enumerate(self.draws):
            draw.set_state(tensors[f"draw.{number}"])
        self.generator.bit_generator.state = content["generator"]
        self.records = list(content["records"])
        self.best = -np.inf if content["best"] is None else float(content["best"])

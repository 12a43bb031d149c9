"""The training loop: batches in, trained weights out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groupnoise.core.arrays import IntArray, ProgressCallback
from groupnoise.core.batching import (
    batch_rows,
    collate,
    pooled_batch_rows,
    split_batch,
)
from groupnoise.core.candidates import SampledCandidates
from groupnoise.core.device import CPU
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import Matcher
from groupnoise.core.threads import StepWatch, threads_for
from groupnoise.exceptions import GroupNoiseError, TrainingError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.explicit_steps import ExplicitStep, find_explicit_step
from groupnoise.training.parameters import History, TrainingPlan
from groupnoise.training.saver import Saver, exclusive_training, training_identity
from groupnoise.training.state import Moments, TrainingState, moments_of, restore_moments
from groupnoise.training.workers import Workers


def train(
    model: MatchingModel,
    groups: Groups,
    *,
    pair: Matcher,
    objective: GroupObjective,
    plan: TrainingPlan,
    generator: np.random.Generator,
    allowed: Tensor | None = None,
    group_weights: Tensor | None = None,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
    history: History | None = None,
    workers: Workers | None = None,
    checkpoints: Checkpoints | None = None,
    settings: Mapping[str, Any] | None = None,
    device: torch.device = CPU,
    moments: Moments | None = None,
) -> History:
    """Train a model in place and leave it with its best or its last weights.

    Result: one record per epoch: loss, seconds, learning rate and the validation value.
    `groups`: training groups; targets are ids.
    `plan`: epochs, batch size, learning rate and when to stop.
    `generator`: decides the order of the groups and every sampled candidate.
    `allowed` (n_groups, n_targets): targets each group may have, for the absent-class term.
    `group_weights`: multiply the losses of the groups; all count alike by default.
    `validate`: called after each epoch; larger is better. The weights of the best epoch are
        restored, unless the plan keeps the last.
    `on_epoch`: called with the record of each epoch, by the first worker alone.
    `history`: where the records go; it is filled even if the training fails.
    `workers`: the processes that share this training; by default this one trains alone.
    `checkpoints`: where the training saves itself and resumes from.
    `settings`: what beside the arguments above must be unchanged for a saved training to resume,
        such as the names of the targets.
    `device`: where the steps are made; the model comes from the CPU and returns to it.
    `moments`: what the optimizers of an earlier training remember; they are replaced by those of
        this one.
    Raises TrainingError if the loss or the validation value is no longer a number. The model is
    left with the best weights so far; without validation with those of the last save, or else as it
    was before the batch the message names.
    Raises CheckpointError if the training cannot be saved, the saved one is damaged or another, or
    another process trains into the same folder.
    Raises TrainingStopped if `checkpoints` was asked to stop; the training is saved.
    """
    workers = workers or Workers()
    state = TrainingState.begin(model.to(device), plan, generator, history)
    if moments:
        restore_moments(model, state.optimizers, moments)
    with exclusive_training(checkpoints, workers):
        saver = None
        if checkpoints is not None:
            parts = {
                **(settings or {}),
                "objective": objective,
                "pair matching": pair,
                "validation": validate is not None,
            }
            data = (*groups.arrays(), allowed, group_weights, model.target_inputs)
            saver = Saver(checkpoints, training_identity(state, plan, parts, data), workers)
            saver.restore(state)
        training = _Training(
            groups,
            pair,
            objective,
            plan,
            allowed,
            group_weights,
            validate,
            on_epoch,
            workers,
            saver,
            device,
        )
        try:
            with threads_for(training.work_of_step(model)):
                training.run(state)
            if moments is not None:
                moments.clear()
                moments.update(moments_of(model, state.optimizers))
        finally:
            model.to(CPU)
    return state.history


@dataclass(frozen=True)
class _Training:
    """What stays the same from the first step to the last; what changes is the state."""

    groups: Groups
    pair: Matcher
    objective: GroupObjective
    plan: TrainingPlan
    allowed: Tensor | None
    group_weights: Tensor | None
    validate: Callable[[], float] | None
    on_epoch: ProgressCallback | None
    workers: Workers
    saver: Saver | None
    device: torch.device = CPU
    watch: StepWatch = field(default_factory=StepWatch)
    known: dict[str, ExplicitStep | None] = field(default_factory=dict)

    def work_of_step(self, model: MatchingModel) -> float:
        """Return about how many multiplications a batch takes forward."""
        n_objects = self.plan.batch_size * self.groups.n_objects / len(self.groups)
        source = getattr(self.pair, "source", None)
        if isinstance(source, SampledCandidates):
            width = next(model.parameters()).shape[-1]
            return n_objects * width * source.n_negatives
        return n_objects * sum(each.numel() for each in model.parameters())

    def run(self, state: TrainingState) -> None:
        """Resume from a state and train to the end."""
        try:
            is_left = not state.is_over(self.plan)
            while not state.is_over(self.plan):
                self._finish_epoch(state)
                self._close_epoch(state)
            if is_left and self.saver is not None:
                self.saver.save(state)
        except GroupNoiseError as error:
            if isinstance(error, TrainingError) and state.best.epoch is None and self.saver:
                # A gradient may have spoilt the weights before the loss shows it.
                self.saver.restore_latest(state)
            state.best.restore(state.model)
            raise
        finally:
            state.model.eval()
            state.history.best_epoch = state.best.epoch
        if self.plan.keep == "best":
            state.best.restore(state.model)

    def _finish_epoch(self, state: TrainingState) -> None:
        """Make the steps that are left of the epoch under way."""
        state.model.train()
        for rows in islice(self._batches(state), state.step, None):
            started = time.perf_counter()
            state.learning_rate = self.plan.rate_at(self._progress(state))
            loss, descend = self._loss_of_batch(state, rows)
            pending = (0.0, 0.0) if self.saver is None else self.saver.pending()
            value, stop, due = self.workers.sum(loss, *pending)
            self._check_finite_loss(value, state, rows)
            descend()
            state.loss_sum += value * len(rows)
            state.step += 1
            seconds = time.perf_counter() - started
            state.seconds += seconds
            self.watch.add(seconds)
            if self.saver is not None:
                self.saver.after_step(state, stop=stop > 0, due=due > 0)
        state.apply_deferred_decay()

    def _batches(self, state: TrainingState) -> Iterator[IntArray]:
        size, pool = self.plan.batch_size, self.plan.shuffle_pool
        if pool is None:
            return batch_rows(self.groups.sizes, size, state.order)
        return pooled_batch_rows(self.groups.offsets, size, state.order, pool)

    def _per_group(self, state: TrainingState, rows: IntArray) -> Tensor:
        """Return the losses of this worker's groups of the batch `rows`, shape (own groups,)."""
        drawn = collate(self.groups, self.workers.rows(rows), rows)
        matching = self.pair(state.model, drawn.to(self.device), state.draw)
        allowed = None if self.allowed is None else self.allowed[drawn.rows].to(self.device)
        output = self.objective(matching, allowed=allowed, progress=self._progress(state))
        if self.group_weights is None:
            return output.per_group
        return output.per_group * self.group_weights[drawn.rows].to(self.device)

    def _loss_of_batch(
        self, state: TrainingState, rows: IntArray
    ) -> tuple[float, Callable[[], None]]:
        """Return the loss of a batch, and the rest of its step.

        A batch of more objects than the plan allows is worked on in parts, one at a time.
        """
        parts = [rows]
        if self.plan.max_objects is not None:
            sizes = self.groups.offsets[rows + 1] - self.groups.offsets[rows]
            parts = list(split_batch(rows, sizes, self.plan.max_objects))
        quick = self._explicit_step(state)
        if quick is not None and len(parts) == 1:
            weights = None if self.group_weights is None else self.group_weights[rows]
            found = quick.loss(
                collate(self.groups, self.workers.rows(rows)),
                state.draw,
                weights=weights,
                progress=self._progress(state),
            )
            if found is not None:
                return found, quick.descend
        for optimizer in state.optimizers:
            optimizer.zero_grad(set_to_none=True)
        value = 0.0
        for part in parts:
            loss = self.workers.loss(self._per_group(state, part), part)
            if len(parts) > 1:
                loss = loss * (len(part) / len(rows))
            value += loss.item()
            if part is not parts[-1]:
                loss.backward()
        return value, partial(self._descend, state, loss)

    def _explicit_step(self, state: TrainingState) -> ExplicitStep | None:
        """Return the step without autograd, if this training may take one."""
        if "step" not in self.known:
            alone = self.workers.count == 1 and self.device == CPU
            parts = (state.model, self.pair, self.objective, state.optimizers)
            n_steps = self.plan.max_epochs * self._steps_per_epoch
            self.known["step"] = find_explicit_step(*parts, n_steps=n_steps) if alone else None
        return self.known["step"]

    def _descend(self, state: TrainingState, loss: Tensor) -> None:
        loss.backward()
        self.workers.sync(state.model)
        for optimizer in state.optimizers:
            optimizer.step()

    def _close_epoch(self, state: TrainingState) -> None:
        """Validate, record the epoch and stand at the beginning of the next."""
        state.model.eval()
        epoch = state.epoch + 1
        record = {
            "epoch": epoch,
            "n_epochs": self.plan.max_epochs,
            "loss": state.loss_sum / len(self.groups),
            "learning_rate": state.learning_rate,
            "seconds": state.seconds,
        }
        if self.validate is not None:
            record["validation"] = self._validated(self.validate, epoch)
            state.best.offer(record["validation"], epoch, state.model)
        state.history.append(record)
        state.begin_epoch(epoch)
        if self.on_epoch is not None and self.workers.rank == 0:
            self.on_epoch(record)

    def _validated(self, validate: Callable[[], float], epoch: int) -> float:
        """Return the first worker's value; all are asked, as it may need what they hold."""
        with torch.no_grad():
            value = float(validate())
        (value,) = self.workers.sum(value if self.workers.rank == 0 else 0.0)
        if not math.isfinite(value):
            # NaN is neither better nor worse, so neither `keep` nor `patience` could act on it.
            raise TrainingError(
                f"validate returned {value} after epoch {epoch}; it must return a finite number, "
                "larger is better."
            )
        return value

    def _progress(self, state: TrainingState) -> float:
        """Return the fraction of the training that is done, 1 in its last step."""
        n_steps = self.plan.max_epochs * self._steps_per_epoch
        return self._steps_done(state) / max(1, n_steps - 1)

    def _steps_done(self, state: TrainingState) -> int:
        return state.epoch * self._steps_per_epoch + state.step

    @property
    def _steps_per_epoch(self) -> int:
        return math.ceil(len(self.groups) / self.plan.batch_size)

    def _check_finite_loss(self, value: float, state: TrainingState, rows: IntArray) -> None:
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss became {value} in epoch {state.epoch + 1}, step "
                f"{self._steps_done(state) + 1}, in the batch that holds group {rows[0]}. Lower "
                f"learning_rate ({self.plan.learning_rate}) or look for extreme features in these "
                "groups."
            )

"""State of a training for checkpoints, and optimizer moments for later updates."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from groupnoise.core.arrays import BoolArray, strip_prefix, torch_generator
from groupnoise.core.model import MatchingModel
from groupnoise.exceptions import ModelFileError
from groupnoise.training.optimizer import RowAdam, make_optimizers
from groupnoise.training.parameters import History, TrainingPlan

WEIGHTS, BEST, MOMENTS, GENERATORS = "model.", "best.", "optimizer.", "generator."
GLOBAL = "global"
Moments = dict[str, NDArray[np.float32]]
"""By parameter and name: the number of steps, and both moments of the gradient."""
STEPS, FIRST, SECOND = "steps", "first", "second"
NAMES = {STEPS: ("step",), FIRST: ("exp_avg", "first"), SECOND: ("exp_avg_sq", "second")}
"""The names optimizers use."""
TABLES = ("objects", "targets", "bias", "object_encoder.weight", "target_encoder.weight")
"""Parameters with a row for every item."""


class BestWeights:
    """The weights of the epoch with the best validation value; the first wins ties."""

    def __init__(self) -> None:
        self.value = -math.inf
        self.epoch: int | None = None
        self.weights: dict[str, Tensor] | None = None

    def offer(self, value: float, epoch: int, model: MatchingModel) -> None:
        """Copy the weights of the model if it is better than all earlier epochs."""
        if self.epoch is None or value > self.value:
            self.value, self.epoch = value, epoch
            self.weights = {name: tensor.clone() for name, tensor in tensors_of(model).items()}

    def epochs_since(self, epoch: int) -> int:
        """Return how many epochs ago the best one was."""
        return 0 if self.epoch is None else epoch - self.epoch

    def restore(self, model: MatchingModel) -> None:
        """Put the best weights into the model, if there were any."""
        if self.weights is not None:
            load_tensors(model, self.weights)


def tensors_of(model: MatchingModel) -> dict[str, Tensor]:
    """Return the detached parameters and buffers of a model, shared ones once."""
    kept = model.state_dict()
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in kept}


def load_tensors(model: MatchingModel, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`tensors_of` returned."""
    for name, tensor in tensors_of(model).items():
        tensor.copy_(tensors[name])


@dataclass
class TrainingState:
    """A training between two steps.

    `optimizers`: their moments belong to the state.
    `order`: decides the order of the groups.
    `draw`: decides every sampled candidate.
    `history`: records of the finished epochs.
    `best`: weights of the best of them.
    `epoch`: how many epochs are finished.
    `step`: how many steps of the epoch under way are finished.
    `loss_sum`: their losses, summed over groups.
    `seconds`: the time they took.
    `order_at_epoch`: state of `order` when the epoch under way began: with `step` it is the
        position in the data.
    `global_draw`: state of torch's global generator when the training began; only an encoder of the
        user's own draws from it.
    """

    model: MatchingModel
    optimizers: list[Optimizer]
    order: np.random.Generator
    draw: torch.Generator
    history: History = field(default_factory=History)
    best: BestWeights = field(default_factory=BestWeights)
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    order_at_epoch: dict[str, Any] = field(default_factory=dict)
    global_draw: Tensor = field(default_factory=torch.get_rng_state)

    @classmethod
    def begin(
        cls,
        model: MatchingModel,
        plan: TrainingPlan,
        generator: np.random.Generator,
        history: History | None = None,
    ) -> TrainingState:
        """Return the state before the first step."""
        draw = torch_generator(generator)
        optimizers = make_optimizers(
            model, learning_rate=plan.learning_rate, weight_decay=plan.weight_decay
        )
        state = cls(model, optimizers, generator, draw, History() if history is None else history)
        state.begin_epoch(0)
        return state

    def begin_epoch(self, epoch: int) -> None:
        """Move to the first step of the next epoch, after `epoch` finished ones."""
        self.epoch, self.step = epoch, 0
        self.loss_sum, self.seconds = 0.0, 0.0
        self.order_at_epoch = copy.deepcopy(dict(self.order.bit_generator.state))

    def is_over(self, plan: TrainingPlan) -> bool:
        """Whether all epochs are done, or too many passed without a better one."""
        if self.epoch >= plan.max_epochs:
            return True
        return plan.patience is not None and self.best.epochs_since(self.epoch) >= plan.patience

    def apply_deferred_decay(self) -> None:
        """Apply the weight decay that rows without lookups have missed."""
        for optimizer in self.optimizers:
            if isinstance(optimizer, RowAdam):
                optimizer.apply_deferred_decay()

    @property
    def learning_rate(self) -> float:
        """The step size of the optimisers."""
        return float(self.optimizers[0].param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate


def pack_state(state: TrainingState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what JSON can hold of a state, and its tensors as arrays."""
    tensors = {WEIGHTS + name: tensor for name, tensor in tensors_of(state.model).items()}
    for name, tensor in (state.best.weights or {}).items():
        tensors[BEST + name] = tensor
    numbers: dict[str, Any] = {}
    for key, parameter, optimizer in numbered_parameters(state.optimizers):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{MOMENTS}{key}.{name}"] = value
            else:
                numbers.setdefault(key, {})[name] = value
    for name, generator in _generators(state):
        tensors[GENERATORS + name] = generator.get_state()
    if not torch.equal(torch.get_rng_state(), state.global_draw):
        tensors[GENERATORS + GLOBAL] = torch.get_rng_state()
    packed = {
        "epoch": state.epoch,
        "step": state.step,
        "loss_sum": state.loss_sum,
        "seconds": state.seconds,
        "learning_rate": state.learning_rate,
        "moments": numbers,
        "order": _to_json(state.order_at_epoch),
        "history": state.history.records,
        "best": {"epoch": state.best.epoch, "value": state.best.value}
        if state.best.epoch is not None
        else None,
    }
    return packed, {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def unpack_state(
    state: TrainingState, packed: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Set a freshly begun state to what :func:`pack_state` returned.

    Raises KeyError, TypeError, ValueError, RuntimeError if something is missing or of another
    shape.
    """
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    load_tensors(state.model, strip_prefix(WEIGHTS, tensors))
    _restore_moments(state, packed["moments"], strip_prefix(MOMENTS, tensors))
    drawn = strip_prefix(GENERATORS, tensors)
    for name, generator in _generators(state):
        generator.set_state(drawn[name])
    if GLOBAL in drawn:
        torch.set_rng_state(drawn[GLOBAL])
    state.order.bit_generator.state = _from_json(packed["order"])
    state.begin_epoch(packed["epoch"])
    state.step, state.loss_sum = packed["step"], packed["loss_sum"]
    state.seconds = packed["seconds"]
    state.learning_rate = packed["learning_rate"]
    state.history.records[:] = packed["history"]
    if packed["best"] is not None:
        state.best.epoch, state.best.value = packed["best"]["epoch"], packed["best"]["value"]
        state.best.weights = strip_prefix(BEST, tensors)


def first_not_finite(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the name of a trained tensor that holds NaN or infinity, if any does."""
    for name, array in arrays.items():
        # A sum is not finite if a part is not; the other way it could only overflow.
        if name.startswith(WEIGHTS) and not math.isfinite(array.sum(dtype=np.float64)):
            return name.removeprefix(WEIGHTS)
    return None


def numbered_parameters(
    optimizers: Iterable[Optimizer],
) -> Iterator[tuple[str, Tensor, Optimizer]]:
    """Yield every parameter that an optimizer moves, with the numbers of both in one name."""
    for number, optimizer in enumerate(optimizers):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for position, parameter in enumerate(parameters):
            yield f"{number}.{position}", parameter, optimizer


def _restore_moments(
    state: TrainingState, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    # Optimizer.load_state_dict would cast every moment to the type of its parameter.
    for key, parameter, optimizer in numbered_parameters(state.optimizers):
        # Adam keeps the number of its steps, a scalar, on the CPU.
        placed = {
            name: t.clone() if t.dim() == 0 else t.clone().to(parameter.device)
            for name, t in strip_prefix(f"{key}.", tensors).items()
        }
        moments = {**numbers.get(key, {}), **placed}
        if moments:
            optimizer.state[parameter] = moments


def _generators(state: TrainingState) -> Iterator[tuple[str, torch.Generator]]:
    yield "draw", state.draw
    for path, module in state.model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Generator):
                yield f"{path}.{name}", value


def _to_json(value: Any) -> Any:
    """Return the state of a numpy generator with its arrays as lists."""
    if isinstance(value, Mapping):
        return {name: _to_json(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def _from_json(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"dtype", "values"}:
        return np.array(value["values"], dtype=value["dtype"])
    return {name: _from_json(part) for name, part in value.items()}


def moments_of(model: nn.Module, optimizers: Iterable[Optimizer]) -> Moments:
    """Return the moments of all parameters of a model; deferred decay must be applied."""
    return {
        f"{name}.{kind}": torch.as_tensor(state[own]).cpu().numpy().astype(np.float32)
        for name, _, _, state in _states(model, optimizers)
        for kind, own in _own_names(state)
    }


@torch.no_grad()
def restore_moments(
    model: nn.Module, optimizers: Iterable[Optimizer], moments: Mapping[str, NDArray[np.float32]]
) -> None:
    """Set the moments of fresh optimizers; rows added since begin at zero.

    Raises ModelFileError if shapes do not match.
    """
    for name, parameter, optimizer, _ in _states(model, optimizers):
        if f"{name}.{STEPS}" not in moments:
            continue
        state = optimizer._state_of(parameter)  # type: ignore[attr-defined]
        for kind, own in _own_names(state):
            kept = moments[f"{name}.{kind}"]
            if kind == STEPS:
                steps = float(kept)
                state[own] = (
                    torch.full_like(state[own], steps)
                    if torch.is_tensor(state[own])
                    else int(steps)
                )
                continue
            if kept.shape[1:] != parameter.shape[1:] or len(kept) > len(parameter):
                raise ModelFileError(
                    f"the optimizer's state of {name} is of shape {kept.shape}, where the model "
                    f"has {tuple(parameter.shape)}; refit the model."
                )
            state[own][: len(kept)] = torch.from_numpy(kept).to(parameter.device)


def check_moments(arrays: Mapping[str, NDArray[np.float32]]) -> Moments:
    """Return moments from a file that may hold anything.

    Raises ModelFileError if a number is not finite, or one is missing.
    """
    for name, values in arrays.items():
        parameter, _, kind = name.rpartition(".")
        is_whole = all(f"{parameter}.{each}" in arrays for each in NAMES)
        is_right = (
            kind in NAMES and values.dtype == np.float32 and (values.ndim == 0) == (kind == STEPS)
        )
        if not (is_whole and is_right and np.isfinite(values).all()) or (
            kind != FIRST and (values < 0).any()
        ):
            raise ModelFileError(f"the optimizer's state holds no moments as {name}.")
    return dict(arrays)


def keep_rows(moments: Mapping[str, NDArray[np.float32]], kept: BoolArray) -> Moments:
    """Return the moments of some items only. `kept` may be longer than the tables were."""
    return {
        name: values[kept[: len(values)]]
        if values.ndim and name.rpartition(".")[0] in TABLES
        else values
        for name, values in moments.items()
    }


def _states(
    model: nn.Module, optimizers: Iterable[Optimizer]
) -> Iterator[tuple[str, Tensor, Optimizer, dict[str, Tensor]]]:
    """Yield every parameter that an optimizer moves, with its name and what is remembered."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for _, parameter, optimizer in numbered_parameters(optimizers):
        if id(parameter) in names:
            yield names[id(parameter)], parameter, optimizer, optimizer.state[parameter]


def _own_names(state: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for kind, names in NAMES.items():
        for own in names:
            if own in state:
                yield kind, own

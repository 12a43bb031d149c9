"""A training state as JSON and arrays, and back without a bit lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.training._state import TrainingState, load_tensors, tensors_of

WEIGHTS, BEST, MOMENTS, GENERATORS = "model.", "best.", "optimizer.", "generator."
GLOBAL = "global"


def pack_state(state: TrainingState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what JSON can hold of a state, and its tensors as arrays."""
    tensors = {WEIGHTS + name: tensor for name, tensor in tensors_of(state.model).items()}
    for name, tensor in (state.best.weights or {}).items():
        tensors[BEST + name] = tensor
    numbers: dict[str, Any] = {}
    for place, name, value in _moments(state):
        if isinstance(value, Tensor):
            tensors[f"{MOMENTS}{place}.{name}"] = value
        else:
            numbers.setdefault(place, {})[name] = value
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
    return packed, {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def unpack_state(
    state: TrainingState, packed: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Set a freshly begun state to what :func:`pack_state` returned.

    Raises
    ------
    KeyError, TypeError, ValueError, RuntimeError
        If something is missing or of another shape.
    """
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    load_tensors(state.model, _below(WEIGHTS, tensors))
    _restore_moments(state, packed["moments"], _below(MOMENTS, tensors))
    drawn = _below(GENERATORS, tensors)
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
        state.best.weights = _below(BEST, tensors)


def first_not_finite(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the name of a trained tensor that holds NaN or infinity, if any does."""
    for name, array in arrays.items():
        # A sum is not finite if a part is not; the other way it could only overflow.
        if name.startswith(WEIGHTS) and not math.isfinite(array.sum(dtype=np.float64)):
            return name.removeprefix(WEIGHTS)
    return None


def _moments(state: TrainingState) -> Iterator[tuple[str, str, Any]]:
    """Yield (optimiser and parameter, name, value) of all that the optimisers remember."""
    for number, optimizer in enumerate(state.optimizers):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for place, parameter in enumerate(parameters):
            for name, value in optimizer.state.get(parameter, {}).items():
                yield f"{number}.{place}", name, value


def _restore_moments(
    state: TrainingState, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    # Optimizer.load_state_dict would cast every moment to the type of its parameter.
    for number, optimizer in enumerate(state.optimizers):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for place, parameter in enumerate(parameters):
            key = f"{number}.{place}"
            kept = _below(f"{key}.", tensors)
            moments = {**numbers.get(key, {}), **{name: t.clone() for name, t in kept.items()}}
            if moments:
                optimizer.state[parameter] = moments


def _generators(state: TrainingState) -> Iterator[tuple[str, torch.Generator]]:
    yield "draw", state.draw
    for path, module in state.model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Generator):
                yield f"{path}.{name}", value


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


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

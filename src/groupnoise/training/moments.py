"""What an optimizer remembers of a training, kept for a later one that goes on from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from groupnoise.core.arrays import BoolArray
from groupnoise.exceptions import ModelFileError

Moments = dict[str, NDArray[np.float32]]
"""By parameter and name: the steps that were taken, and both moments of the gradient."""
STEPS, FIRST, SECOND = "steps", "first", "second"
NAMES = {STEPS: ("step",), FIRST: ("exp_avg", "first"), SECOND: ("exp_avg_sq", "second")}
"""What optimizers call them."""
TABLES = ("objects", "targets", "bias", "object_encoder.weight", "target_encoder.weight")
"""Parameters with a row for every item."""


def moments_of(model: nn.Module, optimizers: Iterable[Optimizer]) -> Moments:
    """Return what optimizers remember of the parameters of a model that they have moved.

    `optimizers`: whose rows are all up to date.
    """
    return {
        f"{name}.{kind}": torch.as_tensor(state[own]).cpu().numpy().astype(np.float32)
        for name, _, _, state in _states(model, optimizers)
        for kind, own in _own_names(state)
    }


@torch.no_grad()
def restore_moments(
    model: nn.Module, optimizers: Iterable[Optimizer], moments: Mapping[str, NDArray[np.float32]]
) -> None:
    """Let optimizers remember what others did; rows that are new since begin at zero.

    `model`: its parameters go by the names that the moments have. `optimizers`: that have made no
    step. `moments`: what :func:`moments_of` returned. Raises ModelFileError if they are of
    parameters of another shape.
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


def checked_moments(arrays: Mapping[str, NDArray[np.float32]]) -> Moments:
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


def without_rows(moments: Mapping[str, NDArray[np.float32]], kept: BoolArray) -> Moments:
    """Return moments of the items that stay.

    `kept`: which they are; items after those that the moments know are none of theirs.
    """
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
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in names:
                    yield names[id(parameter)], parameter, optimizer, optimizer.state[parameter]


def _own_names(state: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for kind, names in NAMES.items():
        for own in names:
            if own in state:
                yield kind, own

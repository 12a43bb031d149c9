"""What of an estimator goes into its model folder: its parameters and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from groupnoise.core.joint_matching import PerObjectWeighting
from groupnoise.core.selection import All, Marginal, Max, Tempered, TopK
from groupnoise.core.similarity import Dot, NegativeKL
from groupnoise.core.weighting import ContrastiveWeighting, SigmoidWeighting
from groupnoise.io.parameters import pack_parameters, unpack_parameters

WEIGHTS = "model."
OWN_ENCODER = "<own module>"
PARTS = (
    All,
    ContrastiveWeighting,
    Dot,
    Marginal,
    Max,
    NegativeKL,
    PerObjectWeighting,
    SigmoidWeighting,
    Tempered,
    TopK,
)
"""Objects a parameter may be; only these are made again when a model is read."""


def saved_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator as its model folder holds them."""
    kept = {**parameters}
    kept.pop("on_epoch", None)  # reports, and decides nothing
    if isinstance(kept.get("encoder"), nn.Module):
        kept["encoder"] = OWN_ENCODER  # its weights are kept, its code is the user's
    return pack_parameters(kept, parts=PARTS)


def read_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`saved_parameters` kept."""
    return unpack_parameters(saved, parts=PARTS)


def saved_weights(model: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights of a model, each by one name even if two modules share it."""
    second = _second_names(model)
    return {
        WEIGHTS + name: tensor.numpy()
        for name, tensor in model.state_dict().items()
        if name not in second
    }


def load_weights(model: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what :func:`saved_weights` returned.

    `model`: as it was built before training; its tensors may be on the meta device, without memory.
    `arrays`: what the model folder holds; arrays that are no weights are left aside. Raises
    RuntimeError if a tensor is missing, is too many or has another shape.
    """
    types = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    state = {}
    for label, array in arrays.items():
        name = label.removeprefix(WEIGHTS)
        if name != label:
            state[name] = torch.tensor(array, dtype=types.get(name))
    for name, first in _second_names(model).items():
        # Folders written before shared tensors were saved once hold them under both names.
        if first in state:
            state.setdefault(name, state[first])
    model.load_state_dict(state, assign=True)


def _second_names(model: nn.Module) -> dict[str, str]:
    """Return each further name of a tensor that modules share, with its first one."""
    tensors = model.state_dict(keep_vars=True)  # the tensors themselves, so that `is` tells
    first: dict[int, str] = {}
    names = {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}
    return {name: before for name, before in names.items() if name != before}

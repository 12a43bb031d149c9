"""What of an estimator goes into its model folder beside the fitted state: its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from groupnoise._saved_parameters import pack_parameters, unpack_parameters
from groupnoise.matching import Dot, NegativeKL
from groupnoise.objectives import (
    All,
    ContrastiveWeighting,
    Marginal,
    Max,
    PerObjectWeighting,
    SigmoidWeighting,
    Tempered,
    TopK,
)

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

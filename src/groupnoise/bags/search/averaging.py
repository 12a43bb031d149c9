"""Averages of what members say of instances, and their calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

BEND = 2.0
"""How sharply what members say bends at the mean, per standard deviation."""


def in_class_order(log_p: Tensor, negative: int | None) -> Tensor:
    """Return columns in the order of the classes: the free target is the negative one, or last."""
    if negative is None:
        return log_p
    named, free = log_p[:, :-1], log_p[:, -1:]
    return torch.cat([named[:, :negative], free, named[:, negative:]], dim=1)


def averaged_log_odds(
    log_p: Iterable[Tensor],
    weights: Sequence[float],
    units: Sequence[tuple[float, float | None]],
) -> Tensor:
    """Return weighted log odds of targets against their mean.

    `log_p`: what each member says, (n_rows, n_targets). `units`: its spread and its centre.
    """
    total = sum(weights)
    parts = (
        weight / total * in_units_of_spread(own, *unit)
        for own, weight, unit in zip(log_p, weights, units, strict=True)
    )
    return sum(parts, torch.zeros(()))


def calibrated_log_probabilities(
    average: Tensor, scale: float, shift: float, *, free: bool
) -> Tensor:
    """Return log P(target | instance) from averaged log odds. `free`: whether the last is free."""
    calibrated = average * scale
    if free:
        calibrated[:, -1] += shift
    return calibrated.log_softmax(-1)


def centred_log_probabilities(log_p: Tensor) -> Tensor:
    """Return log probabilities less their mean over the targets, in double precision."""
    wide = log_p.double().clamp(min=-60.0)
    return wide - wide.mean(-1, keepdim=True)


def in_units_of_spread(log_p: Tensor, spread: float, centre: float | None) -> Tensor:
    """Return centred log probabilities of a member as they are averaged with those of others.

    Of positive and negative instances, what speaks against an instance is bent to hardly more than
    nothing: one member tells why an instance is positive, but few can tell that it is not. Linear
    ones call odd instances negative beyond all measure.

    `spread`, `centre`: see `FittedMember`; no centre where there is more to tell than two kinds.
    """
    centred = centred_log_probabilities(log_p)
    if centre is None:
        return centred / spread
    bent = torch.nn.functional.softplus((centred[:, :1] - centre) / spread, beta=BEND)
    return torch.cat([bent, -bent], dim=1)

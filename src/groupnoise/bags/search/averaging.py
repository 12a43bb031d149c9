"""Averages of the members' predictions for instances, and their calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

BEND = 2.0
"""Sharpness of the softplus that bends log odds at their mean, per standard deviation."""


def in_class_order(log_p: Tensor, negative: int | None) -> Tensor:
    """Return columns in the order of the classes: the free target becomes the negative class."""
    if negative is None:
        return log_p
    named, free = log_p[:, :-1], log_p[:, -1:]
    return torch.cat([named[:, :negative], free, named[:, negative:]], dim=1)


def averaged_log_odds(
    log_p: Iterable[Tensor],
    weights: Sequence[float],
    units: Sequence[tuple[float, float | None]],
) -> Tensor:
    """Return the weighted mean of the standardized log odds of members.

    `log_p`: the log probabilities of each member, (n_rows, n_targets). `units`: the spread and the
    centre of each.
    """
    total = sum(weights)
    terms = (
        weight / total * in_units_of_spread(of_member, *unit)
        for of_member, weight, unit in zip(log_p, weights, units, strict=True)
    )
    return sum(terms, torch.zeros(()))


def calibrated_log_probabilities(
    average: Tensor, scale: float, shift: float, *, free: bool
) -> Tensor:
    """Return log P(target | instance) from averaged log odds.

    `free`: whether the last target is free.
    """
    calibrated = average * scale
    if free:
        calibrated[:, -1] += shift
    return calibrated.log_softmax(-1)


def centred_log_probabilities(log_p: Tensor) -> Tensor:
    """Return log probabilities minus their mean over the targets, in double precision."""
    wide = log_p.double().clamp(min=-60.0)
    return wide - wide.mean(-1, keepdim=True)


def in_units_of_spread(log_p: Tensor, spread: float, centre: float | None) -> Tensor:
    """Return the log probabilities of a member on the scale on which members are averaged.

    For positive and negative bags, log odds below the mean are compressed by a softplus: a member
    can know why an instance is positive, but hardly that it is not, and linear members give
    outliers extremely negative log odds.

    `spread`, `centre`: see `FittedMember`; the centre is None except for positive and negative
    bags.
    """
    centred = centred_log_probabilities(log_p)
    if centre is None:
        return centred / spread
    bent = torch.nn.functional.softplus((centred[:, :1] - centre) / spread, beta=BEND)
    return torch.cat([bent, -bent], dim=1)

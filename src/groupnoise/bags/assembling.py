"""Members that were taken become one ensemble: trained on all bags, weighed, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise.bags.ensemble import (
    BagEnsemble,
    calibrate_bags,
    calibrate_instances,
    centred_log_probabilities,
    label_log_likelihood,
)
from groupnoise.bags.members import STATISTICS
from groupnoise.bags.out_of_fold import BagSearch
from groupnoise.core.arrays import FloatArray
from groupnoise.decisions.portfolio import Option

SHARES = {0.0: 1.0, 0.1: 1.0, 0.25: 1.0, 0.5: 0.5, 0.75: 0.5, 0.95: 0.5}
"""Weights that members which see bags as a whole may have together, and how credible each is."""
EVIDENCE = 6.0
"""Nats of held-out bags that divide the credibility of a weight by e."""
MIN_SHARE = 0.02


def share_of_whole(
    search: BagSearch,
    members: Sequence[tuple[Option, float]],
    whole: Sequence[tuple[Option, float]],
) -> float:
    """Return how much members that see bags as a whole count beside the others.

    A few weights are averaged by the evidence of held-out bags for each: the likeliest one alone
    would follow chance where bags are few.

    `search`: which has tried all of them. `members`, `whole`: both kinds with weights that sum to
    one.
    """

    def pooled(taken: Sequence[tuple[Option, float]]) -> FloatArray:
        each = [w * search.out_of_fold(option, search.n_folds).calibrated for option, w in taken]
        total: FloatArray = np.sum(each, axis=0)
        return total

    def likelihood(log_odds: FloatArray) -> float:
        kind = (search.labels, search.exclusive, search.has_negative)
        scale, shift = calibrate_bags(log_odds, *kind)
        return float(label_log_likelihood(log_odds * scale + shift, *kind).sum())

    of_members, of_whole = pooled(members), pooled(whole)
    shares = np.array(list(SHARES))
    found = [likelihood((1.0 - share) * of_members + share * of_whole) for share in shares]
    credible = np.array(list(SHARES.values())) * np.exp((found - np.max(found)) / EVIDENCE)
    mean = float(shares @ credible / credible.sum())
    return mean if mean >= MIN_SHARE else 0.0


def assembled(
    search: BagSearch,
    taken: Sequence[tuple[Option, float]],
    negative: int | None,
    *,
    calibrated: bool,
) -> BagEnsemble:
    """Return the members taken, trained on all bags, with their answers on one scale.

    `search`: which has tried them, or trains them now. `taken`: who answers, and how much each
    counts. `negative`: column of the negative label. `calibrated`: whether there are enough bags to
    hold some out.
    """
    own = [(option, w) for option, w in taken if option.parameters["likelihood"] != STATISTICS]
    options = [option for option, _ in own]
    folds = search.n_folds
    if calibrated:
        for option in options:
            search.out_of_fold(option, folds, options)
    statistics = [
        search.fit_whole(option, weight)
        for option, weight in taken
        if option.parameters["likelihood"] == STATISTICS
    ]
    members = [
        replace(member, weight=weight)
        for member, (_, weight) in zip(search.fit_members(options), own, strict=True)
    ]
    ensemble = BagEnsemble(
        members, statistics, search.labels.shape[1], negative, search.exclusive, 1.0, 0.0, 1.0, 0.0
    )
    if not calibrated:
        return ensemble
    total = sum(weight for _, weight in own)
    averaged: Any = 0.0
    for number, (option, weight) in enumerate(own):
        found = search.out_of_fold(option, folds)
        assert found.log_p is not None
        centred = centred_log_probabilities(found.log_p)
        # About the mean of each target: what all instances share says nothing of their order.
        spread = max(float((centred - centred.mean(0)).std()), 1e-6)
        members[number] = replace(
            members[number],
            spread=spread,
            bag_scale=found.bag_scale,
            bag_shift=found.bag_shift + found.bag_scale * members[number].bag_shift,
        )
        averaged = averaged + weight / total / spread * centred
    each = [weight * search.out_of_fold(option, folds).calibrated for option, weight in taken]
    free = averaged.shape[1] > search.labels.shape[1]
    scale, shift = calibrate_instances(averaged, search.problem, free)
    bag_scale, bag_shift = calibrate_bags(
        np.sum(each, axis=0), search.labels, search.exclusive, search.has_negative
    )
    return replace(
        ensemble,
        members=members,
        scale=scale,
        shift=shift,
        bag_scale=bag_scale,
        bag_shift=bag_shift,
    )

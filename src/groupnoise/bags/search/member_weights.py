"""How the evidence of held-out bags becomes weights of members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.bags.search.portfolio import family
from groupnoise.core.arrays import FloatArray
from groupnoise.decisions.halving import standard_error
from groupnoise.decisions.portfolio import Option

EVIDENCE = 6.0
"""Nats of held-out bags that divide the credibility of a weight by e."""
MIN_SHARE = 0.02


@dataclass(frozen=True)
class WeightRule:
    """How evidence becomes weights.

    `evidence`: nats that divide the weights of two members by e; one nat would trust chance too
        much.
    `min_ratio`: members whose weight is a smaller part of the largest one are left out.
    `max_members`: how many are taken at most.
    `by_error`: whether a standard error of the difference counts as `evidence` where it is larger.
    """

    evidence: float
    min_ratio: float
    max_members: int
    by_error: bool = False

    def weight(self, best: FloatArray, other: FloatArray) -> float:
        """Return the weight of a member beside the best one, from the scores of bags."""
        behind = best - other
        unit = self.evidence
        if self.by_error:
            unit = max(unit, len(behind) * standard_error(behind))
        return math.exp(-float(behind.sum()) / unit)


POSITIVE = WeightRule(3.0, 0.02, 17, by_error=True)
"""Of positive and negative bags: instances are evidence too, and networks err differently."""
SEVERAL = WeightRule(8.0, 0.1, 8)
SEVERAL_LARGE = WeightRule(8.0, 0.1, 3)
FINALISTS = WeightRule(8.0, 0.003, 3)
"""Of those compared on a sample, which all bags weigh again."""
WHOLE = WeightRule(3.0, 0.05, 6)
"""Of members that see bags as a whole."""


def choose_members(
    options: Sequence[Option],
    scores: Sequence[FloatArray],
    weighing: WeightRule,
    *,
    agree: bool = False,
) -> list[tuple[Option, float]]:
    """Return the options that answer together, and their weights.

    Of each family the strongest decay level with its best one. Members that disagree on whether
    there is a background cannot be averaged: there is one unless bags clearly speak against it.

    The heaviest first; weights sum to one. `options`: what was tried on all folds. `scores`: the
    criterion of each. `weighing`: how evidence becomes weights. `agree`: whether all answer of a
    background, also those that were trained without.
    """
    families: dict[tuple[Any, ...], list[int]] = {}
    for number, option in enumerate(options):
        families.setdefault(family(option.parameters), []).append(number)
    chosen = []
    for members in families.values():
        best = max(members, key=lambda each: float(scores[each].mean()))
        level = [
            each
            for each in members
            if (scores[best] - scores[each]).mean() <= standard_error(scores[best] - scores[each])
        ]
        chosen.append(max(level, key=lambda each: options[each].parameters["weight_decay"]))
    chosen.sort(key=lambda each: -float(scores[each].mean()))
    if not agree:
        ground = has_background([(options[each], scores[each]) for each in chosen])
        chosen = [each for each in chosen if options[each].parameters["background"] == ground]
    best_scores = scores[chosen[0]]
    weights = np.array([weighing.weight(best_scores, scores[each]) for each in chosen])
    kept = np.flatnonzero(weights >= weighing.min_ratio)[: weighing.max_members]
    weights = weights[kept] / weights[kept].sum()
    return [
        (options[chosen[each]], float(weight)) for each, weight in zip(kept, weights, strict=True)
    ]


def has_background(tried: Sequence[tuple[Option, FloatArray]]) -> bool:
    """Tell whether instances may be of no label: yes, unless bags clearly speak against it.

    Bags are often told equally well with and without. Then members without give every instance a
    label, also where none fits; those with a background that is not there call few instances so.
    `tried`: options and what bags say of each, the best first.
    """
    best: dict[bool, FloatArray] = {}
    for option, scores in tried:
        best.setdefault(bool(option.parameters["background"]), scores)
    if len(best) == 1:
        return True in best
    behind = best[False] - best[True]
    return float(behind.mean()) <= standard_error(behind)


def credible_share(shares: Mapping[float, float], evidence: Sequence[float]) -> float:
    """Return the mean of shares as far as evidence makes them credible; a tiny one counts as none.

    `shares`: how credible each is beforehand. `evidence`: for each, in nats.
    """
    credible = np.array(list(shares.values()))
    credible = credible * np.exp((np.asarray(evidence) - np.max(evidence)) / EVIDENCE)
    mean = float(np.array(list(shares)) @ credible / credible.sum())
    return mean if mean >= MIN_SHARE else 0.0

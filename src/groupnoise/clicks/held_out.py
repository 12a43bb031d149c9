"""Last clicks held out of histories, and how well evidence predicts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from groupnoise.clicks.evidence import Evidence
from groupnoise.core.arrays import FloatArray
from groupnoise.core.groups import Groups

MAX_HELD_OUT = 2000
"""Last clicks that options are compared on; fewer let chance decide between close ones."""
MIN_HELD_OUT = 20
GAIN_CUT = 20
MAX_SCORES = 1 << 25
"""Held-out scores kept at once, for each part of the evidence."""


class HeldOut(NamedTuple):
    """Histories of which some have lost their last click.

    `training`: all histories, less the held-out clicks.
    `asked`: the histories that lost one, with it as target.
    """

    training: Groups
    asked: Groups


def hold_out_last(
    histories: Groups, generator: np.random.Generator, max_users: int = MAX_HELD_OUT
) -> HeldOut | None:
    """Hold out the last click of some histories of at least three.

    Result: None where fewer than 20 histories have three clicks. `histories`: item indices in time
    order. `generator`: decides whose clicks are held out. `max_users`: the most clicks to hold out.
    """
    eligible = np.flatnonzero(histories.sizes >= 3)
    if len(eligible) < MIN_HELD_OUT:
        return None
    rows = np.sort(generator.permutation(eligible)[:max_users])
    last = histories.offsets[rows + 1] - 1
    sizes = histories.sizes
    sizes[rows] -= 1
    objects = np.asarray(histories.objects)
    training = Groups(np.delete(objects, last), np.concatenate([[0], np.cumsum(sizes)]))
    asked = training.subset(rows)
    return HeldOut(training, Groups(asked.objects, asked.offsets, objects[last]))


def gains(scores: FloatArray, asked: Groups) -> FloatArray:
    """Return the discounted gain of each target among the items its history does not hold.

    1 / log2(1 + rank) down to rank 20, 0 below; of equal scores half are ahead. `scores`
    (n_histories, n_items): overwritten. `asked`: the histories, with targets.
    """
    rows = np.arange(len(asked))
    targets = np.asarray(asked.targets)
    positive = scores[rows, targets].copy()
    scores[asked.group_of_object, asked.objects] = -np.inf
    scores[rows, targets] = -np.inf
    ahead = (scores > positive[:, None]).sum(axis=1) + 0.5 * (scores == positive[:, None]).sum(
        axis=1
    )
    return np.where(ahead < GAIN_CUT, 1.0 / np.log2(ahead + 2.0), 0.0)


def evidence_scores(evidence: Evidence, histories: Groups) -> FloatArray:
    """Return the added evidence for every item after each history, before the softmax.

    Of shape (n_histories, n_items). `histories`: item indices in time order.
    """
    clicks = np.asarray(histories.objects, dtype=np.int64)
    mixture = evidence.rule().mixture(
        lambda items: evidence.objects[items], clicks, histories.offsets
    )
    return np.asarray(mixture.queries @ evidence.targets.T + evidence.bias)


def evidence_gains(evidence: Evidence, asked: Groups) -> FloatArray:
    """Return the gain of each held-out click under some evidence, shape (n_histories,)."""
    return gains_by_block(lambda part: evidence_scores(evidence, part), asked, len(evidence.bias))


def gains_by_block(
    scores_of: Callable[[Groups], FloatArray], asked: Groups, n_items: int
) -> FloatArray:
    """Return the gain of each held-out click, scored block by block, shape (n_histories,)."""
    step = max(1, MAX_SCORES // n_items)
    blocks = [asked[start : start + step] for start in range(0, len(asked), step)]
    return np.concatenate([gains(scores_of(block), block) for block in blocks])

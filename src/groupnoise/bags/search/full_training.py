"""Training of the chosen members on all bags, and their predictions of held-out ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from groupnoise.bags.search.fitted_members import FittedMember, average_copies, train_batch
from groupnoise.bags.search.forests_and_kernels import ForestBatch
from groupnoise.bags.search.held_out_bags import HeldOutBags, HeldOutPredictions, draw_folds
from groupnoise.bags.search.member_training import MemberBatch
from groupnoise.bags.search.members import (
    MemberSettings,
    bag_presence,
    bag_quantifiers,
    make_problem,
)
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.batching import split_batch
from groupnoise.core.groups import Groups

HELD_OUT = 5
"""One in this many bags is held out."""
MAX_HELD_OUT_ROWS = 500_000
MAX_ROWS = 1 << 15
"""Instances that are read and predicted at a time."""


def draw_held_out_bags(
    bags: Groups,
    labels: BoolArray,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
) -> IntArray:
    """Return a fifth of the bags in ascending order, fewer where they have too many instances."""
    rows = np.flatnonzero(draw_folds(labels, HELD_OUT, generator, patients) == 0)
    rows = generator.permutation(rows)
    fits = int((np.cumsum(bags.sizes[rows]) <= MAX_HELD_OUT_ROWS).sum())
    return np.sort(rows[: max(1, fits)])


class TrainedOnAll(NamedTuple):
    """Members trained on all bags.

    `members`: in the order of their settings, each of weight one.
    `bags`: the held-out bags, None if there are none.
    `predictions`: of the held-out bags, by each member.
    """

    members: list[FittedMember]
    bags: HeldOutBags | None
    predictions: list[HeldOutPredictions]


def train_on_all(
    settings: Sequence[MemberSettings],
    bags: Groups,
    labels: BoolArray,
    has_negative: bool,
    seed: int,
    held: IntArray | None = None,
    *,
    answers: Sequence[str | None] | None = None,
    shares_background: bool = False,
) -> TrainedOnAll:
    """Train members on all bags, in memory or from disk, and predict held-out ones.

    Weights and calibration found on a sample would not do: members trained on ten times as many
    bags are more confident, and their ranking differs.

    `settings`: of the members, for a training on all bags. `labels` (n_bags, n_named): the labels
    that bags are asked for. `has_negative`: whether another class is negative. `seed`: decides the
    initial weights and the bags of each step. `held`: bags that the first copy of each member does
    not see, by default none; the other copies see all. `answers`: quantifiers by which members
    predict bags where none are held out, by default their own. `shares_background`: whether bags
    mostly have one label, and all have instances of none.
    """
    held = np.zeros(0, dtype=np.int64) if held is None else held
    judge = None
    if len(held):
        problem = make_problem(bags.subset(held), labels[held], has_negative)
        exclusive = bool((labels.sum(axis=1) <= 1).all())
        judge = HeldOutBags(problem, exclusive, shares_background=shares_background)
    # Members of a batch read the bags once; those of one likelihood are computed together.
    order = sorted(
        range(len(settings)), key=lambda one: (str(settings[one].batch), settings[one].likelihood)
    )
    members: dict[int, FittedMember] = {}
    predictions: dict[int, HeldOutPredictions] = {}
    for _, alike in groupby(order, key=lambda one: settings[one].batch):
        numbers = list(alike)
        batch, scaler = train_batch(
            [settings[one] for one in numbers], bags, labels, has_negative, seed, held
        )
        if judge is not None:
            predictions.update(
                zip(numbers, _predict_held_out(batch, bags.sizes, held, judge), strict=True)
            )
        for position, one in enumerate(numbers):
            answer = answers[one] if answers is not None else None
            answer = predictions[one].answer if one in predictions else answer
            members[one] = average_copies(batch, position, scaler, answer)
    in_order = range(len(settings))
    return TrainedOnAll(
        [members[one] for one in in_order],
        judge,
        [predictions[one] for one in in_order if one in predictions],
    )


def _predict_held_out(
    batch: MemberBatch | ForestBatch, sizes: IntArray, held: IntArray, judge: HeldOutBags
) -> Iterator[HeldOutPredictions]:
    """Yield the predictions of each member of a batch for bags its first copy has not seen."""
    parts = split_batch(held, sizes[held], MAX_ROWS)
    with torch.no_grad():
        rows = (batch.rows_of(torch.from_numpy(part)) for part in parts)
        logits = torch.cat([batch.logits(part)[:, :: batch.n_copies] for part in rows])
    for number, settings in enumerate(batch.settings):
        of_member = logits[:, number : number + 1]
        mixture = batch.mixture[:, batch.columns(number)][:, :1]
        arguments = (of_member, judge.problem, settings, mixture)
        of_bags = {
            answer: bag_presence(*arguments, answer).log_odds.squeeze(1)
            for answer in bag_quantifiers(settings)
        }
        yield judge.evaluate_member(of_member.squeeze(1), of_bags, settings)

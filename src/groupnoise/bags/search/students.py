"""Students among the members of a search: how they are judged, weighed, and trained in the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from groupnoise.bags.search.averaging import averaged_log_odds, calibrated_log_probabilities
from groupnoise.bags.search.ensemble import (
    BagEnsemble,
    calibrate_instances,
)
from groupnoise.bags.search.fitted_members import FittedMember
from groupnoise.bags.search.held_out_bags import (
    HeldOutBags,
    HeldOutPredictions,
    averaged_instances,
    member_log_probabilities,
)
from groupnoise.bags.search.member_weights import credible_share
from groupnoise.bags.search.members import (
    KERNEL,
    TAUGHT,
    MemberSettings,
    bag_presence,
    bag_quantifiers,
)
from groupnoise.bags.search.self_training import (
    MAX_ROWS,
    RIDGE,
    WIDTH,
    Lesson,
    bags_to_learn_from,
    rows_of_bags,
    student_logits,
    taught_model,
)
from groupnoise.bags.search.witness_rate import with_background
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import LANDMARKS, Scaler
from groupnoise.core.threads import threads_to_solve

SHARES = {0.0: 1.0, 0.25: 1.0, 0.5: 1.0, 0.75: 0.5}
"""Weights that a student may have beside its teachers, and how credible each is."""

Teachers = Sequence[tuple[HeldOutPredictions, float]]
"""What members say of held-out bags, and how much each counts."""


def student_settings(teachers: Sequence[MemberSettings], *, background: bool) -> MemberSettings:
    """Return a student of members, the heaviest first; it sees the features as that one does.

    `background`: whether instances may have a target that no bag is asked for.
    """
    scalings = (each.scaling for each in teachers if each.scaling != LANDMARKS)
    return MemberSettings(
        TAUGHT,
        next(scalings, "standard"),
        KERNEL,
        background=background,
        weight_decay=RIDGE,
        width=WIDTH,
    )


@threads_to_solve(MAX_ROWS)
def held_out_student(
    settings: MemberSettings,
    teachers: Teachers,
    bags: HeldOutBags,
    rows: Tensor,
    folds: IntArray,
    seed: int,
) -> HeldOutPredictions | None:
    """Return what a student says of bags that neither it nor its teachers have seen.

    None where too few bags fit into a lesson. In each fold it learns from what the copies of the
    members that have not seen this fold say of all others, brought to a scale by these others.

    `rows` (n_rows, n_features): scaled instances. `folds`: of the bags. `seed`: decides the bags
    learned from, where they are many.
    """
    problem = bags.problem
    segments, sizes = problem.segments, problem.segments.sizes.numpy()
    averaged, units = averaged_instances(teachers, problem)
    free = averaged.shape[1] > problem.n_named
    weights = [weight for _, weight in teachers]
    binary = problem.is_binary(settings)
    logits = torch.zeros(len(rows), 1 if binary else averaged.shape[1])
    for fold in np.unique(folds):
        seen = np.flatnonzero(folds != fold)
        found = calibrate_instances(
            averaged[torch.from_numpy(rows_of_bags(segments, seen)[0])],
            problem.subset(seen),
            free,
            shares_background=bags.shares_background,
        )
        part = seen[bags_to_learn_from(sizes[seen], seed)]
        if not len(part):
            return None
        place, bag = rows_of_bags(segments, part)
        said = [_of_copy(each, int(fold), place) for each, _ in teachers]
        log_p = calibrated_log_probabilities(
            averaged_log_odds(said, weights, units), found.scale, found.shift, free=free
        )
        lesson = Lesson(rows[place].numpy(), log_p.numpy(), problem.labels[part], bag)
        model = taught_model(lesson, settings, seed)
        held, _ = rows_of_bags(segments, np.flatnonzero(folds == fold))
        logits[held] = student_logits(model, rows[held], binary=binary)
    of_bags = {
        answer: bag_presence(
            logits.unsqueeze(1), problem, settings, answer=answer
        ).log_odds.squeeze(1)
        for answer in bag_quantifiers(settings)
    }
    return bags.evaluate_member(logits, of_bags, settings)


def _of_copy(said: HeldOutPredictions, copy: int, rows: IntArray) -> Tensor:
    """Return log P(target | instance) by one copy of a member."""
    assert said.copies is not None
    logits = said.copies[torch.from_numpy(rows), copy]
    log_p = member_log_probabilities(logits, logits.shape[1] == 1)
    return log_p if said.background is None else with_background(log_p, said.background)


def share_of_student(bags: HeldOutBags, teachers: Teachers, student: HeldOutPredictions) -> float:
    """Return how much a student counts beside its teachers, by the evidence of held-out bags."""
    found = [
        bags.evaluate_average(
            [*((said, (1.0 - share) * weight) for said, weight in teachers), (student, share)]
        ).sum()
        for share in SHARES
    ]
    return credible_share(SHARES, found)


@threads_to_solve(MAX_ROWS)
def taught_member(
    settings: MemberSettings,
    teacher: BagEnsemble,
    scaler: Scaler,
    bags: Groups,
    labels: BoolArray,
    seed: int,
    answer: str | None,
) -> FittedMember | None:
    """Return a student of members trained on all bags; None where too few bags fit into a lesson.

    `teacher`: its answers have the free target last. `scaler`: of what the student sees. `labels`
    (n_bags, n_named): of the bags. `answer`: quantifier by which it answers of bags.
    """
    part = bags_to_learn_from(np.asarray(bags.sizes), seed)
    if not len(part):
        return None
    some = bags.subset(part)
    log_p = teacher.log_probabilities(some.objects).numpy()
    rows = scaler(some.objects)
    lesson = Lesson(rows, log_p, labels[part], some.group_of_object)
    return FittedMember(settings, 1.0, scaler, taught_model(lesson, settings, seed), answer=answer)

"""Students among the members of a search: held-out predictions, weight, and final training."""

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
    PSEUDO_LABELS,
    MemberSettings,
    bag_presence,
    bag_quantifiers,
)
from groupnoise.bags.search.self_training import (
    MAX_ROWS,
    RIDGE,
    WIDTH,
    StudentTrainingSet,
    draw_student_bags,
    rows_of_bags,
    student_logits,
    train_student_model,
)
from groupnoise.bags.search.witness_rate import with_background
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import LANDMARKS, Scaler
from groupnoise.core.threads import threads_to_solve

SHARES = {0.0: 1.0, 0.25: 1.0, 0.5: 1.0, 0.75: 0.5}
"""Shares of the total weight that a student may get, and their prior credibility."""

Teachers = Sequence[tuple[HeldOutPredictions, float]]
"""Held-out predictions of members, and the weight of each."""


def student_settings(teachers: Sequence[MemberSettings], *, background: bool) -> MemberSettings:
    """Return the settings of a student; its features are scaled as those of the first teacher.

    `teachers`: by weight, the heaviest first. `background`: whether there is a target for instances
    of none of the labels.
    """
    scalings = (each.scaling for each in teachers if each.scaling != LANDMARKS)
    return MemberSettings(
        PSEUDO_LABELS,
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
    """Return predictions of a student for bags that neither it nor its teachers have seen.

    None where too few bags fit into its training set. For each fold a student is trained on
    pseudo-labels of the other folds. They come from the copies of the teachers that have not seen
    this fold, and are calibrated on the other folds alone.

    `rows` (n_rows, n_features): scaled instances. `folds`: the fold of each bag. `seed`: decides
    which bags are drawn where there are too many.
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
        calibration = calibrate_instances(
            averaged[torch.from_numpy(rows_of_bags(segments, seen)[0])],
            problem.subset(seen),
            free,
            shares_background=bags.shares_background,
        )
        drawn = seen[draw_student_bags(sizes[seen], seed)]
        if not len(drawn):
            return None
        positions, bag = rows_of_bags(segments, drawn)
        of_copies = [_predict_by_copy(each, int(fold), positions) for each, _ in teachers]
        log_p = calibrated_log_probabilities(
            averaged_log_odds(of_copies, weights, units),
            calibration.scale,
            calibration.shift,
            free=free,
        )
        training_set = StudentTrainingSet(
            rows[positions].numpy(), log_p.numpy(), problem.labels[drawn], bag
        )
        model = train_student_model(training_set, settings, seed)
        held, _ = rows_of_bags(segments, np.flatnonzero(folds == fold))
        logits[held] = student_logits(model, rows[held], binary=binary)
    of_bags = {
        answer: bag_presence(
            logits.unsqueeze(1), problem, settings, answer=answer
        ).log_odds.squeeze(1)
        for answer in bag_quantifiers(settings)
    }
    return bags.evaluate_member(logits, of_bags, settings)


def _predict_by_copy(teacher: HeldOutPredictions, copy: int, rows: IntArray) -> Tensor:
    """Return log P(target | instance) of some instances by one copy of a teacher."""
    assert teacher.copies is not None
    logits = teacher.copies[torch.from_numpy(rows), copy]
    log_p = member_log_probabilities(logits, logits.shape[1] == 1)
    return log_p if teacher.background is None else with_background(log_p, teacher.background)


def share_of_student(bags: HeldOutBags, teachers: Teachers, student: HeldOutPredictions) -> float:
    """Return the share of a student in the total weight, by the evidence of held-out bags."""
    evidence = [
        bags.evaluate_average(
            [*((each, (1.0 - share) * weight) for each, weight in teachers), (student, share)]
        ).sum()
        for share in SHARES
    ]
    return credible_share(SHARES, evidence)


@threads_to_solve(MAX_ROWS)
def train_student(
    settings: MemberSettings,
    teacher: BagEnsemble,
    scaler: Scaler,
    bags: Groups,
    labels: BoolArray,
    seed: int,
    answer: str | None,
) -> FittedMember | None:
    """Return a student trained on pseudo-labels of all bags, or of as many as it can learn from.

    None where too few bags fit into its training set.

    `teacher`: predicts the free target last. `scaler`: scales the features of the student. `labels`
    (n_bags, n_named): of the bags. `answer`: quantifier by which the student predicts bags.
    """
    drawn = draw_student_bags(np.asarray(bags.sizes), seed)
    if not len(drawn):
        return None
    some = bags.subset(drawn)
    log_p = teacher.log_probabilities(some.objects).numpy()
    rows = scaler(some.objects)
    training_set = StudentTrainingSet(rows, log_p, labels[drawn], some.group_of_object)
    model = train_student_model(training_set, settings, seed)
    return FittedMember(settings, 1.0, scaler, model, answer=answer)

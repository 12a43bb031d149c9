"""Members that were taken become one model: trained on all bags, weighed, calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.fitted_members import FittedMember
from groupnoise.bags.search.held_out import (
    HeldOutAnswers,
    HeldOutBags,
    calibrated,
    combined,
    pooled_log_odds,
)
from groupnoise.bags.search.members import STATISTICS, TAUGHT
from groupnoise.bags.search.other_members import MAX_SUPPORT
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.training_on_all import draw_held_out_bags, train_on_all
from groupnoise.bags.search.weighing import POSITIVE, SEVERAL_LARGE, WHOLE, choose_members
from groupnoise.core.arrays import IntArray
from groupnoise.decisions.portfolio import Option


class Assembled(NamedTuple):
    """Members that answer together.

    `taken`: who they are and how much each counts, those that see bags as a whole last.
    `bags`: by which they were calibrated, or could be; `rows` says where they are among all bags.
    `found`: what each says of these without having seen them; empty if nothing was held out.
    """

    ensemble: BagEnsemble
    taken: list[tuple[Option, float]]
    bags: HeldOutBags
    rows: IntArray
    found: list[HeldOutAnswers]


def assembled(
    search: BagSearch,
    taken: Sequence[tuple[Option, float]],
    negative: int | None,
    *,
    is_calibrated: bool,
    is_given: bool,
) -> Assembled:
    """Return the members taken, trained on all bags, with their answers on one scale."""
    whole = [each for each in taken if each[0].parameters["likelihood"] == STATISTICS]
    students = [each for each in taken if each[0].parameters["likelihood"] == TAUGHT]
    own = [each for each in taken if each not in (*whole, *students)]
    if is_calibrated and search.is_sample:
        return _weighed_on_all(search, own, whole, negative, is_given)
    options = [option for option, _ in own]
    folds = search.n_folds
    if is_calibrated:
        for option in options:
            search.out_of_fold(option, folds, options)
    members = search.fit_members(options)
    found = [search.out_of_fold(option, folds) for option in options] if is_calibrated else []
    for student in students:  # of all other members
        taught = _taught(search, student[0], own, members, found)
        if taught is not None:
            members, own = [*members, taught[0]], [*own, student]
            found += [] if taught[1] is None else [taught[1]]
    own, whole = _summing_to_one(own, whole)
    ensemble = combined(
        _with_weights(members, [weight for _, weight in own]),
        [search.fit_whole(option, weight) for option, weight in whole],
        search.all_labels,
        negative,
    )
    if not is_calibrated:
        return Assembled(ensemble, [*own, *whole], search.held_out, search.taken, [])
    found += [search.out_of_fold(option, folds) for option, _ in whole]
    ensemble = calibrated(ensemble, found, search.held_out)
    return Assembled(ensemble, [*own, *whole], search.held_out, search.taken, found)


def _taught(
    search: BagSearch,
    option: Option,
    own: Sequence[tuple[Option, float]],
    members: Sequence[FittedMember],
    found: Sequence[HeldOutAnswers],
) -> tuple[FittedMember, HeldOutAnswers | None] | None:
    """Return a student of members, and what it says of held-out bags if any were held out.

    None where too few bags fit into a lesson. `own`: the members and their weights. `members`:
    trained on all bags. `found`: what they say of held-out ones.
    """
    weighed = _with_weights(members, [weight for _, weight in own])
    teacher, said = combined(weighed, [], search.all_labels, None), None
    if found:
        teacher = calibrated(teacher, found, search.held_out)
        said = search.taught(option, own)
        if said is None:
            return None
    member = search.fit_student(option, teacher, None if said is None else said.answer)
    return None if member is None else (member, said)


def _weighed_on_all(
    search: BagSearch,
    own: list[tuple[Option, float]],
    whole: list[tuple[Option, float]],
    negative: int | None,
    is_given: bool,
) -> Assembled:
    """Train members on all bags; those that they have not seen weigh and calibrate them.

    Few bags were compared: who has seen many is surer, and others may be ahead.
    """
    bags, labels = search.all_bags, search.all_labels
    generator = np.random.default_rng(search.seed)
    held = draw_held_out_bags(bags, labels, generator, search.patients)
    options = [option for option, _ in own]
    settings = [search.settings_for_all(option) for option in options]
    trained = train_on_all(
        settings,
        bags,
        labels,
        search.has_negative,
        search.seed,
        held,
        shares_background=search.held_out.shares_background,
    )
    judge = trained.bags
    assert judge is not None
    said = {each.name: one for each, one in zip(options, trained.found, strict=True)}
    members = {each.name: one for each, one in zip(options, trained.members, strict=True)}
    if len(bags) > MAX_SUPPORT:
        whole = []
    for option, _ in whole:
        said[option.name] = judge.judged_bags(search.whole_of_all(option, held))
    if not is_given:
        weighing = POSITIVE if judge.by_witnesses else SEVERAL_LARGE
        scores = [said[each.name].scores for each in options]
        own = choose_members(options, scores, weighing, agree=judge.shares_background)
        if whole:
            judges = [option for option, _ in whole]
            whole = choose_members(judges, [said[each.name].scores for each in judges], WHOLE)
            pooled = [
                pooled_log_odds([(said[option.name], weight) for option, weight in kind])
                for kind in (own, whole)
            ]
            share = judge.share_of_whole(*pooled)
            own = [(option, (1.0 - share) * weight) for option, weight in own]
            whole = [(option, share * weight) for option, weight in whole if share]
    own, whole = _summing_to_one(own, whole)
    ensemble = combined(
        _with_weights([members[option.name] for option, _ in own], [weight for _, weight in own]),
        [search.fit_whole(option, weight) for option, weight in whole],
        labels,
        negative,
    )
    taken = [*own, *whole]
    found = [said[option.name] for option, _ in taken]
    return Assembled(calibrated(ensemble, found, judge), taken, judge, held, found)


def _summing_to_one(
    own: list[tuple[Option, float]], whole: list[tuple[Option, float]]
) -> tuple[list[tuple[Option, float]], list[tuple[Option, float]]]:
    total = sum(weight for _, weight in (*own, *whole))
    return (
        [(option, weight / total) for option, weight in own],
        [(option, weight / total) for option, weight in whole],
    )


def _with_weights(members: Sequence[FittedMember], weights: Sequence[float]) -> list[FittedMember]:
    return [replace(member, weight=weight) for member, weight in zip(members, weights, strict=True)]

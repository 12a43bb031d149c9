"""The final ensemble: chosen members trained on all bags, weighted and calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.fitted_members import FittedMember
from groupnoise.bags.search.forests_and_kernels import MAX_SUPPORT
from groupnoise.bags.search.full_training import draw_held_out_bags, train_on_all
from groupnoise.bags.search.held_out_bags import (
    HeldOutBags,
    HeldOutPredictions,
    calibrate_ensemble,
    combine_members,
    pooled_log_odds,
)
from groupnoise.bags.search.member_weights import POSITIVE, SEVERAL_LARGE, WHOLE, choose_members
from groupnoise.bags.search.members import PSEUDO_LABELS, STATISTICS
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.core.arrays import IntArray
from groupnoise.decisions.portfolio import Option


class FinalEnsemble(NamedTuple):
    """A trained ensemble, with the bags that calibrate it.

    `taken`: its members and their weights, whole-bag members last.
    `bags`: the bags for calibration, at `rows` of all bags.
    `predictions`: of these bags, by copies of the members that have not seen them; empty if nothing
        was held out.
    """

    ensemble: BagEnsemble
    taken: list[tuple[Option, float]]
    bags: HeldOutBags
    rows: IntArray
    predictions: list[HeldOutPredictions]


def fit_ensemble(
    search: BagSearch,
    taken: Sequence[tuple[Option, float]],
    negative: int | None,
    *,
    is_calibrated: bool,
    is_given: bool,
) -> FinalEnsemble:
    """Return the members taken, trained on all bags, with their answers on one scale."""
    whole = [each for each in taken if each[0].parameters["likelihood"] == STATISTICS]
    students = [each for each in taken if each[0].parameters["likelihood"] == PSEUDO_LABELS]
    own = [each for each in taken if each not in (*whole, *students)]
    if is_calibrated and search.is_sample:
        return _reweight_on_all_bags(search, own, whole, negative, is_given)
    options = [option for option, _ in own]
    folds = search.n_folds
    if is_calibrated:
        for option in options:
            search.out_of_fold(option, folds, options)
    members = search.fit_members(options)
    predictions = []
    if is_calibrated:
        predictions = [search.out_of_fold(option, folds) for option in options]
    for option, weight in students:  # of all other members
        student = _train_student(search, option, own, members, predictions)
        if student is not None:
            member, of_student = student
            members, own = [*members, member], [*own, (option, weight)]
            predictions += [] if of_student is None else [of_student]
    own, whole = _normalized(own, whole)
    ensemble = combine_members(
        _with_weights(members, [weight for _, weight in own]),
        [search.fit_whole_bag_member(option, weight) for option, weight in whole],
        search.all_labels,
        negative,
    )
    if not is_calibrated:
        return FinalEnsemble(ensemble, [*own, *whole], search.held_out, search.taken, [])
    predictions += [search.out_of_fold(option, folds) for option, _ in whole]
    ensemble = calibrate_ensemble(ensemble, predictions, search.held_out)
    return FinalEnsemble(ensemble, [*own, *whole], search.held_out, search.taken, predictions)


def _train_student(
    search: BagSearch,
    option: Option,
    own: Sequence[tuple[Option, float]],
    members: Sequence[FittedMember],
    held_out: Sequence[HeldOutPredictions],
) -> tuple[FittedMember, HeldOutPredictions | None] | None:
    """Return a student of members, and its predictions of held-out bags if any were held out.

    None where too few bags fit into its training set. `own`: the members and their weights.
    `members`: trained on all bags. `held_out`: their predictions of held-out bags.
    """
    weighted = _with_weights(members, [weight for _, weight in own])
    teacher, predictions = combine_members(weighted, [], search.all_labels, None), None
    if held_out:
        teacher = calibrate_ensemble(teacher, held_out, search.held_out)
        predictions = search.out_of_fold_student(option, own)
        if predictions is None:
            return None
    answer = None if predictions is None else predictions.answer
    member = search.fit_student(option, teacher, answer)
    return None if member is None else (member, predictions)


def _reweight_on_all_bags(
    search: BagSearch,
    own: list[tuple[Option, float]],
    whole: list[tuple[Option, float]],
    negative: int | None,
    is_given: bool,
) -> FinalEnsemble:
    """Train members on all bags; a held-out part of them decides weights and calibration.

    Trials used few bags: members trained on many are more confident, and their ranking may change.
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
    predictions = {each.name: one for each, one in zip(options, trained.predictions, strict=True)}
    members = {each.name: one for each, one in zip(options, trained.members, strict=True)}
    if len(bags) > MAX_SUPPORT:
        whole = []
    for option, _ in whole:
        log_odds = search.predict_whole_bags(option, held)
        predictions[option.name] = judge.evaluate_bag_odds(log_odds)
    if not is_given:
        weighing = POSITIVE if judge.uses_witness_rate else SEVERAL_LARGE
        scores = [predictions[each.name].scores for each in options]
        own = choose_members(options, scores, weighing, agree=judge.shares_background)
        if whole:
            candidates = [option for option, _ in whole]
            scores = [predictions[each.name].scores for each in candidates]
            whole = choose_members(candidates, scores, WHOLE)
            pooled = [
                pooled_log_odds([(predictions[option.name], weight) for option, weight in kind])
                for kind in (own, whole)
            ]
            share = judge.whole_bag_weight(*pooled)
            own = [(option, (1.0 - share) * weight) for option, weight in own]
            whole = [(option, share * weight) for option, weight in whole if share]
    own, whole = _normalized(own, whole)
    ensemble = combine_members(
        _with_weights([members[option.name] for option, _ in own], [weight for _, weight in own]),
        [search.fit_whole_bag_member(option, weight) for option, weight in whole],
        labels,
        negative,
    )
    taken = [*own, *whole]
    of_taken = [predictions[option.name] for option, _ in taken]
    ensemble = calibrate_ensemble(ensemble, of_taken, judge)
    return FinalEnsemble(ensemble, taken, judge, held, of_taken)


def _normalized(
    own: list[tuple[Option, float]], whole: list[tuple[Option, float]]
) -> tuple[list[tuple[Option, float]], list[tuple[Option, float]]]:
    total = sum(weight for _, weight in (*own, *whole))
    return (
        [(option, weight / total) for option, weight in own],
        [(option, weight / total) for option, weight in whole],
    )


def _with_weights(members: Sequence[FittedMember], weights: Sequence[float]) -> list[FittedMember]:
    return [replace(member, weight=weight) for member, weight in zip(members, weights, strict=True)]

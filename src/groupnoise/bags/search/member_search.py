"""The search of a plain fit on bags: who is tried, who is taken, and what they become together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupnoise.bags.search.forests_and_kernels import MAX_SUPPORT
from groupnoise.bags.search.held_out_bags import pooled_log_odds
from groupnoise.bags.search.member_weights import (
    FINALISTS,
    POSITIVE,
    SEVERAL,
    SEVERAL_LARGE,
    WHOLE,
    WeightRule,
    choose_members,
    has_background,
)
from groupnoise.bags.search.members import FORESTS, PSEUDO_LABELS, STATISTICS, MemberSettings
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import as_option, decay_variants, family, statistics_options
from groupnoise.bags.search.students import share_of_student, student_settings
from groupnoise.core.arrays import FloatArray, ProgressCallback
from groupnoise.decisions.halving import explain_not_best, standard_error, successive_halving
from groupnoise.decisions.portfolio import Option, Stopwatch
from groupnoise.decisions.record import Trial

FIRST_FOLDS = 2
LARGE_LOGITS = 400_000
SMALL_LOGITS = 40_000
"""Instances times targets up to which all likelihoods are trained at a time."""
N_REFINED = 6
N_DEEP = 3
N_RESCALED = 3
"""Of several labels: families that are tried under every scaling."""
N_STD_ERRORS = 2.0
"""Standard errors by which a family must be behind on the first folds to be given up."""
STUDENT_PARAMETERS = {"scaling", "background"}
"""Parameters that users may set and still get a student. It has no others, so whoever sets another
one asks for members that have it."""
LARGE_INPUT = 150_000
"""Instances times features above which hidden layers are tried under the best scaling alone."""


@dataclass(frozen=True)
class SearchResult:
    """What a search ended with: all that was tried, who was taken with which weight, and why."""

    options: list[Option]
    trials: list[Trial]
    seconds: float
    taken: list[tuple[Option, float]]
    why: str


def search_members(
    search: BagSearch,
    options: list[Option],
    explicit: Mapping[str, Any],
    budget: float | None,
    on_progress: ProgressCallback | None,
    *,
    students: bool = True,
) -> SearchResult:
    """Compare options on held-out bags and choose the members of the ensemble.

    `search`: the bags and their folds. `options`: candidates, the safest first. `explicit`:
    parameters that the user set. `budget`: seconds after which no further trial starts.
    `on_progress`: called with a record per trial. `students`: whether a student of the chosen
    members may be trained.
    """
    trials = _Trials(search, budget, on_progress, 2 * len(options))
    trials.may_add_student = (
        students and not search.is_sample and not set(explicit) - STUDENT_PARAMETERS
    )
    if search.held_out.uses_witness_rate:
        every, taken = _search_binary(trials, options, explicit)
    else:
        every, taken = _search_multiclass(trials, options, explicit)
    why = (
        "Settings are averaged with weights from their held-out scores; among settings that differ "
        "only in weight decay, the strongest decay that scores as well as the best was kept."
        if len(taken) > 1
        else "One setting is clearly ahead on held-out bags."
    )
    share = sum(weight for each, weight in taken if each.parameters["likelihood"] == PSEUDO_LABELS)
    if share:
        why += (
            " A student learned the labels that these settings give instances of training bags "
            f"(self-training); by held-out bags it counts {share:.0%}."
        )
    # Whole-bag members are scored on bags alone, so their scores are not comparable.
    apart = (STATISTICS, PSEUDO_LABELS)
    others = {each.name for each in every if each.parameters["likelihood"] in apart}
    alike = [trial for trial in trials.done if trial.option not in others]
    why = " ".join([why, *explain_not_best(alike, taken[0][0].name)])
    return SearchResult(every, trials.done, trials.watch.seconds(), taken, why)


class _Trials:
    """Trials of one search under one budget."""

    def __init__(
        self,
        search: BagSearch,
        budget: float | None,
        on_progress: ProgressCallback | None,
        n_expected: int,
    ) -> None:
        self.search, self.budget = search, budget
        self.may_add_student = False
        self.watch = Stopwatch()
        self.done: list[Trial] = []
        self._report = _reporter(on_progress, n_expected)

    @property
    def is_late(self) -> bool:
        """Whether the budget is used up."""
        return self.budget is not None and self.watch.seconds() >= self.budget

    def rank(
        self,
        options: Sequence[Option],
        n_folds: int,
        siblings: Callable[[Option], Sequence[Option]] = lambda option: (),
        rung: int = 0,
    ) -> list[Option]:
        """Return options by their scores on held-out folds, the best first."""

        def evaluate(option: Option, n_folds: int) -> FloatArray:
            return self.search.out_of_fold(option, n_folds, siblings(option)).scores

        left = self.budget
        if left is not None:
            left = max(left - self.watch.seconds(), 1e-3)
        found = successive_halving(
            options, evaluate, rungs=(n_folds,), tie=0.0, budget=left, on_progress=self._report
        )
        self.done += [replace(trial, rung=rung) for trial in found.trials]
        tried = {trial.option for trial in found.trials if not trial.failed}
        return [option for option in found.ranking if option.name in tried]

    def choose(self, options: Sequence[Option], weighing: WeightRule) -> list[tuple[Option, float]]:
        """Return who is taken of options that were tried on all folds."""
        folds = self.search.n_folds
        scores = [self.search.out_of_fold(option, folds).scores for option in options]
        agree = self.search.held_out.shares_background
        return choose_members(options, scores, weighing, agree=agree)


def _search_binary(
    trials: _Trials, options: list[Option], explicit: Mapping[str, Any]
) -> tuple[list[Option], list[tuple[Option, float]]]:
    """Try linear members, networks, forests and kernels of whole bags, all on all folds."""
    search = trials.search
    linear = [each for each in options if each.parameters["encoder"] == "identity"]
    forests = [each for each in options if each.parameters["encoder"] in FORESTS]
    deep = [each for each in options if each not in (*linear, *forests)]
    ranking = trials.rank(linear, search.n_folds, lambda _: linear) if linear else []
    width = search.bags.objects.shape[1]
    if ranking and search.bags.n_objects * width > LARGE_INPUT:
        known = {each.parameters["scaling"] for each in deep}
        tried = [each.parameters["scaling"] for each in ranking]
        best = [scaling for scaling in tried if scaling in known][:1]
        deep = [each for each in deep if not best or each.parameters["scaling"] in best]
    if deep:
        ranking += trials.rank(deep, search.n_folds, lambda _: deep)
    if forests:
        ranking += trials.rank(forests, search.n_folds)
    # No student: what it learns of positive instances tells little that its teachers did not.
    return _add_whole_bag_members(trials, options, trials.choose(ranking, POSITIVE), explicit)


def _add_student(trials: _Trials, taken: list[tuple[Option, float]]) -> list[tuple[Option, float]]:
    """Add a student of the chosen members, with the weight that held-out bags support."""
    search = trials.search
    if not trials.may_add_student or trials.is_late:
        return taken
    teachers = [(search.out_of_fold(option, search.n_folds), weight) for option, weight in taken]
    assert teachers[0][0].log_p is not None
    n_named = search.problem.n_named + search.has_negative
    settings = student_settings(
        [MemberSettings(**option.parameters) for option, _ in taken],
        background=teachers[0][0].log_p.shape[1] > n_named,
    )
    option = as_option(settings)
    student = search.out_of_fold_student(option, taken)
    if student is None:
        return taken
    trials.rank([option], search.n_folds)
    share = share_of_student(search.held_out, teachers, student)
    if not share:
        return taken
    return [*((each, (1.0 - share) * weight) for each, weight in taken), (option, share)]


def _add_whole_bag_members(
    trials: _Trials,
    options: list[Option],
    taken: list[tuple[Option, float]],
    explicit: Mapping[str, Any],
) -> tuple[list[Option], list[tuple[Option, float]]]:
    """Add whole-bag kernels, with the weight that held-out bags support."""
    search = trials.search
    whole = statistics_options(explicit)
    if len(search.bags) > MAX_SUPPORT or not whole:
        return options, taken
    judges = trials.choose(trials.rank(whole, search.n_folds), WHOLE)
    of_members, of_whole = (
        pooled_log_odds([(search.out_of_fold(option, search.n_folds), w) for option, w in kind])
        for kind in (taken, judges)
    )
    share = search.held_out.whole_bag_weight(of_members, of_whole)
    if share:
        taken = [(option, (1.0 - share) * weight) for option, weight in taken]
        taken += [(option, share * weight) for option, weight in judges]
    return [*options, *whole], taken


def _search_multiclass(
    trials: _Trials, options: list[Option], explicit: Mapping[str, Any]
) -> tuple[list[Option], list[tuple[Option, float]]]:
    """Try families on two folds, then the better ones with other decays on all folds."""
    search = trials.search
    n_first = min(FIRST_FOLDS, search.n_folds)
    linear = [each for each in options if each.parameters["encoder"] == "identity"]
    small = search.bags.n_objects * (search.labels.shape[1] + 1) <= SMALL_LOGITS
    # Hidden layers take long: they are tried where linear members are at their best.
    deep = [each for each in options if linear and each.parameters["encoder"] != "identity"]
    linear = linear or options
    shared = _shared_background(search, linear, deep, n_first)
    if shared is False and search.exclusive:
        linear, deep = _without_background(linear), _without_background(deep)
    ranking = _rank_linear(trials, linear, n_first, small)
    tried = [(each, search.out_of_fold(each, n_first).scores) for each in ranking]
    ground = ranking[0].parameters["background"] if shared else has_background(tried)
    best = next(each.parameters for each in ranking if each.parameters["background"] == ground)
    names = ("scaling",) if shared else ("scaling", "background")
    alike = [each for each in deep if all(each.parameters[n] == best[n] for n in names)]
    deep = alike or deep
    if deep:
        # Linear members and networks err in different ways, so that some of each are averaged.
        found = trials.rank(deep, n_first, lambda _: deep if small else ())
        ranking = [*ranking[: N_REFINED - N_DEEP], *found[:N_DEEP]]
    siblings: dict[str, list[Option]] = {}
    for option in _still_promising(search, ranking[:N_REFINED], n_first):
        # On all bags decay is weaker in proportion; which is best on a sample says little.
        decays = [option] if search.is_sample else decay_variants(option, search.problem, explicit)
        siblings.update({each.name: decays for each in decays})
    finalists = list({each.name: each for decays in siblings.values() for each in decays}.values())
    ranking = trials.rank(
        finalists,
        search.n_folds,
        lambda option: finalists if small else siblings[option.name],
        rung=1,
    )
    large = search.all_bags.n_objects * (search.labels.shape[1] + 1) > LARGE_LOGITS
    few = FINALISTS if search.is_sample else SEVERAL_LARGE
    taken = _add_student(trials, trials.choose(ranking, few if large else SEVERAL))
    more = [*finalists, *(each for each, _ in taken)]
    options = list({each.name: each for each in (*options, *more)}.values())
    return _add_whole_bag_members(trials, options, taken, explicit)


def _shared_background(
    search: BagSearch, linear: Sequence[Option], deep: Sequence[Option], n_folds: int
) -> bool | None:
    """Return whether bags of all labels share a background; None if that is not possible.

    Linear members are tried first and, if they find one, a network, which may separate more.
    """
    plain = _without_background(linear)
    if not search.held_out.may_share_background() or len(plain) in (0, len(linear)):
        return None
    plain = [each for each in plain if each.parameters["scaling"] == plain[0].parameters["scaling"]]
    bent = _without_background(deep)[:1]
    part = search.folds < n_folds
    found = [search.out_of_fold(each, n_folds, plain) for each in plain]
    if not search.held_out.finds_background(found, part):
        return False
    return search.detect_background([*plain, *bent], n_folds)


def _without_background(options: Sequence[Option]) -> list[Option]:
    return [each for each in options if not each.parameters["background"]]


def _rank_linear(
    trials: _Trials, options: Sequence[Option], n_folds: int, small: bool
) -> list[Option]:
    """Return options, the best first: all under the first scaling, few under the others."""
    scaling = options[0].parameters["scaling"]
    first = [each for each in options if each.parameters["scaling"] == scaling]
    found = trials.rank(first, n_folds, lambda _: first if small else ())
    kinds = [family(each.parameters, "scaling") for each in found[:N_RESCALED]]
    others = [each for each in options if family(each.parameters, "scaling") in kinds]
    others = [each for each in others if each not in first]
    if others:
        found += trials.rank(others, n_folds, lambda _: others if small else ())
    return sorted(
        found, key=lambda each: -float(trials.search.out_of_fold(each, n_folds).scores.mean())
    )


def _still_promising(search: BagSearch, options: Sequence[Option], n_folds: int) -> list[Option]:
    """Return options that may still get a weight after all folds."""
    scores = [search.out_of_fold(option, n_folds).scores for option in options]
    best = max(scores, key=lambda each: float(each.mean()))
    most = SEVERAL.evidence * math.log(1.0 / SEVERAL.min_ratio) / len(search.bags)
    return [
        option
        for option, each in zip(options, scores, strict=True)
        if (best - each).mean() - N_STD_ERRORS * standard_error(best - each) <= most
    ]


def _reporter(on_progress: ProgressCallback | None, n_trials: int) -> ProgressCallback | None:
    """Return a callback that counts trials as others count epochs."""
    if on_progress is None:
        return None
    done = 0

    def report(record: dict[str, Any]) -> None:
        nonlocal done
        if record["event"] == "tried":
            done += 1
            on_progress({"epoch": done, "n_epochs": max(n_trials, done), **record})

    return report

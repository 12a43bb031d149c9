"""The search of a plain fit on bags: who is tried, who is taken, and what they become together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from groupnoise.bags.search.held_out import pooled_log_odds
from groupnoise.bags.search.members import FORESTS, STATISTICS
from groupnoise.bags.search.other_members import MAX_SUPPORT
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import family, refined, statistics_options
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
CLEAR = 2.0
"""Standard errors by which a family must be behind on the first folds to be given up."""
LARGE_INPUT = 150_000
"""Instances times features above which hidden layers are tried under the best scaling alone."""


@dataclass(frozen=True)
class Weighing:
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


POSITIVE = Weighing(3.0, 0.02, 17, by_error=True)
"""Of positive and negative bags: instances are evidence too, and networks err differently."""
SEVERAL = Weighing(8.0, 0.1, 8)
SEVERAL_LARGE = Weighing(8.0, 0.1, 3)
FINALISTS = Weighing(8.0, 0.003, 3)
"""Of those compared on a sample, which all bags weigh again."""
WHOLE = Weighing(3.0, 0.05, 6)
"""Of members that see bags as a whole."""


@dataclass(frozen=True)
class SearchResult:
    """What a search ended with: all that was tried, who was taken with which weight, and why."""

    options: list[Option]
    trials: list[Trial]
    seconds: float
    taken: list[tuple[Option, float]]
    why: str


def choose_members(
    options: Sequence[Option],
    scores: Sequence[FloatArray],
    weighing: Weighing,
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
        ground = _has_background([(options[each], scores[each]) for each in chosen])
        chosen = [each for each in chosen if options[each].parameters["background"] == ground]
    best_scores = scores[chosen[0]]
    weights = np.array([weighing.weight(best_scores, scores[each]) for each in chosen])
    kept = np.flatnonzero(weights >= weighing.min_ratio)[: weighing.max_members]
    weights = weights[kept] / weights[kept].sum()
    return [
        (options[chosen[each]], float(weight)) for each, weight in zip(kept, weights, strict=True)
    ]


def _has_background(tried: Sequence[tuple[Option, FloatArray]]) -> bool:
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


def search_members(
    search: BagSearch,
    options: list[Option],
    explicit: Mapping[str, Any],
    budget: float | None,
    on_progress: ProgressCallback | None,
) -> SearchResult:
    """Compare options on held-out bags and choose who answers.

    Result: who was tried and who was taken. `search`: the bags and their folds. `options`: what may
    be tried, the safest first. `explicit`: parameters the user gave. `budget`: seconds after which
    no further trial is begun. `on_progress`: called with a record per trial.
    """
    trials = _Trials(search, budget, on_progress, 2 * len(options))
    if search.held_out.by_witnesses:
        every, taken = _of_positive_bags(trials, options, explicit)
    else:
        every, taken = _of_several_labels(trials, options, explicit)
    why = (
        "Settings are averaged with weights from their held-out scores; among settings that differ "
        "only in weight decay, the strongest decay that scores as well as the best was kept."
        if len(taken) > 1
        else "One setting is clearly ahead on held-out bags."
    )
    # Those that see bags as a whole are judged by bags alone: their scores mean something else.
    whole = {each.name for each in every if each.parameters["likelihood"] == STATISTICS}
    alike = [trial for trial in trials.done if trial.option not in whole]
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
        self.watch = Stopwatch()
        self.done: list[Trial] = []
        self._report = _reporter(on_progress, n_expected)

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

    def choose(self, options: Sequence[Option], weighing: Weighing) -> list[tuple[Option, float]]:
        """Return who is taken of options that were tried on all folds."""
        folds = self.search.n_folds
        scores = [self.search.out_of_fold(option, folds).scores for option in options]
        agree = self.search.held_out.shares_background
        return choose_members(options, scores, weighing, agree=agree)


def _of_positive_bags(
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
    return _with_whole(trials, options, trials.choose(ranking, POSITIVE), explicit)


def _with_whole(
    trials: _Trials,
    options: list[Option],
    taken: list[tuple[Option, float]],
    explicit: Mapping[str, Any],
) -> tuple[list[Option], list[tuple[Option, float]]]:
    """Let kernels of whole bags answer of bags too, as much as held-out bags speak for it."""
    search = trials.search
    whole = statistics_options(explicit)
    if len(search.bags) > MAX_SUPPORT or not whole:
        return options, taken
    judges = trials.choose(trials.rank(whole, search.n_folds), WHOLE)
    of_members, of_whole = (
        pooled_log_odds([(search.out_of_fold(option, search.n_folds), w) for option, w in kind])
        for kind in (taken, judges)
    )
    share = search.held_out.share_of_whole(of_members, of_whole)
    if share:
        taken = [(option, (1.0 - share) * weight) for option, weight in taken]
        taken += [(option, share * weight) for option, weight in judges]
    return [*options, *whole], taken


def _of_several_labels(
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
    ranking = _best_linear(trials, linear, n_first, small)
    tried = [(each, search.out_of_fold(each, n_first).scores) for each in ranking]
    ground = ranking[0].parameters["background"] if shared else _has_background(tried)
    best = next(each.parameters for each in ranking if each.parameters["background"] == ground)
    names = ("scaling",) if shared else ("scaling", "background")
    alike = [each for each in deep if all(each.parameters[n] == best[n] for n in names)]
    deep = alike or deep
    if deep:
        # Linear members and networks err in different ways, so that some of each are averaged.
        found = trials.rank(deep, n_first, lambda _: deep if small else ())
        ranking = [*ranking[: N_REFINED - N_DEEP], *found[:N_DEEP]]
    siblings: dict[str, list[Option]] = {}
    for option in _hopeful(search, ranking[:N_REFINED], n_first):
        # On all bags decay is weaker in proportion; which is best on a sample says little.
        decays = [option] if search.is_sample else refined(option, search.problem, explicit)
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
    taken = trials.choose(ranking, few if large else SEVERAL)
    options = [*options, *(each for each in finalists if each not in options)]
    return _with_whole(trials, options, taken, explicit)


def _shared_background(
    search: BagSearch, linear: Sequence[Option], deep: Sequence[Option], n_folds: int
) -> bool | None:
    """Tell whether bags of all labels share a background; None where that is not asked.

    Linear members are asked first and, where these find one, a network, which may tell apart what
    they cannot.
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
    return search.look_for_background([*plain, *bent], n_folds)


def _without_background(options: Sequence[Option]) -> list[Option]:
    return [each for each in options if not each.parameters["background"]]


def _best_linear(
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


def _hopeful(search: BagSearch, options: Sequence[Option], n_folds: int) -> list[Option]:
    """Return options that may still have a weight when all folds have been held out."""
    scores = [search.out_of_fold(option, n_folds).scores for option in options]
    best = max(scores, key=lambda each: float(each.mean()))
    most = SEVERAL.evidence * math.log(1.0 / SEVERAL.min_ratio) / len(search.bags)
    return [
        option
        for option, each in zip(options, scores, strict=True)
        if (best - each).mean() - CLEAR * standard_error(best - each) <= most
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

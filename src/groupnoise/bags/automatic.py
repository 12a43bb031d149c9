"""How a plain fit on bags decides: a portfolio of members, out-of-fold bags, an average."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groupnoise.bags.ensemble import (
    BagEnsemble,
    calibrate_bags,
    calibrate_instances,
    centred_log_probabilities,
)
from groupnoise.bags.members import MemberSettings
from groupnoise.bags.out_of_fold import BagSearch
from groupnoise.bags.portfolio import as_option, facts_of, family, portfolio, refined
from groupnoise.core.arrays import BoolArray, FloatArray, ProgressCallback
from groupnoise.core.groups import Groups
from groupnoise.decisions.halving import standard_error, successive_halving
from groupnoise.decisions.portfolio import Option, narrow
from groupnoise.decisions.record import Decisions, Trial

FIRST_FOLDS = 2
MIN_BAGS = 10
EVIDENCE = 8.0
"""Nats that divide the weights of two members by e; one nat would trust chance too much."""
CLEAR = 2.0
"""Standard errors by which held-out bags must prefer a negative label that no name tells of."""
MAX_MEMBERS = 8
MIN_RATIO = 0.1
"""Members whose weight is a smaller part of the largest one are left out."""
LARGE_LOGITS = 400_000
MEMBERS_OF_LARGE = 3
N_REFINED = 6
N_DEEP = 2
CRITERION = "log likelihood of held-out bags and of their labels on single instances"


def choose_members(
    options: Sequence[Option], scores: Sequence[FloatArray], max_members: int
) -> list[tuple[Option, float]]:
    """Return the options that answer together, and their weights.

    Of each family the strongest decay level with its best one; whether there is a background is
    decided by the best family, since members that disagree on it cannot be averaged.

    Parameters
    ----------
    options : sequence of Option
        What was tried on all folds.
    scores : sequence of ndarray of shape (n_bags,)
        The criterion of each.
    max_members : int
        How many are taken at most.

    Returns
    -------
    list of (Option, float)
        The heaviest first; weights sum to one.
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
    ground = options[chosen[0]].parameters["background"]
    chosen = [each for each in chosen if options[each].parameters["background"] == ground]
    best_total = float(scores[chosen[0]].sum())
    weights = np.array(
        [math.exp((float(scores[each].sum()) - best_total) / EVIDENCE) for each in chosen]
    )
    kept = np.flatnonzero(weights >= MIN_RATIO)[:max_members]
    weights = weights[kept] / weights[kept].sum()
    return [
        (options[chosen[each]], float(weight)) for each, weight in zip(kept, weights, strict=True)
    ]


@dataclass(frozen=True)
class Outcome:
    """An ensemble and how it was decided."""

    ensemble: BagEnsemble
    decisions: Decisions


def decide(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    negative: int | None,
    *,
    explicit: Mapping[str, Any],
    given: Sequence[tuple[float, Mapping[str, Any]]] | None,
    budget: float | None,
    generator: np.random.Generator,
    may_guess: bool = False,
    patients: NDArray[Any] | None = None,
    reasons: Sequence[str] = (),
    on_progress: ProgressCallback | None = None,
) -> Outcome:
    """Decide on members and train them.

    Parameters
    ----------
    bags : Groups
        Training bags.
    labels : bool ndarray of shape (n_bags, n_classes)
        Their labels.
    classes : ndarray of shape (n_classes,)
        What the columns stand for.
    negative : int or None
        Column of the negative label.
    explicit : mapping
        Parameters the user gave.
    given : sequence of (float, mapping), optional
        Weight and parameters of each member, where nothing is searched for.
    budget : float, optional
        Seconds after which no further trial is begun.
    generator : numpy.random.Generator
        Decides all randomness.
    may_guess : bool, default=False
        Whether held-out bags may tell which of two classes is negative.
    patients : ndarray of shape (n_bags,), optional
        Whose bags are held out together.
    reasons : sequence of str, default=()
        Sentences on what was decided before.
    on_progress : callable, optional
        Called with a record per trial.

    Returns
    -------
    Outcome
        The ensemble and the decisions.
    """
    if may_guess and given is None and len(bags) >= MIN_BAGS:
        negative, said = guess_negative(
            bags, labels, classes, int(generator.integers(2**31)), patients
        )
        reasons = (*reasons, *said)
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    search = BagSearch(bags, named, negative is not None, generator, patients)
    facts = facts_of(bags, labels, None if negative is None else classes[negative])
    deep = explicit.get("encoder") == "mlp"
    options = narrow(portfolio(search.problem, facts, deep=deep), explicit)
    options = [as_option(MemberSettings(**each.parameters)) for each in options]
    trials: list[Trial] = []
    warnings: list[str] = []
    seconds = 0.0
    scarce = len(search.bags) < MIN_BAGS or int(named.sum(axis=0).min()) < 2
    scarce = scarce or (negative is not None and int(labels[:, negative].sum()) < 2)
    if given is not None:
        options = [as_option(MemberSettings(**parameters)) for _, parameters in given]
        total = sum(weight for weight, _ in given)
        taken = [(o, w / total) for o, (w, _) in zip(options, given, strict=True)]
        why = "The members were given."
    elif scarce:
        options = options[:1]
        taken = [(options[0], 1.0)]
        why = "The stated default was taken without a trial."
        warnings.append(
            f"{len(bags)} bags are too few to hold any out, so nothing was compared and "
            f"{options[0].name!r} was taken; give more bags, or set the parameters yourself."
        )
    else:
        found = _search(search, options, explicit, budget, on_progress)
        options, trials, seconds, taken, why = found
    ensemble = _assembled(search, taken, negative, calibrated=not scarce)
    baseline = _frequency_scores(search)
    if trials:
        warnings += _warnings_of(search, taken, baseline)
    weights = tuple((option.name, weight) for option, weight in taken)
    decisions = Decisions(
        facts,
        tuple(options),
        tuple(trials),
        weights,
        criterion=CRITERION,
        reasons=(*reasons, why),
        warnings=tuple(warnings),
        baselines={"label frequencies": float(baseline.mean())},
        seconds=seconds,
        budget=budget,
    )
    return Outcome(ensemble, decisions)


def guess_negative(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    seed: int,
    patients: NDArray[Any] | None = None,
) -> tuple[int | None, tuple[str, ...]]:
    """Return which of two classes is negative if held-out bags say so clearly, and a sentence.

    Parameters
    ----------
    bags : Groups
        Training bags.
    labels : bool ndarray of shape (n_bags, 2)
        One label each.
    classes : ndarray of shape (2,)
        The labels.
    seed : int
        Decides the folds, the same for both classes.
    patients : ndarray of shape (n_bags,), optional
        Whose bags are in one fold.

    Returns
    -------
    column : int or None
        None where the classes are alike.
    sentences : tuple of str
        What was found.
    """
    scores: dict[int | None, FloatArray] = {}
    for column in (None, 0, 1):
        named = labels if column is None else np.delete(labels, column, axis=1)
        generator = np.random.default_rng(seed)
        search = BagSearch(bags, named, column is not None, generator, patients)
        facts = {"zeros among the features": 0.0, "bags": len(bags)}
        first: dict[Any, Option] = {}
        for option in portfolio(search.problem, facts):
            parameters = option.parameters
            if parameters["encoder"] == "identity" and parameters["scaling"] == "standard":
                first.setdefault((parameters["likelihood"], parameters["background"]), option)
        tried = [search.out_of_fold(option, search.n_folds).scores for option in first.values()]
        scores[column] = max(tried, key=lambda each: float(each.mean()))
    best = max((0, 1), key=lambda column: float(scores[column].mean()))
    over_other, over_none = (scores[best] - scores[other] for other in (1 - best, None))
    is_clear = over_other.mean() > CLEAR * standard_error(over_other)
    if not is_clear or over_none.mean() < -standard_error(over_none):
        return None, ()
    return best, (
        f"Held-out bags are likeliest if {classes[best]!s} is the negative label: every instance "
        "of such a bag is negative (negative_label=None says otherwise).",
    )


def _search(
    search: BagSearch,
    options: list[Option],
    explicit: Mapping[str, Any],
    budget: float | None,
    on_progress: ProgressCallback | None,
) -> tuple[list[Option], list[Trial], float, list[tuple[Option, float]], str]:
    """Try families on two folds, then the better ones with other decays on all folds."""

    def evaluate(option: Option, n_folds: int) -> FloatArray:
        return search.out_of_fold(option, n_folds, siblings.get(option.name, ())).scores

    siblings: dict[str, Sequence[Option]] = {}
    report = _reporter(on_progress, 2 * len(options))
    n_first = min(FIRST_FOLDS, search.n_folds)
    start = time.monotonic()

    def left() -> float | None:
        return None if budget is None else max(budget - (time.monotonic() - start), 1e-3)

    linear = [each for each in options if each.parameters["encoder"] == "identity"]
    first = successive_halving(
        linear or options, evaluate, rungs=(n_first,), tie=0.0, budget=budget, on_progress=report
    )
    ranking, trials = list(first.ranking), list(first.trials)
    # Hidden layers take long: they are tried where linear members are at their best.
    deep = [each for each in options if linear and each.parameters["encoder"] != "identity"]
    best = ranking[0].parameters
    alike = [
        each
        for each in deep
        if all(each.parameters[name] == best[name] for name in ("scaling", "background"))
    ]
    deep = alike or deep
    if deep:
        then = successive_halving(
            deep, evaluate, rungs=(n_first,), tie=0.0, budget=left(), on_progress=report
        )
        trials += then.trials
        # Linear members and networks err in different ways, so that some of each are averaged.
        ranking = [*ranking[: N_REFINED - N_DEEP], *then.ranking[:N_DEEP]]
    finalists = []
    for option in ranking[:N_REFINED]:
        family_of = refined(option, search.problem, explicit)
        siblings.update({each.name: family_of for each in family_of})
        finalists += family_of
    second = successive_halving(
        finalists, evaluate, rungs=(search.n_folds,), tie=0.0, budget=left(), on_progress=report
    )
    scores = [search.out_of_fold(option, search.n_folds).scores for option in second.ranking]
    large = search.all_bags.n_objects * (search.labels.shape[1] + 1) > LARGE_LOGITS
    taken = choose_members(second.ranking, scores, MEMBERS_OF_LARGE if large else MAX_MEMBERS)
    known = {option.name for option in options}
    every = [*options, *(option for option in finalists if option.name not in known)]
    trials += [replace(trial, rung=1) for trial in second.trials]
    why = (
        "Members are averaged by the evidence of held-out bags for each; of one family the "
        "strongest weight decay that is level with the best was kept."
        if len(taken) > 1
        else "Held-out bags speak clearly for one member."
    )
    return every, trials, time.monotonic() - start, taken, why


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


def _assembled(
    search: BagSearch,
    taken: Sequence[tuple[Option, float]],
    negative: int | None,
    *,
    calibrated: bool,
) -> BagEnsemble:
    """Train the members taken on all bags, and put their answers on one scale."""
    members = []
    averaged, pooled = torch.zeros(()), np.zeros(())
    for option, weight in taken:
        member = search.fit_member(option.parameters, weight)
        if calibrated:
            found = search.out_of_fold(option, search.n_folds)
            centred = centred_log_probabilities(found.log_p)
            spread = max(float(centred.std()), 1e-6)
            member = replace(
                member, spread=spread, bag_scale=found.bag_scale, bag_shift=found.bag_shift
            )
            averaged = averaged + weight / spread * centred
            pooled = pooled + weight * (found.log_odds * found.bag_scale + found.bag_shift)
        members.append(member)
    ensemble = BagEnsemble(
        members, search.labels.shape[1], negative, search.exclusive, 1.0, 0.0, 1.0, 0.0
    )
    if not calibrated:
        return ensemble
    free = averaged.shape[1] > search.labels.shape[1]
    scale, shift = calibrate_instances(averaged, search.problem, free)
    bag_scale, bag_shift = calibrate_bags(
        pooled, search.labels, search.exclusive, search.has_negative
    )
    return replace(ensemble, scale=scale, shift=shift, bag_scale=bag_scale, bag_shift=bag_shift)


def _frequency_scores(search: BagSearch) -> FloatArray:
    """Return the criterion of somebody who knows how frequent labels are, and nothing else."""
    labels = search.labels
    rate = np.clip(labels.mean(axis=0), 1e-6, 1 - 1e-6)
    if not search.exclusive:
        bag = np.where(labels, np.log(rate), np.log1p(-rate)).sum(axis=1)
    else:
        none = np.log(np.clip(1.0 - labels.any(axis=1).mean(), 1e-6, None))
        bag = np.where(labels.any(axis=1), labels @ np.log(rate), none)
    log_p = torch.zeros(
        len(search.problem.segments.group), labels.shape[1] + int(search.has_negative)
    )
    everything = np.ones(len(labels), dtype=bool)
    result: FloatArray = bag + search.instance_scores(log_p, everything)
    return result


def _warnings_of(
    search: BagSearch, taken: Sequence[tuple[Option, float]], baseline: FloatArray
) -> list[str]:
    best = search.out_of_fold(taken[0][0], search.n_folds).scores
    gain = best - baseline
    if gain.mean() > standard_error(gain):
        return []
    return [
        "held-out bags are predicted no better than by the frequencies of their labels; look at "
        "whether the features tell the labels apart, whether labels are right, and whether "
        "negative_label names the right class."
    ]

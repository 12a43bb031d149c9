"""The search of a plain fit on bags: a portfolio, out-of-fold predictions, a weighted average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groupnoise.bags.calibration import calibrated_instances
from groupnoise.bags.reading.inputs import add_known_instances
from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.final_fit import FinalEnsemble, fit_ensemble
from groupnoise.bags.search.held_out_bags import HeldOutBags, pooled_log_odds
from groupnoise.bags.search.member_search import SearchResult, search_members
from groupnoise.bags.search.members import FORESTS, PSEUDO_LABELS, STATISTICS, MemberSettings
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import as_option, bag_options, facts_of_bags
from groupnoise.bags.search.shared_instances import OVERLAP_WARNING, find_shared_instances
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.core.groups import Groups
from groupnoise.core.selective import SetCalibration
from groupnoise.core.words import counted
from groupnoise.decisions.halving import standard_error
from groupnoise.decisions.portfolio import Option, narrow
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError

MIN_BAGS = 10
MIN_GAIN = 1e-3
"""Nats per bag by which members must do better than the frequencies of labels."""
MIN_BAGS_PER_SIDE, MAX_SIZE_AUROC = 5, 0.95
"""Minimum bags with and without a label, and AUROC, for the message that bag sizes predict it."""
N_STD_ERRORS = 2.0
"""Standard errors by which held-out bags must prefer a negative label that has no known name, and
members over label frequencies."""
CRITERION = "log-likelihood of held-out bags and of the evidence in their instances"
NO_BACKGROUND = (
    "Held-out bags show no need for a background class: every instance gets one of the classes, "
    "even where none fits (background=True, or -p background=true, allows instances of no class)."
)
SHARED_BACKGROUND = (
    "Many held-out instances look alike in bags of every label, so instances may be background "
    "(background=False, or -p background=false, gives each its most likely class)."
)


@dataclass(frozen=True)
class Outcome:
    """An ensemble, the record of its search, and calibrations of prediction sets.

    `instance_sets`, `bag_sets`: None if no bags were held out.
    """

    ensemble: BagEnsemble
    decisions: Decisions
    instance_sets: SetCalibration | None = None
    bag_sets: SetCalibration | None = None


@dataclass(frozen=True)
class SearchRequest:
    """Options of a search for members.

    `explicit`: parameters the user gave.
    `given`: weight and parameters of each member, where nothing is searched for.
    `budget`: seconds after which no further trial is begun.
    `may_guess`: whether held-out bags may tell which of two classes is negative.
    `students`: whether a student of the members may be trained too (:mod:`.self_training`).
    `reasons`: sentences on what was decided before.
    `on_progress`: called with a record per trial.
    """

    explicit: Mapping[str, Any]
    given: Sequence[tuple[float, Mapping[str, Any]]] | None = None
    budget: float | None = None
    may_guess: bool = False
    students: bool = True
    reasons: Sequence[str] = ()
    on_progress: ProgressCallback | None = None


def decide_members(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    negative: int | None,
    request: SearchRequest,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
    truth: IntArray | None = None,
) -> Outcome:
    """Decide on members and train them.

    Result: the ensemble and the decisions.
    `labels`: of shape (n_bags, n_classes).
    `classes`: what the columns stand for.
    `negative`: column of the negative label.
    `generator`: decides all randomness.
    `patients`: whose bags are held out together.
    `truth`: the column of the true label of each instance, -1 where it is not known.
    """
    explicit, given, reasons = request.explicit, request.given, request.reasons
    shared = find_shared_instances(bags, patients)
    if shared is not None:
        patients = shared.clusters
        reasons = (*reasons, shared.reason(labels))
    reasons = (*reasons, *size_leak_messages(bags.sizes, labels, classes))
    if request.may_guess and given is None and len(bags) >= MIN_BAGS:
        negative, messages = guess_negative(
            bags, labels, classes, int(generator.integers(2**31)), patients
        )
        reasons = (*reasons, *messages)
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    without = int((~labels.any(axis=1)).sum())
    if without:
        reasons = (*reasons, bags_without_label_message(without, negative, classes))
    search = BagSearch(bags, named, negative is not None or without > 0, generator, patients)
    if explicit.get("background") is True or any(each.get("background") for _, each in given or ()):
        search.assume_background()
    is_binary = negative is not None and named.shape[1] == 1
    for each in (explicit, *(parameters for _, parameters in given or ())):
        _check_member(each, is_binary)
    facts = facts_of_bags(bags, labels, None if negative is None else classes[negative])
    options = narrow(bag_options(search.problem, facts, encoder=explicit.get("encoder")), explicit)
    options = [as_option(MemberSettings(**each.parameters)) for each in options]
    few_bags = len(search.bags) < MIN_BAGS
    scarce = few_bags or has_too_few_per_class(labels)
    warnings = [OVERLAP_WARNING] if shared is not None and shared.forms_one_cluster else []
    if given is not None:
        looks = not scarce and "background" not in explicit
        found = _given_members(search, given, looks_for_background=looks)
    elif scarce:
        why = "The stated default was taken without a trial."
        found = SearchResult(options[:1], [], 0.0, [(options[0], 1.0)], why)
        warnings.append(_too_few_bags_message(len(bags) if few_bags else None, options[0].name))
    else:
        found = search_members(
            search,
            options,
            explicit,
            request.budget,
            request.on_progress,
            students=request.students,
        )
    if truth is not None and (truth >= 0).any():
        search.set_training_bags(*add_known_instances(bags, labels, truth), negative)
        n_known = int((truth >= 0).sum())
        verb = "teaches" if n_known == 1 else "teach"
        reasons = (*reasons, f"{counted(n_known, 'instances')} with known labels {verb} too.")
    is_given = given is not None
    final = fit_ensemble(search, found.taken, negative, is_calibrated=not scarce, is_given=is_given)
    sets = (None, None) if scarce else fit_set_calibrations(final, bags, labels, truth)
    baseline = _frequency_scores(final.bags)
    held_out = None
    if found.trials:
        weights = [weight for _, weight in final.taken]
        scores = final.bags.evaluate_average(list(zip(final.predictions, weights, strict=True)))
        held_out = float(scores.mean())
        warnings += performance_warnings(scores - baseline)
    decisions = Decisions(
        facts,
        tuple(found.options),
        tuple(found.trials),
        tuple((option.name, weight) for option, weight in final.taken),
        criterion=CRITERION,
        reasons=(*reasons, _search_reason(found, search, final, "background" in explicit)),
        warnings=tuple(warnings),
        baselines={"label frequencies": float(baseline.mean())},
        held_out=held_out,
        seconds=found.seconds,
        budget=request.budget,
    )
    return Outcome(final.ensemble, decisions, *sets)


def _given_members(
    search: BagSearch,
    given: Sequence[tuple[float, Mapping[str, Any]]],
    *,
    looks_for_background: bool,
) -> SearchResult:
    """Take the members that were given; only whether bags share a background may be found out."""
    options = [as_option(MemberSettings(**parameters)) for _, parameters in given]
    if all(each.parameters["likelihood"] in (PSEUDO_LABELS, STATISTICS) for each in options):
        raise ParameterError(
            "ensemble names no member that learns about instances from bags: members whose "
            f"likelihood is {PSEUDO_LABELS!r} learn from others, and {STATISTICS!r} sees whole "
            "bags; add one with another likelihood."
        )
    if looks_for_background:
        search.detect_background(options, search.n_folds)
    total = sum(weight for weight, _ in given)
    taken = [(o, w / total) for o, (w, _) in zip(options, given, strict=True)]
    return SearchResult(options, [], 0.0, taken, "The members were given.")


def _too_few_bags_message(n_bags: int | None, taken: str) -> str:
    """Return a warning about too few bags, or, if `n_bags` is None, too few classes with two."""
    lacking = "classes with two bags or more are"
    if n_bags is not None:
        lacking = f"{counted(n_bags, 'bags')} {'is' if n_bags == 1 else 'are'}"
    return (
        f"{lacking} too few to hold any out, so nothing was compared and {taken!r} was taken; "
        "give more bags, or set the parameters yourself."
    )


def _search_reason(
    found: SearchResult, search: BagSearch, final: FinalEnsemble, asks_background: bool
) -> str:
    """Return the reason for the members, and whether instances may be background."""
    why = found.why
    if not found.trials:
        return why
    if search.is_sample:
        n_bags = len(search.all_bags)
        why = (
            f"Settings were compared on {len(search.bags)} of {counted(n_bags, 'bags')}; those "
            f"ahead were trained on all, and {counted(len(final.rows), 'bags')} held out of all of "
            "them weighed them."
        )
    if final.bags.shares_background:
        return f"{why} {SHARED_BACKGROUND}"
    return why if final.ensemble.is_free or asks_background else f"{why} {NO_BACKGROUND}"


def _check_member(parameters: Mapping[str, Any], is_binary: bool) -> None:
    """Raise for settings that need positive and negative bags, or likelihoods that forests lack."""
    likelihood, encoder = parameters.get("likelihood"), parameters.get("encoder")
    for name, value in (("likelihood", likelihood), ("encoder", encoder)):
        if value in ("mixture", *FORESTS) and not is_binary:
            raise ParameterError(
                f"{name} {value!r} is for positive and negative bags: name the negative label, or "
                f"take another {name}."
            )
    if encoder in FORESTS and likelihood not in (None, "inherited"):
        raise ParameterError(
            f"encoder {encoder!r} gives every instance the label of its bag: likelihood "
            f"{likelihood!r} cannot be had with it; leave one of the two out."
        )


def fit_set_calibrations(
    final: FinalEnsemble, bags: Groups, labels: BoolArray, truth: IntArray | None
) -> tuple[SetCalibration, SetCalibration]:
    """Calibrate prediction sets of instances and of bags by held-out predictions.

    `final`: an ensemble with held-out bags. `bags`: all bags. `labels` (n_bags, n_classes): of all
    classes. `truth`: the column of the true label of each instance, -1 where it is not known.
    """
    ensemble, predictions = final.ensemble, final.predictions
    log_p = ensemble.averaged(each.log_p for each in predictions if each.log_p is not None)
    background = log_p[:, labels.shape[1] :].exp().sum(-1).numpy()
    log_p = log_p[:, : labels.shape[1]].log_softmax(-1)
    weights = [weight for _, weight in final.taken]
    pooled = pooled_log_odds(list(zip(predictions, weights, strict=True)))
    log_bags = ensemble.log_proba_of_bags(pooled * ensemble.bag_scale + ensemble.bag_shift)
    held_labels = labels[final.rows]
    possible = held_labels[final.bags.bag_of_row]
    if ensemble.negative is not None:
        possible[:, ensemble.negative] = True
    if truth is not None:
        true = truth[np.isin(bags.group_of_object, final.rows)]
        known = true >= 0
        possible[known] = true[known, None] == np.arange(labels.shape[1])
    belief = held_labels / np.maximum(held_labels.sum(axis=1, keepdims=True), 1)
    return (
        calibrated_instances(np.exp(log_p.numpy()), possible, None, background),
        SetCalibration(np.exp(log_bags), belief),
    )


def has_too_few_per_class(labels: BoolArray) -> bool:
    """Return whether fewer than two classes have two bags, one to train on and one to hold out.

    `labels` (n_bags, n_classes): of all classes, the negative one included.
    """
    return bool((labels.sum(axis=0) >= 2).sum() < min(2, labels.shape[1]))


def bags_without_label_message(n_bags: int, negative: int | None, classes: NDArray[Any]) -> str:
    """Return how bags without any label are understood."""
    some = "1 bag has" if n_bags == 1 else f"{n_bags} bags have"
    what = "background" if negative is None else str(classes[negative])
    return f"{some} no label: every instance of such a bag is {what}."


def size_leak_messages(sizes: IntArray, labels: BoolArray, classes: NDArray[Any]) -> list[str]:
    """Return a message if the number of instances alone predicts a class, a likely leak.

    `sizes`: of the bags. `labels` (n_bags, n_classes).
    """
    from scipy.stats import rankdata

    ranks, n_of = rankdata(sizes), labels.sum(axis=0)
    n_pairs = np.maximum(n_of * (len(labels) - n_of), 1)
    auroc = (ranks @ labels - n_of * (n_of + 1) / 2) / n_pairs
    gain = np.abs(auroc - 0.5) * (np.minimum(n_of, len(labels) - n_of) >= MIN_BAGS_PER_SIDE)
    best = int(gain.argmax())
    if gain[best] < MAX_SIZE_AUROC - 0.5:
        return []
    return [
        f"How many instances a bag has tells whether it is {classes[best]!s} (AUROC "
        f"{0.5 + gain[best]:.2f} by that alone): if that is how bags were made, answers about "
        "instances mean little."
    ]


def guess_negative(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    seed: int,
    patients: NDArray[Any] | None = None,
) -> tuple[int | None, tuple[str, ...]]:
    """Return the column of the negative class if held-out bags clearly prefer one, and a message.

    `labels` (n_bags, 2). `seed`: of the folds, the same for both classes. `patients`: whose bags
    share a fold.
    """
    scores: dict[int | None, FloatArray] = {}
    for column in (None, 0, 1):
        named = labels if column is None else np.delete(labels, column, axis=1)
        generator = np.random.default_rng(seed)
        search = BagSearch(bags, named, column is not None, generator, patients, by_candidates=True)
        facts = {"fraction of zeros": 0.0, "bags": len(bags)}
        first: dict[Any, Option] = {}
        for option in bag_options(search.problem, facts):
            parameters = option.parameters
            # "inherited" treats both classes alike, so it cannot prefer one.
            is_one_sided = column is None or parameters["likelihood"] != "inherited"
            is_plain = parameters["encoder"] == "identity" and parameters["scaling"] == "standard"
            if is_one_sided and is_plain:
                first.setdefault((parameters["likelihood"], parameters["background"]), option)
        options = list(first.values())
        tried = [search.out_of_fold(each, search.n_folds, options).scores for each in options]
        scores[column] = max(tried, key=lambda each: float(each.mean()))
    best = max((0, 1), key=lambda column: float(scores[column].mean()))
    over_other, over_none = (scores[best] - scores[other] for other in (1 - best, None))
    is_clear = over_other.mean() > N_STD_ERRORS * standard_error(over_other)
    if not is_clear or over_none.mean() < -standard_error(over_none):
        return None, ()
    return best, (
        f"Held-out bags are most likely if {classes[best]!s} is the negative label: every instance "
        "of such a bag is negative (negative_label=None says otherwise).",
    )


def _frequency_scores(bags: HeldOutBags) -> FloatArray:
    """Return the criterion of constant predictions by label frequencies."""
    labels, problem = bags.labels, bags.problem
    rate = np.clip(labels.mean(axis=0), 1e-6, 1 - 1e-6)
    if not bags.exclusive:
        bag = np.where(labels, np.log(rate), np.log1p(-rate)).sum(axis=1)
    else:
        none = np.log(np.clip(1.0 - labels.any(axis=1).mean(), 1e-6, None))
        bag = np.where(labels.any(axis=1), labels @ np.log(rate), none)
    if bags.uses_witness_rate:
        return bag
    n_targets = labels.shape[1] + int(problem.has_negative or bags.shares_background)
    log_p = torch.zeros(len(problem.segments.group), n_targets)
    everything = np.ones(len(labels), dtype=bool)
    return bag + bags.instance_scores(log_p, everything)


def performance_warnings(gain: FloatArray) -> list[str]:
    """Return a warning if held-out bags are predicted little better than by label frequencies."""
    error = standard_error(gain)
    if gain.mean() > max(N_STD_ERRORS * error, MIN_GAIN):
        return []
    if gain.mean() > max(error, MIN_GAIN):
        return [
            "held-out bags are predicted hardly better than by the frequencies of their labels: "
            f"with {counted(len(gain), 'bags')} that may be luck, as the settings were chosen by "
            "the same bags; evaluate on further bags before you rely on the answers."
        ]
    return [
        "held-out bags are predicted no better than by the frequencies of their labels; check "
        "whether the features distinguish the labels, whether labels are right, and whether "
        "negative_label names the right class."
    ]

"""What `fit` decides for candidate labels, by the information of held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from groupnoise.candidates.answers import CandidateParameters
from groupnoise.candidates.averaging import averaged_options, common_factor, label_offsets
from groupnoise.candidates.held_out import (
    HeldOutTrials,
    best_information,
    best_temperature,
    candidate_options,
    facts_of_rows,
    information,
)
from groupnoise.candidates.model import SOLVED
from groupnoise.core.arrays import ProgressCallback
from groupnoise.core.checks import check_positive
from groupnoise.core.prior_weights import smooth_over_neighbours
from groupnoise.core.words import counted
from groupnoise.decisions.halving import TRIALS_FILE, successive_halving
from groupnoise.decisions.portfolio import Option, is_auto, is_plain, narrow, parse_budget
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError, TrainingStopped
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.workers import Workers

TRIAL_EPOCHS = ((4_000, 0.5), (math.inf, 0.25))
"""(rows up to, share of the epochs that a trial gets): with fewer steps networks on few rows look
worse beside kernels than they are in the end."""
SMOOTHINGS = (1.0, 2.0, 4.0)
CRITERION = "log lift on held-out rows (own candidates against those of other rows)"
DECIDED = (
    "encoder",
    "hidden",
    "dropout",
    "kernel_scale",
    "kernel_ridge",
    "scaling",
    "normalize",
    "temperature",
    "weighting_strength",
    "max_epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "ordinal_smoothing",
    "answer_temperature",
    "label_offsets",
    "n_members",
)
"""Parameters that depend on the data and are "auto" by default."""
TRADE_OFF = {"temperature", "weighting_strength"}
"""Where these alone are "auto" they are chosen on a grid, see `TradeOff`."""
OBJECTIVE = {"selection", "top_k", "weighting", "similarity", "similarity_scale", "candidates"}
"""Parameters of the objective that are never decided."""
OF_STEPS = {
    "hidden",
    "dropout",
    "normalize",
    "temperature",
    "weighting_strength",
    "batch_size",
    "learning_rate",
    "weight_decay",
}
"""Decided parameters whose explicit values speak of models trained step by step."""
MIN_INFORMATION = 1e-4
"""Information a row that is more than rounding."""
MIN_ROWS = 40
"""With fewer rows nothing is held out."""
MAX_SECONDS = 600.0
"""What the budget "auto" stands for: far more than the search needs at 20 000 rows."""


def choose_settings(
    trials: HeldOutTrials,
    options: list[Option],
    facts: Mapping[str, Any],
    *,
    budget: float | None = None,
    on_progress: ProgressCallback | None = None,
    resume_folder: Path | None = None,
) -> Decisions:
    """Try the options on held-out rows and take the average of the best."""
    search = successive_halving(
        options,
        trials,
        rungs=(next(share for limit, share in TRIAL_EPOCHS if facts["rows"] <= limit),),
        budget=budget,
        tie=0.0,
        on_progress=on_progress,
        resume_folder=resume_folder,
        fingerprint=repr((trials.seed, facts, sorted(option.name for option in options))),
    )
    best, weights = map(list, zip(*averaged_options(search), strict=True))
    first = next(trial for trial in search.trials if trial.option == best[0].name)
    reasons = [f"{best[0].name!r} predicted held-out candidates best: {best[0].why}."]
    if len(best) > 1:
        reasons.append(
            f"{len(best)} settings are averaged: their errors differ, and none is clearly best."
        )
    if trials.copies is not None:
        n_copies = len(trials.rows) - len(np.unique(trials.copies))
        found = f"{counted(n_copies, 'rows')} with the features of an earlier row"
        reasons.append(f"{found}: they are held out together.")
    if search.out_of_time:
        reasons.append(f"The budget of {budget:g} s ended the search before all was tried.")
    warnings = []
    least = max(2 * (first.std_error or 0.0), MIN_INFORMATION)
    if first.score is None or first.score <= least:
        warnings.append(
            "held-out candidates are predicted no better than by label frequencies alone; check "
            "that the rows of X and the candidates are in the same order and that the features "
            "carry information about the labels."
        )
    best, why, doubts = _in_line(trials, best, weights, first.resource, facts["ordered labels"])
    taken = {option.name: option for option in best}
    decisions = Decisions(
        facts=facts,
        options=tuple(taken.get(option.name, option) for option in options),
        trials=tuple(search.trials),
        taken=tuple((o.name, weight) for o, weight in zip(best, weights, strict=True)),
        criterion=CRITERION,
        reasons=(*reasons, *why),
        warnings=(*warnings, *doubts),
        baselines={"majority": 0.0},
        seconds=search.seconds,
        budget=budget,
    )
    said = trials.average(decisions) if len(best) > 1 else None
    return replace(decisions, held_out=said and float(best_information(*said).mean()))


def _in_line(
    trials: HeldOutTrials,
    options: list[Option],
    weights: list[float],
    share: float,
    is_ordered: bool,
) -> tuple[list[Option], list[str], list[str]]:
    """Return options whose answers are in line with held-out candidates, reasons, and warnings.

    They are as sure as held-out rows say they may be, about as frequent as labels where these are
    far from it, and averaged over neighbours where labels are in an order.
    """
    reasons = []
    options = _tempered(trials, options, share)
    is_open = not is_ordered and "label_offsets" not in trials.asked
    if is_open and _label_ahead(trials, options, weights, share):
        options = _as_frequent(trials, options, share)
        if any(each.parameters["label_offsets"] for each in options):
            reasons.append(
                "Predicted label frequencies are corrected (label_offsets): they were far from "
                "the frequencies that held-out candidates imply."
            )
    options = _as_sure_together(trials, options, weights, share)
    ahead = _label_ahead(trials, options, weights, share)
    options = _smoothed(trials, options, weights, share) if is_ordered else options
    width = options[0].parameters["ordinal_smoothing"]
    if is_ordered and width and "ordinal_smoothing" not in trials.asked:
        reasons.append(
            f"Probabilities are averaged over neighbouring labels (ordinal_smoothing={width:g}): "
            "the labels are ordered, and this predicts held-out candidates better."
        )
    return options, reasons, [ahead] if ahead else []


def _label_ahead(
    trials: HeldOutTrials, options: list[Option], weights: list[float], share: float
) -> str:
    """Say where one label is a candidate more often than answers are, or nothing.

    The criterion gives nothing for a label that stands everywhere, for such a label may be false
    everywhere. Where it is true, accuracy is lost, and only the user can know.
    """
    candidates = trials.candidates[trials.held]
    known = [trials.predicted(each, share) for each in options]
    answers = np.average(known, axis=0, weights=weights).argmax(axis=1)
    label = int(trials.candidates.mean(axis=0).argmax())
    own, always = candidates[np.arange(len(answers)), answers], candidates[:, label]
    ahead = always.astype(float) - own
    if ahead.mean() <= 2 * ahead.std() / math.sqrt(len(ahead)):
        return ""
    return (
        f"{str(trials.classes[label])!r} is a candidate of {always.mean():.0%} of held-out rows, "
        f"but this model's answers are candidates of only {own.mean():.0%}. That is right if rows "
        "list it whether it is true or not; if it really is that frequent, a method that follows "
        "label frequencies may be right more often (--method proden)."
    )


def _tempered(trials: HeldOutTrials, options: list[Option], share: float) -> list[Option]:
    """Return options that sound as sure as held-out rows say they may, so that none drowns others.

    Settings differ in how sure they sound; in an average the surest would decide alone.
    """
    if "answer_temperature" in trials.asked:
        return options
    candidates = trials.candidates[trials.held]
    said = [trials.predicted(each, share) for each in options]
    found = [best_temperature(each, candidates) for each in said]
    return [_with(o, answer_temperature=each) for o, each in zip(options, found, strict=True)]


def _as_sure_together(
    trials: HeldOutTrials, options: list[Option], weights: list[float], share: float
) -> list[Option]:
    """Return options whose average sounds as sure as held-out rows say it may.

    What each answers stays the same: offsets of labels are scaled with the temperature.
    """
    if "answer_temperature" in trials.asked or len(options) == 1:
        return options
    known = [trials.predicted(each, share) for each in options]
    factor = common_factor(known, weights, trials.candidates[trials.held])
    surer = []
    for each in options:
        offsets = each.parameters["label_offsets"]
        if offsets is not None and "label_offsets" not in trials.asked:
            offsets = tuple(round(offset / factor, 4) for offset in offsets)
        temperature = round(factor * each.parameters["answer_temperature"], 4)
        surer.append(_with(each, answer_temperature=temperature, label_offsets=offsets))
    return surer


def _with(option: Option, **parameters: Any) -> Option:
    """Return an option with other values of some parameters."""
    return replace(option, parameters={**option.parameters, **parameters})


def _as_frequent(trials: HeldOutTrials, options: list[Option], share: float) -> list[Option]:
    """Return options whose answers are about as frequent as labels are on held-out rows."""
    candidates = trials.candidates[trials.held]
    said = [trials.predicted(each, share) for each in options]
    found = [label_offsets(each, candidates) for each in said]
    return [_with(o, label_offsets=each) for o, each in zip(options, found, strict=True)]


def _smoothed(
    trials: HeldOutTrials, options: list[Option], weights: list[float], share: float
) -> list[Option]:
    """Return options whose answers are averaged over neighbouring labels as held-out rows say."""
    if "ordinal_smoothing" in trials.asked:
        return options
    known = [trials.predicted(each, share) for each in options]
    log_proba = torch.from_numpy(np.log(np.average(known, axis=0, weights=weights) + 1e-12))
    candidates = trials.candidates[trials.held]
    scores = {
        width: information(
            smooth_over_neighbours(log_proba, width, trials.classes).exp().numpy(), candidates
        )
        for width in (0.0, *SMOOTHINGS)
    }
    best = max(scores, key=lambda width: float(scores[width].mean()))
    return [_with(each, ordinal_smoothing=best) for each in options] if best else options


def without_search(
    name: str,
    parameters: Mapping[str, Any],
    why: str,
    facts: Mapping[str, Any] | None = None,
    *,
    warn: bool = False,
) -> Decisions:
    """Return a record of a setting that was taken untried."""
    option = Option(name, {k: each for k, each in parameters.items() if is_plain(each)})
    sentences = (why,)
    return Decisions(
        facts=facts or {},
        options=(option,),
        trials=(),
        taken=((name, 1.0),),
        reasons=() if warn else sentences,
        warnings=sentences if warn else (),
    )


def given_ensemble(ensemble: Sequence[tuple[float, Mapping[str, Any]]]) -> Decisions:
    """Return a record of the settings that the parameter `ensemble` gives, after checking it."""
    known = {each.name for each in fields(CandidateParameters)}
    options, weights = [], []
    for number, pair in enumerate(ensemble):
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not is_pair or not isinstance(pair[1], Mapping) or set(pair[1]) - known:
            raise ParameterError(
                f"ensemble must be a list of (weight, parameters of this estimator); entry "
                f"{number} is {pair!r}."
            )
        check_positive("a weight of ensemble", pair[0])
        weights.append(float(pair[0]))
        options.append(Option(f"setting {number + 1}", pair[1]))
    if not options:
        raise ParameterError("ensemble must hold one setting or more; None leaves it to fit.")
    return Decisions(
        facts={},
        options=tuple(options),
        trials=(),
        taken=tuple((o.name, w / sum(weights)) for o, w in zip(options, weights, strict=True)),
        reasons=("The settings were given.",),
    )


def plain_values() -> dict[str, Any]:
    """Return the plain value of every parameter that is "auto" by default."""
    return {each.name: each.default for each in fields(CandidateParameters) if each.name in DECIDED}


def explicit_values(parameters: CandidateParameters) -> dict[str, Any]:
    """Return the decided parameters that the user gave."""
    values = {name: getattr(parameters, name) for name in DECIDED}
    return {name: value for name, value in values.items() if not is_auto(value)}


def given_values(parameters: CandidateParameters) -> dict[str, Any]:
    """Return a value for every parameter of a setting, plain ones where it is "auto"."""
    given = {each.name: getattr(parameters, each.name) for each in fields(CandidateParameters)}
    return {**given, **plain_values(), **explicit_values(parameters)}


def settings_to_train(
    estimator: Any, trials: HeldOutTrials, workers: Workers | None, checkpoint: Checkpoints | None
) -> Decisions:
    """Return the settings to train and why."""
    budget = parse_budget(estimator.budget, default=MAX_SECONDS)
    if estimator.ensemble is not None:
        return given_ensemble(estimator.ensemble)
    facts = facts_of_rows(trials.rows, trials.candidates, trials.classes)
    explicit = explicit_values(estimator)
    offered = candidate_options(facts)
    if explicit.get("encoder") not in SOLVED and not _leaves_objective(estimator, explicit):
        offered = [each for each in offered if each.parameters["encoder"] not in SOLVED]
    options = narrow(offered, explicit)
    plain = {name: value for name, value in plain_values().items() if name not in explicit}
    if isinstance(estimator.encoder, nn.Module):
        why = "An encoder of your own is trained once, under plain settings."
        return without_search("plain", plain, why, facts)
    if workers is not None and workers.count > 1:
        why = "Several workers share one training, so plain settings were taken."
        return without_search("plain", plain, why, facts)
    if len(trials.rows) < MIN_ROWS:
        why = (
            f"{counted(len(trials.rows), 'rows')} {'is' if len(trials.rows) == 1 else 'are'} too "
            f"few to hold any out ({MIN_ROWS} are needed), so "
            "plain settings were taken; give the parameters you know better."
        )
        return without_search("plain", plain, why, facts, warn=True)
    if len(options) == 1:
        why = "Explicit values left one setting of the portfolio."
        return without_search(options[0].name, options[0].parameters, why, facts)
    if checkpoint is not None and not checkpoint.resume:
        (checkpoint.folder / TRIALS_FILE).unlink(missing_ok=True)
    return choose_settings(
        trials,
        options,
        facts,
        budget=budget,
        on_progress=partial(_report, estimator.on_epoch, checkpoint),
        resume_folder=None if checkpoint is None else checkpoint.folder,
    )


def _leaves_objective(estimator: Any, explicit: dict[str, Any]) -> bool:
    """Tell whether nothing was said about objective and steps, which kernels and trees have not."""
    return not OF_STEPS & set(explicit) and all(
        getattr(estimator, each.name) == each.default
        for each in fields(CandidateParameters)
        if each.name in OBJECTIVE
    )


def _report(
    on_epoch: ProgressCallback | None, checkpoint: Checkpoints | None, record: dict[str, Any]
) -> None:
    """Show how far the search is, and leave it between trials when a stop was asked for."""
    if record["event"] != "trial":
        return
    if checkpoint is not None and checkpoint.requested_stop is not None:
        raise TrainingStopped(
            f"the search stopped before {record['option']!r}", checkpoint.requested_stop
        )
    if on_epoch is not None:
        progress = {"epoch": record["trial"], "n_epochs": record["trials"]}
        on_epoch({**progress, "deciding": record["option"]})

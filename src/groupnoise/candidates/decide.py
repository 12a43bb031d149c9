"""What `fit` decides for candidate labels, by the information of held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groupnoise.candidates.held_out import HeldOut, best_temperature, information
from groupnoise.candidates.parameters import CandidateParameters
from groupnoise.core.arrays import ProgressCallback
from groupnoise.core.checks import check_positive
from groupnoise.core.prior_weights import spread_over_neighbours
from groupnoise.decisions.halving import Search, is_level, standard_error, successive_halving
from groupnoise.decisions.portfolio import Option, is_plain
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError

TRIAL_EPOCHS = ((4_000, 0.5), (math.inf, 0.25))
"""(rows up to, share of the epochs that a trial gets): with fewer steps networks on few rows look
worse beside kernels than they are in the end."""
MAX_KERNELS = 2
"""Kernels err alike, and the criterion flatters them: on `lost`, beside networks with a quarter of
their epochs, the best kernel was ahead by the criterion and six points behind in accuracy."""
MIN_AVERAGED, MAX_AVERAGED = 3, 5
"""Settings that are averaged: the best, and further ones that held-out rows cannot tell from it."""
BEHIND = 4.0
"""Standard errors behind the first beyond which a setting is never averaged."""
SMOOTHINGS = (1.0, 2.0, 4.0)
CRITERION = "information on held-out candidates (log lift over other rows)"


def decide(
    trials: HeldOut,
    options: list[Option],
    facts: Mapping[str, Any],
    *,
    budget: float | None = None,
    on_progress: ProgressCallback | None = None,
    resume_folder: Path | None = None,
) -> Decisions:
    """Try the options on held-out rows and take the average of the best.

    Parameters
    ----------
    trials : HeldOut
        Scores an option.
    options : list of Option
        What explicit values left of the portfolio.
    facts : mapping
        What is known of the data.
    budget : float, optional
        Seconds.
    on_progress : callable, optional
        Called before and after each trial.
    resume_folder : path, optional
        Where finished trials are saved.

    Returns
    -------
    Decisions
        With the options taken, one to five of equal weight.
    """
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
    best = averaged_options(search)
    first = next(trial for trial in search.trials if trial.option == best[0].name)
    reasons = [f"{best[0].name!r} predicted held-out candidates best: {best[0].why}."]
    if len(best) > 1:
        reasons.append(
            f"The {len(best)} best are averaged: their errors differ, and none is sure to win."
        )
    if search.out_of_time:
        reasons.append(f"The budget of {budget:g} s ended the search before all was tried.")
    warnings = []
    if first.score is None or first.std_error is None or first.score <= 2 * first.std_error:
        warnings.append(
            "held-out candidates are predicted no better than by how frequent labels are; check "
            "that rows of X and candidates are in the same order and that the features tell "
            "labels apart."
        )
    best = _tempered(trials, best, first.resource)
    best = _smoothed(trials, best, first.resource) if facts["labels in an order"] else best
    taken = {option.name: option for option in best}
    return Decisions(
        facts=facts,
        options=tuple(taken.get(option.name, option) for option in options),
        trials=tuple(search.trials),
        taken=tuple((option.name, 1.0 / len(best)) for option in best),
        criterion=CRITERION,
        reasons=tuple(reasons),
        warnings=tuple(warnings),
        baselines={"majority": 0.0},
        seconds=search.seconds,
        budget=budget,
    )


def averaged_options(search: Search) -> list[Option]:
    """Return the options that answer together: the best, and those not far behind it.

    Parameters
    ----------
    search : Search
        All options with their scores.

    Returns
    -------
    list of Option
        One to five, the best first.
    """
    scores = {trial.option: np.asarray(trial.scores) for trial in search.trials}
    first = scores[search.ranking[0].name]
    kernels = [each for each in search.ranking if each.parameters["encoder"] == "kernel"]
    left = [each for each in search.ranking if each not in kernels[MAX_KERNELS:]] or kernels
    return [
        option
        for number, option in enumerate(left[:MAX_AVERAGED])
        if is_level(first, scores[option.name], BEHIND if number < MIN_AVERAGED else 1.0)
    ]


def _tempered(trials: HeldOut, options: list[Option], share: float) -> list[Option]:
    """Return options that sound as sure as held-out rows say they may, so that none drowns others.

    Settings differ in how sure they sound; in an average the surest would decide alone.
    """
    if "answer_temperature" in trials.asked:
        return options
    candidates = trials.candidates[trials.held]
    return [
        replace(each, parameters={**each.parameters, "answer_temperature": found})
        for each in options
        for found in [best_temperature(trials.predicted(each, share), candidates)]
    ]


def _smoothed(trials: HeldOut, options: list[Option], share: float) -> list[Option]:
    """Return options whose answers are averaged over neighbouring labels, if that helps."""
    if "ordinal_smoothing" in trials.asked:
        return options
    known = [trials.predicted(each, share) for each in options]
    order = np.argsort(trials.classes)
    log_proba = torch.from_numpy(np.log(np.mean(known, axis=0)[:, order] + 1e-12))
    candidates = trials.candidates[trials.held][:, order]
    scores = {
        width: information(spread_over_neighbours(log_proba, width).exp().numpy(), candidates)
        for width in (0.0, *SMOOTHINGS)
    }
    best = max(scores, key=lambda width: float(scores[width].mean()))
    gain = scores[best] - scores[0.0]
    if gain.mean() <= standard_error(gain):
        return options
    return [
        replace(each, parameters={**each.parameters, "ordinal_smoothing": best}) for each in options
    ]


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

"""The search of a plain fit on candidate labels: settings compared on held-out rows, averaged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from groupnoise.candidates.averaging import averaged_options
from groupnoise.candidates.model import GRADIENT_FREE
from groupnoise.candidates.portfolio import candidate_options, facts_of_rows
from groupnoise.candidates.prediction import (
    CandidateParameters,
    explicit_values,
    plain_values,
)
from groupnoise.candidates.trials import (
    HeldOutTrials,
    best_information,
    best_temperature,
    common_factor,
    information,
    label_offsets,
)
from groupnoise.core.arrays import FloatArray, ProgressCallback
from groupnoise.core.checks import check_positive
from groupnoise.core.prior_weights import smooth_over_neighbours
from groupnoise.core.words import counted
from groupnoise.decisions.halving import TRIALS_FILE, successive_halving
from groupnoise.decisions.portfolio import Option, is_plain, narrow, parse_budget
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError, TrainingStopped
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.workers import Workers

TRIAL_EPOCHS = ((4_000, 0.5), (math.inf, 0.25))
"""(maximum rows, fraction of the epochs in a trial): with few steps on few rows networks would be
ranked below kernels that they overtake later."""
SMOOTHINGS = (1.0, 2.0, 4.0)
CRITERION = "log lift on held-out rows (own candidates against those of other rows)"
OBJECTIVE = {"selection", "top_k", "weighting", "similarity", "similarity_scale", "candidates"}
"""Parameters of the objective, which are never decided."""
GRADIENT_PARAMETERS = {
    "hidden",
    "dropout",
    "normalize",
    "temperature",
    "weighting_strength",
    "batch_size",
    "learning_rate",
    "weight_decay",
}
"""Decided parameters that only models trained by gradient steps have."""
MIN_INFORMATION = 1e-4
"""Information per row that is more than rounding."""
MIN_ROWS = 40
"""With fewer rows nothing is held out."""
MAX_SECONDS = 600.0
"""Budget "auto": far more than the search needs at 20 000 rows."""


def decide_settings(
    estimator: Any, trials: HeldOutTrials, workers: Workers | None, checkpoint: Checkpoints | None
) -> Decisions:
    """Return the settings to train and the reasons for them."""
    budget = parse_budget(estimator.budget, default=MAX_SECONDS)
    if estimator.ensemble is not None:
        return given_ensemble(estimator.ensemble)
    facts = facts_of_rows(trials.rows, trials.candidates, trials.classes)
    explicit = explicit_values(estimator)
    portfolio = candidate_options(facts)
    is_asked_for = explicit.get("encoder") in GRADIENT_FREE
    if not is_asked_for and not _allows_gradient_free(estimator, explicit):
        portfolio = [each for each in portfolio if each.parameters["encoder"] not in GRADIENT_FREE]
    options = narrow(portfolio, explicit)
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
        on_progress=partial(_report_trial, estimator.on_epoch, checkpoint),
        resume_folder=None if checkpoint is None else checkpoint.folder,
    )


def choose_settings(
    trials: HeldOutTrials,
    options: list[Option],
    facts: Mapping[str, Any],
    *,
    budget: float | None = None,
    on_progress: ProgressCallback | None = None,
    resume_folder: Path | None = None,
) -> Decisions:
    """Compare options on held-out rows and average the best."""
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
    average = _Average(trials, best, weights, first.resource)
    reasons += average.correct(is_ordinal=facts["ordered labels"])
    taken = {option.name: option for option in average.options}
    decisions = Decisions(
        facts=facts,
        options=tuple(taken.get(option.name, option) for option in options),
        trials=tuple(search.trials),
        taken=tuple(zip(taken, weights, strict=True)),
        criterion=CRITERION,
        reasons=tuple(reasons),
        warnings=(*warnings, *filter(None, [average.frequent_label_warning])),
        baselines={"majority": 0.0},
        seconds=search.seconds,
        budget=budget,
    )
    held_out = trials.average(decisions) if len(best) > 1 else None
    return replace(decisions, held_out=held_out and float(best_information(*held_out).mean()))


@dataclass
class _Average:
    """Settings that are averaged, and what held-out rows say should be corrected in them.

    `share`: fraction of the epochs in their trials.
    """

    trials: HeldOutTrials
    options: list[Option]
    weights: list[float]
    share: float
    frequent_label_warning: str = ""

    def correct(self, *, is_ordinal: bool) -> list[str]:
        """Correct confidence, label frequencies and smoothing; return the reasons."""
        explicit, reasons = self.trials.explicit, []
        decides_temperature = "answer_temperature" not in explicit
        if decides_temperature:
            self._fit_temperatures()
        if not is_ordinal and "label_offsets" not in explicit and self._frequent_label():
            self._fit_offsets()
            if any(each.parameters["label_offsets"] for each in self.options):
                reasons.append(
                    "Predicted label frequencies are corrected (label_offsets): they were far from "
                    "the frequencies that held-out candidates imply."
                )
        if decides_temperature and len(self.options) > 1:
            self._scale_temperatures()
        self.frequent_label_warning = self._frequent_label()
        if is_ordinal and "ordinal_smoothing" not in explicit:
            width = self._fit_smoothing()
            if width:
                reasons.append(
                    "Probabilities are averaged over neighbouring labels "
                    f"(ordinal_smoothing={width:g}): the labels are ordered, and this predicts "
                    "held-out candidates better."
                )
        return reasons

    def _predictions(self) -> list[FloatArray]:
        return [self.trials.predict(each, self.share) for each in self.options]

    def _update(self, **columns: Sequence[Any]) -> None:
        """Replace parameters; each keyword has one value per option."""
        self.options = [
            replace(
                option, parameters={**option.parameters, **dict(zip(columns, row, strict=True))}
            )
            for option, row in zip(self.options, zip(*columns.values(), strict=True), strict=True)
        ]

    def _fit_temperatures(self) -> None:
        """Calibrate each setting, so that an overconfident one does not dominate the average."""
        candidates = self.trials.held_candidates
        found = [best_temperature(each, candidates) for each in self._predictions()]
        self._update(answer_temperature=found)

    def _scale_temperatures(self) -> None:
        """Calibrate the average; offsets scale with the temperature and keep their effect."""
        factor = common_factor(self._predictions(), self.weights, self.trials.held_candidates)
        offsets = [each.parameters["label_offsets"] for each in self.options]
        if "label_offsets" not in self.trials.explicit:
            offsets = [
                each and tuple(round(offset / factor, 4) for offset in each) for each in offsets
            ]
        temperatures = [
            round(factor * each.parameters["answer_temperature"], 4) for each in self.options
        ]
        self._update(answer_temperature=temperatures, label_offsets=offsets)

    def _fit_offsets(self) -> None:
        candidates = self.trials.held_candidates
        self._update(
            label_offsets=[label_offsets(each, candidates) for each in self._predictions()]
        )

    def _fit_smoothing(self) -> float:
        """Smooth over neighbouring labels as much as held-out rows gain by it."""
        average = np.average(self._predictions(), axis=0, weights=self.weights)
        log_proba = torch.from_numpy(np.log(average + 1e-12))
        classes, candidates = self.trials.classes, self.trials.held_candidates
        scores = {
            width: information(
                smooth_over_neighbours(log_proba, width, classes).exp().numpy(), candidates
            )
            for width in (0.0, *SMOOTHINGS)
        }
        best = max(scores, key=lambda width: float(scores[width].mean()))
        if best:
            self._update(ordinal_smoothing=[best] * len(self.options))
        return float(self.options[0].parameters["ordinal_smoothing"])

    def _frequent_label(self) -> str:
        """Return a warning if one label is a candidate more often than predictions are, or "".

        The criterion ignores a label that is a candidate of every row, since it may be false
        everywhere. If it is true, accuracy is lost, and only the user can know.
        """
        candidates = self.trials.held_candidates
        predicted = np.average(self._predictions(), axis=0, weights=self.weights).argmax(axis=1)
        label = int(self.trials.candidates.mean(axis=0).argmax())
        own, always = candidates[np.arange(len(predicted)), predicted], candidates[:, label]
        ahead = always.astype(float) - own
        if ahead.mean() <= 2 * ahead.std() / math.sqrt(len(ahead)):
            return ""
        return (
            f"{str(self.trials.classes[label])!r} is a candidate of {always.mean():.0%} of "
            f"held-out rows, but this model's answers are candidates of only {own.mean():.0%}. "
            "That is right if rows list it whether it is true or not; if it really is that "
            "frequent, a method that follows label frequencies may be right more often "
            "(--method proden)."
        )


def without_search(
    name: str,
    parameters: Mapping[str, Any],
    why: str,
    facts: Mapping[str, Any] | None = None,
    *,
    warn: bool = False,
) -> Decisions:
    """Return the record of a setting that was taken without a trial."""
    option = Option(name, {k: each for k, each in parameters.items() if is_plain(each)})
    return Decisions(
        facts=facts or {},
        options=(option,),
        trials=(),
        taken=((name, 1.0),),
        reasons=() if warn else (why,),
        warnings=(why,) if warn else (),
    )


def given_ensemble(ensemble: Sequence[tuple[float, Mapping[str, Any]]]) -> Decisions:
    """Check the parameter `ensemble` and return the record of its settings."""
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


def _allows_gradient_free(estimator: Any, explicit: dict[str, Any]) -> bool:
    """Return whether no parameter was set that kernels and forests lack."""
    return not GRADIENT_PARAMETERS & set(explicit) and all(
        getattr(estimator, each.name) == each.default
        for each in fields(CandidateParameters)
        if each.name in OBJECTIVE
    )


def _report_trial(
    on_epoch: ProgressCallback | None, checkpoint: Checkpoints | None, record: dict[str, Any]
) -> None:
    """Report progress before a trial, and stop there if that was requested."""
    if record["event"] != "trial":
        return
    if checkpoint is not None and checkpoint.requested_stop is not None:
        raise TrainingStopped(
            f"the search stopped before {record['option']!r}", checkpoint.requested_stop
        )
    if on_epoch is not None:
        progress = {"epoch": record["trial"], "n_epochs": record["trials"]}
        on_epoch({**progress, "deciding": record["option"]})

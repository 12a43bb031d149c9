"""Which settings `fit` trains: the given ones, plain ones, or those that a search takes."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from torch import nn

from groupnoise.candidates.decide import decide, given_ensemble, without_search
from groupnoise.candidates.held_out import HeldOut
from groupnoise.candidates.parameters import CandidateParameters
from groupnoise.candidates.portfolio import facts_of, portfolio
from groupnoise.core.arrays import ProgressCallback
from groupnoise.decisions.budget import is_auto, parse_budget
from groupnoise.decisions.halving import SAVED_AS
from groupnoise.decisions.portfolio import narrow
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import TrainingStopped
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.workers import Workers

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
MIN_ROWS = 40
"""With fewer rows nothing is held out."""
MAX_SECONDS = 600.0
"""What the budget "auto" stands for: far more than the search needs at 20 000 rows."""


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
    estimator: Any,
    trials: HeldOut,
    workers: Workers | None,
    checkpoint: Checkpoints | None,
) -> Decisions:
    """Return the settings to train and why.

    Parameters
    ----------
    estimator : MaxMatchingPartialLabelClassifier
        What is "auto" in it is decided.
    trials : HeldOut
        Tries settings on the training data.
    workers : Workers, optional
        Several of them share one training, and nothing is searched for.
    checkpoint : Checkpoints, optional
        Where finished trials are saved.

    Returns
    -------
    Decisions
        With one setting or more.
    """
    budget = parse_budget(estimator.budget, default=MAX_SECONDS)
    if estimator.ensemble is not None:
        return given_ensemble(estimator.ensemble)
    facts = facts_of(trials.rows, trials.candidates, trials.classes)
    explicit = explicit_values(estimator)
    offered = portfolio(facts)
    if explicit.get("encoder") != "kernel" and not _leaves_objective(estimator, explicit):
        offered = [each for each in offered if each.parameters["encoder"] != "kernel"]
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
            f"{len(trials.rows)} rows are too few to hold any out ({MIN_ROWS} are needed), so "
            "plain settings were taken; give the parameters you know better."
        )
        return without_search("plain", plain, why, facts, warn=True)
    if len(options) == 1:
        why = "Explicit values left one setting of the portfolio."
        return without_search(options[0].name, options[0].parameters, why, facts)
    if checkpoint is not None and not checkpoint.resume:
        (checkpoint.folder / SAVED_AS).unlink(missing_ok=True)
    return decide(
        trials,
        options,
        facts,
        budget=budget,
        on_progress=partial(_report, estimator.on_epoch, checkpoint),
        resume_folder=None if checkpoint is None else checkpoint.folder,
    )


def _leaves_objective(estimator: Any, explicit: dict[str, Any]) -> bool:
    """Tell whether nothing was said about objective and steps, which a kernel has not."""
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

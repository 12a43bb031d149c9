"""What `fit` decides for candidate labels, by the information of held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from groupnoise.candidates.model import CandidateModel
from groupnoise.candidates.parameters import CandidateParameters
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.core.checks import check_positive
from groupnoise.core.prior_weights import spread_over_neighbours
from groupnoise.decisions.halving import standard_error, successive_halving
from groupnoise.decisions.portfolio import Option, is_plain
from groupnoise.decisions.record import Decisions
from groupnoise.exceptions import ParameterError

MIN_ROWS = 40
"""With fewer rows nothing is held out."""
MAX_TRIAL_ROWS = 4_000
"""Rows that trials look at; more would change the ranking little and the time much."""
HELD_OUT = 0.25
FOLDS = ((300, 4), (1_000, 2))
"""(rows up to, folds) of the held-out comparison; larger data have one."""
TRIAL_EPOCHS = 0.25
"""Share of the epochs that a trial gets: on the design sets a second rung with all of them
changed neither the ranking nor the accuracy of the average."""
MAX_AVERAGED = 3
DOUBT = 0.02
"""Share of every answer that is spread evenly, so that no held-out row can cost without bound."""
TEMPERATURES = (0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
SMOOTHINGS = (1.0, 2.0, 4.0)
CRITERION = "information on held-out candidates (log lift over other rows)"


def information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return how much better each row predicts its own candidates than other rows do.

    log P(S_i | x_i) - log mean_j P(S_i | x_j): a label that is a candidate nearly everywhere is
    covered by whoever always answers it, and earns nothing here.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        Of held-out rows.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Their candidate labels.

    Returns
    -------
    ndarray of shape (n_rows,)
        Zero on average for answers that do not depend on the row.
    """
    doubted = (1.0 - DOUBT) * probabilities + DOUBT / probabilities.shape[1]
    own = (doubted * candidates).sum(axis=1)
    others = candidates @ doubted.mean(axis=0)
    result: FloatArray = np.log(own) - np.log(others)
    return result


def best_information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return the information at the temperature that suits the answers best.

    Settings differ in how sure they sound, which any of them could be cured of; what counts is
    how well they tell labels apart.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        Of held-out rows.
    candidates : bool ndarray of shape (n_rows, n_classes)
        Their candidate labels.

    Returns
    -------
    ndarray of shape (n_rows,)
        As :func:`information` gives it.
    """
    log_proba = np.log(np.maximum(probabilities, 1e-9))
    scores = [information(softmax(log_proba / t, axis=1), candidates) for t in TEMPERATURES]
    return max(scores, key=lambda each: float(each.mean()))


@dataclass
class HeldOut:
    """Trials of options on held-out rows, with the predictions they made.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        The features.
    candidates : bool ndarray of shape (n_rows, n_classes)
        The candidate labels.
    classes : ndarray of shape (n_classes,)
        The labels.
    weights : array-like of shape (n_rows, n_classes), optional
        Trust in each candidate.
    given : mapping
        Parameters that are not decided.
    seed : int
        Decides the folds and the trials.
    """

    rows: NDArray[Any]
    candidates: BoolArray
    classes: NDArray[Any]
    weights: ArrayLike | None
    given: Mapping[str, Any]
    seed: int
    predictions: dict[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = np.random.default_rng([self.seed, 1])
        order = generator.permutation(len(self.rows))[:MAX_TRIAL_ROWS]
        n_folds = next((folds for limit, folds in FOLDS if len(order) <= limit), 1)
        size = max(1, round(len(order) * HELD_OUT))
        self.folds: list[tuple[IntArray, IntArray]] = []
        for number in range(n_folds):
            held = order[number * size : (number + 1) * size]
            self.folds.append((np.setdiff1d(order, held), np.sort(held)))
        self.held = np.concatenate([held for _, held in self.folds])

    def __call__(self, option: Option, share: float) -> FloatArray:
        """Return the information of held-out rows after a share of the epochs."""
        parameters = {**self.given, **option.parameters, "n_members": 1, "on_epoch": None}
        parameters["max_epochs"] = max(1, round(share * parameters["max_epochs"]))
        parts = []
        for number, (kept, held) in enumerate(self.folds):
            model = CandidateModel(**{**parameters, "random_state": self.seed + number})
            weights = None if self.weights is None else np.asarray(self.weights)[kept]
            model._fit_rows(self.rows[kept], self.candidates[kept], self.classes, weights)
            parts.append(model.predict_proba(self.rows[held]))
        self.predictions[option.name] = np.concatenate(parts)
        return best_information(self.predictions[option.name], self.candidates[self.held])


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
        With the options taken, one to three of equal weight.
    """
    search = successive_halving(
        options,
        trials,
        rungs=(TRIAL_EPOCHS,),
        budget=budget,
        tie=0.0,
        on_progress=on_progress,
        resume_folder=resume_folder,
        fingerprint=repr((trials.seed, facts, sorted(option.name for option in options))),
    )
    best = search.ranking[:MAX_AVERAGED]
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
    best = _smoothed(trials, best) if facts["labels in an order"] else best
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


def _smoothed(trials: HeldOut, options: list[Option]) -> list[Option]:
    """Return options whose answers are averaged over neighbouring labels, if that helps."""
    known = [trials.predictions[each.name] for each in options if each.name in trials.predictions]
    if not known or any(each.parameters["ordinal_smoothing"] for each in options):
        return options
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

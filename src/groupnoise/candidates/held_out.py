"""HeldOutTrials: how well a setting predicts candidates of rows it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from groupnoise.candidates.model import CandidateModel
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.prior_weights import spread_over_neighbours
from groupnoise.core.scaling import Scaler
from groupnoise.decisions.portfolio import Option
from groupnoise.decisions.record import Decisions

MAX_TRIAL_ROWS = 4_000
"""Rows that trials look at; more would change the ranking little and the time much."""
HELD_OUT = 0.25
FOLDS = ((300, 4), (1_000, 2))
"""(rows up to, folds) of the held-out comparison; larger data have one."""
DOUBT = 0.02
"""Share of every answer that is spread evenly, so that no held-out row can cost without bound."""
MIN_TEMPERATURE = 0.7
"""Trials see fewer rows and steps than what is trained in the end, which is surer by itself."""
TEMPERATURES = (0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)


def information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return how much better each row predicts its own candidates than other rows do.

    log P(S_i | x_i) - log mean_j P(S_i | x_j): a label that is a candidate nearly everywhere is
    covered by whoever always answers it, and earns nothing here.

    Zero on average for answers that do not depend on the row. `probabilities` (n_rows, n_classes):
    of held-out rows.
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

    As :func:`information` gives it. `probabilities` (n_rows, n_classes): of held-out rows.
    `candidates` (n_rows, n_classes): their candidate labels.
    """
    scores = [information(tempered(probabilities, t), candidates) for t in TEMPERATURES]
    return max(scores, key=lambda each: float(each.mean()))


def tempered(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Return probabilities whose logarithms are divided by a temperature.

    Of shape (n_rows, n_classes): rows sum to one. `temperature`: above 1 they become more even.
    """
    if temperature == 1.0:
        return probabilities
    result: FloatArray = softmax(np.log(np.maximum(probabilities, 1e-9)) / temperature, axis=1)
    return result


def best_temperature(probabilities: FloatArray, candidates: BoolArray) -> float:
    """Return the temperature under which answers tell most of held-out candidates.

    One of `TEMPERATURES`, none of the least ones. `probabilities`: of shape (n_rows, n_classes).
    `candidates` (n_rows, n_classes): their candidate labels.
    """
    allowed = [each for each in TEMPERATURES if each >= MIN_TEMPERATURE]
    return max(
        allowed, key=lambda t: float(information(tempered(probabilities, t), candidates).mean())
    )


@dataclass
class HeldOutTrials:
    """Trials of options on held-out rows, with the predictions they made.

    `rows` (n_rows, n_features): the features.
    `candidates` (n_rows, n_classes): the candidate labels.
    `classes`: the labels.
    `weights` (n_rows, n_classes): trust in each candidate.
    `given`: parameters that are not decided.
    `seed`: decides the folds and the trials.
    `asked`: decided parameters that the user gave a value.
    """

    rows: NDArray[Any]
    candidates: BoolArray
    classes: NDArray[Any]
    weights: ArrayLike | None
    given: Mapping[str, Any]
    seed: int
    asked: Mapping[str, Any] = field(default_factory=dict)
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
        self._scalers: dict[tuple[str, int], Scaler] = {}
        self.held = np.concatenate([held for _, held in self.folds])

    def __call__(self, option: Option, share: float) -> FloatArray:
        """Return the information of held-out rows after a share of the epochs."""
        parameters = {**self.given, **option.parameters, "n_members": 1, "on_epoch": None}
        parameters["max_epochs"] = max(1, round(share * parameters["max_epochs"]))
        parts = []
        for number, (kept, held) in enumerate(self.folds):
            model = CandidateModel(**{**parameters, "random_state": self.seed + number})
            weights = None if self.weights is None else np.asarray(self.weights)[kept]
            known = self._scalers.get((model.scaling, number))
            model._fit_rows(
                self.rows[kept], self.candidates[kept], self.classes, weights, scaler=known
            )
            # Exponents of many features take longer to find than a kernel to solve.
            self._scalers[model.scaling, number] = model.scaler_
            parts.append(model.predict_proba(self.rows[held]))
        self.predictions[option.name] = np.concatenate(parts)
        return best_information(self.predictions[option.name], self.candidates[self.held])

    def predicted(self, option: Option, share: float) -> FloatArray:
        """Return what an option said of held-out rows at the temperature it was decided on.

        A trial that was read from a checkpoint is made again.

        Of shape (n_rows, n_classes). `option`: as it was taken. `share`: the share of the epochs
        that its trial had.
        """
        if option.name not in self.predictions:
            plain = {**option.parameters, "answer_temperature": 1.0, "ordinal_smoothing": 0.0}
            self(replace(option, parameters={**plain, **self.asked}), share)
        if "answer_temperature" in self.asked:
            return self.predictions[option.name]
        return tempered(self.predictions[option.name], option.parameters["answer_temperature"])

    def average(self, decisions: Decisions) -> tuple[FloatArray, BoolArray] | None:
        """Return what the settings taken say together of held-out rows, and their candidates.

        Returns `probabilities` (n_rows, n_classes): weighted mean of models that did not see the
        rows; `candidates` (n_rows, n_classes): the candidate labels of the same rows. `decisions`:
        the settings taken. Without trials there are no held-out rows, and None is returned. A trial
        that was read from a checkpoint is made again.
        """
        if not decisions.trials:
            return None
        options = {option.name: option for option in decisions.options}
        total = np.zeros((len(self.held), self.candidates.shape[1]))
        for name, weight in decisions.taken:
            trial = next(each for each in decisions.trials if each.option == name)
            predicted = self.predicted(options[name], trial.resource)
            # What the user gave was part of the trial; what was decided later was not.
            given = "ordinal_smoothing" in self.asked
            width = 0.0 if given else float(options[name].parameters["ordinal_smoothing"])
            log_proba = torch.from_numpy(np.log(predicted + 1e-12))
            total += weight * spread_over_neighbours(log_proba, width, self.classes).exp().numpy()
        return total, self.candidates[self.held]

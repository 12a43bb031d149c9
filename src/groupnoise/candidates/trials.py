"""How well settings predict the candidates of held-out rows, and the corrections these call for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from groupnoise.candidates.model import CandidateModel
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, first_equal_rows
from groupnoise.core.prior_weights import smooth_over_neighbours
from groupnoise.core.scaling import Scaler
from groupnoise.decisions.portfolio import Option
from groupnoise.decisions.record import Decisions

MAX_TRIAL_ROWS = 4_000
"""Rows used in trials; more would hardly change the ranking."""
HELD_OUT = 0.25
FOLDS = ((300, 4), (1_000, 2))
"""(maximum rows, folds); larger data have a single fold."""
UNIFORM_SHARE = 0.02
"""Weight of the uniform distribution in every prediction, which bounds the loss of a row."""
MIN_TEMPERATURE = 0.7
"""Trials use fewer rows and epochs than the final training, which is more confident by itself."""
TEMPERATURES = (0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
FACTORS = (0.35, 0.42, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2)
"""Of the temperatures of settings that are averaged."""
N_EM_STEPS = 50
"""Of expectation maximization, for the frequencies of labels."""
MIN_DISTANCE = 0.1
"""Total variation distance of predicted from estimated label frequencies that is corrected."""
MAX_SAMPLING_ERROR = 1.5
"""The same in units of the distance expected from sampling error alone."""


def information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return how much better each row predicts its own candidates than other rows do.

    log P(S_i | x_i) - log mean_j P(S_i | x_j), zero on average for predictions that do not depend
    on the row: always predicting a label that is a candidate nearly everywhere gains nothing.

    `probabilities`, `candidates` (n_rows, n_classes): of held-out rows.
    """
    mixed = (1.0 - UNIFORM_SHARE) * probabilities + UNIFORM_SHARE / probabilities.shape[1]
    own = (mixed * candidates).sum(axis=1)
    others = candidates @ mixed.mean(axis=0)
    return np.log(own) - np.log(others)


def best_information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return the information of each row at the best temperature.

    Settings are compared by how well they separate labels, not by their confidence, which is
    corrected later.
    """
    scores = [information(at_temperature(probabilities, t), candidates) for t in TEMPERATURES]
    return max(scores, key=lambda each: float(each.mean()))


def at_temperature(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Return probabilities whose logarithms are divided by a temperature."""
    if temperature == 1.0:
        return probabilities
    return softmax(np.log(np.maximum(probabilities, 1e-9)) / temperature, axis=1)


def best_temperature(probabilities: FloatArray, candidates: BoolArray) -> float:
    """Return the temperature, at least `MIN_TEMPERATURE`, with most information on candidates."""
    return max(
        (each for each in TEMPERATURES if each >= MIN_TEMPERATURE),
        key=lambda t: float(information(at_temperature(probabilities, t), candidates).mean()),
    )


def common_factor(
    predictions: Sequence[FloatArray], weights: Sequence[float], candidates: BoolArray
) -> float:
    """Return the common factor of all temperatures that gives their average most information.

    The average of calibrated predictions that differ is underconfident.

    `predictions`: of held-out rows by each setting, (n_rows, n_classes) each. `weights`: of the
    settings. `candidates`: of the same rows.
    """

    def average_information(factor: float) -> float:
        sharpened = [at_temperature(each, factor) for each in predictions]
        average = np.average(sharpened, axis=0, weights=weights)
        return float(information(average, candidates).mean())

    return max(FACTORS, key=average_information)


def label_frequencies(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    r"""Estimate label frequencies by expectation maximization, shape (n_classes,).

    Predictions are multiplied by one factor per label until their mean over the candidates of each
    row equals their marginal:

    .. math:: \pi_c \leftarrow \frac1n \sum_i
        \frac{[c \in S_i]\, P(c \mid x_i)\, \pi_c / \bar P_c}
             {\sum_{d \in S_i} P(d \mid x_i)\, \pi_d / \bar P_d}

    `probabilities`, `candidates` (n_rows, n_classes): of held-out rows.
    """
    predicted = np.maximum(probabilities.mean(axis=0), 1e-12)
    within = probabilities * candidates
    frequencies: FloatArray = predicted
    for _ in range(N_EM_STEPS):
        posterior = within * (frequencies / predicted)
        total = np.maximum(posterior.sum(axis=1, keepdims=True), 1e-12)
        frequencies = (posterior / total).mean(axis=0)
    return frequencies


def label_offsets(probabilities: FloatArray, candidates: BoolArray) -> tuple[float, ...] | None:
    """Return what to add to log probabilities so that predictions have the label frequencies.

    Normalizing over rows keeps a label from winning only because it is a candidate of many rows;
    it also predicts labels as if they were equally frequent, which is wrong where one label
    dominates. Offsets shrink to zero (None) where the difference may be sampling error.
    """
    predicted = np.maximum(probabilities.mean(axis=0), 1e-12)
    frequencies = label_frequencies(probabilities, candidates)
    distance = float(np.abs(frequencies - predicted).sum()) / 2
    # Mean distance of sample frequencies from those of the population.
    std_errors = np.sqrt(predicted * (1 - predicted) / len(candidates))
    expected = math.sqrt(2 / math.pi) * std_errors.sum() / 2
    limit = max(MIN_DISTANCE, MAX_SAMPLING_ERROR * float(expected))
    strength = 1.0 - limit / max(distance, 1e-12)
    if strength <= 0:
        return None
    offsets = strength * np.log((frequencies + 1e-6) / predicted)
    return tuple(round(float(each), 4) for each in offsets)


@dataclass
class HeldOutTrials:
    """Cross-validation of options on a sample of the rows; keeps the held-out predictions.

    `rows` (n_rows, n_features), `candidates` (n_rows, n_classes), `classes`: the training data.
    `weights` (n_rows, n_classes): trust in each candidate.
    `base`: a value for every parameter; those of an option take precedence.
    `seed`: decides the folds and the trials.
    `explicit`: decided parameters that the user set.
    """

    rows: NDArray[Any]
    candidates: BoolArray
    classes: NDArray[Any]
    weights: ArrayLike | None
    base: Mapping[str, Any]
    seed: int
    explicit: Mapping[str, Any] = field(default_factory=dict)
    predictions: dict[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = np.random.default_rng([self.seed, 1])
        order = generator.permutation(len(self.rows))[:MAX_TRIAL_ROWS]
        self.copies = first_equal_rows(self.rows)
        if self.copies is not None:
            place = generator.permutation(len(self.rows))[self.copies]
            order = order[np.argsort(place[order], kind="stable")]
        n_folds = next((folds for limit, folds in FOLDS if len(order) <= limit), 1)
        size = max(1, round(len(order) * HELD_OUT))
        self.folds: list[tuple[IntArray, IntArray]] = []
        for number in range(n_folds):
            held = order[number * size : (number + 1) * size]
            kept = np.setdiff1d(order, held)
            if self.copies is not None:  # a fold may end between copies
                kept = kept[~np.isin(self.copies[kept], self.copies[held])]
            self.folds.append((kept, np.sort(held)))
        self._scalers: dict[tuple[str, int], Scaler] = {}
        self.held = np.concatenate([held for _, held in self.folds])

    @property
    def held_candidates(self) -> BoolArray:
        """The candidates of held-out rows, (n_held, n_classes)."""
        return self.candidates[self.held]

    def __call__(self, option: Option, share: float) -> FloatArray:
        """Return the information of held-out rows after a share of the epochs."""
        parameters = {**self.base, **option.parameters, "n_members": 1, "on_epoch": None}
        parameters["max_epochs"] = max(1, round(share * parameters["max_epochs"]))
        parts = []
        for number, (kept, held) in enumerate(self.folds):
            model = CandidateModel(**{**parameters, "random_state": self.seed + number})
            weights = None if self.weights is None else np.asarray(self.weights)[kept]
            known = self._scalers.get((model.scaling, number))
            model._fit_rows(
                self.rows[kept], self.candidates[kept], self.classes, weights, scaler=known
            )
            # Fitting the exponents of many features takes longer than solving a kernel.
            self._scalers[model.scaling, number] = model.scaler_
            parts.append(model.predict_proba(self.rows[held]))
        self.predictions[option.name] = np.concatenate(parts)
        return best_information(self.predictions[option.name], self.held_candidates)

    def predict(self, option: Option, share: float) -> FloatArray:
        """Return the held-out predictions of an option at its temperature and offsets.

        Of shape (n_held, n_classes). A trial that was read from a checkpoint is repeated. `share`:
        of the epochs, as in its trial.
        """
        if option.name not in self.predictions:
            undecided = {"answer_temperature": 1.0, "ordinal_smoothing": 0.0, "label_offsets": None}
            parameters = {**option.parameters, **undecided, **self.explicit}
            self(replace(option, parameters=parameters), share)
        predicted = self.predictions[option.name]
        if "answer_temperature" not in self.explicit:
            predicted = at_temperature(predicted, option.parameters["answer_temperature"])
        offsets = option.parameters.get("label_offsets")
        if offsets is None or "label_offsets" in self.explicit:
            return predicted
        return softmax(np.log(np.maximum(predicted, 1e-9)) + offsets, axis=1)

    def average(self, decisions: Decisions) -> tuple[FloatArray, BoolArray] | None:
        """Return the average held-out predictions of the chosen settings, and the candidates.

        Both of shape (n_held, n_classes); None if there were no trials.
        """
        if not decisions.trials:
            return None
        options = {option.name: option for option in decisions.options}
        total = np.zeros((len(self.held), self.candidates.shape[1]))
        for name, weight in decisions.taken:
            trial = next(each for each in decisions.trials if each.option == name)
            predicted = self.predict(options[name], trial.resource)
            # Explicit smoothing was part of the trial; a decided one was not.
            is_explicit = "ordinal_smoothing" in self.explicit
            width = 0.0 if is_explicit else float(options[name].parameters["ordinal_smoothing"])
            log_proba = torch.from_numpy(np.log(predicted + 1e-12))
            total += weight * smooth_over_neighbours(log_proba, width, self.classes).exp().numpy()
        return total, self.held_candidates

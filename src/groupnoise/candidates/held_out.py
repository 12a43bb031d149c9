"""Settings worth trying on candidate labels, and how well each does on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from groupnoise.candidates.model import CandidateModel
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, first_equal_rows
from groupnoise.core.prior_weights import integer_labels, smooth_over_neighbours
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
PLANS = (
    (1_000, (64, 60, 2)),
    (4_000, (64, 60, 1)),
    (10_000, (128, 40, 2)),
    (math.inf, (128, 40, 1)),
)
"""(rows up to, (batch size, epochs, members of each setting)): many rows need fewer passes."""
MAX_KERNEL_ROWS = 4_000
"""Beyond this a kernel between all rows costs more than networks, which then know more."""
MANY_ROWS = 10_000
"""Beyond this settings hold back less."""
KERNEL = {"encoder": "kernel", "normalize": "objects"}
KERNELS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("standard", {"scaling": "standard"}, "nearby rows share labels"),
    ("wide", {"scaling": "standard", "kernel_scale": 2.0}, "distant rows share labels too"),
    (
        "narrow",
        {"scaling": "standard", "kernel_ridge": 0.3, "kernel_scale": 0.5},
        "only very near rows share labels, regularized",
    ),
    ("narrow, free", {"scaling": "standard", "kernel_scale": 0.5}, "only near rows share labels"),
    ("power", {"scaling": "power"}, "rows share labels once long tails are compressed"),
    ("l2", {"scaling": "l2"}, "rows share labels by direction, not length"),
    (
        "l2, wide",
        {"scaling": "l2", "kernel_scale": 2.0},
        "rows in other directions share labels too",
    ),
    (
        "l2, linear",
        {"scaling": "l2", "kernel_scale": 4.0, "kernel_ridge": 0.01},
        "labels are almost linear in the direction of rows",
    ),
)
"""Name, parameters and meaning of the kernels, which are solved and cost next to nothing."""
TREES: tuple[tuple[str, dict[str, Any], str, float], ...] = tuple(
    (name, {"encoder": name, "normalize": "objects", "scaling": "standard"}, why, 0.5)
    for name, why in (
        ("trees", "labels depend on feature thresholds"),
        ("random trees", "labels depend a little on many thresholds"),
    )
)
"""Name, parameters, meaning and complexity of forests, which heed no scale of a feature."""
OF_FEWER_ROWS: tuple[tuple[str, dict[str, Any], str, float], ...] = (
    (
        "mlp, standard",
        {"scaling": "standard", "weight_decay": 0.3, "weighting_strength": 1.0},
        "a network on standardized features, lightly regularized",
        1.0,
    ),
    (
        "mlp, l2",
        {"scaling": "l2", "weight_decay": 0.3, "weighting_strength": 1.0},
        "a network on row directions, lightly regularized",
        1.0,
    ),
    (
        "mlp, power",
        {"scaling": "power", "weight_decay": 0.3, "weighting_strength": 1.0},
        "a network on features with compressed tails",
        1.2,
    ),
    ("mlp, standard, free", {"scaling": "standard"}, "an unregularized network", 1.5),
    (
        "mlp, l2, decay",
        {"scaling": "l2", "weight_decay": 1.0},
        "a network on row directions, strongly regularized",
        0.9,
    ),
    (
        "mlp, standard, decay",
        {"scaling": "standard", "weight_decay": 1.0},
        "a network on standardized features, strongly regularized",
        0.9,
    ),
    (
        "mlp, standard, over labels",
        {"scaling": "standard", "weight_decay": 0.3, "normalize": "objects"},
        "a network normalized over labels only",
        1.0,
    ),
    (
        "linear, standard",
        {"scaling": "standard", "weight_decay": 1.0, "encoder": "linear", "normalize": "objects"},
        "labels are linear in the features",
        0.0,
    ),
    (
        "linear, soft",
        {
            "scaling": "standard",
            "weight_decay": 0.3,
            "encoder": "linear",
            "normalize": "objects",
            "temperature": 20.0,
        },
        "labels are linear in the features, and candidates hardly differ",
        0.0,
    ),
)
"""Name, parameters, meaning and complexity of settings that are trained step by step."""
OF_MANY_ROWS: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "standard, over labels",
        {"scaling": "standard", "normalize": "objects", "dropout": 0.2},
        "a network over features of equal spread",
    ),
    (
        "power, over labels",
        {"scaling": "power", "normalize": "objects", "dropout": 0.2},
        "a network on features with compressed tails",
    ),
    (
        "l2, over labels",
        {"scaling": "l2", "normalize": "objects", "dropout": 0.2},
        "a network over the directions of rows",
    ),
    (
        "standard, deep",
        {"scaling": "standard", "normalize": "objects", "hidden": (300, 300), "dropout": 0.2},
        "a network of two hidden layers",
    ),
    (
        "standard, free",
        {"scaling": "standard", "dropout": 0.2},
        "a network normalised over rows too",
    ),
    (
        "standard, dropout",
        {"scaling": "standard", "normalize": "objects"},
        "a network held back by dropout",
    ),
)
"""Name, parameters and meaning of settings for more rows: less is held back."""
MIN_ORDERED = 10
"""From this number of labels on, whole numbers may be an order such as ages."""
MAX_SPREAD = 0.5
"""How far the candidates of a row lie from each other, in units of chance, if they have an order.
Whether answers are then averaged over neighbours is for held-out rows to say."""


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
    return np.log(own) - np.log(others)


def best_information(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    """Return the information at the temperature that suits the answers best.

    Settings differ in how sure they sound, which any of them could be cured of; what counts is
    how well they tell labels apart.

    As :func:`information` gives it. `probabilities` (n_rows, n_classes): of held-out rows.
    `candidates` (n_rows, n_classes): their candidate labels.
    """
    scores = [information(at_temperature(probabilities, t), candidates) for t in TEMPERATURES]
    return max(scores, key=lambda each: float(each.mean()))


def at_temperature(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Return probabilities whose logarithms are divided by a temperature."""
    if temperature == 1.0:
        return probabilities
    return softmax(np.log(np.maximum(probabilities, 1e-9)) / temperature, axis=1)


def best_temperature(probabilities: FloatArray, candidates: BoolArray) -> float:
    """Return the temperature under which answers tell most of held-out candidates.

    One of `TEMPERATURES`, none of the least ones. `probabilities`: of shape (n_rows, n_classes).
    `candidates` (n_rows, n_classes): their candidate labels.
    """
    allowed = [each for each in TEMPERATURES if each >= MIN_TEMPERATURE]
    return max(
        allowed,
        key=lambda t: float(information(at_temperature(probabilities, t), candidates).mean()),
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
            undecided = {"answer_temperature": 1.0, "ordinal_smoothing": 0.0, "label_offsets": None}
            parameters = {**option.parameters, **undecided, **self.asked}
            self(replace(option, parameters=parameters), share)
        found = self.predictions[option.name]
        if "answer_temperature" not in self.asked:
            found = at_temperature(found, option.parameters["answer_temperature"])
        offsets = option.parameters.get("label_offsets")
        if offsets is None or "label_offsets" in self.asked:
            return found
        return softmax(np.log(np.maximum(found, 1e-9)) + offsets, axis=1)

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
            total += weight * smooth_over_neighbours(log_proba, width, self.classes).exp().numpy()
        return total, self.candidates[self.held]


def facts_of_rows(
    rows: NDArray[Any], candidates: BoolArray, classes: NDArray[Any]
) -> dict[str, Any]:
    """Return what is known of the data before any training.

    Name to number or text. `rows`: of shape (n_rows, n_features). `candidates` (n_rows, n_classes):
    the candidate labels.
    """
    sizes = candidates.sum(axis=1)
    numbers = integer_labels(classes) if len(classes) >= MIN_ORDERED else None
    return {
        "rows": len(rows),
        "features": rows.shape[1],
        "classes": len(classes),
        "candidates per row": round(float(sizes.mean()), 3),
        "rows with one candidate": int((sizes == 1).sum()),
        "fraction of zeros": round(float((rows == 0).mean()), 3),
        "ordered labels": numbers is not None
        and _are_neighbours(candidates[:, np.argsort(numbers)]),
    }


def _are_neighbours(candidates: BoolArray) -> bool:
    """Tell whether candidates of a row lie much nearer to each other than by chance."""
    columns = np.arange(candidates.shape[1])
    sizes = candidates.sum(axis=1)
    several = sizes > 1
    if not several.any():
        return False
    some, n = candidates[several], sizes[several]
    mean = some @ columns / n
    spread = np.sqrt(np.maximum(some @ columns**2 / n - mean**2, 0.0)).mean()
    frequency = candidates.mean(axis=0) / candidates.mean(axis=0).sum()
    centre = frequency @ columns
    # Few draws lie nearer to their own mean than to that of all.
    by_chance = np.sqrt(frequency @ (columns - centre) ** 2) * np.sqrt(1 - 1 / n).mean()
    return bool(spread < MAX_SPREAD * by_chance)


def candidate_options(facts: Mapping[str, Any]) -> list[Option]:
    """Return the settings worth trying, the safest first."""
    n_rows = facts["rows"]
    batch_size, max_epochs, n_members = next(plan for limit, plan in PLANS if n_rows <= limit)
    is_large = n_rows > MANY_ROWS
    common = {
        "encoder": "mlp",
        "hidden": (300,),
        "dropout": 0.5,
        "normalize": "both",
        "temperature": (1.0, 0.3),
        "weighting_strength": 0.0,
        "max_epochs": max_epochs,
        "batch_size": batch_size,
        "learning_rate": 3e-3 if is_large else 1e-2,
        "weight_decay": 0.0,
        "n_members": n_members,
        "ordinal_smoothing": 0.0,
        "answer_temperature": 1.0,
        "label_offsets": None,
        "kernel_scale": 1.0,
        "kernel_ridge": 0.05,
    }
    if is_large:
        table = [(f"mlp, {name}", parameters, why, 1.0) for name, parameters, why in OF_MANY_ROWS]
    else:
        table = [*OF_FEWER_ROWS, *TREES]
    if n_rows <= MAX_KERNEL_ROWS:
        table += [
            (f"kernel, {name}", {**KERNEL, **parameters}, why, 0.5)
            for name, parameters, why in KERNELS
        ]
    sparse = facts["fraction of zeros"] > 0.5
    return [
        Option(name, {**common, **parameters}, why, complexity)
        for name, parameters, why, complexity in table
        if not (sparse and parameters["scaling"] == "power")
    ]

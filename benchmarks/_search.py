"""What the searches on validation parts share: settings of a recipe, and a mean with its error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier
from groupnoise.core.metrics import accuracy
from groupnoise.io import BagDataset, PartialLabelDataset
from groupnoise.io.datasets import split_rows, subset_bags, subset_rows
from groupnoise.reproduce.recipe_files import read_recipe

RECIPES = Path(__file__).parents[1] / "src/groupnoise/reproduce/recipes"


def plain_settings(recipe: str, dataset: str) -> dict[str, Any]:
    """Return one value of every setting of `ours`: the first of each grid."""
    grid = read_recipe(RECIPES / f"{recipe}.toml").method("ours", dataset).grid
    return {name: values[0] for name, values in grid.items()}


def mean_accuracy(fit_and_score: Callable[[int], float], seeds: Sequence[int]) -> dict[str, float]:
    """Return the mean accuracy over the seeds, its standard error, and the time of a fit."""
    started = time.process_time()
    values = [fit_and_score(seed) for seed in seeds]
    return {
        "accuracy": round(float(np.mean(values)), 4),
        "standard_error": round(float(np.std(values, ddof=1) / len(values) ** 0.5), 4),
        "fit_seconds": round((time.process_time() - started) / len(values), 1),
    }


def candidate_accuracy(data: PartialLabelDataset, settings: dict[str, Any], seed: int) -> float:
    """Return the accuracy on the true labels of the validation rows."""
    training, validation, _ = split_rows(len(data.features), (0.8, 0.1, 0.1), random_state=seed)
    train, held_out = subset_rows(data, training), subset_rows(data, validation)
    model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=seed)
    model.fit(train.features, train.candidates.astype(np.int64))
    assert held_out.truth is not None
    return accuracy(held_out.truth, model.predict(held_out.features))


def instance_accuracy(
    data: BagDataset,
    settings: dict[str, Any],
    seed: int,
    prepare: Callable[[BagDataset], BagDataset] | None = None,
) -> float:
    """Return the accuracy on the labelled instances of the validation bags.

    `prepare` may change the training bags before they are learned from.
    """
    training, validation, _ = split_rows(len(data.bags), (0.8, 0.1, 0.1), random_state=seed)
    train, held_out = subset_bags(data, training), subset_bags(data, validation)
    if prepare is not None:
        train = prepare(train)
    model = MaxMatchingMILClassifier(**settings, random_state=seed)
    model.fit(train.bags, train.labels.astype(np.int64))
    assert held_out.instance_labels is not None
    known = held_out.instance_labels >= 0
    predicted = model.predict(held_out.bags.objects[known])
    return accuracy(held_out.instance_labels[known], predicted)

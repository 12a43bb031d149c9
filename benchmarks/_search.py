"""What the searches on validation parts share: settings of a recipe, and a mean with its error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.experiments import read_recipe

RECIPES = Path(__file__).parent / "recipes"


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

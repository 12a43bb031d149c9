"""Searches on validation parts; test parts are not used.

    python benchmarks/searches.py bags           # how long to train, from which temperature
    python benchmarks/searches.py background     # bags with background, and trained without it
    python benchmarks/searches.py candidates     # scalings, and courses of the temperature
    python benchmarks/searches.py normalisation  # one normalization or both, candidates drawn too
    python benchmarks/searches.py bags --datasets sival-like --seeds 0:4 --epochs 30 60

Settings are those of `ours` in the recipes `mil` and `pll` but for what is varied; of candidate
labels one member. Figures go to `bag_search_<dataset>.json`, `background_cost_<dataset>.json`,
`candidate_search.json` and `normalisation_search.json` of `benchmarks/results`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import write_result

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier
from groupnoise.candidates.synthetic import replace_candidates
from groupnoise.cli.demo import parse_seeds
from groupnoise.core.metrics import accuracy
from groupnoise.io import BagDataset, PartialLabelDataset, load_dataset
from groupnoise.io.datasets import keep_objects, split_rows, subset_bags, subset_rows
from groupnoise.reproduce.files import read_recipe
from groupnoise.reproduce.trials import instance_accuracy

RECIPES = Path(__file__).parents[1] / "src/groupnoise/reproduce/recipes"
BAG_TEMPERATURES = ((1.0, 0.7), (10.0, 0.5))
TEMPERATURES = ((1.0, 0.3), (3.0, 0.3), (3.0, 1.0))
SCALINGS = ("standard", "l2", "power")
NORMALISATIONS = ("both", "objects")
# Candidates as they came, and drawn ones: the share of rows that get more than one, and how many.
LEVELS = (None, {"epsilon": 0.7, "tau": 3}, {"epsilon": 0.7, "tau": 6})
SEEDS = {"bags": "0:8", "background": "0:8", "candidates": "0:4", "normalisation": "0:6"}
Tried = Iterable[tuple[dict[str, Any], Callable[[int], float]]]
"""Varied settings, and the function that fits and scores them under a seed."""


def plain_settings(recipe: str, dataset: str) -> dict[str, Any]:
    """Return one value of every setting of `ours`: the first of each grid."""
    grid = read_recipe(RECIPES / f"{recipe}.toml").method("ours", dataset).grid
    return {name: values[0] for name, values in grid.items()}


def bag_trials(data: BagDataset, settings: dict[str, Any], epochs: Sequence[int]) -> Tried:
    """Vary the course of the temperature and the epochs."""
    for temperature, max_epochs in itertools.product(BAG_TEMPERATURES, epochs):
        varied = {"temperature": list(temperature), "max_epochs": max_epochs}
        yield varied, partial(bag_accuracy, data, {**settings, **varied})


def background_trials(data: BagDataset, settings: dict[str, Any]) -> Tried:
    """Vary the course of the temperature, and whether background is trained on."""
    for temperature, has_background in itertools.product(BAG_TEMPERATURES, (True, False)):
        varied = {"temperature": list(temperature), "background": has_background}
        fixed = {**settings, **varied}
        yield varied, partial(bag_accuracy, data, fixed, is_whole=has_background)


def candidate_trials(data: PartialLabelDataset, settings: dict[str, Any]) -> Tried:
    """Vary the scaling of the features and the course of the temperature."""
    for scaling, temperature in itertools.product(SCALINGS, TEMPERATURES):
        varied = {"scaling": scaling, "temperature": list(temperature)}
        yield varied, partial(candidate_accuracy, data, {**settings, **varied, "n_members": 1})


def normalisation_trials(data: PartialLabelDataset, settings: dict[str, Any]) -> Tried:
    """Vary the normalization, and the noise of the candidates."""
    for level, normalize in itertools.product(LEVELS, NORMALISATIONS):
        fixed = {**settings, "normalize": normalize, "n_members": 1}
        yield (
            {"drawn": level, "normalize": normalize},
            partial(candidate_accuracy, data, fixed, level=level),
        )


def mean_accuracy(fit_and_score: Callable[[int], float], seeds: Sequence[int]) -> dict[str, float]:
    """Return the mean accuracy over the seeds, its standard error, and the time of a fit."""
    started = time.process_time()
    values = [fit_and_score(seed) for seed in seeds]
    return {
        "accuracy": round(float(np.mean(values)), 4),
        "standard_error": round(float(np.std(values, ddof=1) / len(values) ** 0.5), 4),
        "fit_seconds": round((time.process_time() - started) / len(values), 1),
    }


def candidate_accuracy(
    data: PartialLabelDataset,
    settings: dict[str, Any],
    seed: int,
    level: dict[str, Any] | None = None,
) -> float:
    """Return the accuracy on the true labels of validation rows, candidates drawn at a level."""
    if level is not None:
        data = replace_candidates(data, **level, random_state=seed)
    training, validation, _ = split_rows(len(data.features), (0.8, 0.1, 0.1), random_state=seed)
    train, held_out = subset_rows(data, training), subset_rows(data, validation)
    model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=seed)
    model.fit(train.features, train.candidates.astype(np.int64))
    assert held_out.truth is not None
    return accuracy(held_out.truth, model.predict(held_out.features))


def bag_accuracy(
    data: BagDataset, settings: dict[str, Any], seed: int, is_whole: bool = True
) -> float:
    """Return the accuracy on the labelled instances of the validation bags."""
    training, validation, _ = split_rows(len(data.bags), (0.8, 0.1, 0.1), random_state=seed)
    train, held_out = subset_bags(data, training), subset_bags(data, validation)
    if not is_whole:
        train = without_background(train)
    model = MaxMatchingMILClassifier(**settings, random_state=seed)
    model.fit(train.bags, train.labels.astype(np.int64))
    return instance_accuracy(model, held_out)


def without_background(data: BagDataset) -> BagDataset:
    """Return the bags without their background instances; bags of nothing else are left out."""
    assert data.instance_labels is not None
    known = data.instance_labels >= 0
    some_known = np.add.reduceat(known, data.bags.offsets[:-1], dtype=np.int64) > 0
    rest = subset_bags(data, some_known)
    assert rest.instance_labels is not None
    return keep_objects(rest, rest.instance_labels >= 0)


def main() -> None:
    """Fit every combination under every seed and keep the means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("search", choices=list(SEEDS))
    parser.add_argument("--datasets", nargs="+", help="by default those of the result files")
    parser.add_argument("--seeds", help="FIRST:LAST, the last left out")
    parser.add_argument("--epochs", nargs="+", type=int, default=[30, 60, 120, 240])
    options = parser.parse_args()
    torch.set_num_threads(1)
    search = options.search
    seeds = parse_seeds(options.seeds or SEEDS[search])
    kept = {"part": "validation", "seeds": [*seeds]}
    if search in ("bags", "background"):
        trials: Any = background_trials
        if search == "bags":
            trials = partial(bag_trials, epochs=options.epochs)
        name = {"bags": "bag_search", "background": "background_cost"}[search]
        for dataset in options.datasets or ["hja-birdsong"]:
            settings = plain_settings("mil", dataset)
            rows = rows_of(trials(load_dataset(dataset), settings), seeds)
            write_result(f"{name}_{dataset}", {**kept, "settings": settings, "rows": rows})
        return
    trials, name = {
        "candidates": (candidate_trials, "candidate_search"),
        "normalisation": (normalisation_trials, "normalisation_search"),
    }[search]
    rows = []
    for dataset in options.datasets or ["lost", "msrcv2", "birdsong"]:
        tried = trials(load_dataset(dataset), plain_settings("pll", dataset))
        rows += rows_of(tried, seeds, dataset=dataset)
    write_result(name, {**kept, "rows": rows})


def rows_of(tried: Tried, seeds: Sequence[int], **about: str) -> list[dict[str, Any]]:
    """Return a row for each combination, shown as it comes."""
    rows = []
    for varied, fit_and_score in tried:
        rows.append({**about, **varied, **mean_accuracy(fit_and_score, seeds)})
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()

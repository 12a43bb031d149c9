"""Values beyond the grids whose ends baselines chose in the final tables.

    python benchmarks/wider_grids.py --seeds 100:110
    python benchmarks/wider_grids.py cc --seeds 100:103

The last tables (`reproduce_pll_final.json`, `reproduce_mil_final.json`) hold the validation value
of what every trial chose. Here the values beyond the end are fitted alone, on the same splits:
where one has a higher validation value than what was chosen, the wider grid would have taken it,
and the test figure that follows is compared. Validation rows decide, test rows are reported.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _record import RESULTS, recorded, replace_row, write_result

from groupnoise.cli.demo import parse_seeds
from groupnoise.reproduce.files import FINAL, ORIGIN, read_recipe, read_trial_line
from groupnoise.reproduce.jobs import Job
from groupnoise.reproduce.recipes import DatasetView, Recipe
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import run_jobs

NAME = "wider_grids"
RECIPES = Path(__file__).parents[1] / "src/groupnoise/reproduce/recipes"
CASES: tuple[tuple[str, str, str, str, float, list[float]], ...] = (
    ("pll", "birdsong", "pl-svm", "regularization", 1e-4, [1e-5]),
    ("pll", "fg-net", "clpl", "regularization", 1.0, [10.0, 100.0]),
    ("pll", "msrcv2", "cc", "learning_rate", 1e-2, [3e-3]),
    ("pll", "lost", "proden", "learning_rate", 1e-2, [3e-3]),
    ("pll", "msrcv2", "proden", "learning_rate", 1e-2, [3e-3]),
    ("pll", "lost", "cc", "learning_rate", 3e-2, [1e-1]),
    ("pll", "fg-net", "paloc", "penalty", 1.0, [0.1]),
    ("pll", "birdsong", "proden", "learning_rate", 3e-3, [1e-3]),
    ("mil", "sival-like", "attention-mil", "learning_rate", 3e-2, [1e-1]),
    ("mil", "sival-like", "mi-net", "learning_rate", 3e-3, [1e-3]),
    ("mil", "letter-nonsense", "gicf", "bag_weight", 10.0, [100.0]),
    ("mil", "letter-walk", "gicf", "bag_weight", 10.0, [100.0]),
    ("mil", "spambase-bags", "gicf", "learning_rate", 1.0, [10.0]),
    ("mil", "spambase-bags", "imil", "learning_rate", 1e-3, [1e-4]),
)
"""Recipe, data set, method, parameter, the end that was often chosen, and values beyond it."""


def main() -> None:
    """Fit the values beyond the end of each grid, one split after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", help="Only these, such as cc.")
    parser.add_argument("--datasets", default="", help="Only these, joined by commas.")
    parser.add_argument("--seeds", default="100:110")
    options = parser.parse_args()
    seeds = parse_seeds(options.seeds)
    datasets = [word for word in options.datasets.split(",") if word]
    for name, dataset, method, parameter, end, values in CASES:
        if options.methods and method not in options.methods:
            continue
        if datasets and dataset not in datasets:
            continue
        recipe = beyond(read_recipe(RECIPES / f"{name}.toml"), dataset, method, parameter, values)
        chosen = chosen_trials(name, dataset, method)
        for seed in seeds:
            job = Job(recipe, DatasetView(dataset), seed, method)
            ((_, results),) = run_jobs([job.run], n_jobs=1)
            first = next(each for each in results if each.method == method)
            row = split_row(chosen[seed], first, parameter)
            keep({**row, "end": end, "values": values})
            print(json.dumps(row), flush=True)


def beyond(
    recipe: Recipe, dataset: str, method: str, parameter: str, values: list[float]
) -> Recipe:
    """Return a recipe whose grid of one parameter holds other values on one data set."""
    here = recipe.by_dataset.get(dataset, {})
    changed = {**here, method: {**here.get(method, {}), parameter: values}}
    return replace(recipe, by_dataset={**recipe.by_dataset, dataset: changed})


def chosen_trials(name: str, dataset: str, method: str) -> dict[int, TrialResult]:
    """Return the kept trials of a method on a data set by seed, chosen by the first criterion."""
    result = json.loads((RESULTS / f"reproduce_{name}{FINAL}.json").read_text(encoding="utf-8"))
    trials = [read_trial_line(name, line) for line in result["trials"]]
    return {
        each.seed: each
        for each in trials
        if (each.dataset, each.method, each.criterion) == (dataset, method, result["criteria"][0])
    }


def split_row(kept: TrialResult, further: TrialResult, parameter: str) -> dict[str, Any]:
    """Return the effect of the values beyond the end on one split."""
    # Kept values have four digits; at a tie the value that comes first in a grid stays.
    is_taken = round(further.validation, 4) > kept.validation
    return {
        "set": kept.dataset,
        "method": kept.method,
        "parameter": parameter,
        "seed": kept.seed,
        "chosen": kept.chosen_settings[parameter],
        "beyond": further.chosen_settings[parameter],
        "validation": kept.validation,
        "validation beyond": round(further.validation, 4),
        "taken": is_taken,
        "accuracy": kept.metrics["accuracy"],
        "accuracy with the wider grid": round(
            (further if is_taken else kept).metrics["accuracy"], 6
        ),
        "made": {word: further.provenance[word] for word in ORIGIN if word in further.provenance},
    }


def keep(row: dict[str, Any]) -> None:
    """Add a split to the result file; a later one of the same place replaces it."""
    place = ("set", "method", "seed")
    splits = replace_row(recorded(NAME, "splits"), row, place)
    splits.sort(key=lambda each: [each[word] for word in place])
    rows = []
    for name, method in dict.fromkeys((each["set"], each["method"]) for each in splits):
        own = [each for each in splits if (each["set"], each["method"]) == (name, method)]
        means = {
            word: round(float(np.mean([each[word] for each in own])), 4)
            for word in ("accuracy", "accuracy with the wider grid")
        }
        n_taken = sum(each["taken"] for each in own)
        rows.append({"set": name, "method": method, "splits": len(own), "taken": n_taken, **means})
    command = "python benchmarks/wider_grids.py METHODS --datasets SETS --seeds 100:110"
    write_result(NAME, {"command": command, "rows": rows, "splits": splits})


if __name__ == "__main__":
    main()

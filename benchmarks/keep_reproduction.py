"""Keep the finished trials of `groupnoise reproduce` as a result file, and how long they took.

python benchmarks/keep_reproduction.py pll --seeds 20:30 --runs runs

Only trials that fit the recipe as it is now are kept. A method that was not run again keeps the
trials of the file that is there, if its settings have not changed since; every trial says by which
code it was made and when. Their seconds go to times.json beside the recipes, from which later runs
are estimated.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from _record import RESULTS, write_result

from groupnoise.cli.demo import parse_seeds
from groupnoise.io.files import write_json
from groupnoise.reproduce.facts import spell_command
from groupnoise.reproduce.jobs import read_results
from groupnoise.reproduce.recipe_files import read_recipe
from groupnoise.reproduce.report.reproduction import reproduction_rows
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import (
    Plan,
    Reproduction,
    TimeTable,
    experiment_key,
    fit_seconds,
    plan_reproduction,
)

RECIPES = Path(__file__).parents[1] / "src/groupnoise/reproduce/recipes"
TIMES = RECIPES / "times.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--seeds", required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--quick", action="store_true", help="keep the times alone")
    options = parser.parse_args()
    recipe = read_recipe(RECIPES / f"{options.name}.toml")
    seeds = parse_seeds(options.seeds)
    plan = plan_reproduction(recipe, seeds, quick=options.quick)
    done = read_results(options.runs / recipe.name / "trials.jsonl")
    results = [result for job in plan.jobs for result in done.get(job.key, [])]
    if not results:
        raise SystemExit(f"no trial in {options.runs} fits {recipe.name} as it is now.")
    keep_times(experiment_key(recipe.name, quick=options.quick), results)
    if not options.quick:
        results = in_order(plan, [*earlier_trials(plan, results), *results])
    if not options.quick:
        print(write_result(f"reproduce_{recipe.name}", payload(plan, results, options.seeds)))


def payload(plan: Plan, results: list[TrialResult], seeds: str) -> dict[str, Any]:
    """Return everything worth keeping: the rows, each trial, and what they rest on."""
    recipe = plan.recipe
    n_whole = len(plan.views) * len(plan.seeds) * len(recipe.row_names) * len(recipe.criteria)
    return {
        "reproduced_with": spell_command(["reproduce", recipe.name, "--seeds", seeds]),
        "recipe": recipe.text.splitlines(),
        "seeds": list(plan.seeds),
        "criteria": list(recipe.criteria),
        "methods": list(recipe.row_names),
        "published": recipe.published,
        # Where a file belongs is said for any home, not for that of this machine.
        "missing": {
            name: reason.replace(str(Path.home()), "~") for name, reason in plan.missing.items()
        },
        "is_partial": len(results) < n_whole,
        "rows": reproduction_rows(Reproduction(plan, results)),
        "trials": [_line(result) for result in results],
    }


def _line(result: TrialResult) -> str:
    """Return a trial on one line: what it was, its figures, its settings, its cost, its origin."""
    figures = " ".join(f"{name}={value:.6f}" for name, value in result.metrics.items())
    epochs = f"{result.n_epochs} epochs, " if result.n_epochs else ""
    made = result.provenance
    origin = f" | code {made['code']}, {made['ended']}" if made else ""
    return (
        f"{result.dataset} | {result.method} | {result.criterion} | seed {result.seed} | {figures} "
        f"| validation={result.validation:.4f} | {result.chosen_settings} "
        f"| {result.n_fits} fits, {epochs}{result.processor_seconds:.1f} s"
        f"{origin}"
    )


def earlier_trials(plan: Plan, fresh: list[TrialResult]) -> list[TrialResult]:
    """Return the trials of the file that is there which the fresh ones do not replace.

    Parameters
    ----------
    plan : Plan
        Of the recipe as it is now.
    fresh : list of TrialResult
        What was run.
    """
    path = RESULTS / f"reproduce_{plan.recipe.name}.json"
    if not path.is_file():
        return []
    before = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"{plan.recipe.name}.toml"
        copy.write_text("\n".join(before["recipe"]), encoding="utf-8")
        recipe = read_recipe(copy)
    replaced = {(each.dataset, each.method) for each in fresh}
    datasets = {view.label: view.dataset for view in plan.views}
    found = []
    for line in before["trials"]:
        trial = _read_line(plan.recipe.setting, line)
        place = (trial.dataset, trial.method)
        row = recipe.readings[trial.method].of if trial.method in recipe.readings else trial.method
        if place in replaced or trial.seed not in plan.seeds or trial.dataset not in datasets:
            continue
        if row not in recipe.rows or row not in plan.recipe.rows:
            continue
        name = datasets[trial.dataset]
        if recipe.method(row, name).grid == plan.recipe.method(row, name).grid:
            found.append(trial)
    return found


def in_order(plan: Plan, results: list[TrialResult]) -> list[TrialResult]:
    """Return results in the order of the tables: data set, seed, row."""
    labels = [view.label for view in plan.views]
    rows = list(plan.recipe.row_names)
    return sorted(
        (each for each in results if each.method in rows),
        key=lambda each: (labels.index(each.dataset), each.seed, rows.index(each.method)),
    )


def _read_line(setting: str, line: str) -> TrialResult:
    """Return a trial as `_line` wrote it."""
    dataset, method, criterion, seed, figures, validation, settings, cost, *origin = line.split(
        " | "
    )
    metrics = {
        name.strip(): float(value)
        for name, value in re.findall(r"([^=]+)=([-\d.]+)(?: |$)", figures)
    }
    numbers = [float(each) for each in re.findall(r"[\d.]+", cost)]
    code = re.fullmatch(r"code (\w+), (\S+)", origin[0]) if origin else None
    return TrialResult(
        setting=setting,
        dataset=dataset,
        method=method,
        seed=int(seed.removeprefix("seed ")),
        metrics=metrics,
        validation=float(validation.removeprefix("validation=")),
        chosen_settings=ast.literal_eval(settings),
        curve=[],
        seconds=numbers[-1],
        processor_seconds=numbers[-1],
        criterion=criterion,
        n_fits=int(numbers[0]),
        n_epochs=int(numbers[1]) if "epochs" in cost else 0,
        provenance={} if code is None else {"code": code[1], "ended": code[2]},
    )


def keep_times(name: str, results: list[TrialResult]) -> None:
    """Write the seconds per fit of an experiment beside those of the others."""
    recorded = dict(TimeTable.read(TIMES).recorded)
    before = recorded.get(name, {})
    fresh = fit_seconds(results)
    recorded[name] = {
        dataset: {**before.get(dataset, {}), **fresh.get(dataset, {})}
        for dataset in dict.fromkeys([*before, *fresh])
    }
    write_json(TIMES, dict(sorted(recorded.items())))


if __name__ == "__main__":
    main()

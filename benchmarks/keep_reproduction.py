"""Keep the finished trials of `groupnoise reproduce` as a result file, and how long they took.

python benchmarks/keep_reproduction.py pll --seeds 20:30 --runs runs
python benchmarks/keep_reproduction.py pll --seeds 100:110 --runs runs --final

Only trials that fit the recipe as it is now are kept. A method that was not run again keeps the
trials of the file that is there; where its settings have changed since, the file says so, and the
tables mark it. Every trial says by which code it was made and when. Their seconds go to times.json
beside the recipes, from which later runs are estimated. Trials on seeds that were kept for last go
to a file of their own (`--final`), to which later runs add theirs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _record import RESULTS, write_result

from groupnoise.cli.demo import parse_seeds
from groupnoise.io.files import write_json
from groupnoise.reproduce.files import FINAL, parse_recipe, read_recipe, read_trial_line, trial_line
from groupnoise.reproduce.jobs import read_results
from groupnoise.reproduce.provenance import spell_command
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
    parser.add_argument(
        "--any-code",
        action="store_true",
        help="also keep trials that other code made under the settings of the recipe",
    )
    parser.add_argument(
        "--final", action="store_true", help="write reproduce_NAME_final.json, not reproduce_NAME"
    )
    options = parser.parse_args()
    recipe = read_recipe(RECIPES / f"{options.name}.toml")
    seeds = parse_seeds(options.seeds)
    plan = plan_reproduction(recipe, seeds, quick=options.quick)
    done = read_results(options.runs / recipe.name / "trials.jsonl")
    if options.any_code:
        done |= made_by_other_code(plan, done)
    results = [result for job in plan.jobs for result in done.get(job.key, [])]
    if not results:
        raise SystemExit(f"no trial in {options.runs} fits {recipe.name} as it is now.")
    keep_times(experiment_key(recipe.name, quick=options.quick), results)
    if not options.quick:
        name = f"reproduce_{recipe.name}{FINAL if options.final else ''}"
        earlier, outdated = earlier_trials(plan, results, RESULTS / f"{name}.json")
        results = in_order(plan, [*earlier, *results])
        print(write_result(name, payload(plan, results, options.seeds, outdated)))


def payload(
    plan: Plan, results: list[TrialResult], seeds: str, outdated: list[str]
) -> dict[str, Any]:
    """Return the content of the result file: rows, trials and provenance."""
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
        "outdated": outdated,
        "rows": reproduction_rows(Reproduction(plan, results)),
        "trials": [trial_line(result) for result in results],
    }


def made_by_other_code(
    plan: Plan, done: dict[str, list[TrialResult]]
) -> dict[str, list[TrialResult]]:
    """Return trials under the keys of jobs that they fit in all but the code."""
    newest = {
        (results[0].dataset, results[0].seed, results[0].method): results
        for results in done.values()
    }
    found = {}
    for job in plan.jobs:
        results = newest.get((job.view.label, job.seed, job.row), [])
        grid = job.recipe.method(job.row, job.view.dataset).grid
        if job.key not in done and results and all(_is_in(grid, each) for each in results):
            found[job.key] = results
    return found


def _is_in(grid: Mapping[str, Sequence[Any]], result: TrialResult) -> bool:
    """Say whether the chosen settings are one of a grid's."""
    chosen = result.chosen_settings
    return set(chosen) == set(grid) and all(value in grid[key] for key, value in chosen.items())


def earlier_trials(
    plan: Plan, fresh: list[TrialResult], path: Path
) -> tuple[list[TrialResult], list[str]]:
    """Return the trials of the file that is there which the fresh ones do not replace.

    Also of which data sets and methods their settings were others than those of now.
    """
    if not path.is_file():
        return [], []
    before = json.loads(path.read_text(encoding="utf-8"))
    recipe = parse_recipe("\n".join(before["recipe"]), path)
    replaced = {(each.dataset, each.method, each.seed) for each in fresh}
    anew = {(each.dataset, each.method) for each in fresh}
    datasets = {view.label: view.dataset for view in plan.views}
    marked = set(before.get("outdated", []))
    found: list[TrialResult] = []
    outdated: dict[str, None] = {}
    for line in before["trials"]:
        trial = read_trial_line(plan.recipe.setting, line)
        place = (trial.dataset, trial.method, trial.seed)
        row = recipe.readings[trial.method].of if trial.method in recipe.readings else trial.method
        if place in replaced or trial.seed not in plan.seeds or trial.dataset not in datasets:
            continue
        if row not in recipe.rows or row not in plan.recipe.rows:
            continue
        name = datasets[trial.dataset]
        label = f"{trial.dataset} | {trial.method}"
        is_same = recipe.method(row, name).grid == plan.recipe.method(row, name).grid
        if is_same and label not in marked:
            found.append(trial)
        elif (trial.dataset, trial.method) not in anew:
            found.append(trial)
            outdated[label] = None
    return found, list(outdated)


def in_order(plan: Plan, results: list[TrialResult]) -> list[TrialResult]:
    """Return results in the order of the tables: data set, seed, row."""
    labels = [view.label for view in plan.views]
    rows = list(plan.recipe.row_names)
    return sorted(
        (each for each in results if each.method in rows),
        key=lambda each: (labels.index(each.dataset), each.seed, rows.index(each.method)),
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

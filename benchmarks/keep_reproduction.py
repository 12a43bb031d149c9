"""Keep the finished trials of `groupnoise reproduce` as a result file, and how long they took.

python benchmarks/keep_reproduction.py pll --seeds 20:30 --runs runs

Only trials that fit the recipe as it is now are kept. Their seconds go to
times.json beside the recipes, from which later runs are estimated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from _record import write_result

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
    """Return a trial on one line: what it was, its figures, its settings, its seconds."""
    figures = " ".join(f"{name}={value:.4f}" for name, value in result.metrics.items())
    return (
        f"{result.dataset} | {result.method} | {result.criterion} | seed {result.seed} | {figures} "
        f"| validation={result.validation:.4f} | {result.chosen_settings} "
        f"| {result.n_fits} fits, {result.processor_seconds:.1f} s"
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

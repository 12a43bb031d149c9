"""Trials that result files keep: written, read again, and a few of them repeated."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.reproduce.jobs import Job
from groupnoise.reproduce.recipe_files import parse_recipe
from groupnoise.reproduce.recipes import Recipe
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import Plan, run_jobs

TOLERANCE = 0.005
"""Most that a figure may differ by: other processors add in another order, and a row may turn."""
FINAL = "_final"
"""Ends the names of result files of the seeds that were kept for last."""
ORIGIN = ("code", "commit", "dirty", "processor", "cores", "threads", "load", "ended")
"""What a line keeps of where a trial came from; versions of packages stand once in the file."""


@dataclass(frozen=True)
class Repeated:
    """One figure of a kept trial beside the same of its repetition."""

    dataset: str
    method: str
    criterion: str
    metric: str
    seed: int
    kept: float
    again: float
    same_code: bool

    @property
    def agrees(self) -> bool:
        """Whether the two differ by no more than the tolerance."""
        return abs(self.kept - self.again) <= TOLERANCE

    def __str__(self) -> str:
        """Say the figure, what was kept and what came out."""
        code = "" if self.same_code else ", kept by other code"
        return (
            f"{self.dataset}, {self.method}, seed {self.seed}: {self.metric} "
            f"kept {self.kept:.4f}, again {self.again:.4f}{code}"
        )


def check_trials(
    plan: Plan,
    kept: Sequence[TrialResult],
    n_trials: int,
    *,
    n_jobs: int | None = None,
    on_trial: Callable[[list[Repeated]], None] | None = None,
) -> list[Repeated]:
    """Run some of the kept trials of a plan again."""
    newest = {_place(each): each for each in kept}
    places = {place[:3] for place in newest}
    known = [job for job in plan.jobs if (job.view.label, job.seed, job.row) in places]
    if not known:
        raise DataError(
            f"no trial of {plan.recipe.name} with these seeds, methods and data sets is kept; "
            "run it first without --check."
        )
    generator = np.random.default_rng()
    drawn = generator.choice(len(known), size=min(n_trials, len(known)), replace=False)
    figures: list[Repeated] = []

    def compare(pair: tuple[str, list[TrialResult]]) -> None:
        both = [(newest[_place(r)], r) for r in pair[1] if _place(r) in newest]
        found = [each for before, again in both for each in _figures(before, again)]
        figures.extend(found)
        if on_trial is not None:
            on_trial(found)

    jobs = [partial(Job.run, known[number]) for number in drawn]
    run_jobs(jobs, n_jobs=n_jobs, on_result=compare)
    return figures


def _place(result: TrialResult) -> tuple[str, int, str, str]:
    return result.dataset, result.seed, result.method, result.criterion


def _figures(before: TrialResult, again: TrialResult) -> list[Repeated]:
    return [
        Repeated(
            dataset=again.dataset,
            method=again.method,
            criterion=again.criterion,
            metric=metric,
            seed=again.seed,
            kept=before.metrics[metric],
            again=value,
            same_code=before.provenance.get("code") == again.provenance.get("code"),
        )
        for metric, value in again.metrics.items()
        if metric in before.metrics
    ]


def trial_line(result: TrialResult) -> str:
    """Return a trial on one line: what it was, its figures, its settings, its cost, its origin."""
    figures = " ".join(f"{name}={value:.6f}" for name, value in result.metrics.items())
    epochs = f"{counted(result.n_epochs, 'epochs')}, " if result.n_epochs else ""
    made = [f"{name} {result.provenance[name]}" for name in ORIGIN if name in result.provenance]
    return (
        f"{result.dataset} | {result.method} | {result.criterion} | seed {result.seed} | {figures} "
        f"| validation={result.validation:.4f} | {result.chosen_settings} "
        f"| {result.n_fits} fits, {epochs}{result.processor_seconds:.1f} s"
        f"{' | ' if made else ''}{'; '.join(made)}"
    )


def read_trial_line(setting: str, line: str) -> TrialResult:
    """Return a trial as `trial_line` wrote it."""
    dataset, method, criterion, seed, figures, validation, settings, cost, *origin = line.split(
        " | "
    )
    metrics = {
        name.strip(): float(value)
        for name, value in re.findall(r"([^=]+)=([-\d.]+)(?: |$)", figures)
    }
    numbers = [float(each) for each in re.findall(r"[\d.]+", cost)]
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
        provenance=_read_origin(origin[0]) if origin else {},
    )


def _read_origin(text: str) -> dict[str, Any]:
    """Return where a trial came from; earlier lines hold the code and the time alone."""
    earlier = re.fullmatch(r"code (\w+), (\S+)", text)
    if earlier:
        return {"code": earlier[1], "ended": earlier[2]}
    pairs = dict(part.split(" ", 1) for part in text.split("; "))
    return {name: _as_it_was(name, value) for name, value in pairs.items()}


def _as_it_was(name: str, value: str) -> Any:
    if value in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[value]
    if name in ("cores", "threads"):
        return int(value)
    return float(value) if name == "load" else value


def read_result_file(path: Path, name: str) -> tuple[Recipe, list[TrialResult]]:
    """Return the recipe that a result file was made by, and its trials.

    Returns `recipe`: as it was then; `results`: without those that rest on settings of a still
    earlier recipe. `path`: what `benchmarks/keep_reproduction.py` wrote.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        text, lines, outdated = content["recipe"], content["trials"], content["outdated"]
        recipe = parse_recipe("\n".join(text), path.with_name(f"{name}.toml"))
        if content["name"].removesuffix(FINAL) != f"reproduce_{name}":
            raise DataError(f"{path} holds {content['name']}, not reproduce_{name}.")
        trials = [read_trial_line(recipe.setting, line) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, IndexError, SyntaxError) as error:
        raise DataError(
            f"{path} is not a result file of reproduce ({type(error).__name__}: {error}); take one "
            "of benchmarks/results/reproduce_*.json."
        ) from None
    return recipe, [each for each in trials if f"{each.dataset} | {each.method}" not in outdated]

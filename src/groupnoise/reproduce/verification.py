"""Kept trials are run again, a few drawn at random, and must give what was kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.exceptions import DataError
from groupnoise.reproduce.jobs import Job
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import Plan, run_jobs

TOLERANCE = 0.005
"""Most that a figure may differ by: other processors add in another order, and a row may turn."""


@dataclass(frozen=True)
class Repeated:
    """One figure of a kept trial beside the same of its repetition.

    Attributes
    ----------
    dataset, method, criterion, metric : str
        What the figure is of.
    seed : int
        Of the trial.
    kept, again : float
        The figure that was kept, and that of now.
    same_code : bool
        Whether the code that makes figures is that of the kept trial.
    """

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
    log: Path,
    n_trials: int,
    *,
    random_state: int | None = None,
    n_jobs: int | None = None,
    on_trial: Callable[[list[Repeated]], None] | None = None,
) -> list[Repeated]:
    """Run some of the kept trials of a plan again.

    Parameters
    ----------
    plan : Plan
        What was run.
    log : Path
        The file with one line per finished job.
    n_trials : int
        How many to draw.
    random_state : int, optional
        Decides which are drawn; other ones every time if not given.
    n_jobs : int, optional
        Processes; one per core by default.
    on_trial : callable, optional
        Called with the figures of each trial as it ends.

    Returns
    -------
    figures : list of Repeated
        Every figure of the trials drawn.
    """
    kept = _kept(log)
    known = [job for job in plan.jobs if _name(job.view.label, job.seed, job.row) in kept]
    if not known:
        raise DataError(
            f"{log} holds no trial of {plan.recipe.name} with these seeds, methods and data sets; "
            "run it first without --check."
        )
    generator = np.random.default_rng(random_state)
    drawn = generator.choice(len(known), size=min(n_trials, len(known)), replace=False)
    figures: list[Repeated] = []

    def compare(pair: tuple[str, list[TrialResult]]) -> None:
        found = [each for result in pair[1] for each in _figures(result, kept)]
        figures.extend(found)
        if on_trial is not None:
            on_trial(found)

    jobs = [partial(Job.run, known[number]) for number in drawn]
    run_jobs(jobs, n_jobs=n_jobs, on_result=compare)
    return figures


def _name(dataset: str, seed: int, method: str) -> tuple[str, int, str]:
    return dataset, seed, method


def _kept(log: Path) -> dict[tuple[str, int, str], list[dict[str, Any]]]:
    """Return the newest records of each data set, seed and row, by whatever code."""
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    lines: Sequence[str] = log.read_text(encoding="utf-8").splitlines() if log.is_file() else ()
    for line in lines:
        try:
            results = json.loads(line)["results"]
        except (json.JSONDecodeError, KeyError):
            continue  # a line cut short by a kill
        for name in {_name(r["dataset"], r["seed"], r["method"]) for r in results}:
            found[name] = [
                r for r in results if _name(r["dataset"], r["seed"], r["method"]) == name
            ]
    return found


def _figures(
    result: TrialResult, kept: dict[tuple[str, int, str], list[dict[str, Any]]]
) -> list[Repeated]:
    before = [
        record
        for record in kept.get(_name(result.dataset, result.seed, result.method), [])
        if record["criterion"] == result.criterion
    ]
    code = result.provenance.get("code")
    return [
        Repeated(
            dataset=result.dataset,
            method=result.method,
            criterion=result.criterion,
            metric=metric,
            seed=result.seed,
            kept=float(record["metrics"][metric]),
            again=value,
            same_code=record.get("provenance", {}).get("code") == code,
        )
        for record in before
        for metric, value in result.metrics.items()
        if metric in record["metrics"]
    ]

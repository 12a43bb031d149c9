"""Kept trials are run again, a few drawn at random, and must give what was kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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

    `dataset`, `method`, `criterion`, `metric`: what the figure is of.
    `seed`: of the trial.
    `kept`, `again`: the figure that was kept, and that of now.
    `same_code`: whether the code that makes figures is that of the kept trial.
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
    kept: Sequence[TrialResult],
    n_trials: int,
    *,
    random_state: int | None = None,
    n_jobs: int | None = None,
    on_trial: Callable[[list[Repeated]], None] | None = None,
) -> list[Repeated]:
    """Run some of the kept trials of a plan again.

    Result: every figure of the trials drawn. `kept`: what came of it, by whatever code; of several
    of one trial the last counts. `n_trials`: how many to draw. `random_state`: decides which are
    drawn; other ones every time if not given. `n_jobs`: processes; one per core by default.
    `on_trial`: called with the figures of each trial as it ends.
    """
    newest = {_place(each): each for each in kept}
    places = {place[:3] for place in newest}
    known = [job for job in plan.jobs if (job.view.label, job.seed, job.row) in places]
    if not known:
        raise DataError(
            f"no trial of {plan.recipe.name} with these seeds, methods and data sets is kept; "
            "run it first without --check."
        )
    generator = np.random.default_rng(random_state)
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

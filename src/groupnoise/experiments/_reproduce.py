"""Running a recipe: every data set, seed and method, on several processes, resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from groupnoise.exceptions import ConfigError, DataError, MissingDataError
from groupnoise.experiments._jobs import Job, append_results, make_trial, read_results
from groupnoise.experiments._parallel import run_jobs
from groupnoise.experiments._recipes import Recipe
from groupnoise.experiments._run import TrialResult
from groupnoise.experiments._views import DatasetView


@dataclass(frozen=True)
class Plan:
    """What a run of a recipe will do.

    Attributes
    ----------
    recipe : Recipe
        What is compared.
    seeds : tuple of int
        One trial each.
    rows : tuple of str
        The rows that were asked for.
    views : tuple of DatasetView
        What data is looked at, and how.
    missing : dict
        Why a data set is left out, and what is taken in its place.
    jobs : tuple of Job
        The work.
    """

    recipe: Recipe
    seeds: tuple[int, ...]
    rows: tuple[str, ...]
    views: tuple[DatasetView, ...]
    missing: dict[str, str]
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Reproduction:
    """What came out of a plan."""

    plan: Plan
    results: list[TrialResult]


def plan_reproduction(
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    quick: bool = False,
    data_dir: Path | None = None,
) -> Plan:
    """Say what a run of a recipe will do, and what is missing for it.

    Parameters
    ----------
    recipe : Recipe
        What to compare.
    seeds : sequence of int
        One trial each.
    methods, datasets : sequence of str, optional
        A part of the recipe's. A data set that is named is taken as it is: nothing stands in.
    quick : bool
        One setting per method, few epochs, small data: does everything run?
    data_dir : Path, optional
        Searched first for data.
    """
    _refuse_foreign(methods, recipe.row_names, f"{recipe.name} has no method")
    _refuse_foreign(datasets, recipe.all_datasets, f"{recipe.name} has no data set")
    rows = tuple(methods or recipe.row_names)
    fitted = dict.fromkeys(
        recipe.readings[row].of if row in recipe.readings else row for row in rows
    )
    folder = None if data_dir is None else str(data_dir)
    views: list[DatasetView] = []
    missing: dict[str, str] = {}

    def look_at(dataset: str) -> bool:
        try:
            found = recipe.views(dataset, quick=quick, data_dir=folder)
            for view in found[:1]:
                data = view.load(seeds[0], folder)
                make_trial(recipe, view.label, data, seeds[0], quick=quick)
        except (MissingDataError, DataError) as error:
            missing[dataset] = str(error)
            return False
        views.extend(view for view in found if view not in views)
        return True

    for dataset in datasets or recipe.datasets:
        if not look_at(dataset) and datasets is None:
            taken = [name for name in recipe.stand_ins.get(dataset, ()) if look_at(name)]
            if taken:
                missing[dataset] += f" In its place: {', '.join(taken)}."
    jobs = tuple(
        Job(recipe, view, seed, row, quick, folder)
        for view in views
        for seed in seeds
        for row in fitted
    )
    return Plan(recipe, tuple(seeds), rows, tuple(views), missing, jobs)


def reproduce(
    plan: Plan,
    *,
    n_jobs: int | None = None,
    log: Path | None = None,
    resume: bool = False,
    on_job: Callable[[str, list[TrialResult], bool], None] | None = None,
) -> Reproduction:
    """Run a plan.

    Parameters
    ----------
    plan : Plan
        What :func:`plan_reproduction` returned.
    n_jobs : int, optional
        Processes; one per core by default.
    log : Path, optional
        A file that gets one line per finished job.
    resume : bool
        Whether jobs in that file are taken instead of run again.
    on_job : callable, optional
        Called with the key of each job, its results, and whether they were resumed; resumed
        ones come first.
    """
    done = read_results(log) if log is not None and resume else {}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            log.unlink(missing_ok=True)
    found: dict[str, list[TrialResult]] = {}
    for job in plan.jobs:
        if job.key in done:
            found[job.key] = done[job.key]
            if on_job is not None:
                on_job(job.key, done[job.key], True)

    def keep(pair: tuple[str, list[TrialResult]]) -> None:
        if log is not None:
            append_results(log, *pair)
        if on_job is not None:
            on_job(*pair, False)

    waiting = [partial(Job.run, job) for job in plan.jobs if job.key not in found]
    found |= dict(run_jobs(waiting, n_jobs=n_jobs, on_result=keep))
    results = [result for job in plan.jobs for result in found[job.key]]
    return Reproduction(plan, [result for result in results if result.method in plan.rows])


def _refuse_foreign(given: Sequence[str] | None, known: tuple[str, ...], words: str) -> None:
    for name in given or ():
        if name not in known:
            raise ConfigError(f"{words} {name!r}; it has {', '.join(known)}.")

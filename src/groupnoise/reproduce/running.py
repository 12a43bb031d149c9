"""Running the trials of a recipe or of a benchmark on several processes, resumable."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from groupnoise.core.checks import check_count
from groupnoise.core.threads import available_cores
from groupnoise.exceptions import ConfigError, DataError, MissingDataError
from groupnoise.reproduce.jobs import Job, append_line, make_trial, read_lines, read_results
from groupnoise.reproduce.recipes import DatasetView, Recipe
from groupnoise.reproduce.run import TrialResult

UNKNOWN_SECONDS = 5.0
"""Estimate for a fit without any record."""

RecordedTimes = dict[str, dict[str, float]]
"""For each data set, the processor seconds of one fit of each row."""


@dataclass(frozen=True)
class TimeTable:
    """Seconds per fit as recorded on an earlier run.

    `recorded`: for each experiment and data set, the seconds of one fit of each row.
    """

    recorded: dict[str, RecordedTimes] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> TimeTable:
        """Read a table; none if there is no such file."""
        if not path.is_file():
            return cls()
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def seconds(self, job: Job) -> float:
        """Return the estimate for a job: its own record, or the mean of its neighbours'.

        The nearest are the same method on other data sets, then other methods on this one.
        """
        times = self.recorded.get(experiment_key(job.recipe.name, quick=job.quick), {})
        here = times.get(job.view.dataset, {})
        own = [here[job.row]] if job.row in here else []
        elsewhere = [rows[job.row] for rows in times.values() if job.row in rows]
        everything = [value for rows in times.values() for value in rows.values()]
        for known in (own, elsewhere, [*here.values()], everything):
            if known:
                return job.n_fits * float(np.mean(known))
        return job.n_fits * UNKNOWN_SECONDS

    def total(self, jobs: Iterable[Job]) -> float:
        """Return the seconds that jobs need together on one process."""
        return sum(self.seconds(job) for job in jobs)


def experiment_key(name: str, *, quick: bool) -> str:
    """Return the key of an experiment in the table of times."""
    return f"{name} --quick" if quick else name


def fit_seconds(results: Sequence[TrialResult]) -> RecordedTimes:
    """Return the mean processor seconds of a fit, for each data set and row."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        key = (result.dataset.split(" ")[0], result.method)
        found.setdefault(key, []).append(result.processor_seconds / result.n_fits)
    times: RecordedTimes = {}
    for (dataset, row), seconds in found.items():
        times.setdefault(dataset, {})[row] = round(float(np.mean(seconds)), 3)
    return times


class TimeLeft:
    """Estimates the remaining seconds of a run from the duration of finished jobs."""

    def __init__(self, table: TimeTable, jobs: Sequence[Job], n_jobs: int) -> None:
        self._expected = {job.key: table.seconds(job) for job in jobs}
        self._n_jobs = max(n_jobs, 1)
        self._expected_of_done, self._seconds_of_done = 0.0, 0.0

    def finish(self, key: str, seconds: float | None) -> None:
        """Record a finished job; `seconds` is None for a resumed one."""
        expected = self._expected.pop(key)
        if seconds is not None:
            self._expected_of_done += expected
            self._seconds_of_done += seconds

    @property
    def seconds(self) -> float:
        """The estimate for the remaining jobs."""
        pace = self._seconds_of_done / self._expected_of_done if self._expected_of_done else 1.0
        return pace * sum(self._expected.values()) / self._n_jobs


Result = TypeVar("Result")


def run_jobs(
    jobs: Sequence[Callable[[], Result]],
    *,
    n_jobs: int | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Run every job and return the results in the order of the jobs.

    Each process uses one thread: the models are small, so processes pay and threads do not, and
    one thread adds numbers in one order, which makes the results the same on every run.

    `jobs`: without arguments; must be picklable, as must be what they return. `n_jobs`: how many
    processes; as many as there are cores if not given. 1 stays in this process. `on_result`: called
    here with each result, in the order in which jobs finish.

    >>> from functools import partial
    >>> run_jobs([partial(pow, 2, 3), partial(pow, 2, 4)], n_jobs=1)
    [8, 16]
    """
    from joblib import Parallel, delayed

    if n_jobs is None:
        n_jobs = available_cores()
    check_count("n_jobs", n_jobs)
    run = Parallel(n_jobs=min(n_jobs, max(len(jobs), 1)), return_as="generator_unordered")
    results: dict[int, Result] = {}
    for position, result in run(
        delayed(_on_one_thread)(position, job) for position, job in enumerate(jobs)
    ):
        results[position] = result
        if on_result is not None:
            on_result(result)
    return [results[position] for position in range(len(jobs))]


def _on_one_thread(position: int, job: Callable[[], Result]) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return position, job()


@dataclass(frozen=True)
class Plan:
    """The jobs of a run of a recipe."""

    recipe: Recipe
    seeds: tuple[int, ...]
    rows: tuple[str, ...]
    views: tuple[DatasetView, ...]
    missing: dict[str, str]
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Reproduction:
    """The results of a plan."""

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
    """Return the jobs of a run of a recipe, and the missing data sets."""
    _check_setting(methods, recipe.row_names, f"{recipe.name} has no method")
    _check_setting(datasets, recipe.all_datasets, f"{recipe.name} has no data set")
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

    `log`: a file that gets one line per finished job. `resume`: whether jobs in that file are taken
    instead of run again. `on_job`: called with the key of each job, its results, and whether they
    were resumed; resumed ones come first.
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
            key, results = pair
            append_line(log, {"key": key, "results": [each.as_record() for each in results]})
        if on_job is not None:
            on_job(*pair, False)

    waiting = [partial(Job.run, job) for job in plan.jobs if job.key not in found]
    found |= dict(run_jobs(waiting, n_jobs=n_jobs, on_result=keep))
    results = [result for job in plan.jobs for result in found[job.key]]
    return Reproduction(plan, [result for result in results if result.method in plan.rows])


def _check_setting(given: Sequence[str] | None, known: tuple[str, ...], words: str) -> None:
    for name in given or ():
        if name not in known:
            raise ConfigError(f"{words} {name!r}; it has {', '.join(known)}.")


Trial = TypeVar("Trial")


def run_trials(
    trials: Mapping[Hashable, Callable[[], Trial]],
    *,
    read: Callable[..., Trial],
    log: Path | None = None,
    n_jobs: int | None = None,
    on_result: Callable[[Trial], None] | None = None,
) -> list[Trial]:
    """Return the results of all trials, those of the log file first.

    `trials`: by data set, protocol (or None), method, seed and fingerprint of the code.
    """
    finished = {_trial_key(result): result for result in read_lines(log, read)}

    def keep(result: Trial) -> None:
        if log is not None:
            fields: Any = result
            append_line(log, asdict(fields))
        if on_result is not None:
            on_result(result)

    kept = [finished[key] for key in trials if key in finished]
    left = [make for key, make in trials.items() if key not in finished]
    return kept + run_jobs(left, n_jobs=n_jobs, on_result=keep)


def _trial_key(result: Any) -> Hashable:
    protocol, code = getattr(result, "protocol", None), result.provenance.get("code")
    return result.dataset, protocol, result.method, result.seed, code

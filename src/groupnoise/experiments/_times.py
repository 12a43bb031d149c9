"""How long an experiment will take: recorded seconds per fit, corrected while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from groupnoise.experiments._jobs import Job
from groupnoise.experiments._run import TrialResult

UNKNOWN_SECONDS = 5.0
"""Taken for a fit of which nothing is recorded, nor of its neighbours."""

RecordedTimes = dict[str, dict[str, float]]
"""For each data set, the processor seconds of one fit of each row."""


@dataclass(frozen=True)
class TimeTable:
    """Seconds per fit as recorded on an earlier run.

    Parameters
    ----------
    recorded : dict
        For each experiment and data set, the seconds of one fit of each row.
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
    """Return under which name the times of an experiment are recorded."""
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
    """What is left of a run, in seconds, learning from how long finished jobs took."""

    def __init__(self, table: TimeTable, jobs: Sequence[Job], n_jobs: int) -> None:
        self._expected = {job.key: table.seconds(job) for job in jobs}
        self._n_jobs = max(n_jobs, 1)
        self._expected_of_done, self._seconds_of_done = 0.0, 0.0

    def finish(self, key: str, seconds: float | None) -> None:
        """Take note of a finished job; of a resumed one nothing is learned, so None."""
        expected = self._expected.pop(key)
        if seconds is not None:
            self._expected_of_done += expected
            self._seconds_of_done += seconds

    @property
    def seconds(self) -> float:
        """Return the estimate for the jobs that are left."""
        pace = self._seconds_of_done / self._expected_of_done if self._expected_of_done else 1.0
        return pace * sum(self._expected.values()) / self._n_jobs

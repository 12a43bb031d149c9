"""Independent jobs on several processes, each told to the caller as soon as it is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from groupnoise._checks import check_count

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

    Parameters
    ----------
    jobs : sequence of callables
        Without arguments; must be picklable, as must be what they return.
    n_jobs : int, optional
        How many processes; as many as there are cores if not given. 1 stays in this process.
    on_result : callable, optional
        Called here with each result, in the order in which jobs finish.

    Examples
    --------
    >>> from functools import partial
    >>> run_jobs([partial(pow, 2, 3), partial(pow, 2, 4)], n_jobs=1)
    [8, 16]
    """
    from joblib import Parallel, delayed

    if n_jobs is None:
        n_jobs = os.cpu_count() or 1
    check_count("n_jobs", n_jobs)
    run = Parallel(n_jobs=min(n_jobs, max(len(jobs), 1)), return_as="generator_unordered")
    results: dict[int, Result] = {}
    for place, result in run(delayed(_on_one_thread)(place, job) for place, job in enumerate(jobs)):
        results[place] = result
        if on_result is not None:
            on_result(result)
    return [results[place] for place in range(len(jobs))]


def _on_one_thread(place: int, job: Callable[[], Result]) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return place, job()

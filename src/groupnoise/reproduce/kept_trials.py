"""Trials of a measure, each run once: what a log file holds already is not run again."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from groupnoise.reproduce.running import run_jobs

Trial = TypeVar("Trial")


def run_trials(
    trials: Mapping[Hashable, Callable[[], Trial]],
    *,
    read: Callable[..., Trial],
    key_of: Callable[[Trial], Hashable],
    log: Path | None = None,
    n_jobs: int | None = None,
    on_result: Callable[[Trial], None] | None = None,
) -> list[Trial]:
    """Return the results of all trials, those of the log file first.

    Parameters
    ----------
    trials : mapping of key to callable
        What makes each result.
    read : callable
        Makes a result, a dataclass, of the fields that a line of the log holds.
    key_of : callable
        The key of a result.
    log : Path, default=None
        JSON lines of finished trials, read before and appended to.
    n_jobs : int, default=None
        Processes; one per core by default.
    on_result : callable, default=None
        Called with every new result.

    Returns
    -------
    list
    """
    finished = {} if log is None or not log.exists() else _read(log, read, key_of)

    def keep(result: Trial) -> None:
        if log is not None:
            fields: Any = result
            with log.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(fields)) + "\n")
        if on_result is not None:
            on_result(result)

    kept = [finished[key] for key in trials if key in finished]
    left = [make for key, make in trials.items() if key not in finished]
    return kept + run_jobs(left, n_jobs=n_jobs, on_result=keep)


def _read(
    path: Path, read: Callable[..., Trial], key_of: Callable[[Trial], Hashable]
) -> dict[Hashable, Trial]:
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            result = read(**json.loads(line))
        except (TypeError, ValueError):
            continue  # cut short when a run was killed
        found[key_of(result)] = result
    return found

"""Running a recipe: every data set, seed and method, on several processes, resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from groupnoise.datasets import (
    BagDataset,
    ClickDataset,
    Dataset,
    PartialLabelDataset,
    load_dataset,
    split_clicks,
    split_rows,
    subset_bags,
    subset_rows,
)
from groupnoise.exceptions import ConfigError, DataError, MissingDataError
from groupnoise.experiments._parallel import run_jobs
from groupnoise.experiments._recipes import Recipe
from groupnoise.experiments._run import TrialResult, run_method
from groupnoise.experiments._trials import BagTrial, CandidateTrial, ClickTrial, Trial

QUICK_USERS = 1500


@dataclass(frozen=True)
class Reproduction:
    """What came out of a recipe: results, and why a data set was left out."""

    results: list[TrialResult]
    missing: dict[str, str]


@dataclass(frozen=True)
class Job:
    """One method on one data set under one seed."""

    recipe: Recipe
    dataset: str
    seed: int
    method: str
    quick: bool = False
    data_dir: str | None = None

    @property
    def key(self) -> str:
        """What tells this job from every other, settings included."""
        grid = self.recipe.method(self.method, self.dataset, quick=self.quick).grid
        words = [self.dataset, self.seed, self.method, self.quick, self.recipe.protocol, dict(grid)]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]

    def run(self) -> tuple[str, TrialResult]:
        """Return the key and the result."""
        data = _load(self.dataset, self.data_dir)
        trial = make_trial(self.recipe, self.dataset, data, self.seed, quick=self.quick)
        method = self.recipe.method(self.method, self.dataset, quick=self.quick)
        return self.key, run_method(trial, method)[0]


def reproduce(
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    quick: bool = False,
    n_jobs: int | None = None,
    log: Path | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    on_start: Callable[[int], None] | None = None,
    on_result: Callable[[TrialResult], None] | None = None,
) -> Reproduction:
    """Run a recipe.

    Parameters
    ----------
    recipe : Recipe
        What to compare.
    seeds : sequence of int
        One trial each.
    methods, datasets : sequence of str, optional
        A part of the recipe's.
    quick : bool
        One setting per method, few epochs, small logs: does everything run?
    n_jobs : int, optional
        Processes; one per core by default.
    log : Path, optional
        A file that gets one line per finished trial.
    resume : bool
        Whether trials in that file are taken instead of run again.
    data_dir : Path, optional
        Searched first for data.
    on_start : callable, optional
        Called with the number of trials there are, the resumed ones included.
    on_result : callable, optional
        Called with each result, the resumed ones first.
    """
    jobs, missing = _plan(recipe, seeds, methods, datasets, quick, data_dir)
    done = _read_log(log) if log is not None and resume else {}
    waiting = [job for job in jobs if job.key not in done]
    if on_start is not None:
        on_start(len(jobs))
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            log.unlink(missing_ok=True)
    kept = [done[job.key] for job in jobs if job.key in done]
    for result in kept:
        _tell(on_result, result)

    def keep(pair: tuple[str, TrialResult]) -> None:
        if log is not None:
            _append(log, *pair)
        _tell(on_result, pair[1])

    fresh = run_jobs([partial(Job.run, job) for job in waiting], n_jobs=n_jobs, on_result=keep)
    return Reproduction([*kept, *(result for _, result in fresh)], missing)


def make_trial(
    recipe: Recipe, name: str, data: Dataset, seed: int, *, quick: bool = False
) -> Trial:
    """Cut a data set by the protocol of a recipe."""
    protocol = recipe.protocol
    if isinstance(data, ClickDataset):
        if quick and len(data.histories) > QUICK_USERS:
            data = replace(data, histories=data.histories.subset(slice(0, QUICK_USERS)))
        split = split_clicks(
            data.histories,
            protocol=protocol.get("name", "authors"),
            size=protocol.get("size", 5),
            min_size=protocol.get("min_size"),
            random_state=seed,
        )
        return ClickTrial(name, seed, data, split, full=protocol.get("full", False))
    n_rows = len(data.bags) if isinstance(data, BagDataset) else len(data.features)
    train, validation, test = split_rows(n_rows, tuple(protocol["fractions"]), random_state=seed)
    if isinstance(data, PartialLabelDataset):
        return CandidateTrial(
            name,
            seed,
            subset_rows(data, train),
            subset_rows(data, validation),
            subset_rows(data, test),
            protocol.get("criterion", "oracle"),
        )
    return BagTrial(
        name,
        seed,
        subset_bags(data, train),
        subset_bags(data, validation),
        subset_bags(data, test),
    )


def _plan(
    recipe: Recipe,
    seeds: Sequence[int],
    methods: Sequence[str] | None,
    datasets: Sequence[str] | None,
    quick: bool,
    data_dir: Path | None,
) -> tuple[list[Job], dict[str, str]]:
    """Return the jobs, and why data sets are left out."""
    _refuse_foreign(methods, tuple(recipe.tables), f"{recipe.name} has no method")
    _refuse_foreign(datasets, recipe.datasets, f"{recipe.name} has no data set")
    folder = None if data_dir is None else str(data_dir)
    jobs, missing = [], {}
    for dataset in datasets or recipe.datasets:
        try:
            data = _load(dataset, folder)
            make_trial(recipe, dataset, data, seeds[0], quick=quick)
        except (MissingDataError, DataError) as error:
            missing[dataset] = str(error)
            continue
        jobs += [
            Job(recipe, dataset, seed, method, quick, folder)
            for seed in seeds
            for method in methods or recipe.tables
        ]
    return jobs, missing


def _refuse_foreign(given: Sequence[str] | None, known: tuple[str, ...], words: str) -> None:
    for name in given or ():
        if name not in known:
            raise ConfigError(f"{words} {name!r}; it has {', '.join(known)}.")


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    return load_dataset(name, data_dir=data_dir)


def _tell(on_result: Callable[[TrialResult], None] | None, result: TrialResult) -> None:
    if on_result is not None:
        on_result(result)


def _append(log: Path, key: str, result: TrialResult) -> None:
    """Add a line at once, so that a kill loses only what was still running."""
    with log.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"key": key, **result.as_record()}) + "\n")


def _read_log(log: Path) -> dict[str, TrialResult]:
    """Return the finished trials of an earlier run; a line cut short by a kill is left out."""
    found: dict[str, TrialResult] = {}
    if not log.is_file():
        return found
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            record: dict[str, Any] = json.loads(line)
            key = record.pop("key")
            found[key] = TrialResult(**record)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    return found

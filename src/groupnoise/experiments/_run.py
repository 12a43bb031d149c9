"""Running a method on a trial: every setting of its grid, the best by validation, one test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np

from groupnoise.experiments._trials import Trial

Settings = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A named way to learn, and the settings to choose among.

    Parameters
    ----------
    name : str
        What to call it in tables.
    make : callable
        Builds an estimator from settings and `random_state`.
    grid : mapping of str to sequence
        Values to try for each setting; every combination is fitted.
    supervised : bool
        Whether it is shown the truth: an upper bound, not a rival.
    """

    name: str
    make: Callable[..., Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    supervised: bool = False

    def settings(self) -> list[Settings]:
        """Return every combination of the grid."""
        return [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]


@dataclass(frozen=True)
class TrialResult:
    """What one method did on one trial."""

    setting: str
    dataset: str
    method: str
    seed: int
    metrics: dict[str, float]
    validation: float
    chosen_settings: Settings
    curve: list[float]
    seconds: float
    processor_seconds: float

    def as_record(self) -> dict[str, Any]:
        """Return the result as JSON can hold it."""
        return asdict(self)


def run_method(trial: Trial, method: Method) -> tuple[TrialResult, Any]:
    """Return the result of a method on a trial, and the estimator that was chosen."""
    started, processor_started = time.perf_counter(), time.process_time()
    best_value, best_settings, best = -np.inf, {}, None
    for settings in method.settings():
        estimator = method.make(**settings, random_state=trial.seed)
        trial.fit(estimator, supervised=method.supervised)
        value = trial.validation_value(estimator)
        if best is None or value > best_value:
            best_value, best_settings, best = value, settings, estimator
    metrics = trial.test_metrics(best)
    right = trial.chosen_right(best)
    if right is not None:
        metrics["chosen right"] = right
    history = getattr(best, "history_", [])
    result = TrialResult(
        setting=trial.setting,
        dataset=trial.dataset,
        method=method.name,
        seed=trial.seed,
        metrics=metrics,
        validation=float(best_value),
        chosen_settings=best_settings,
        curve=[float(r["validation"]) for r in history if "validation" in r],
        seconds=time.perf_counter() - started,
        processor_seconds=time.process_time() - processor_started,
    )
    return result, best


def summarise(results: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return one row per (dataset, method, metric) with mean and deviation over the trials."""
    values: dict[tuple[str, str, str, str], list[float]] = {}
    for result in results:
        for metric, value in result.metrics.items():
            key = (result.setting, result.dataset, result.method, metric)
            values.setdefault(key, []).append(value)
    return [
        {
            "setting": setting,
            "dataset": dataset,
            "method": method,
            "metric": metric,
            "mean": float(np.mean(numbers)),
            "std": float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0,
            "trials": len(numbers),
        }
        for (setting, dataset, method, metric), numbers in values.items()
    ]

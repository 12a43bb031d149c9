"""Results as rows of a table: figures, marks for every trial, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groupnoise.experiments._run import TrialResult
from groupnoise.experiments.report._charts import Scale

STRIP_WIDTH = 90
STRIP_MARGIN = 6


@dataclass(frozen=True)
class Figure:
    """One metric of one method: mean, deviation, and where to mark them on a strip."""

    mean: float
    deviation: float
    is_best: bool
    mean_place: float
    low_place: float
    high_place: float
    trial_places: list[float]


@dataclass(frozen=True)
class Row:
    """One method: a figure for each metric, None where it has none."""

    method: str
    figures: list[Figure | None]


@dataclass(frozen=True)
class ResultTable:
    """Methods against metrics; each metric has one strip scale for all methods."""

    metrics: list[str]
    rows: list[Row]
    strip_width: int = STRIP_WIDTH


def result_table(results: Sequence[TrialResult], upper_bounds: Sequence[str] = ()) -> ResultTable:
    """Arrange results as a table.

    Parameters
    ----------
    results : sequence of TrialResult
        All of one data set.
    upper_bounds : sequence of str
        Methods that are shown the truth and so cannot be the best.
    """
    methods = list(dict.fromkeys(result.method for result in results))
    metrics = list(dict.fromkeys(metric for result in results for metric in result.metrics))
    columns = [_column(results, methods, metric, upper_bounds) for metric in metrics]
    rows = [Row(method, [column[method] for column in columns]) for method in methods]
    return ResultTable(metrics, rows)


def _column(
    results: Sequence[TrialResult], methods: list[str], metric: str, upper_bounds: Sequence[str]
) -> dict[str, Figure | None]:
    """Return the figure of every method under one metric, marked on a common scale."""
    values = {method: metric_values(results, method, metric) for method in methods}
    known = np.concatenate(list(values.values()))
    scale = Scale(known.min(), known.max(), STRIP_MARGIN, STRIP_WIDTH - STRIP_MARGIN)
    rivals = [v.mean() for m, v in values.items() if len(v) and m not in upper_bounds]
    best = max(rivals, default=np.inf)

    def figure(method: str) -> Figure | None:
        numbers = values[method]
        if not len(numbers):
            return None
        mean = float(numbers.mean())
        deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
        return Figure(
            mean=mean,
            deviation=deviation,
            is_best=mean == best and method not in upper_bounds,
            mean_place=scale(mean),
            low_place=scale(max(mean - deviation, scale.low)),
            high_place=scale(min(mean + deviation, scale.high)),
            trial_places=[scale(number) for number in numbers],
        )

    return {method: figure(method) for method in methods}


def metric_values(
    results: Sequence[TrialResult], method: str, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a metric of a method in every trial that has it, in the order of the seeds."""
    return np.array([value for _, value in _by_seed(results, method, metric)], dtype=np.float64)


def paired_leads(
    results: Sequence[TrialResult], method: str, rival: str, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how far a method is ahead of a rival in every trial that both have, by seed."""
    ours, theirs = (dict(_by_seed(results, name, metric)) for name in (method, rival))
    return np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])


def _by_seed(results: Sequence[TrialResult], method: str, metric: str) -> list[tuple[int, float]]:
    """Return the seed and the value of every trial of a method that has a metric, in order."""
    return sorted(
        (result.seed, result.metrics[metric])
        for result in results
        if result.method == method and metric in result.metrics
    )


@dataclass(frozen=True)
class Comparison:
    """How far one method is ahead of a rival, trial by trial; negative means behind."""

    rival: str
    metric: str
    lead: float
    n_ahead: int
    n_trials: int


def compare(
    results: Sequence[TrialResult], method: str, rivals: Sequence[str], metric: str
) -> list[Comparison]:
    """Compare a method with rivals on the trials that both have; a rival without any is left out.

    Parameters
    ----------
    results : sequence of TrialResult
        All of one data set.
    method : str
        The method to judge.
    rivals : sequence of str
        The methods it is judged against.
    metric : str
        What to compare.
    """
    return [
        Comparison(rival, metric, float(leads.mean()), int((leads > 0).sum()), len(leads))
        for rival in rivals
        if len(leads := paired_leads(results, method, rival, metric))
    ]

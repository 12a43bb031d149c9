"""Tables of results, and the significance of differences between methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.words import counted
from groupnoise.pages import Scale
from groupnoise.reproduce.run import TrialResult

STRIP_WIDTH = 90
STRIP_MARGIN = 6
OURS = "ours"
SUPERVISED = "supervised"
STARTS = ("pairwise", "pairwise-mlp")
"""Rows that weigh every object alike, from which the gap to the supervised row is measured."""
MIN_SETS = 5
"""Least data sets for a critical-difference diagram."""
MIN_TESTED_SETS = 6
"""Least data sets for a signed-rank test at .05: of five p is at least .0625."""


@dataclass(frozen=True)
class Figure:
    """One metric of one method: mean, standard deviation, and their positions on a strip."""

    mean: float
    deviation: float
    is_best: bool
    mean_position: float
    low_position: float
    high_position: float
    trial_positions: list[float]


@dataclass(frozen=True)
class ResultRow:
    """One method: a figure for each metric, None where it has none."""

    method: str
    figures: list[Figure | None]


@dataclass(frozen=True)
class ResultTable:
    """Methods against metrics; each metric has one strip scale for all methods."""

    metrics: list[str]
    rows: list[ResultRow]
    strip_width: int = STRIP_WIDTH


def result_table(results: Sequence[TrialResult], upper_bounds: Sequence[str] = ()) -> ResultTable:
    """Arrange results as a table; `upper_bounds`, trained on true labels, are never the best."""
    methods = list(dict.fromkeys(result.method for result in results))
    metrics = list(dict.fromkeys(metric for result in results for metric in result.metrics))
    columns = [_column(results, methods, metric, upper_bounds) for metric in metrics]
    rows = [ResultRow(method, [column[method] for column in columns]) for method in methods]
    return ResultTable(metrics, rows)


def _column(
    results: Sequence[TrialResult], methods: list[str], metric: str, upper_bounds: Sequence[str]
) -> dict[str, Figure | None]:
    """Return the figure of every method under one metric, marked on a common scale."""
    values = {method: metric_values(results, method, metric) for method in methods}
    known = np.concatenate(list(values.values()))
    scale = Scale(known.min(), known.max(), STRIP_MARGIN, STRIP_WIDTH - STRIP_MARGIN)
    baselines = [v.mean() for m, v in values.items() if len(v) and m not in upper_bounds]
    best = max(baselines, default=np.inf)

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
            mean_position=scale(mean),
            low_position=scale(max(mean - deviation, scale.low)),
            high_position=scale(min(mean + deviation, scale.high)),
            trial_positions=[scale(number) for number in numbers],
        )

    return {method: figure(method) for method in methods}


def metric_values(
    results: Sequence[TrialResult], method: str, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a metric of a method in every trial that has it, by seed."""
    return np.array([value for _, value in _by_seed(results, method, metric)], dtype=np.float64)


def paired_leads(
    results: Sequence[TrialResult], method: str, baseline: str, metric: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the differences of a method and a baseline in their common trials, by seed."""
    ours, theirs = (dict(_by_seed(results, name, metric)) for name in (method, baseline))
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
    """The mean paired difference of a method and a baseline; negative means behind."""

    baseline: str
    metric: str
    lead: float
    n_ahead: int
    n_trials: int


def compare(
    results: Sequence[TrialResult], method: str, baselines: Sequence[str], metric: str
) -> list[Comparison]:
    """Compare a method with baselines on common trials; baselines without any are left out."""
    return [
        Comparison(baseline, metric, float(leads.mean()), int((leads > 0).sum()), len(leads))
        for baseline in baselines
        if len(leads := paired_leads(results, method, baseline, metric))
    ]


def main_metric(results: Sequence[TrialResult]) -> str:
    """Return the first metric."""
    return next(iter(results[0].metrics))


def mean_values(results: Sequence[TrialResult], metric: str) -> dict[str, float]:
    """Return the mean of a metric for each method, in the order they come."""
    methods = dict.fromkeys(result.method for result in results if metric in result.metrics)
    return {method: float(metric_values(results, method, metric).mean()) for method in methods}


def verdict(
    results: Sequence[TrialResult], left_out: Sequence[str] = (), test_to_train: float = 0.0
) -> str:
    """Return a sentence comparing ours with the best baseline by a paired test over the trials.

    `left_out`: rows that are not baselines: readings and upper bounds. `test_to_train`: size of the
    test part over that of the training part, where trials are random splits of the same rows; 0
    where they differ by initial weights alone.
    """
    metric = main_metric(results)
    means = mean_values(results, metric)
    baselines = {m: mean for m, mean in means.items() if m != OURS and m not in left_out}
    if OURS not in means or not baselines:
        return ""
    baseline = max(baselines, key=lambda method: baselines[method])
    gap = paired_leads(results, OURS, baseline, metric)
    if not len(gap):
        return ""
    found = corrected_t_test(gap, test_to_train)
    lead = found.mean
    words = (
        f"ours is {'ahead of' if lead > 0 else 'behind'} {baseline} by {abs(lead):.3f} in {metric}"
    )
    if len(gap) < 2 or not gap.std():
        return words + "."
    kind = "corrected resampled t-test" if test_to_train else "paired t-test"
    return (
        f"{words}, 95 % interval {found.low:+.3f} to {found.high:+.3f} "
        f"({kind} over {counted(len(gap), 'trials')}: p = {found.p_value:.3f})."
    )


def mean_ranks(
    results: Sequence[TrialResult], left_out: Sequence[str] = ()
) -> dict[str, list[float]]:
    """Return the rank of each method on every data set, best first.

    Only methods that ran on all data sets are ranked; ties share a rank. `left_out`: rows that are
    not ranked.
    """
    from scipy.stats import rankdata

    means = _means_over_sets(results, left_out)
    table = -np.array(list(means.values()))  # (methods, sets)
    if not means or table.shape[1] < 2:
        return {}
    ranks = dict(zip(means, rankdata(table, axis=0).tolist(), strict=True))
    return dict(sorted(ranks.items(), key=lambda pair: np.mean(pair[1])))


def _means_over_sets(
    results: Sequence[TrialResult], left_out: Sequence[str]
) -> dict[str, list[float]]:
    """Return the mean on every data set of methods that ran on all of them."""
    by_dataset = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        here = [r for r in results if r.dataset == dataset and r.method not in left_out]
        if here:
            by_dataset.append(mean_values(here, main_metric(here)))
    found = {m: [means.get(m) for means in by_dataset] for means in by_dataset for m in means}
    return {m: [v for v in each if v is not None] for m, each in found.items() if None not in each}


def rank_tests(results: Sequence[TrialResult], left_out: Sequence[str] = ()) -> dict[str, float]:
    """Return p-values of ours against each baseline over the data sets.

    Signed-rank tests, adjusted by Holm; empty with too few data sets. `left_out`: rows that are not
    compared.
    """
    means = _means_over_sets(results, left_out)
    return signed_rank_tests(means, OURS) if OURS in means else {}


def gap_closed(results: Sequence[TrialResult]) -> dict[str, float]:
    """Return the share of the gap from each of `STARTS` to the supervised row that ours closes."""
    means = mean_values(results, main_metric(results)) if results else {}
    if OURS not in means or SUPERVISED not in means:
        return {}
    return {
        start: (means[OURS] - means[start]) / (means[SUPERVISED] - means[start])
        for start in STARTS
        if start in means and means[SUPERVISED] > means[start]
    }


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two methods over trials, with its interval and p-value."""

    mean: float
    low: float
    high: float
    p_value: float
    n_trials: int


def corrected_t_test(
    differences: ArrayLike, test_to_train: float, *, confidence: float = 0.95
) -> PairedDifference:
    r"""Test a mean difference over random splits of one data set (Nadeau and Bengio, 2003).

    Training parts of random splits overlap, so the plain t-test underestimates the variance. The
    variance of the mean is :math:`(1/n + n_{test}/n_{train}) s^2` instead of :math:`s^2/n`.

    Result: with equal differences everywhere the interval is the mean alone. `differences`:
    differences of the two methods, one per split. `test_to_train`: size of the test part over the
    size of the training part; 0 gives the plain t-test.

    >>> plain = corrected_t_test([0.02, 0.03, 0.01, 0.02], 0.0)
    >>> corrected = corrected_t_test([0.02, 0.03, 0.01, 0.02], 1 / 8)
    >>> plain.p_value < corrected.p_value
    True
    """
    from scipy.stats import t as student

    values = np.asarray(differences, dtype=np.float64)
    n_trials, mean = len(values), float(np.mean(values))
    if n_trials < 2:
        return PairedDifference(mean, -np.inf, np.inf, 1.0, n_trials)
    error = float(np.sqrt((1.0 / n_trials + test_to_train) * values.var(ddof=1)))
    if error == 0.0:
        return PairedDifference(mean, mean, mean, 0.0 if mean else 1.0, n_trials)
    p_value = float(2 * student.sf(abs(mean) / error, n_trials - 1))
    reach = float(student.ppf(0.5 + confidence / 2, n_trials - 1)) * error
    return PairedDifference(mean, mean - reach, mean + reach, p_value, n_trials)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values of several comparisons to control the family-wise error rate.

    Result: Holm's step-down adjustment, in the given order.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def signed_rank_tests(means: Mapping[str, Sequence[float]], method: str) -> dict[str, float]:
    """Compare one method with each other over data sets (Wilcoxon, adjusted by Holm)."""
    from scipy.stats import wilcoxon

    own = np.asarray(means[method], dtype=np.float64)
    if len(own) < MIN_TESTED_SETS:
        return {}
    found: dict[str, float] = {}
    for name, values in means.items():
        if name != method:
            gaps = own - np.asarray(values, dtype=np.float64)
            found[name] = float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0
    return holm(found)


@dataclass(frozen=True)
class CriticalDifference:
    """Mean ranks of methods over data sets, and their critical difference.

    `ranks`: mean rank of each method, best first.
    `distance`: the critical difference of mean ranks (Nemenyi's test at .05).
    `cliques`: maximal sets of methods that do not differ significantly.
    """

    ranks: dict[str, float]
    distance: float
    cliques: list[tuple[str, ...]]


def critical_difference(ranks: Mapping[str, Sequence[float]]) -> CriticalDifference | None:
    """Return the critical difference (Demsar, 2006); None with too few data sets."""
    from scipy.stats import studentized_range

    n_methods = len(ranks)
    n_sets = min((len(values) for values in ranks.values()), default=0)
    if n_methods < 3 or n_sets < MIN_SETS:
        return None
    means = sorted((float(np.mean(values)), name) for name, values in ranks.items())
    quantile = float(studentized_range.ppf(0.95, n_methods, np.inf)) / np.sqrt(2)
    distance = float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))
    cliques: list[tuple[str, ...]] = []
    for start, (best, _) in enumerate(means):
        members = tuple(name for mean, name in means[start:] if mean - best < distance)
        if len(members) > 1 and not any(set(members) <= set(known) for known in cliques):
            cliques.append(members)
    return CriticalDifference({name: mean for mean, name in means}, distance, cliques)

"""How sure a difference between methods is: over trials that share rows, and over data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

MIN_SETS = 5
"""Data sets from which on a signed-rank test over them can say anything at the .05 level."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two methods over trials, and how sure it is.

    `mean`: mean of the differences; positive where the first method is ahead.
    `low`, `high`: confidence interval of the mean.
    `p_value`: of the two-sided test that there is no difference.
    `n_trials`: number of trials.
    """

    mean: float
    low: float
    high: float
    p_value: float
    n_trials: int


def corrected_t_test(
    differences: ArrayLike, test_to_train: float, *, confidence: float = 0.95
) -> PairedDifference:
    r"""Test a mean difference over random splits of one data set (Nadeau and Bengio, 2003).

    Training parts of random splits overlap, so the plain t-test takes trials for more evidence
    than they are. The variance of the mean is :math:`(1/n + n_{test}/n_{train}) s^2` instead of
    :math:`s^2/n`.

    Result: with equal differences everywhere the interval is the mean alone. `differences`:
    differences of the two methods, one per split. `test_to_train`: size of the test part over the
    size of the training part; 0 gives the plain t-test. `confidence`: level of the interval.

    Examples
    --------
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
    """Adjust p-values of several comparisons so that the chance of any false one is kept.

    Result: holm's step-down adjustment, in the given order.

    Examples
    --------
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
    """Compare one method with each other over data sets (Wilcoxon, adjusted by Holm).

    Result: adjusted; empty with fewer than `MIN_SETS` data sets. `means`: for each method its mean
    figure on every data set, in the same order. `method`: the one that is compared.
    """
    from scipy.stats import wilcoxon

    own = np.asarray(means[method], dtype=np.float64)
    if len(own) < MIN_SETS:
        return {}
    found: dict[str, float] = {}
    for name, values in means.items():
        if name != method:
            gaps = own - np.asarray(values, dtype=np.float64)
            found[name] = float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0
    return holm(found)


@dataclass(frozen=True)
class CriticalDifference:
    """Mean ranks of methods over data sets, and which of them cannot be told apart.

    `ranks`: mean rank of each method, best first.
    `distance`: ranks that two methods must lie apart to differ (Nemenyi's test at .05).
    `cliques`: neighbours that lie closer together than that, the largest sets only.
    """

    ranks: dict[str, float]
    distance: float
    cliques: list[tuple[str, ...]]


def critical_difference(ranks: Mapping[str, Sequence[float]]) -> CriticalDifference | None:
    """Return what a critical-difference picture shows (Demsar, 2006).

    None with fewer than three methods or `MIN_SETS` data sets, where the test is empty. `ranks`:
    for each method its rank on every data set.
    """
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

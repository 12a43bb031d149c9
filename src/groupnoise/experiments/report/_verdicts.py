"""What the tables say: who is ahead and by how surely, mean ranks, and the gap to the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from groupnoise.experiments._run import TrialResult
from groupnoise.experiments.report._tables import metric_values, paired_leads

OURS = "ours"
SUPERVISED = "supervised"
STARTS = ("pairwise", "pairwise-mlp")
"""Rows that learn every object alike; the gap to the truth begins at one of them."""


def main_metric(results: Sequence[TrialResult]) -> str:
    """Return the metric that comes first."""
    return next(iter(results[0].metrics))


def mean_values(results: Sequence[TrialResult], metric: str) -> dict[str, float]:
    """Return the mean of a metric for each method, in the order they come."""
    methods = dict.fromkeys(result.method for result in results if metric in result.metrics)
    return {method: float(metric_values(results, method, metric).mean()) for method in methods}


def verdict(results: Sequence[TrialResult], left_out: Sequence[str] = ()) -> str:
    """Say how ours stands against the best rival, with a paired test over the trials.

    Parameters
    ----------
    results : sequence of TrialResult
        All of one data set under one criterion.
    left_out : sequence of str
        Rows that are no rivals: other readings of ours, and upper bounds.
    """
    metric = main_metric(results)
    means = mean_values(results, metric)
    rivals = {m: mean for m, mean in means.items() if m != OURS and m not in left_out}
    if OURS not in means or not rivals:
        return ""
    rival = max(rivals, key=lambda method: rivals[method])
    gap = paired_leads(results, OURS, rival, metric)
    if not len(gap):
        return ""
    lead = float(gap.mean())
    words = f"ours is {'ahead of' if lead > 0 else 'behind'} {rival} by {abs(lead):.3f} in {metric}"
    if len(gap) < 2 or not gap.std():
        return words + "."
    from scipy.stats import ttest_1samp

    return f"{words} (paired t-test over {len(gap)} trials: p = {ttest_1samp(gap, 0).pvalue:.3f})."


def mean_ranks(
    results: Sequence[TrialResult], left_out: Sequence[str] = ()
) -> dict[str, list[float]]:
    """Return the rank of each method on every data set, best first.

    Only methods that were run on all data sets are ranked; equal means share their rank.

    Parameters
    ----------
    results : sequence of TrialResult
        Of several data sets under one criterion.
    left_out : sequence of str
        Rows that are not ranked.
    """
    from scipy.stats import rankdata

    by_dataset = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        here = [r for r in results if r.dataset == dataset and r.method not in left_out]
        if here:
            by_dataset.append(mean_values(here, main_metric(here)))
    if len(by_dataset) < 2:
        return {}
    everywhere = [m for m in by_dataset[0] if all(m in means for means in by_dataset)]
    if not everywhere:
        return {}
    ranks = [rankdata([-means[m] for m in everywhere]) for means in by_dataset]
    table = {m: [float(rank[i]) for rank in ranks] for i, m in enumerate(everywhere)}
    return dict(sorted(table.items(), key=lambda pair: np.mean(pair[1])))


def gap_closed(results: Sequence[TrialResult]) -> dict[str, float]:
    """Return the share of the way from learning every object alike to knowing the truth.

    Parameters
    ----------
    results : sequence of TrialResult
        All of one data set under one criterion.

    Returns
    -------
    dict of str to float
        For each row of `STARTS`, where ours lies between it (0) and the supervised row (1).
    """
    means = mean_values(results, main_metric(results)) if results else {}
    if OURS not in means or SUPERVISED not in means:
        return {}
    return {
        start: (means[OURS] - means[start]) / (means[SUPERVISED] - means[start])
        for start in STARTS
        if start in means and means[SUPERVISED] > means[start]
    }

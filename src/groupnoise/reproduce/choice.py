"""Which method a fit takes when that is left to held-out groups: ours, unless one is ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.io.setting import Setting
from groupnoise.reproduce.compare import ComparisonOfMethods, compare_methods
from groupnoise.reproduce.methods import MethodEntry, find_method

OURS = "max-matching"
BASELINES = {
    "mil": ("milr", "mi-net", "attention-mil", "instance-lr"),
    "pll": ("soft-lr", "pl-knn", "pl-svm", "clpl", "sure", "cc", "proden", "lws"),
    "rs": ("popularity", "cooccurrence", "item-cf", "item-knn", "ease", "als"),
}
"""Baselines that cost no more than ours, and are worth asking."""
MAX_ROWS = {"sure": 5_000}
"""Rows up to which a method fits in memory: SURE solves with a kernel between all rows."""
N_SPLITS = 3
ERRORS = 1.0
"""Standard errors of the paired difference by which a baseline must be ahead to be taken."""


@dataclass(frozen=True)
class Choice:
    """The method that was taken, why, and the comparison behind it.

    `method`: what is to be fitted.
    `sentence`: who was taken and what was measured.
    `comparison`: all methods that were run.
    """

    method: MethodEntry
    sentence: str
    comparison: ComparisonOfMethods


def choose_method(
    setting: Setting[Any],
    training: Any,
    *,
    budget: float | None = 600.0,
    seed: int = 0,
    on_fit: Callable[[str, int, float | None], None] | None = None,
) -> Choice:
    """Compare ours with the baselines of a setting and take the one that held-out groups prefer.

    Result: a baseline only where it is ahead of ours by more than a standard error over the splits.
    `setting`: what the data is. `training`: what the method taken will be trained on. `budget`:
    seconds after which no further fit begins. None sets none. `seed`: decides splits and fits.
    `on_fit`: called with the method, the number of the split, and the main figure, None after a
    failure.
    """
    n_groups = setting.n_groups(training)
    names = [name for name in BASELINES[setting.name] if n_groups <= MAX_ROWS.get(name, n_groups)]
    entries = [find_method(name, setting.name) for name in (OURS, *names)]
    found = compare_methods(
        setting, training, entries, n_splits=N_SPLITS, budget=budget, seed=seed, on_fit=on_fit
    )
    taken = method_taken(found)
    return Choice(find_method(taken, setting.name), _sentence(found, taken), found)


def method_taken(found: ComparisonOfMethods) -> str:
    """Return the name of the winner where it is ahead of ours beyond chance, otherwise ours."""
    ours = next((each for each in found.methods if each.name == OURS), found.winner)
    if ours.failed is not None or found.winner is ours:
        return found.winner.name
    ahead = (found.winner.values(found.metric) - ours.values(found.metric))[: found.n_splits]
    error = float(ahead.std(ddof=1)) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.inf
    return found.winner.name if ahead.mean() > ERRORS * error else OURS


def _sentence(found: ComparisonOfMethods, taken: str) -> str:
    told = "by true labels of the training part" if found.needs_truth else "without true labels"
    splits = "1 split" if found.n_splits == 1 else f"{found.n_splits} splits"
    means = {
        each.name: float(np.nanmean(each.values(found.metric)))
        for each in found.methods
        if each.failed is None
    }
    others = [name for name in means if name != taken]
    sentence = f"{taken} was taken: {found.metric} {means[taken]:.3f} on {splits}, {told}"
    if taken == OURS and found.winner.name != OURS:
        best = found.winner.name
        return f"{sentence}; {best} with {means[best]:.3f} is not ahead beyond chance."
    if OURS in others:
        return f"{sentence}; this package's {OURS} has {means[OURS]:.3f}."
    if not others:
        return f"{sentence}; no baseline was run."
    return f"{sentence}; the best baseline, {others[0]}, has {means[others[0]]:.3f}."

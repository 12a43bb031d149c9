"""All methods on one data set under the same splits, and the one to take."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupnoise.clicks.recall_metrics import Interval
from groupnoise.core.checks import check_count, check_fraction
from groupnoise.exceptions import DataError, GroupNoiseError, ParameterError
from groupnoise.io.setting import Setting
from groupnoise.reproduce.methods import (
    METHODS,
    MethodEntry,
    compared_parameters,
    find_method,
    import_class,
    parameters_of,
)
from groupnoise.reproduce.report.tables import corrected_t_test

CONFIDENCE = 0.95
MAIN_METRICS = {
    "mil": ("instance AUROC", "bag AUROC", "bag accuracy"),
    "pll": ("accuracy", "approximated accuracy", "covering rate"),
    "rs": ("full NDCG@10", "NDCG@10"),
}
"""What methods are ranked by: the first that the data has; those after it need no truth."""
LEFT_OUT = {
    *("max-matching-mipl", "noisy-labels", "pairwise", "matching", "maximizing", "sasrec-ce"),
    *("lrurec", "comirec", "ease-blocks"),
}
"""Methods for other questions, ablations and variants: compared only when they are named."""


@dataclass(frozen=True)
class ComparedMethod:
    """What one method is worth on a data set.

    `name`: as `groupnoise methods` lists it.
    `splits`: the figures of merit on each split, in the order of the splits.
    `seconds`: mean seconds of a fit.
    `failed`: why it has no figures, in a sentence.
    """

    name: str
    splits: tuple[Mapping[str, float], ...] = ()
    seconds: float = 0.0
    failed: str | None = None

    def values(self, metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a figure on each split, shape (n_splits,)."""
        return np.array([split.get(metric, math.nan) for split in self.splits])


@dataclass(frozen=True)
class ComparisonOfMethods:
    """Methods on one data set, best first, with what a reader needs to trust the order.

    `dataset`, `setting`: what was compared on.
    `metric`: what methods are ranked by.
    `needs_truth`: whether that figure rests on true labels of the file.
    `n_splits`: how many splits every ranked method was run on.
    `share`: share of the groups that each split holds out.
    `methods`: best first; those without figures last.
    `notes`: what was cut short, and why.
    """

    dataset: str
    setting: str
    metric: str
    needs_truth: bool
    n_splits: int
    share: float
    methods: tuple[ComparedMethod, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def winner(self) -> ComparedMethod:
        """The method with the best mean."""
        return self.methods[0]

    def interval(self, method: ComparedMethod) -> Interval:
        """Return the mean of a method over the splits and its interval."""
        return corrected_interval(method.values(self.metric)[: self.n_splits], self.share)

    def behind(self, method: ComparedMethod) -> Interval:
        """Return by how much a method is behind the winner, paired by split."""
        gap = self.winner.values(self.metric) - method.values(self.metric)
        return corrected_interval(gap[: self.n_splits], self.share)

    def heading(self, units: str) -> str:
        """Return what was measured, on what, in one line."""
        told = "by true labels" if self.needs_truth else "by what needs no truth"
        return (
            f"{self.dataset}: {self.metric} {told}, mean over {self.n_splits} splits that hold "
            f"out {self.share:.0%} of the {units}; 95 % intervals"
        )

    def is_level(self, method: ComparedMethod) -> bool:
        """Whether the data cannot tell a method from the winner."""
        low = self.behind(method).low
        return method is self.winner or math.isnan(low) or low <= 0.0

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it."""
        return {
            "data": self.dataset,
            "setting": self.setting,
            "metric": self.metric,
            "needs_truth": self.needs_truth,
            "n_splits": self.n_splits,
            "held_out_share": self.share,
            "winner": self.winner.name,
            "notes": list(self.notes),
            "methods": [self._row(method) for method in self.methods],
        }

    def _row(self, method: ComparedMethod) -> dict[str, Any]:
        if method.failed is not None:
            return {"method": method.name, "failed": method.failed}
        names = sorted({name for split in method.splits for name in split})
        mean, behind = self.interval(method), self.behind(method)
        return {
            "method": method.name,
            "mean": mean.mean,
            "low": _known(mean.low),
            "high": _known(mean.high),
            "behind_winner": behind.mean,
            "behind_low": _known(behind.low),
            "behind_high": _known(behind.high),
            "seconds": round(method.seconds, 2),
            "figures": {name: float(np.nanmean(method.values(name))) for name in names},
            "splits": method.values(self.metric).tolist(),
        }


def corrected_interval(values: Any, share: float) -> Interval:
    """Return mean and interval over splits that overlap, as `corrected_t_test` has them.

    Its ends are NaN for a single split. `share`: share of the groups that a split holds out.

    Examples
    --------
    >>> found = corrected_interval([0.8, 0.9], 0.2)
    >>> round(found.mean, 2), found.low < 0.8
    (0.85, True)
    """
    found = corrected_t_test(values, share / (1.0 - share), confidence=CONFIDENCE)
    if found.n_trials < 2:
        return Interval(found.mean, math.nan, math.nan)
    return Interval(found.mean, found.low, found.high)


def methods_to_compare(setting: str, names: Sequence[str] = ()) -> list[MethodEntry]:
    """Return the methods of a setting by name; all that answer the same question by default."""
    if names:
        return [find_method(name, setting) for name in dict.fromkeys(names)]
    return [each for each in METHODS if each.setting == setting and each.name not in LEFT_OUT]


def compare_methods(
    setting: Setting[Any],
    dataset: Any,
    methods: Sequence[MethodEntry],
    *,
    n_splits: int = 5,
    share: float = 0.2,
    budget: float | None = 600.0,
    seed: int = 0,
    on_fit: Callable[[str, int, float | None], None] | None = None,
) -> ComparisonOfMethods:
    """Fit all methods on the same splits and measure them on what each split holds out.

    All methods are run on a split before the next one begins, ours first, so that a budget that
    runs out leaves complete splits behind.

    `setting`: what the data is.
    `n_splits`: how many splits at most.
    `share`: share of the groups that each split holds out.
    `budget`: seconds after which no further fit begins, except ours on the first split. None sets
        none.
    `seed`: decides splits and fits.
    `on_fit`: called with the method, the number of the split, and the main figure, None after a
        failure.
    """
    check_count("splits", n_splits)
    check_fraction("share", share)
    started = time.perf_counter()
    found: dict[str, list[Mapping[str, float]]] = {each.name: [] for each in methods}
    seconds: dict[str, list[float]] = {each.name: [] for each in methods}
    failed: dict[str, str] = {}
    is_over = False
    for split in range(n_splits):
        rows = setting.hold_out(dataset, share, seed + split)
        if not len(rows):
            raise DataError("the data is too small to hold anything out; nothing to compare on.")
        training = setting.without(dataset, rows)
        for number, entry in enumerate(methods):
            if entry.name in failed:
                continue
            late = budget is not None and time.perf_counter() - started > budget
            if late and (split or number):
                is_over = True
                if not split:
                    failed[entry.name] = "not run: the budget was spent"
                    continue
                break
            fit_started = time.perf_counter()
            try:
                figures = _figures(setting, dataset, training, rows, entry, seed + split)
            except (GroupNoiseError, ValueError, MemoryError) as error:
                failed[entry.name] = str(error) or type(error).__name__
                figures = {}
            else:
                found[entry.name].append(figures)
                seconds[entry.name].append(time.perf_counter() - fit_started)
            if on_fit is not None:
                on_fit(entry.name, split, _main_value(setting.name, figures))
        if is_over:
            break
    return _ranked(setting, dataset, found, seconds, failed, share, n_splits, is_over)


def _figures(
    setting: Setting[Any], dataset: Any, training: Any, rows: Any, entry: MethodEntry, seed: int
) -> dict[str, float]:
    estimator = make_estimator(entry, seed)
    with warnings.catch_warnings():
        # What a fit warns of (too little data, no better than chance) the figures show.
        warnings.simplefilter("ignore")
        setting.fit(estimator, training)
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # what is evaluated are rows of the same table, unnamed
    return setting.evaluate(estimator, dataset, rows, seed=seed).metrics


def make_estimator(entry: MethodEntry, seed: int) -> Any:
    """Return an estimator at its defaults, behind the library's scaling of features."""
    parameters = compared_parameters(entry)
    if "random_state" in parameters_of(entry):
        parameters["random_state"] = seed
    return import_class(entry)(**parameters)


def _main_value(setting: str, figures: Mapping[str, float]) -> float | None:
    for metric in MAIN_METRICS[setting]:
        if metric in figures:
            return figures[metric]
    return None


def _ranked(
    setting: Setting[Any],
    dataset: Any,
    found: Mapping[str, list[Mapping[str, float]]],
    seconds: Mapping[str, list[float]],
    failed: Mapping[str, str],
    share: float,
    n_splits: int,
    is_over: bool,
) -> ComparisonOfMethods:
    ran = {name: splits for name, splits in found.items() if splits and name not in failed}
    if not ran:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise ParameterError(f"no method could be fitted ({reasons}).")
    complete = min(len(splits) for splits in ran.values())
    first = next(iter(ran.values()))[0]
    metric = next(name for name in (*MAIN_METRICS[setting.name], *first) if name in first)
    compared = [
        ComparedMethod(name, tuple(splits[:complete]), float(np.mean(seconds[name])))
        for name, splits in ran.items()
    ]
    compared.sort(key=lambda each: -float(np.nanmean(each.values(metric))))
    compared += [ComparedMethod(name, failed=reason) for name, reason in failed.items()]
    notes = []
    if is_over:
        notes.append(
            f"the budget was spent after {complete} of {n_splits} splits; --budget takes more, "
            "such as 30m."
        )
    if complete < 2:
        notes.append("one split tells nothing of chance: differences have no intervals.")
    return ComparisonOfMethods(
        dataset=dataset.name,
        setting=setting.name,
        metric=metric,
        needs_truth=metric in ("instance AUROC", "accuracy"),
        n_splits=complete,
        share=share,
        methods=tuple(compared),
        notes=tuple(notes),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


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

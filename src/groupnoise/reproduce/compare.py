"""All methods on one data set under the same splits: means, intervals, paired differences."""

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
from groupnoise.decisions.portfolio import spell_budget
from groupnoise.exceptions import DataError, GroupNoiseError, ParameterError
from groupnoise.io.setting import Evaluation, Setting
from groupnoise.reproduce.methods import (
    METHODS,
    OURS,
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


NOT_RUN = "not run: the budget was spent"


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
    def is_alone(self) -> bool:
        """Whether a single method has figures, so that it is ahead of nobody."""
        return sum(each.failed is None for each in self.methods) == 1

    @property
    def winner(self) -> ComparedMethod:
        """The method with the best mean."""
        return self.methods[0]

    def interval(self, method: ComparedMethod) -> Interval:
        """Return the mean of a method over the splits and its interval, a part of 0 to 1."""
        mean, *ends = corrected_interval(method.values(self.metric)[: self.n_splits], self.share)
        return Interval(mean, *np.clip(ends, 0.0, 1.0).tolist())

    def behind(self, method: ComparedMethod) -> Interval:
        """Return by how much a method is behind the winner, paired by split."""
        gap = self.winner.values(self.metric) - method.values(self.metric)
        return corrected_interval(gap[: self.n_splits], self.share)

    def heading(self, units: str) -> str:
        """Return what was measured, on what, in one line."""
        told = "by true labels" if self.needs_truth else "by what needs no truth"
        splits = "1 split that holds" if self.n_splits == 1 else f"{self.n_splits} splits that hold"
        return (
            f"{self.dataset}: {self.metric} {told}, mean over {splits} "
            f"out {self.share:.0%} of the {units}" + "; 95 % intervals" * (self.n_splits > 1)
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
    """Return the methods of a setting by name; all that answer the same question by default.

    In the order in which a budget is spent on them: what is counted or solved, then ours, then
    what is trained by gradients.
    """
    if names:
        found = [find_method(name, setting) for name in dict.fromkeys(names)]
    else:
        found = [each for each in METHODS if each.setting == setting and each.name not in LEFT_OUT]
    return sorted(
        found,
        key=lambda each: 1 if each.name == OURS else 2 * ("learning_rate" in parameters_of(each)),
    )


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

    All methods are run on a split before the next one begins, in the order given, so that a budget
    that runs out leaves complete splits behind.

    `setting`: what the data is.
    `n_splits`: how many splits at most.
    `share`: share of the groups that each split holds out.
    `budget`: seconds after which no further fit begins, except the first. None sets none.
    `seed`: decides splits and fits.
    `on_fit`: called with the method, the number of the split, and the main figure, None after a
        failure.
    """
    check_count("splits", n_splits)
    check_fraction("share", share)

    def fit_on(split: int) -> Fit:
        rows = setting.hold_out(dataset, share, seed + split)
        if not len(rows):
            raise DataError("the data is too small to hold anything out; nothing to compare on.")
        training = setting.without(dataset, rows)
        return lambda entry: _fit_and_measure(setting, dataset, training, rows, entry, seed + split)

    def main_value(figures: Mapping[str, float]) -> float | None:
        return next((figures[each] for each in MAIN_METRICS[setting.name] if each in figures), None)

    turns = fit_in_turns(methods, n_splits, fit_on, main_value, budget=budget, on_fit=on_fit)
    first = next(iter(turns.complete().values()))[0].metrics
    metric = next(name for name in (*MAIN_METRICS[setting.name], *first) if name in first)
    notes = turns.notes("splits", n_splits)
    if turns.n_complete < 2:
        notes.append("one split tells nothing of chance: differences have no intervals.")
    return ComparisonOfMethods(
        dataset=dataset.name,
        setting=setting.name,
        metric=metric,
        needs_truth=metric in ("instance AUROC", "accuracy"),
        n_splits=turns.n_complete,
        share=share,
        methods=turns.compared(metric),
        notes=tuple(notes),
    )


Fit = Callable[[MethodEntry], Evaluation]
"""Fits a method on what one split leaves, and measures it."""


@dataclass
class FitsInTurns:
    """Fits of several methods, all on one split before the next one begins.

    `found`, `seconds`: what each method was worth on each split, and how long it took.
    `failed`: why a method has no figures.
    `is_over`: whether the budget was spent before all splits were.
    `spent`: seconds when no further fit began.
    """

    found: dict[str, list[Evaluation]]
    seconds: dict[str, list[float]]
    failed: dict[str, str] = field(default_factory=dict)
    is_over: bool = False
    spent: float = 0.0

    @property
    def n_complete(self) -> int:
        """How many splits every method that did not fail was run on."""
        return min(len(self.found[name]) for name in self._names())

    def complete(self) -> dict[str, list[Evaluation]]:
        """Return what each method that did not fail was worth on the splits that all had."""
        return {name: self.found[name][: self.n_complete] for name in self._names()}

    def compared(self, metric: str) -> tuple[ComparedMethod, ...]:
        """Return the methods, best first by a figure; those without figures last."""
        ranked = [
            ComparedMethod(
                name, tuple(each.metrics for each in results), float(np.mean(self.seconds[name]))
            )
            for name, results in self.complete().items()
        ]
        ranked.sort(key=lambda each: -float(np.nanmean(each.values(metric))))
        return *ranked, *(ComparedMethod(name, failed=why) for name, why in self.failed.items())

    def notes(self, units: str, n_splits: int) -> list[str]:
        """Return a sentence where the budget was spent: what it left out, and what that takes."""
        if not self.is_over:
            return []
        not_run = [name for name, why in self.failed.items() if why == NOT_RUN]
        if not_run:
            took = "is the only one that was run" if len(self._names()) == 1 else "were run"
            return [
                f"the budget was spent: in {spell_budget(self.spent)} {', '.join(self._names())} "
                f"{took}; {', '.join(not_run)} would begin after that, so give more, such as "
                f"--budget {spell_budget(3 * self.spent)}."
            ]
        every = n_splits * sum(float(np.mean(self.seconds[name])) for name in self._names())
        return [
            f"the budget was spent after {self.n_complete} of {n_splits} {units}; all of them take "
            f"about --budget {spell_budget(every)}."
        ]

    def _names(self) -> list[str]:
        return [name for name, results in self.found.items() if results and name not in self.failed]


def fit_in_turns(
    methods: Sequence[MethodEntry],
    n_splits: int,
    fit_on: Callable[[int], Fit],
    main_value: Callable[[Mapping[str, float]], float | None],
    *,
    budget: float | None,
    on_fit: Callable[[str, int, float | None], None] | None,
) -> FitsInTurns:
    """Fit all methods on each split, until a budget of seconds is spent and one has figures.

    `fit_on`: returns for the number of a split what fits a method on it. `main_value`: of the
    figures of a fit, what `on_fit` is told. Raises ParameterError if no method could be fitted.
    """
    started = time.perf_counter()
    turns = FitsInTurns({each.name: [] for each in methods}, {each.name: [] for each in methods})
    for split in range(n_splits):
        fit = fit_on(split)
        for entry in (each for each in methods if each.name not in turns.failed):
            spent = time.perf_counter() - started
            if budget is not None and spent > budget and any(turns.found.values()):
                turns.is_over, turns.spent = True, spent
                if split:
                    break
                turns.failed[entry.name] = NOT_RUN
                continue
            fit_started, value = time.perf_counter(), None
            try:
                result = fit(entry)
            except (GroupNoiseError, ValueError, MemoryError) as error:
                turns.failed[entry.name] = str(error) or type(error).__name__
            else:
                turns.found[entry.name].append(result)
                turns.seconds[entry.name].append(time.perf_counter() - fit_started)
                value = main_value(result.metrics)
            if on_fit is not None:
                on_fit(entry.name, split, value)
        if turns.is_over:
            break
    if not turns._names():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in turns.failed.items())
        raise ParameterError(f"no method could be fitted ({reasons}).")
    return turns


def _fit_and_measure(
    setting: Setting[Any], dataset: Any, training: Any, rows: Any, entry: MethodEntry, seed: int
) -> Evaluation:
    estimator = make_estimator(entry, seed)
    with warnings.catch_warnings():
        # What a fit warns of (too little data, no better than chance) the figures show.
        warnings.simplefilter("ignore")
        setting.fit(estimator, training)
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # what is evaluated are rows of the same table, unnamed
    return setting.evaluate(estimator, dataset, rows, seed=seed)


def make_estimator(entry: MethodEntry, seed: int) -> Any:
    """Return an estimator at its defaults, behind the library's scaling of features."""
    parameters = compared_parameters(entry)
    if "random_state" in parameters_of(entry):
        parameters["random_state"] = seed
    return import_class(entry)(**parameters)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value

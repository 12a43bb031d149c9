"""All methods fitted on one data set under the same splits, within a budget."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.evaluate import BEHIND
from groupnoise.clicks.evaluation.recall_metrics import Interval, bootstrap_interval
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_count, check_fraction
from groupnoise.core.words import counted
from groupnoise.decisions.portfolio import spell_budget
from groupnoise.exceptions import DataError, GroupNoiseError, ParameterError
from groupnoise.io.setting import Evaluation, Setting
from groupnoise.reproduce.comparison import ComparedMethod, ComparisonOfMethods, adjusted_means
from groupnoise.reproduce.methods import (
    METHODS,
    OURS,
    MethodEntry,
    compared_parameters,
    find_method,
    import_class,
    parameters_of,
)

MAIN_METRICS = {
    "mil": ("instance AUROC", "bag AUROC", "bag accuracy"),
    "pll": ("accuracy", "approximated accuracy", "covering rate"),
    "rs": ("full NDCG@10", "NDCG@10"),
}
"""Metrics by which methods are ranked: the first available; later ones need no true labels."""
EXCLUDED = {
    *("max-matching-mipl", "noisy-labels", "pairwise", "matching", "maximizing", "sasrec-ce"),
    *("lrurec", "comirec", "ease-blocks"),
}
"""Methods for other tasks, ablations and variants: compared only by name."""

NOT_RUN = "not run: the budget was spent"
Fit = Callable[[MethodEntry], Evaluation]
"""Fits a method on the training part of a split, and evaluates it."""
METRIC = "full NDCG@10"
COLUMN = "NDCG@10"

MIN_GROUPS = 10
"""Held-out groups below which metrics are unreliable."""


def methods_to_compare(setting: str, names: Sequence[str] = ()) -> list[MethodEntry]:
    """Return the methods of a setting by name; by default all for the same task.

    Ordered by cost: methods that count or solve, then ours, then those trained by gradients.
    """
    if names:
        found = [find_method(name, setting) for name in dict.fromkeys(names)]
    else:
        found = [each for each in METHODS if each.setting == setting and each.name not in EXCLUDED]
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
    """Fit all methods on the same splits and evaluate them on the held-out part of each.

    All methods run on a split before the next one begins, in the order given, so that after a spent
    budget they share all splits but the last.

    `share`: share of the groups that each split holds out.
    `budget`: seconds after which no further fit begins, except the first; None for no limit.
    `on_fit`: called with the method, the number of the split, and the main metric, None after a
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

    held = setting.hold_out(dataset, share, seed)
    if getattr(dataset, "split", None) is not None:  # of the data, which is the same every time
        n_splits, share = 1, len(held) / setting.n_groups(dataset)
    rounds = fit_round_robin(methods, n_splits, fit_on, main_value, budget=budget, on_fit=on_fit)
    result = next(iter(rounds.ranked().values()))[0]
    names = (*MAIN_METRICS[setting.name], *result.metrics)
    metric = next(name for name in names if name in result.metrics)
    # Notes on the data, such as repeated clicks, are the same on all splits.
    about = result.notes if setting.judged_by_protocol else ()
    about = tuple(note for note in about if not note.startswith(BEHIND))  # of one method alone
    if len(held) < MIN_GROUPS:
        few = counted(len(held), setting.units)
        about += (f"each split holds out {few}: that says little; --share holds out more",)
    return ComparisonOfMethods(
        dataset=dataset.name,
        setting=setting.name,
        metric=metric,
        needs_truth=metric in ("instance AUROC", "accuracy"),
        n_splits=rounds.most_splits,
        share=share,
        methods=rounds.compared(metric),
        notes=(*about, *rounds.notes(n_splits)),
    )


@dataclass
class RoundRobinFits:
    """Fits of several methods, all on one split before the next one begins.

    `found`, `seconds`: the evaluation of each method on each split, and the time of its fit.
    `failed`: why a method has no metrics.
    `is_over`: whether the budget was spent before the last fit.
    `spent`: seconds when it was.
    """

    found: dict[str, list[Evaluation]]
    seconds: dict[str, list[float]]
    failed: dict[str, str] = field(default_factory=dict)
    is_over: bool = False
    spent: float = 0.0

    @property
    def most_splits(self) -> int:
        """The most splits that any method has run on."""
        return max(len(self.found[name]) for name in self._names())

    def ranked(self) -> dict[str, list[Evaluation]]:
        """Return the evaluations of each method that did not fail, in the order of the splits."""
        return {name: self.found[name] for name in self._names()}

    def compared(self, metric: str) -> tuple[ComparedMethod, ...]:
        """Return the methods, best first by a metric; failed ones last."""
        ranked = [
            ComparedMethod(
                name, tuple(each.metrics for each in results), float(np.mean(self.seconds[name]))
            )
            for name, results in self.ranked().items()
        ]
        means = adjusted_means(ranked, metric)
        ranked.sort(key=lambda each: -means[each.name])
        return *ranked, *(ComparedMethod(name, failed=why) for name, why in self.failed.items())

    def notes(self, n_splits: int) -> list[str]:
        """Return a note on a spent budget: which fits are missing, and the budget they need."""
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
        names = self._names()
        every = n_splits * sum(float(np.mean(self.seconds[name])) for name in names)
        n_done = sum(len(self.found[name]) for name in names)
        return [
            f"the budget was spent after {n_done} of {n_splits * len(names)} fits; all of them "
            f"take about --budget {spell_budget(every)}."
        ]

    def _names(self) -> list[str]:
        return [name for name, results in self.found.items() if results and name not in self.failed]


def fit_round_robin(
    methods: Sequence[MethodEntry],
    n_splits: int,
    fit_on: Callable[[int], Fit],
    main_value: Callable[[Mapping[str, float]], float | None],
    *,
    budget: float | None,
    on_fit: Callable[[str, int, float | None], None] | None,
) -> RoundRobinFits:
    """Fit all methods on each split, until a budget of seconds is spent and one has metrics.

    `fit_on`: returns the function that fits a method on a split. `main_value`: selects the metric
    passed to `on_fit`. Raises ParameterError if no method could be fitted.
    """
    for entry in methods:
        import_class(entry)  # the import of torch is not timed
    started = time.perf_counter()
    rounds = RoundRobinFits(
        {each.name: [] for each in methods}, {each.name: [] for each in methods}
    )
    for split in range(n_splits):
        fit = fit_on(split)
        for entry in (each for each in methods if each.name not in rounds.failed):
            spent = time.perf_counter() - started
            if budget is not None and spent > budget and any(rounds.found.values()):
                rounds.is_over, rounds.spent = True, spent
                if split:
                    break
                rounds.failed[entry.name] = NOT_RUN
                continue
            fit_started, value = time.perf_counter(), None
            try:
                result = fit(entry)
            except (GroupNoiseError, ValueError, MemoryError) as error:
                rounds.failed[entry.name] = str(error) or type(error).__name__
            else:
                rounds.found[entry.name].append(result)
                rounds.seconds[entry.name].append(time.perf_counter() - fit_started)
                value = main_value(result.metrics)
            if on_fit is not None:
                on_fit(entry.name, split, value)
        if rounds.is_over:
            break
    if not rounds._names():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in rounds.failed.items())
        raise ParameterError(f"no method could be fitted ({reasons}).")
    return rounds


def _fit_and_measure(
    setting: Setting[Any], dataset: Any, training: Any, rows: Any, entry: MethodEntry, seed: int
) -> Evaluation:
    estimator = fit_quietly(setting, make_estimator(entry, seed), training)
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # evaluation passes arrays without names
    return setting.evaluate(estimator, dataset, rows, seed=seed)


def make_estimator(entry: MethodEntry, seed: int) -> Any:
    """Return an estimator at its defaults, with scaled features."""
    parameters = compared_parameters(entry)
    if "random_state" in parameters_of(entry):
        parameters["random_state"] = seed
    return import_class(entry)(**parameters)


def fit_quietly(setting: Setting[Any], estimator: Any, training: Any) -> Any:
    """Return the fitted estimator; its warnings on the data are suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return setting.fit(estimator, training)


@dataclass(frozen=True)
class ProtocolComparison(ComparisonOfMethods):
    """Methods on the same targets, with intervals over users.

    `protocol`: of the split.
    `users`: of each target.
    `rows`: the metric of each target for each method, a mean over the seeds.
    """

    protocol: str = ""
    users: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    rows: Mapping[str, FloatArray] = field(default_factory=dict)

    def interval(self, method: ComparedMethod) -> Interval:
        """Return the mean of a method and its interval over users."""
        return bootstrap_interval(self.rows[method.name], self.users)

    def behind(self, method: ComparedMethod) -> Interval:
        """Return the paired difference of the leader and a method over targets."""
        gap = self.rows[self.leader.name] - self.rows[method.name]
        return bootstrap_interval(gap, self.users)

    def heading(self, units: str) -> str:
        """Return what was measured, on what, in one line."""
        seeds = f", mean over {self.n_splits} seeds" if self.n_splits > 1 else ""
        targets = counted(len(self.users), "targets")
        return (
            f"{self.dataset}, {self.protocol}: {self.metric} of {targets}{seeds}; intervals over "
            "users"
        )

    def as_record(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it."""
        record = super().as_record()
        del record["held_out_share"]
        return {**record, "protocol": self.protocol, "targets": len(self.users)}


def compare_under_protocol(
    setting: Setting[Any],
    dataset: Any,
    methods: Sequence[MethodEntry],
    protocol: str,
    *,
    n_splits: int = 1,
    budget: float | None = 600.0,
    seed: int = 0,
    on_fit: Callable[[str, int, float | None], None] | None = None,
) -> ProtocolComparison:
    """Fit all methods on the training clicks of a protocol and evaluate them on its targets."""
    split = setting.split_by_protocol(dataset, protocol)

    def fit_on(number: int) -> Fit:
        return lambda entry: fit_and_judge(setting, dataset, split, entry, seed + number)

    rounds = fit_round_robin(
        methods, n_splits, fit_on, lambda found: found[METRIC], budget=budget, on_fit=on_fit
    )
    results = rounds.ranked()
    return ProtocolComparison(
        dataset=dataset.name,
        setting=setting.name,
        metric=METRIC,
        needs_truth=False,
        n_splits=rounds.most_splits,
        share=math.nan,
        methods=rounds.compared(METRIC),
        notes=(*split.notes, *rounds.notes(n_splits)),
        protocol=split.protocol.word,
        users=next(iter(results.values()))[0].rows["user"],
        rows={
            name: np.mean([each.rows[COLUMN] for each in found], axis=0)
            for name, found in results.items()
        },
    )


def fit_and_judge(
    setting: Setting[Any], dataset: Any, split: Any, entry: MethodEntry, seed: int
) -> Evaluation:
    """Fit a method at its defaults on the training part and measure it on the test part."""
    from groupnoise.clicks.evaluation.evaluate import evaluate_queries

    estimator = fit_quietly(setting, make_estimator(entry, seed), split.train)
    return evaluate_queries(estimator, dataset, split.test, counts=split.counts, seed=seed)

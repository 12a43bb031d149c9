"""All methods on one division of a click log: intervals and paired differences over users."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.recall_metrics import Interval, bootstrap_interval
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import GroupNoiseError, ParameterError
from groupnoise.io.setting import Evaluation, Setting
from groupnoise.reproduce.compare import (
    ComparedMethod,
    ComparisonOfMethods,
    make_estimator,
)
from groupnoise.reproduce.methods import MethodEntry

METRIC = "full NDCG@10"
COLUMN = "NDCG@10"


@dataclass(frozen=True)
class ProtocolComparison(ComparisonOfMethods):
    """Methods on the same targets, with intervals over users.

    `protocol`: how the log was divided.
    `users`: whose each target is.
    `rows`: the figure of each target for each method, a mean over the seeds.
    """

    protocol: str = ""
    users: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    rows: Mapping[str, FloatArray] = field(default_factory=dict)

    def interval(self, method: ComparedMethod) -> Interval:
        """Return the mean of a method and its interval over users."""
        return bootstrap_interval(self.rows[method.name], self.users)

    def behind(self, method: ComparedMethod) -> Interval:
        """Return by how much a method is behind the winner, target by target."""
        gap = self.rows[self.winner.name] - self.rows[method.name]
        return bootstrap_interval(gap, self.users)

    def heading(self, units: str) -> str:
        """Return what was measured, on what, in one line."""
        seeds = f", mean over {self.n_splits} seeds" if self.n_splits > 1 else ""
        return (
            f"{self.dataset}, {self.protocol}: {self.metric} of {len(self.users)} targets{seeds}; "
            "95 % intervals over users"
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
    """Fit all methods on what a protocol leaves and measure them on what it asks for.

    Result: best first. `setting`: that of click logs; others have no protocols. `protocol`: how the
    log is divided. `n_splits`: how many seeds each method is fitted under. `budget`: seconds after
    which no further fit begins, except the first. None sets none. `on_fit`: called with the method,
    the number of the seed, and the main figure, None after a failure.
    """
    split = setting.divide(dataset, protocol)
    started = time.perf_counter()
    found: dict[str, list[Evaluation]] = {each.name: [] for each in methods}
    seconds: dict[str, list[float]] = {each.name: [] for each in methods}
    failed: dict[str, str] = {}
    is_over = False
    for number in range(n_splits):
        for entry in methods:
            late = budget is not None and time.perf_counter() - started > budget
            if late and any(found.values()):
                is_over = True
                if not number:
                    failed.setdefault(entry.name, "not run: the budget was spent")
                continue
            if entry.name in failed:
                continue
            fit_started = time.perf_counter()
            try:
                result = fit_and_judge(setting, dataset, split, entry, seed + number)
            except (GroupNoiseError, ValueError, MemoryError) as error:
                failed[entry.name] = str(error) or type(error).__name__
                value = None
            else:
                found[entry.name].append(result)
                seconds[entry.name].append(time.perf_counter() - fit_started)
                value = result.metrics[METRIC]
            if on_fit is not None:
                on_fit(entry.name, number, value)
    ran = {name: results for name, results in found.items() if results and name not in failed}
    if not ran:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise ParameterError(f"no method could be fitted ({reasons}).")
    complete = min(len(results) for results in ran.values())
    rows = {
        name: np.mean([each.rows[COLUMN] for each in results[:complete]], axis=0)
        for name, results in ran.items()
    }
    compared = [
        ComparedMethod(
            name, tuple(each.metrics for each in results[:complete]), float(np.mean(seconds[name]))
        )
        for name, results in ran.items()
    ]
    compared.sort(key=lambda each: -float(np.nanmean(each.values(METRIC))))
    compared += [ComparedMethod(name, failed=reason) for name, reason in failed.items()]
    notes = list(split.notes)
    if is_over:
        notes.append(
            f"the budget was spent after {complete} of {n_splits} seeds; --budget takes more, "
            "such as 30m."
        )
    return ProtocolComparison(
        dataset=dataset.name,
        setting=setting.name,
        metric=METRIC,
        needs_truth=False,
        n_splits=complete,
        share=math.nan,
        methods=tuple(compared),
        notes=tuple(notes),
        protocol=split.protocol.word,
        users=next(iter(ran.values()))[0].rows["user"],
        rows=rows,
    )


def fit_and_judge(
    setting: Setting[Any], dataset: Any, split: Any, entry: MethodEntry, seed: int
) -> Evaluation:
    """Fit a method at its defaults on the training part and measure it on the test part.

    `setting`: that of click logs. `split`: how it is divided.
    """
    from groupnoise.clicks.evaluation import evaluate_queries

    estimator = make_estimator(entry, seed)
    with warnings.catch_warnings():
        # What a fit warns of the figures show.
        warnings.simplefilter("ignore")
        setting.fit(estimator, split.train)
    return evaluate_queries(estimator, dataset, split.test, counts=split.counts, seed=seed)

"""All methods on one division of a click log: intervals and paired differences over users."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.recall_metrics import Interval, bootstrap_interval
from groupnoise.core.arrays import FloatArray
from groupnoise.core.words import counted
from groupnoise.io.setting import Evaluation, Setting
from groupnoise.reproduce.compare import Fit, fit_in_turns, make_estimator
from groupnoise.reproduce.comparison import ComparedMethod, ComparisonOfMethods
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
        """Return by how much a method is behind the leader, target by target."""
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
    """Fit all methods on what a protocol leaves and measure them on what it asks for.

    Result: best first. `setting`: that of click logs; others have no protocols. `protocol`: how the
    log is divided. `n_splits`: how many seeds each method is fitted under. `budget`: seconds after
    which no further fit begins, except the first. None sets none. `on_fit`: called with the method,
    the number of the seed, and the main figure, None after a failure.
    """
    split = setting.divide(dataset, protocol)

    def fit_on(number: int) -> Fit:
        return lambda entry: fit_and_judge(setting, dataset, split, entry, seed + number)

    turns = fit_in_turns(
        methods, n_splits, fit_on, lambda found: found[METRIC], budget=budget, on_fit=on_fit
    )
    results = turns.ranked()
    return ProtocolComparison(
        dataset=dataset.name,
        setting=setting.name,
        metric=METRIC,
        needs_truth=False,
        n_splits=turns.most_splits,
        share=math.nan,
        methods=turns.compared(METRIC),
        notes=(*split.notes, *turns.notes(n_splits)),
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

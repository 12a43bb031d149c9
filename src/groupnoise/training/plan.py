"""TrainingPlan and History: how long, how fast, when to stop; one record per epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from groupnoise.core.checks import check_choice, check_count, check_positive

SCHEDULES = ("constant", "cosine", "linear")
KEPT_WEIGHTS = ("best", "last")


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The numbers that decide a training run.

    `max_epochs`: passes over the data.
    `batch_size`: groups per step.
    `learning_rate`: Adam step size; the paper searches 1e-1 to 1e-4.
    `weight_decay`: decoupled weight decay: weights shrink by learning_rate * weight_decay each
        step.
    `schedule`: path of the learning rate over the training; all but "constant" end at zero.
    `patience`: stop after this many epochs without a better validation value; None never stops
        early.
    `keep` (one of "best", "last"): weights to end with where there is a validation value. A
        schedule that ends at zero is best left at its end: the epoch that looks best on few rows is
        mostly a lucky one.
    `shuffle_pool`: for groups on disk that do not fit in memory: how many are mixed at a time, see
        :func:`groupnoise.core.batching.pooled_batch_rows`; a million is a good number. None mixes
        all, which takes 32 bytes of memory for each.
    `max_objects`: objects that are held at a time, padding included: a step on more is made in
        parts whose gradients are added. None takes every batch whole.
    """

    max_epochs: int = 50
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    patience: int | None = None
    keep: str = "best"
    shuffle_pool: int | None = None
    max_objects: int | None = None

    def __post_init__(self) -> None:
        check_count("max_epochs", self.max_epochs)
        check_count("batch_size", self.batch_size)
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("keep", self.keep, KEPT_WEIGHTS)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.shuffle_pool is not None:
            check_count("shuffle_pool", self.shuffle_pool)
        if self.max_objects is not None:
            check_count("max_objects", self.max_objects)

    def rate_at(self, progress: float) -> float:
        """Return the learning rate after a fraction `progress` of the training.

        The learning rate of that step. `progress`: between 0 and 1.
        """
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        if self.schedule == "linear":
            return self.learning_rate * (1.0 - progress)
        return self.learning_rate


class History:
    """Records of a training run, one dictionary per epoch.

    `records`: one record per epoch; empty at the beginning.

    Examples
    --------
    >>> history = History()
    >>> history.append({"epoch": 1, "loss": 0.7})
    >>> history.append({"epoch": 2, "loss": 0.5})
    >>> history.column("loss")
    [0.7, 0.5]
    """

    def __init__(self, records: list[dict[str, Any]] | None = None) -> None:
        self.records = list(records or [])
        self.best_epoch: int | None = None

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch.

        `record`: what the epoch that has ended brought.
        """
        self.records.append(record)

    def column(self, name: str) -> list[Any]:
        """Return one value per epoch, None where it was not recorded.

        `name`: a field of the records.
        """
        return [record.get(name) for record in self.records]

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the table by columns, as polars.DataFrame and pandas.DataFrame take it.

        One list per field, as JSON holds it.
        """
        names = dict.fromkeys(name for record in self.records for name in record)
        return {name: self.column(name) for name in names}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    def __repr__(self) -> str:
        last = self.records[-1] if self.records else {}
        return f"History({len(self)} epochs, last {last})"

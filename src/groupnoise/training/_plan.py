"""TrainingPlan: how long, how fast and when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from groupnoise._checks import check_choice, check_count, check_positive

SCHEDULES = ("constant", "cosine", "linear")
KEPT_WEIGHTS = ("best", "last")


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The numbers that decide a training run.

    Parameters
    ----------
    max_epochs : int
        Passes over the data.
    batch_size : int
        Groups per step.
    learning_rate : float
        Adam step size; the paper searches 1e-1 to 1e-4.
    weight_decay : float
        Decoupled weight decay: weights shrink by learning_rate * weight_decay each step.
    schedule : {"constant", "cosine", "linear"}
        Path of the learning rate over the training; all but "constant" end at zero.
    patience : int, optional
        Stop after this many epochs without a better validation value; None never stops early.
    keep : {"best", "last"}
        Weights to end with where there is a validation value. A schedule that ends at zero is
        best left at its end: the epoch that looks best on few rows is mostly a lucky one.
    shuffle_pool : int, optional
        For groups on disk that do not fit in memory: how many are mixed at a time, see
        :func:`groupnoise.groups.pooled_batch_rows`; a million is a good number. None mixes all,
        which takes 32 bytes of memory for each.
    """

    max_epochs: int = 50
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    patience: int | None = None
    keep: str = "best"
    shuffle_pool: int | None = None

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

    def rate_at(self, progress: float) -> float:
        """Return the learning rate after a share `progress` of the training."""
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        if self.schedule == "linear":
            return self.learning_rate * (1.0 - progress)
        return self.learning_rate

"""Fitting under watch: what each criterion would keep of one fit."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class Judge(Protocol):
    """What scores an estimator on a validation part."""

    @property
    def criteria(self) -> tuple[str, ...]:
        """The names of the scores; the first is the main one."""
        ...

    def validation_value(self, estimator: Any, criterion: str) -> float:
        """Return the value of a criterion; larger is better."""
        ...


@dataclass
class Watched:
    """What came of a fit.

    Attributes
    ----------
    kept : dict of str to estimator
        For each criterion the estimator at the epoch that was best by it; the same one for all
        where an estimator keeps its last epoch or has none.
    followed : list of float
        What was taken down after every epoch; it chose nothing.
    """

    kept: dict[str, Any] = field(default_factory=dict)
    followed: list[float] = field(default_factory=list)


def fit_watched(
    judge: Judge,
    estimator: Any,
    inputs: Any,
    targets: Any,
    *,
    follow: Callable[[Any], float] | None = None,
    **more: Any,
) -> Watched:
    """Fit an estimator, watching the validation part where it can.

    The estimator itself keeps the best epoch by the main criterion; copies are made at the best
    epochs by the others, so that one fit serves all of them.

    Parameters
    ----------
    judge : Judge
        Scores the estimator after every epoch.
    estimator : Any
        What is fitted, in place.
    inputs, targets : Any
        Handed to its `fit`.
    follow : callable, optional
        Called with the estimator after every epoch, its value taken down.
    **more
        Handed to `fit` as far as it knows them.
    """
    watched = Watched()
    main, *others = judge.criteria
    best = dict.fromkeys(others, -np.inf)

    def validate(fitted: Any) -> float:
        if follow is not None:
            watched.followed.append(follow(fitted))
        for criterion in others if picks_epoch(estimator) else ():
            value = judge.validation_value(fitted, criterion)
            if value > best[criterion]:
                best[criterion], watched.kept[criterion] = value, copy.deepcopy(fitted)
        return judge.validation_value(fitted, main)

    accepted = inspect.signature(estimator.fit).parameters
    more["validate"] = validate
    estimator.fit(inputs, targets, **{k: v for k, v in more.items() if k in accepted})
    watched.kept = {c: watched.kept.get(c, estimator) for c in judge.criteria}
    return watched


def picks_epoch(estimator: Any) -> bool:
    """Say whether an estimator keeps the epoch that validates best."""
    watches = "validate" in inspect.signature(estimator.fit).parameters
    return watches and getattr(estimator, "keep", "best") == "best"

"""Lambda and the temperature chosen on held-out groups, where a parameter is "auto"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import clone

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, blocks
from groupnoise.core.class_metrics import indicator_to_labels
from groupnoise.core.groups import Groups
from groupnoise.core.metrics import approximated_accuracy, covering_rate, hit_at_k, ndcg_at_k
from groupnoise.decisions.portfolio import is_auto
from groupnoise.exceptions import DataError, ParameterError

STRENGTHS = (0.0, 0.1, 0.3, 1.0, 3.0)
TEMPERATURES = ((1.0, 0.5), (1.0, 1.0), (1.0, 0.2))
TOLERANCE = 0.0025
"""A stronger weighting has to earn this much covering rate."""
HELD_OUT = 0.2
MAX_TRIAL_GROUPS = 20_000
MAX_HELD_OUT_GROUPS = 2_000
MIN_GROUPS = 10
N_RUNS = 50
"""Click windows are held out in runs of neighbours, since neighbours share their clicks."""
MIN_CHANCE = 1e-12
TOP = 10
SCORES_AT_ONCE = 1 << 25
"""Scores of windows held at a time: 128 MB in single precision."""


class TradeOffTrial(NamedTuple):
    """One pair of values, and what held-out groups said of the model it gave.

    `weighting_strength`: lambda.
    `temperature`: of tempered selection.
    `criteria`: the scores on held-out groups.
    """

    weighting_strength: float
    temperature: Any
    criteria: GroupCriteria


@dataclass(frozen=True)
class TradeOff:
    """What was chosen for "auto", and everything that was tried.

    Parameters
    ----------
    weighting_strength : float
        Lambda.
    temperature : float or (start, end)
        Of tempered selection.
    trials : tuple of TradeOffTrial
        In the order they were made.
    """

    weighting_strength: float
    temperature: Any
    trials: tuple[TradeOffTrial, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the choice as JSON can hold it.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        trials = [[s, t, list(criteria)] for s, t, criteria in self.trials]
        return {
            "weighting_strength": self.weighting_strength,
            "temperature": self.temperature,
            "trials": trials,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TradeOff:
        """Return the choice that :meth:`as_record` described.

        Parameters
        ----------
        record : dict
            What :meth:`as_record` returned.

        Returns
        -------
        TradeOff
            The same choice.
        """
        trials = [TradeOffTrial(s, t, GroupCriteria(*c)) for s, t, c in record["trials"]]
        return cls(record["weighting_strength"], record["temperature"], tuple(trials))


class TrialData(Protocol):
    """Training data that can be cut: fit on some of its groups, judge by others."""

    def __len__(self) -> int:
        """Return the number of groups."""
        ...

    def hold_out(self, generator: np.random.Generator) -> IntArray:
        """Return the groups to judge by."""
        ...

    def judge(self, trial: Any, kept: IntArray, held: IntArray) -> GroupCriteria:
        """Fit a trial on the groups kept, and judge it by those held out."""
        ...


def choose_trade_off(estimator: Any, data: TrialData, generator: np.random.Generator) -> TradeOff:
    """Return the values of the grid whose answers held-out groups agree with most.

    All trials share one split and one seed, so that they differ in the values alone.
    """
    if is_auto(estimator.temperature) and estimator.selection != "tempered":
        raise ParameterError(
            f"temperature='auto' goes with selection='tempered'; got {estimator.selection!r}."
        )
    if len(data) < MIN_GROUPS:
        raise DataError(
            f"'auto' holds out some groups and needs {MIN_GROUPS} or more; got {len(data)}. "
            "Give weighting_strength and temperature as numbers."
        )
    held = data.hold_out(generator)
    kept = generator.permutation(np.setdiff1d(np.arange(len(data)), held))[:MAX_TRIAL_GROUPS]
    kept.sort()
    seed = int(generator.integers(2**31))
    trials = []
    for strength, temperature in product(
        STRENGTHS if is_auto(estimator.weighting_strength) else [estimator.weighting_strength],
        TEMPERATURES if is_auto(estimator.temperature) else [estimator.temperature],
    ):
        trial = clone(estimator).set_params(
            weighting_strength=strength,
            temperature=temperature,
            random_state=seed,
            on_epoch=None,
            **({"n_members": 1} if hasattr(estimator, "n_members") else {}),
        )
        trials.append(TradeOffTrial(strength, temperature, data.judge(trial, kept, held)))
    best = best_trial(trials)
    return TradeOff(best.weighting_strength, best.temperature, tuple(trials))


def best_trial(trials: Sequence[TradeOffTrial]) -> TradeOffTrial:
    """Return the first trial whose covering rate is as good as the best, weaker weighting first."""
    most = max(trial.criteria.covering_rate for trial in trials)
    return next(t for t in trials if t.criteria.covering_rate >= most - TOLERANCE)


@dataclass(frozen=True)
class CandidateTrials:
    """Rows with candidate labels, for :func:`choose_trade_off`."""

    rows: FloatArray
    candidates: BoolArray
    classes: Any
    weights: ArrayLike | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def hold_out(self, generator: np.random.Generator) -> IntArray:
        """Return rows whose candidates all occur elsewhere."""
        return _hold_out_rows(self.candidates, generator)

    def judge(self, trial: Any, kept: IntArray, held: IntArray) -> GroupCriteria:
        """Fit on some rows and judge by others."""
        columns, weights = _columns_learned(self.candidates[kept], self.classes), None
        if self.weights is not None:
            weights = np.asarray(self.weights)[np.ix_(kept, columns)]
        candidates = indicator_to_labels(self.candidates[kept], self.classes)
        trial.fit(self.rows[kept], candidates, candidate_weights=weights)
        return candidate_criteria(trial, self.rows[held], self.candidates[np.ix_(held, columns)])


@dataclass(frozen=True)
class WindowTrials:
    """Windows of clicks with their targets, for :func:`choose_trade_off`."""

    windows: Groups
    item_ids: Any

    def __len__(self) -> int:
        return len(self.windows)

    def hold_out(self, generator: np.random.Generator) -> IntArray:
        """Return whole runs of windows."""
        runs = np.array_split(np.arange(len(self)), min(N_RUNS, len(self)))
        n_held = max(1, round(HELD_OUT * len(runs)))
        taken = generator.permutation(len(runs))[:n_held]
        held = np.concatenate([runs[number] for number in taken])
        return np.sort(generator.permutation(held)[:MAX_HELD_OUT_GROUPS])

    def judge(self, trial: Any, kept: IntArray, held: IntArray) -> GroupCriteria:
        """Fit on some windows and judge by others."""
        trial.fit(self.windows.subset(kept), item_ids=self.item_ids)
        return history_criteria(trial, self.windows.subset(held))


def _hold_out_rows(indicator: BoolArray, generator: np.random.Generator) -> IntArray:
    """Draw rows to hold out, leaving at least one row of every label to learn from."""
    n_held = min(max(1, round(HELD_OUT * len(indicator))), MAX_HELD_OUT_GROUPS)
    held = np.sort(generator.permutation(len(indicator))[:n_held])
    n_left = indicator.sum(axis=0) - indicator[held].sum(axis=0)
    return held[~indicator[held][:, n_left == 0].any(axis=1)]


def _columns_learned(indicator: BoolArray, classes: Any) -> IntArray:
    """Return the columns of the labels that occur, in the order a trial sorts them."""
    occurring = np.flatnonzero(indicator.any(axis=0))
    return occurring[np.argsort(classes[occurring])]


class GroupCriteria(NamedTuple):
    """Three figures of merit that need no true label; larger is better.

    `log_likelihood`: the mean log probability a model gives to what is known of each group.
    `covering_rate`: how often its answer agrees with what is known: that a row's label is one of
        its candidates; that the next click is among the first ten items (HIT@10 over the
        catalogue).
    `approximated_accuracy`: how often its answer would be right if its own chances were; for clicks
        NDCG@10.
    """

    log_likelihood: float
    covering_rate: float
    approximated_accuracy: float


def candidate_criteria(model: Any, X: ArrayLike, candidates: BoolArray) -> GroupCriteria:
    """Judge a classifier of rows by candidate labels: how likely its answer is one of them.

    `X`: rows the model has not seen. `candidates`: their labels, in the order of the model's
    classes.
    """
    chances = model.predict_proba(X)
    of_candidates = np.where(candidates, chances, 0.0).sum(axis=1)
    return GroupCriteria(
        float(np.mean(np.log(np.maximum(of_candidates, MIN_CHANCE)))),
        covering_rate(candidates, chances.argmax(axis=1)),
        approximated_accuracy(candidates, chances),
    )


def history_criteria(model: Any, windows: Groups) -> GroupCriteria:
    """Judge a recommender by next clicks: how likely, and how far up, was the one that came.

    Log likelihood, HIT@10 and NDCG@10 over the catalogue. `model`: anything whose `scores` of all
    `n_items_` items are logits. `windows`: of item indices, with targets the model has not seen.
    """
    if windows.targets is None:
        raise DataError("history_criteria needs windows with their next clicks as targets.")
    parts = []
    step = max(1, SCORES_AT_ONCE // model.n_items_)
    for first in range(0, len(windows), step):
        part = windows.subset(np.arange(first, min(first + step, len(windows))))
        scores = np.asarray(model.scores(part))  # (n_windows, n_items)
        target = np.take_along_axis(scores, np.asarray(part.targets)[:, None], axis=1)
        log_likelihood = target[:, 0] - _log_sums(scores)
        n_tied = (scores == target).sum(axis=1) - 1
        parts.append((log_likelihood, (scores > target).sum(axis=1), n_tied))
    log_likelihood, n_better, n_tied = map(np.concatenate, zip(*parts, strict=True))
    return GroupCriteria(
        float(np.mean(log_likelihood)),
        hit_at_k(n_better, n_tied, k=TOP),
        ndcg_at_k(n_better, n_tied, k=TOP),
    )


def _log_sums(scores: FloatArray) -> FloatArray:
    return np.concatenate(
        [logsumexp(part.astype(np.float64), axis=1) for _, part in blocks(scores)]
    )

"""Beyond-accuracy metrics of recommenders, debiased means, buckets and bootstrap intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, RandomState, generator_from
from groupnoise.exceptions import DataError

CONFIDENCE = 0.95
DRAWN_AT_ONCE = 1 << 18
"""Users of the draws counted at a time, which bounds memory."""
LENGTHS = (5, 10, 20, 50)
"""Bounds of the buckets of history lengths: below 5, below 10, ..."""
POPULARITY_PARTS = ("head", "middle", "tail")
"""Items by popularity: a third of all training clicks falls on each part."""


class Interval(NamedTuple):
    """A figure and its interval.

    `mean`: the figure itself.
    `low`, `high`: between them it lies in 95 of 100 draws of other users.
    """

    mean: float
    low: float
    high: float


def coverage(lists: IntArray, n_items: int) -> float:
    """Return the share of the catalogue that is in some list.

    `lists` (n_rows, k): recommended items; -1 where a list is shorter.

    Examples
    --------
    >>> coverage(np.array([[0, 1], [1, 2]]), 6)
    0.5
    """
    return len(np.unique(lists[lists >= 0])) / n_items


def novelty(lists: IntArray, popularity: FloatArray) -> float:
    """Return the mean self-information of the recommended items, in bits.

    The mean of -log2 of the share of training clicks, every item being given one click more.
    `lists` (n_rows, k): recommended items; -1 where a list is shorter.

    Examples
    --------
    >>> novelty(np.array([[0]]), np.array([2.0, 0.0])), novelty(np.array([[1]]), np.array([2.0, 0]))
    (0.4150374992788438, 2.0)
    """
    share = (popularity + 1.0) / (popularity.sum() + len(popularity))
    return float(np.mean(-np.log2(share[lists[lists >= 0]])))


def gini(lists: IntArray, n_items: int) -> float:
    """Return the Gini index of recommendations: 0 for all items alike, near 1 for a few alone.

    `lists` (n_rows, k): recommended items; -1 where a list is shorter. `n_items`: size of the
    catalogue; items never recommended count.

    Examples
    --------
    >>> gini(np.array([[0, 1]]), 2), gini(np.array([[0], [0]]), 4)
    (0.0, 0.75)
    """
    shown = np.sort(np.bincount(lists[lists >= 0], minlength=n_items))
    rank = np.arange(1, n_items + 1)
    return float(np.sum((2 * rank - n_items - 1) * shown) / (n_items * shown.sum()))


def debiased_mean(values: FloatArray, popularity: FloatArray) -> float:
    """Return the mean of a metric weighted by inverse popularity.

    Clicks are observed in proportion to how often an item is shown, so popular items dominate a
    plain mean. Here a target is weighted by the inverse of its training clicks plus one (its
    propensity up to a factor), and weights are normalised.

    `values`: a figure of each target, such as its hit.

    Examples
    --------
    >>> round(debiased_mean(np.array([1.0, 0.0]), np.array([8.0, 0.0])), 6)
    0.1
    """
    weights = 1.0 / (popularity + 1.0)
    return float(np.sum(weights * values) / np.sum(weights))


def popularity_parts(popularity: FloatArray) -> IntArray:
    """Return the part of each item: 0 head, 1 middle, 2 tail, 3 never clicked.

    Examples
    --------
    >>> popularity_parts(np.array([3.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.0])).tolist()
    [0, 1, 1, 2, 2, 2, 3]
    """
    order = np.argsort(-popularity, kind="stable")
    clicks_before = np.cumsum(popularity[order]) - popularity[order]
    part = np.empty(len(popularity), dtype=np.int64)
    part[order] = np.minimum(3 * clicks_before // max(float(popularity.sum()), 1.0), 2)
    part[popularity == 0] = len(POPULARITY_PARTS)
    return part


def bucket_names(
    popularity_part: IntArray, n_context: IntArray, is_repeat: BoolArray
) -> dict[str, IntArray]:
    """Return the rows of each bucket of target popularity and of history length.

    Where a target is a repeat, also those of repeats and of what is new to its user. Buckets
    without a row are left out. `popularity_part`: the part of each target, as `popularity_parts`
    numbers them; -1 for an unknown one. `is_repeat`: whether its user clicked it before.
    """
    found: dict[str, IntArray] = {}
    for number, name in enumerate(POPULARITY_PARTS):
        found[f"target in the {name}"] = np.flatnonzero(popularity_part == number)
    new = (popularity_part < 0) | (popularity_part == len(POPULARITY_PARTS))
    found["target never clicked"] = np.flatnonzero(new)
    bounds = (1, *LENGTHS)
    for low, high in zip(bounds, (*LENGTHS, None), strict=True):
        name = f"{low} clicks or more" if high is None else f"{low} to {high - 1} clicks"
        inside = (n_context >= low) & (n_context < (np.inf if high is None else high))
        found[name] = np.flatnonzero(inside)
    if is_repeat.any():
        found["new to the user"] = np.flatnonzero(~is_repeat)
        found["repeated by the user"] = np.flatnonzero(is_repeat)
    return {name: rows for name, rows in found.items() if len(rows)}


def bootstrap_interval(
    values: ArrayLike, users: ArrayLike, *, n_draws: int = 1000, random_state: RandomState = 0
) -> Interval:
    """Return a mean over targets and its interval over draws of users.

    Users are drawn, with all of their targets, because the targets of one user are alike. For
    the difference of two models on the same targets pass the differences: that is the paired
    bootstrap.

    The mean, and the 2.5 and 97.5 percentiles of the draws. `values`: a figure of each target, or
    the difference of two models in it.

    Examples
    --------
    >>> found = bootstrap_interval([0.0, 1.0, 1.0, 0.0], [0, 1, 2, 3])
    >>> found.mean, found.low < 0.5 < found.high
    (0.5, True)
    """
    rows = np.asarray(values, dtype=np.float64)
    if not len(rows):
        raise DataError("0 targets were given; at least one is needed.")
    means = bootstrap_ratios(
        rows, np.ones(len(rows)), users, n_draws=n_draws, random_state=random_state
    )
    return Interval(float(rows.mean()), *interval_ends(means))


def bootstrap_ratios(
    numerators: ArrayLike,
    denominators: ArrayLike,
    users: ArrayLike,
    *,
    n_draws: int = 1000,
    random_state: RandomState = 0,
) -> FloatArray:
    """Return the ratio of two sums in each draw of users.

    NaN where a draw has nothing to divide by. `users`: whose each row is; the same users and seed
    give the same draws.
    """
    codes = np.unique(np.asarray(users), return_inverse=True)[1]
    n_users = int(codes.max()) + 1
    above, below = (
        np.bincount(codes, np.asarray(values, dtype=np.float64), minlength=n_users)
        for values in (numerators, denominators)
    )
    generator = generator_from(random_state)
    sums = np.empty((n_draws, 2))
    at_once = max(1, DRAWN_AT_ONCE // n_users)
    for start in range(0, n_draws, at_once):
        n_now = min(at_once, n_draws - start)
        drawn = generator.integers(n_users, size=(n_now, n_users))
        drawn += n_users * np.arange(n_now)[:, None]
        times = np.bincount(drawn.ravel(), minlength=n_now * n_users).reshape(n_now, n_users)
        sums[start : start + n_now] = times @ np.column_stack([above, below])
    ratios = np.full(n_draws, np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=ratios, where=sums[:, 1] > 0)
    return ratios


def interval_ends(draws: FloatArray) -> tuple[float, float]:
    """Return the percentiles of draws between which 95 of 100 lie."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.nanpercentile(draws, [tail, 100 - tail])
    return float(low), float(high)

"""Users who click as people do not: far more than others, one item again and again, too fast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.history_split import FIRST_DATE, MILLISECONDS
from groupnoise.core.arrays import Columns, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import ClickDataset

MAX_USERS = 50
"""Users that are listed, the worst first."""
DEVIATIONS = 5.0
"""Robust standard deviations, on log scale, beyond which a count is not one of the others."""
MIN_DEVIATION = 0.5
"""Least standard deviation on log scale: where most counts are equal, a few more are usual."""
MIN_CLICKS, MIN_REPEATS, MIN_IN_A_MINUTE = 100, 20, 40
"""Clicks, clicks on one item and clicks within a minute that people make as well."""
MINUTE = 60.0
BLOCK_CLICKS = 1 << 22
"""Clicks looked at together."""


class Fact(NamedTuple):
    """One count of every user, and from which on it is suspicious.

    `counts`: of each user.
    `bound`: larger counts are suspicious.
    `usual`: the median of all users.
    """

    counts: IntArray
    bound: float
    usual: float

    @property
    def excess(self) -> FloatArray:
        """How far beyond the bound each user is, on log scale; above 0 is suspicious."""
        excess: FloatArray = np.log(np.maximum(self.counts, 1) / self.bound)
        return excess


def suspicious_users(dataset: ClickDataset) -> Columns:
    """Return users that look like bots or click one item again and again, the worst first.

    A user is listed whose clicks, clicks on one item, or clicks within a minute lie more than five
    robust standard deviations (from the quartiles, on log scale) above the median of all users, and
    above what people do as well. Clicks within a minute are counted where the log has timestamps
    finer than minutes.

    Returns `source`: the history; `clicks`; `object`: the item clicked most, and `repeats` on it;
    `in_a_minute`: clicks in the fastest minute, 0 where times are not known; `excess`: how far the
    largest of them is beyond its bound, on log scale; `why`: a sentence.
    """
    histories = dataset.histories
    top_item, repeats = _most_clicked(dataset)
    facts = {
        "clicks": _fact(histories.sizes, MIN_CLICKS),
        "repeats": _fact(repeats, MIN_REPEATS),
    }
    fastest = _in_a_minute(dataset)
    if fastest is not None:
        facts["in_a_minute"] = _fact(fastest, MIN_IN_A_MINUTE)
    excess = np.max([fact.excess for fact in facts.values()], axis=0)
    users = np.flatnonzero(excess > 0)
    users = users[np.argsort(-excess[users], kind="stable")][:MAX_USERS]
    items = dataset.item_ids[top_item[users]].tolist()
    return {
        "source": users,
        "clicks": histories.sizes[users],
        "object": top_item[users],
        "repeats": repeats[users],
        "in_a_minute": np.zeros(len(users), np.int64) if fastest is None else fastest[users],
        "excess": excess[users],
        "why": np.array(
            [_why(facts, user, item) for user, item in zip(users.tolist(), items, strict=True)],
            dtype=np.str_,
        ),
    }


def _fact(counts: IntArray, least: int) -> Fact:
    quartiles: NDArray[Any] = np.percentile(np.log(np.maximum(counts, 1)), (25, 50, 75))
    # Between the quartiles of a normal distribution lie 1.349 standard deviations.
    deviation = max(float(quartiles[2] - quartiles[0]) / 1.349, MIN_DEVIATION)
    usual = float(np.exp(quartiles[1]))
    return Fact(counts, max(float(least), usual * float(np.exp(DEVIATIONS * deviation))), usual)


def _why(facts: dict[str, Fact], user: int, item: Any) -> str:
    words = {
        "clicks": "{} clicks",
        "repeats": f"{{}} of them on item {item}",
        "in_a_minute": "{} within a minute",
    }
    said = [
        f"{words[name].format(fact.counts[user])} (usual: {fact.usual:.3g})"
        for name, fact in facts.items()
        if name == "clicks" or fact.excess[user] > 0
    ]
    return ", ".join(said)


def _blocks(histories: Groups) -> Iterator[slice]:
    """Yield ranges of histories of about `BLOCK_CLICKS` clicks, so that a mapped log stays so."""
    reached = np.arange(0, histories.n_objects, BLOCK_CLICKS)
    cuts = np.unique([*np.searchsorted(histories.offsets, reached), len(histories)])
    for begin, end in pairwise(cuts.tolist()):
        yield slice(begin, end)


def _most_clicked(dataset: ClickDataset) -> tuple[IntArray, IntArray]:
    """Return the item that each user clicked most, and how often."""
    offsets, n_items = dataset.histories.offsets, dataset.n_items
    most, repeats = np.zeros((2, len(dataset.histories)), dtype=np.int64)
    for rows in _blocks(dataset.histories):
        clicks = slice(offsets[rows.start], offsets[rows.stop])
        sizes = np.diff(offsets[rows.start : rows.stop + 1])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        pairs = owner * n_items + np.asarray(dataset.histories.objects[clicks])
        distinct, counts = np.unique(pairs, return_counts=True)
        user, item = np.divmod(distinct, n_items)
        order = np.lexsort((-counts, user))
        first = order[np.searchsorted(user, np.arange(len(sizes)))]
        most[rows], repeats[rows] = item[first], counts[first]
    return most, repeats


def _in_a_minute(dataset: ClickDataset) -> IntArray | None:
    """Return the most clicks of each user within a minute; None where times do not say it."""
    if dataset.timestamps is None:
        return None
    offsets, most = dataset.histories.offsets, np.zeros(len(dataset.histories), dtype=np.int64)
    n_whole = 0
    for rows in _blocks(dataset.histories):
        times = np.asarray(
            dataset.timestamps[offsets[rows.start] : offsets[rows.stop]], dtype=np.float64
        )
        times = times / 1000.0 if times.max() > MILLISECONDS else times
        if times.min() < FIRST_DATE:
            return None
        n_whole += int((times % MINUTE == 0).sum())
        # One axis of time for all, on which users are more than a minute apart.
        sizes = np.diff(offsets[rows.start : rows.stop + 1])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        times = times - times.min()
        along = times + owner * (times.max() + 2 * MINUTE)
        within = np.searchsorted(along, along + MINUTE, side="left") - np.arange(len(along))
        most[rows] = np.maximum.reduceat(within, offsets[rows] - offsets[rows.start])
    # Times of whole minutes, or days, do not say how fast the clicks between them came.
    return None if 2 * n_whole > dataset.histories.n_objects else most

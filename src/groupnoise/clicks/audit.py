"""Audit of clicks: which click led to the next, which are noise, and which users are bots."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import Findings, ObjectTally, choice_columns, object_posterior
from groupnoise.clicks.evaluation.history_split import FIRST_DATE, MILLISECONDS
from groupnoise.clicks.mixture import log_sum_exp
from groupnoise.clicks.windows.cutting import blocks_of_histories, cut_windows
from groupnoise.core.arrays import Columns, FloatArray, IntArray, ragged_rows
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import UnknownTargetError
from groupnoise.io.datasets import ClickDataset

BLOCK_ENTRIES = 1 << 22
"""Logits held at a time."""
MAX_USERS = 50
"""Users that are listed, the worst first."""
MAX_DEVIATIONS = 5.0
"""Robust standard deviations, on log scale, above which a count is an outlier."""
MIN_DEVIATION = 0.5
"""Least standard deviation on log scale, for counts that are mostly equal."""
MIN_CLICKS, MIN_REPEATS, MIN_IN_A_MINUTE = 100, 20, 40
"""Clicks, clicks on one item and clicks within a minute that people make too."""
MINUTE = 60.0
BLOCK_CLICKS = 1 << 22
"""Clicks processed at a time."""


class ItemLift:
    """P(later item | earlier item) / P(later item), from the vectors of a fitted recommender.

    `model`: fitted.
    `known_items`: the model's index of each item of the data.
    """

    def __init__(self, model: Any, known_items: IntArray) -> None:
        self.known_items = known_items
        self._query, self._target, bias = model.item_vectors()
        clicks = model.popularity_ + 1.0  # add-one smoothing
        self._log_normalizer = _log_normalizers(self._query, self._target, bias)
        self._gain = bias - np.log(clicks / clicks.sum())

    def __call__(self, earlier: IntArray, later: IntArray) -> FloatArray:
        """Return the lift of each pair of item indices of the model, shape of `earlier`."""
        logit = np.einsum("nd,nd->n", self._query[earlier], self._target[later])
        return np.exp(logit + self._gain[later] - self._log_normalizer[earlier])

    def support(self, clicks: Groups, reach: int) -> FloatArray:
        """Return the mean lift between each click and those around it, shape (n_clicks,).

        `clicks`: histories of item indices of the model. `reach`: the number of clicks on either
        side. A click without neighbours gets a support of one, which is neutral.
        """
        total, n_pairs = np.zeros(clicks.n_objects), np.zeros(clicks.n_objects)
        history = clicks.group_of_object
        for distance in range(1, min(reach, int(clicks.sizes.max()) - 1) + 1):
            first = np.flatnonzero(history[:-distance] == history[distance:])
            lift = self(clicks.objects[first], clicks.objects[first + distance])
            for side in (first, first + distance):  # no click occurs twice on one side
                total[side] += lift
                n_pairs[side] += 1
        return np.divide(total, n_pairs, out=np.ones_like(total), where=n_pairs > 0)


def _log_normalizers(query: FloatArray, target: FloatArray, bias: FloatArray) -> FloatArray:
    """Return log sum exp of the logits of each item with all items, block by block."""
    found = np.empty(len(query))
    size = max(1, BLOCK_ENTRIES // len(target))
    for start in range(0, len(query), size):
        rows = slice(start, start + size)
        found[rows] = log_sum_exp(query[rows] @ target.T + bias, axis=1)
    return found


class ClickSource:
    """Click histories to be audited.

    Each click after the first is the target of a group, the clicks before it in its window;
    each click is an object, judged by the clicks on both sides.

    `dataset`: what to audit.
    """

    setting = "rs"

    def __init__(self, dataset: ClickDataset) -> None:
        self.dataset = dataset
        self.group_counts: IntArray = dataset.histories.sizes - 1
        self.object_counts: IntArray = dataset.histories.sizes
        self.strata: IntArray = self.object_counts
        self._lifts: tuple[Any, ItemLift] | None = None

    def __len__(self) -> int:
        return len(self.dataset.histories)

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Users, and items, which are objects and targets."""
        items = self.dataset.item_ids
        return {"source": self.dataset.user_ids, "target": items, "object": items}

    @property
    def users(self) -> Columns:
        """Users that look like bots, or click one item again and again."""
        return suspicious_users(self.dataset)

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on the histories at `rows`."""
        from sklearn.base import clone  # loads for seconds, and readers come by here

        histories = self.dataset.histories.subset(rows)
        return clone(estimator).fit(histories, item_ids=self.dataset.item_ids)

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Do nothing: lifts compare probabilities of one model, so a temperature says little."""

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return the findings of a model on the histories at `rows`."""
        lift = self._lift_of(model)
        part = self.dataset.histories.subset(rows)
        clicks = Groups(lift.known_items[part.objects], part.offsets)
        support = lift.support(clicks, reach=2 * model.group_size)
        noise = 1.0 / (1.0 + support)
        tally = ObjectTally(clicks.n_objects)
        groups: Columns = {}
        if (clicks.sizes > 1).any():
            windows = cut_windows(clicks, size=model.group_size, min_size=1)
            sizes, starts = windows.groups.sizes, windows.groups.offsets[:-1]
            target = clicks.offsets[windows.users] + windows.positions
            objects = ragged_rows(target - sizes, sizes)
            selected = model.select(windows.groups)
            found = object_posterior(selected.scores, selected.offsets)
            tally.add(objects, found)
            items = clicks.objects
            before = np.add.reduceat(lift(items[objects], items[np.repeat(target, sizes)]), starts)
            groups = {
                "source": rows[windows.users],
                "position": windows.positions,
                "target": part.objects[target],
                "size": sizes,
                "object": part.objects[objects[found.chosen]],
                **choice_columns(found, starts, selected.log_weight),
                "doubt": 1.0 / (1.0 + before / sizes),
                "suspicion": noise[target],
            }
        return Findings(
            groups,
            {
                "source": np.repeat(rows, clicks.sizes),
                "position": ragged_rows(np.zeros(len(rows)), clicks.sizes),
                "object": part.objects,
                **tally.columns(),
                "noise": noise,
            },
        )

    def _lift_of(self, model: Any) -> ItemLift:
        """Return the lifts of a model, computed once however many blocks it judges."""
        if self._lifts is None or self._lifts[0] is not model:
            known = model.catalogue_.indices_of(model.catalogue_.convert_ids(self.dataset.item_ids))
            unknown = np.flatnonzero(known < 0)
            if len(unknown):
                raise UnknownTargetError(
                    f"the model lacks {counted(len(unknown), 'items')} of the data, such as "
                    f"{self.dataset.item_ids[unknown[0]].item()!r}; audit with a model "
                    "fitted on them, or cross-fit."
                )
            self._lifts = (model, ItemLift(model, known))
        return self._lifts[1]


class UserCounts(NamedTuple):
    """A count of every user, and the bound above which it is suspicious."""

    counts: IntArray
    bound: float
    usual: float

    @property
    def excess(self) -> FloatArray:
        """Log ratio of the count and its bound; above 0 is suspicious."""
        return np.log(np.maximum(self.counts, 1) / self.bound)


def suspicious_users(dataset: ClickDataset) -> Columns:
    """Return users that look like bots or click one item repeatedly, the most extreme first.

    A user is listed whose clicks, clicks on one item, or clicks within a minute lie more than five
    robust standard deviations (from the quartiles, on log scale) above the median of all users, and
    above what people do too. Clicks within a minute are counted where the log has timestamps
    finer than minutes.

    Returns `source`: the history; `clicks`; `object`: the item clicked most, and `repeats` on it;
    `in_a_minute`: clicks in the fastest minute, 0 without timestamps; `excess`: the largest log
    ratio of a count and its bound; `why`: a sentence.
    """
    histories = dataset.histories
    top_item, repeats = _most_clicked(dataset)
    facts = {
        "clicks": _user_counts(histories.sizes, MIN_CLICKS),
        "repeats": _user_counts(repeats, MIN_REPEATS),
    }
    fastest = _clicks_in_a_minute(dataset)
    if fastest is not None:
        facts["in_a_minute"] = _user_counts(fastest, MIN_IN_A_MINUTE)
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


def _user_counts(counts: IntArray, least: int) -> UserCounts:
    quartiles: NDArray[Any] = np.percentile(np.log(np.maximum(counts, 1)), (25, 50, 75))
    # Between the quartiles of a normal distribution lie 1.349 standard deviations.
    deviation = max(float(quartiles[2] - quartiles[0]) / 1.349, MIN_DEVIATION)
    usual = float(np.exp(quartiles[1]))
    return UserCounts(
        counts, max(float(least), usual * float(np.exp(MAX_DEVIATIONS * deviation))), usual
    )


def _why(facts: dict[str, UserCounts], user: int, item: Any) -> str:
    words = {
        "clicks": "{} clicks",
        "repeats": f"{{}} of them on item {item}",
        "in_a_minute": "{} within a minute",
    }
    parts = [
        f"{words[name].format(fact.counts[user])} (usual: {fact.usual:.3g})"
        for name, fact in facts.items()
        if name == "clicks" or fact.excess[user] > 0
    ]
    return ", ".join(parts)


def _most_clicked(dataset: ClickDataset) -> tuple[IntArray, IntArray]:
    """Return the item that each user clicked most, and how often."""
    n_items = dataset.n_items
    most, repeats = np.zeros((2, len(dataset.histories)), dtype=np.int64)
    for begin, block in blocks_of_histories(dataset.histories, BLOCK_CLICKS):
        rows = slice(begin, begin + len(block))
        pairs = block.group_of_object * n_items + np.asarray(block.objects)
        distinct, counts = np.unique(pairs, return_counts=True)
        user, item = np.divmod(distinct, n_items)
        order = np.lexsort((-counts, user))
        first = order[np.searchsorted(user, np.arange(len(block)))]
        most[rows], repeats[rows] = item[first], counts[first]
    return most, repeats


def _clicks_in_a_minute(dataset: ClickDataset) -> IntArray | None:
    """Return the most clicks of each user within a minute; None without timestamps that fine."""
    if dataset.timestamps is None:
        return None
    offsets, most = dataset.histories.offsets, np.zeros(len(dataset.histories), dtype=np.int64)
    n_whole = 0
    for begin, block in blocks_of_histories(dataset.histories, BLOCK_CLICKS):
        rows = slice(begin, begin + len(block))
        times = np.asarray(
            dataset.timestamps[offsets[rows.start] : offsets[rows.stop]], dtype=np.float64
        )
        times = times / 1000.0 if times.max() > MILLISECONDS else times
        if times.min() < FIRST_DATE:
            return None
        n_whole += int((times % MINUTE == 0).sum())
        # One time axis for all users, each more than a minute apart.
        times = times - times.min()
        along = times + block.group_of_object * (times.max() + 2 * MINUTE)
        within = np.searchsorted(along, along + MINUTE, side="left") - np.arange(len(along))
        most[rows] = np.maximum.reduceat(within, block.offsets[:-1])
    # Timestamps in whole minutes, or days, are too coarse.
    return None if 2 * n_whole > dataset.histories.n_objects else most

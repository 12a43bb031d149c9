"""Splits of a click log by a protocol into training, validation and test clicks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.ranking_slices import clicked_before
from groupnoise.clicks.evaluation.splits import (
    AUTHORS_SIZE,
    DEFAULT_QUANTILE,
    MIN_PROTOCOL_CLICKS,
    ClickProtocol,
)
from groupnoise.clicks.items.catalogue import ClickLog, as_click_log
from groupnoise.clicks.reading.filters import keep_clicks
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes, ragged_rows
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset

COLD_SHARE = 0.1
"""Share of test users, and of validation users: 8:1:1."""
COLD_CONTEXT = 0.8
"""Share of a cold user's clicks that are given, as in ComiRec; the rest are targets."""
MILLISECONDS = 1e11
"""Timestamps above are milliseconds since 1970, as seconds they would lie beyond the year 5000."""
FIRST_DATE = 1e8
"""Seconds since 1970 below which timestamps are counts rather than dates: those of March 1973."""


@dataclass(frozen=True)
class Queries:
    """Queries of an evaluation: the clicks before a target, and the target.

    `groups`: the clicks before, as item indices of the log, with the next one as target.
    `users`: the history each query was cut from.
    `positions`: of the target in that history.
    `seen`: items that are not ranked: the clicks before, or in the authors' protocol the whole
        history.
    """

    groups: Groups
    users: IntArray
    positions: IntArray
    seen: Groups

    def __len__(self) -> int:
        return len(self.users)

    @property
    def is_repeat(self) -> BoolArray:
        """Whether the clicks before a target hold it, of shape (n_targets,)."""
        return clicked_before(self.groups, np.asarray(self.groups.targets))


@dataclass(frozen=True)
class HistorySplit:
    """A log divided by a protocol.

    `train`: the training clicks; under `time` with the catalogue of that timestamp.
    `validation`: the validation queries; None where no history has enough clicks.
    `test`: the test queries.
    `counts`: of users, targets and special cases.
    """

    protocol: ClickProtocol
    train: ClickDataset
    validation: Queries | None
    test: Queries
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on special cases, a sentence each."""
        return describe_counts(self.counts)


def split_histories(
    dataset: ClickDataset | ClickLog, protocol: ClickProtocol | str
) -> HistorySplit:
    """Split a log into training clicks, and validation and test queries.

    Parameters
    ----------
    dataset : ClickDataset or frame
        The log; of a frame with one row per click the columns are guessed.
    protocol : ClickProtocol or str
        The protocol or its name; see :meth:`ClickProtocol.parse`.

    Returns
    -------
    HistorySplit
        No target of `test` is trained on, nor one of `validation` unless the protocol says so.

    Raises
    ------
    DataError
        If no training or test click is left, or a time split lacks timestamps.

    Examples
    --------
    >>> from groupnoise.clicks import make_shop
    >>> split = split_histories(make_shop(50, 100, random_state=0), "leave_one_out")
    >>> len(split.test), len(split.validation)
    (50, 50)
    """
    if isinstance(protocol, str):
        protocol = ClickProtocol.parse(protocol)
    log = as_click_log(dataset)
    if log is None:
        raise DataError(
            f"a {type(dataset).__name__} is no log of clicks; give a frame, or what read_clicks "
            "returned."
        )
    dataset, histories = log, log.histories
    in_test, in_validation, is_later = _mark_clicks(dataset, protocol)
    in_training = ~in_test & ~is_later
    if not protocol.trains_validation:
        in_training &= ~in_validation
    if not in_training.any():
        remedy = "choose a protocol that holds out less"
        if protocol.kind == "time" and dataset.timestamps is not None:
            remedy = f"choose a later cut: it runs {_date_range(np.asarray(dataset.timestamps))}"
        raise DataError(f"{protocol.word} leaves nothing of {dataset.name} to train on; {remedy}.")
    # A target without a click before it cannot be predicted.
    position = histories.position_of_object
    test_clicks = np.flatnonzero(in_test & (position > 0))
    if not len(test_clicks):
        raise DataError(_no_targets_message(dataset, protocol))
    validation_clicks = np.flatnonzero(in_validation & (position > 0))
    if protocol.kind in ("time", "cold_users") and not protocol.successive:
        test_clicks, validation_clicks = (
            _last_of_user(histories, rows) for rows in (test_clicks, validation_clicks)
        )
    size = AUTHORS_SIZE if protocol.kind == "authors" else None
    train = keep_clicks(dataset, in_training, whole_catalogue=protocol.kind != "time")
    train = replace(train, is_stray=None, source_rows=None, notes={})
    test = queries_at(histories, test_clicks, size)
    return HistorySplit(
        protocol,
        train,
        queries_at(histories, validation_clicks, size) if len(validation_clicks) else None,
        test,
        _counts(dataset, train, test, int((in_test & (position == 0)).sum())),
    )


def queries_at(histories: Groups, clicks: IntArray, size: int | None = None) -> Queries:
    """Return the queries with the given clicks as targets."""
    offsets, objects = histories.offsets, np.asarray(histories.objects)
    users = np.searchsorted(offsets, clicks, side="right") - 1
    positions = clicks - offsets[users]
    sizes = positions if size is None else np.minimum(positions, size)
    context = objects[ragged_rows(clicks - sizes, sizes)]
    groups = Groups(context, offsets_from_sizes(sizes), objects[clicks])
    seen = groups if size is None else histories.subset(users)
    return Queries(groups, users, positions, seen)


def last_queries(histories: Groups, rows: IntArray | None = None) -> Queries | None:
    """Return the queries with last clicks as targets; None where no history has two clicks."""
    rows = np.arange(len(histories)) if rows is None else rows
    rows = rows[histories.sizes[rows] > 1]
    return queries_at(histories, histories.offsets[rows + 1] - 1) if len(rows) else None


def describe_counts(counts: dict[str, int]) -> tuple[str, ...]:
    """Return a sentence for each special case that was counted."""
    sentences = {
        "histories_of_one": ("histories", "skipped: a single click leaves nothing to predict"),
        "targets_without_history": ("targets", "skipped: the first click of their user"),
        "targets_clicked_before": (
            "targets",
            "clicked before by the same user: `full` ranks them among all items, seen or not; "
            "`predict` and `recall` leave seen items out (unless --no-exclude-seen), so judge "
            "their lists by the new-item figures",
        ),
        "targets_never_trained": ("targets", "without any training click"),
        "unknown_targets": ("targets", "unknown to the model, counted as misses"),
        "histories_without_known_click": (
            "histories",
            "without a click that the model knows, counted as misses",
        ),
        "clicks_out_of_time_order": ("rows", "not in order of time, which have been sorted"),
        "clicks_at_the_same_time": (
            "clicks",
            "at the time of the user's click before, ordered as their rows are",
        ),
    }
    n_targets = counts.get("targets", counts.get("groups"))
    return tuple(
        f"{counts[key]} of {n_targets} {things} {description}"
        if key == "targets_clicked_before" and n_targets
        else f"{counted(counts[key], things)} {description}"
        for key, (things, description) in sentences.items()
        if counts.get(key)
    )


def order_counts(dataset: ClickDataset) -> dict[str, int]:
    """Return how many clicks of a log are out of order, or tied in time."""
    keys = ("clicks_out_of_time_order", "clicks_at_the_same_time")
    return {key: int(dataset.notes[key]) for key in keys if dataset.notes.get(key)}


def _mark_clicks(
    dataset: ClickDataset, protocol: ClickProtocol
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Mark test, validation and other held-out clicks, shape (n_clicks,) each."""
    histories = dataset.histories
    no_click = np.zeros(histories.n_objects, dtype=np.bool_)
    if protocol.kind == "time":
        return _mark_by_time(dataset, protocol)
    if protocol.kind == "cold_users":
        return _mark_cold_users(histories, protocol)
    from_the_end = np.repeat(histories.offsets[1:], histories.sizes) - np.arange(len(no_click))
    sizes = np.repeat(histories.sizes, histories.sizes)
    is_long = sizes >= MIN_PROTOCOL_CLICKS[protocol.kind]
    if protocol.kind == "last":
        return (from_the_end == 1) & is_long, no_click, no_click
    return (from_the_end == 1) & is_long, (from_the_end == 2) & is_long, no_click


def _mark_by_time(
    dataset: ClickDataset, protocol: ClickProtocol
) -> tuple[BoolArray, BoolArray, BoolArray]:
    if dataset.timestamps is None:
        raise DataError(
            f"{dataset.name} does not say when clicks happened, which {protocol.word} needs; name "
            "the column with --time, or use leave_one_out."
        )
    times = np.asarray(dataset.timestamps, dtype=np.float64)
    cut = _cut_time(times, protocol)
    in_test = times > cut
    if not in_test.any():
        raise DataError(
            f"nobody clicks after the cut of {protocol.word}; {dataset.name} runs "
            f"{_date_range(times)}."
        )
    earlier = times[~in_test]
    in_validation = ~in_test
    if len(earlier):
        share = DEFAULT_QUANTILE if protocol.quantile is None else protocol.quantile
        in_validation &= times > _quantile(earlier, share)
    return in_test, in_validation, np.zeros(len(times), dtype=np.bool_)


def _mark_cold_users(
    histories: Groups, protocol: ClickProtocol
) -> tuple[BoolArray, BoolArray, BoolArray]:
    n_users = len(histories)
    n_held = round(COLD_SHARE * n_users)
    order = np.random.default_rng(protocol.number).permutation(n_users)
    part = np.zeros(n_users, dtype=np.int64)
    part[order[:n_held]], part[order[n_held : 2 * n_held]] = 1, 2
    user = histories.group_of_object
    position, sizes = histories.position_of_object, histories.sizes[user]
    n_context = np.minimum(np.maximum(np.floor(COLD_CONTEXT * sizes), 1), sizes - 1)
    is_late = position >= n_context
    in_test, in_validation = (part[user] == 1) & is_late, (part[user] == 2) & is_late
    # The given clicks of a held-out user are not trained on either.
    is_held = (part[user] == 1) | (part[user] == 2) & (not protocol.trains_validation)
    return in_test, in_validation, is_held & ~in_test


def _cut_time(times: FloatArray, protocol: ClickProtocol) -> float:
    """Return the last timestamp that is trained on."""
    if protocol.cut is not None:
        return protocol.cut
    if protocol.date is None:
        return _quantile(times, protocol.quantile or DEFAULT_QUANTILE)
    seconds = datetime.fromisoformat(protocol.date).replace(tzinfo=timezone.utc).timestamp()
    if times.max() > MILLISECONDS:
        seconds *= 1000.0
    return float(np.nextafter(seconds, -np.inf))


def _date_range(times: NDArray[Any]) -> str:
    """Describe the first and last timestamp: as dates, unless they are other numbers."""
    ends = [float(times.min()), float(times.max())]
    seconds = [end / 1000.0 if ends[1] > MILLISECONDS else end for end in ends]
    if seconds[0] < FIRST_DATE:
        return f"from {ends[0]:.10g} to {ends[1]:.10g}, which are no dates"
    days = [datetime.fromtimestamp(each, timezone.utc).date().isoformat() for each in seconds]
    return f"from {days[0]} to {days[1]}"


def _quantile(times: FloatArray, share: float) -> float:
    """Return the time of the click up to which a share of the clicks came."""
    position = max(int(np.ceil(share * len(times))) - 1, 0)
    return float(np.partition(times, position)[position])


def _last_of_user(histories: Groups, clicks: IntArray) -> IntArray:
    """Return, of clicks in rising order, each user's last."""
    users = np.searchsorted(histories.offsets, clicks, side="right")
    return clicks[np.append(np.diff(users) > 0, True)] if len(clicks) else clicks


def _counts(
    dataset: ClickDataset, train: ClickDataset, test: Queries, n_first: int
) -> dict[str, int]:
    targets = np.asarray(test.groups.targets)
    trained_items = train.item_ids[np.unique(train.histories.objects)]
    return {
        "users": len(dataset.histories),
        "users_asked": len(np.unique(test.users)),
        "targets": len(test),
        "training_clicks": train.histories.n_objects,
        "histories_of_one": int((dataset.histories.sizes == 1).sum()),
        "targets_without_history": n_first,
        "targets_clicked_before": int(test.is_repeat.sum()),
        "targets_never_trained": int((~np.isin(dataset.item_ids[targets], trained_items)).sum()),
        **order_counts(dataset),
    }


def _no_targets_message(dataset: ClickDataset, protocol: ClickProtocol) -> str:
    if protocol.kind == "time":
        return (
            f"after the cut of {protocol.word} no user of {dataset.name} clicks who has clicked "
            "before; choose an earlier cut."
        )
    if protocol.kind in MIN_PROTOCOL_CLICKS:
        return (
            f"{protocol.word} needs a history of {MIN_PROTOCOL_CLICKS[protocol.kind]} clicks; the "
            f"longest of {dataset.name} has {dataset.histories.sizes.max()}."
        )
    return (
        f"{protocol.word} finds no user with two clicks to ask about in {dataset.name}; at least "
        "ten users are needed."
    )

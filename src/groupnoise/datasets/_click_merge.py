"""The second half of an external sort: runs of clicks merged into histories, a range at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import BoolArray, IntArray, ProgressCallback
from groupnoise.datasets._array_files import ArrayEntry, ArrayWriter, write_array
from groupnoise.datasets._click_runs import ConversionState, open_runs
from groupnoise.datasets._prefetch import prefetch
from groupnoise.datasets._store import item_dtype
from groupnoise.datasets.readers._cells import ids_as_array, number_cells
from groupnoise.datasets.readers._polars import pl


@dataclass(frozen=True)
class HistoryRules:
    """What becomes of clicks once they are in order."""

    repeats: str
    session_gap: float | None


def merge_runs(
    building: Path,
    state: ConversionState,
    rules: HistoryRules,
    *,
    rows_at_once: int,
    progress: ProgressCallback,
) -> dict[str, ArrayEntry]:
    """Write the arrays of a click data set from sorted runs.

    Each pass takes one range of users out of every run, so memory holds about `rows_at_once`
    clicks whatever the length of the log.

    Returns
    -------
    entries : dict
        The arrays `items`, `offsets`, `item_ids` and `user_ids`.
    """
    vocabulary = _all_items(building, state)
    user_type = next(open_runs(building, state))["user"].dtype
    kinds = {
        "items": item_dtype(len(vocabulary)),
        "offsets": np.dtype(np.int64),
        "user_ids": np.dtype(f"<U{state.user_width}" if user_type == pl.String else np.int64),
    }
    bounds = _user_bounds(building, state, rows_at_once)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                ArrayWriter(building / f"{name}.npy", kind, n_rows=state.written.get(name, 0))
            )
            for name, kind in kinds.items()
        }
        if not state.written:
            writers["offsets"].append(np.zeros(1))
        numbers = range(state.n_buckets, len(bounds) + 1)
        ranges = prefetch(_take_range(building, state, bounds, number) for number in numbers)
        for number, clicks in zip(numbers, ranges, strict=True):
            if clicks.height:
                _append_histories(writers, clicks, vocabulary, rules)
            for writer in writers.values():
                writer.flush()
            state.n_buckets = number + 1
            state.written = {name: writer.n_rows for name, writer in writers.items()}
            state.save(building)
            progress({"stage": "sorting", "part": number + 1, "parts": len(bounds) + 1})
        entries = {name: writer.finish() for name, writer in writers.items()}
    entries["item_ids"] = write_array(building / "item_ids.npy", ids_as_array(vocabulary))
    return entries


def _all_items(building: Path, state: ConversionState) -> pl.Series:
    """Return the sorted ids of all items."""
    items = pl.Series(dtype=next(open_runs(building, state))["item"].dtype)
    waiting: list[pl.Series] = []
    for run in open_runs(building, state):
        waiting.append(run["item"].unique())
        # Merged only once they are many, so that the catalogue is not sorted anew for each run.
        if sum(map(len, waiting)) > max(len(items), 1 << 20):
            items, waiting = pl.concat([items, *waiting]).unique(), []
    ordered: pl.Series = pl.concat([items, *waiting]).unique().sort()
    return ordered


def _user_bounds(building: Path, state: ConversionState, rows_at_once: int) -> pl.Series:
    """Return users that cut the log into ranges of about `rows_at_once` clicks."""
    n_ranges = -(-sum(state.run_rows) // rows_at_once)
    step = max(min(state.run_rows) // (8 * n_ranges), 1)
    users = pl.concat([run["user"].gather_every(step) for run in open_runs(building, state)])
    places = np.linspace(0, len(users), n_ranges + 1)[1:-1].astype(np.int64)
    bounds: pl.Series = users.sort().gather(places).unique(maintain_order=True)
    return bounds


def _take_range(
    building: Path, state: ConversionState, bounds: pl.Series, number: int
) -> pl.DataFrame:
    """Return the clicks of one range of users, ordered by user, time and place in the log."""
    parts = []
    for run in open_runs(building, state):
        start = 0 if number == 0 else run["user"].search_sorted(bounds[number - 1], "left")
        stop = run.height
        if number < len(bounds):
            stop = run["user"].search_sorted(bounds[number], "left")
        parts.append(run[start:stop])
    clicks = pl.concat(parts, how="vertical_relaxed")  # times may be whole in some runs only
    key = _packed_key(clicks)
    if key is not None:
        return clicks[np.argsort(key, kind="stable")]
    keys = [name for name in ("user", "time") if name in clicks.columns]
    return clicks.sort(keys, maintain_order=True)


def _packed_key(clicks: pl.DataFrame) -> IntArray | None:
    """Return user and time in one number per click, if they are numbers and fit.

    One key sorts in less than half the time of two.
    """
    if "time" not in clicks.columns or not clicks.height:
        return None
    if not (clicks["user"].dtype.is_integer() and clicks["time"].dtype.is_integer()):
        return None
    users, moments = clicks["user"].to_numpy(), clicks["time"].to_numpy()
    first_user, first_moment = int(users.min()), int(moments.min())
    span = int(moments.max()) - first_moment + 1
    if (int(users.max()) - first_user + 1) * span >= 2**63:
        return None
    key: IntArray = (users - first_user) * span + (moments - first_moment)
    return key


def _append_histories(
    writers: dict[str, ArrayWriter],
    clicks: pl.DataFrame,
    vocabulary: pl.Series,
    rules: HistoryRules,
) -> None:
    items = number_cells(clicks["item"], vocabulary)
    users = clicks["user"]
    begins = np.concatenate([[True], (users[1:] != users[:-1]).to_numpy()])
    begins, kept = _apply_rules(rules, begins, items, clicks)
    starts = np.flatnonzero(begins[kept])
    stops = np.append(starts[1:], int(kept.sum()))
    writers["offsets"].append(stops + writers["items"].n_rows)
    writers["items"].append(items[kept])
    writers["user_ids"].append(ids_as_array(users.gather(np.flatnonzero(begins & kept))))


def _apply_rules(
    rules: HistoryRules, begins: BoolArray, items: NDArray[Any], clicks: pl.DataFrame
) -> tuple[BoolArray, BoolArray]:
    """Return where histories begin, and which clicks are kept; a first click always is."""
    if rules.session_gap is not None:
        pauses = np.diff(clicks["time"].to_numpy())
        begins = begins | np.concatenate([[True], pauses > rules.session_gap])
    kept = np.ones(len(items), dtype=np.bool_)
    if rules.repeats == "merge_adjacent":
        kept[1:] = begins[1:] | (items[1:] != items[:-1])
    elif rules.repeats == "keep_first":
        history = np.cumsum(begins)
        key = history * (int(items.max()) + 1) + items
        kept[:] = False
        kept[np.unique(key, return_index=True)[1]] = True
    return begins, kept

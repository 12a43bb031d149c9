"""An external sort: a click log in sorted runs on disk, merged into histories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl

from groupnoise.clicks.reading.blocks import LogLayout, column_types, iter_blocks, read_head
from groupnoise.clicks.reading.filters import (
    drop_filter_columns,
    filter_rows,
    nonrepeat_mask,
    parse_only,
)
from groupnoise.clicks.reading.log import ClickRows, click_rows
from groupnoise.core.arrays import IntArray, ProgressCallback
from groupnoise.core.checks import require
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import ClickColumns, check_column, find_click_columns
from groupnoise.io.files import write_json
from groupnoise.io.folders.data_folder import item_dtype
from groupnoise.io.tables.array_files import ArrayEntry, ArrayWriter, write_array
from groupnoise.io.tables.cells import detect_date_order, holds_dates, ids_as_array, index_cells
from groupnoise.io.tables.sources import Report, Source

T = TypeVar("T")


def prefetch(values: Iterable[T]) -> Iterator[T]:
    """Yield `values` in order while the next one is already being made.

    What making a value raises is raised where it would have been yielded.
    """
    source, done = iter(values), object()
    with ThreadPoolExecutor(max_workers=1) as thread:

        def make_next() -> Any:
            return next(source, done)

        coming = thread.submit(make_next)
        while (value := coming.result()) is not done:
            coming = thread.submit(make_next)
            yield cast(T, value)


PROGRESS = "progress.json"


class MixedIdsError(Exception):
    """Ids that looked like numbers at first turn out to be text further down.

    `column`: the column that holds them.
    """

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


@dataclass(frozen=True)
class LogPlan:
    """How a log will be read: its files, columns and types."""

    source: Source
    layout: LogLayout
    columns: ClickColumns
    types: dict[str, Any]
    times_are_dates: bool
    month_first: bool
    min_rating: float | None
    only: str | None
    block_bytes: int

    def fingerprint(self) -> dict[str, Any]:
        """Return what must be equal for interrupted work to be resumed."""
        return {
            "files": {path: list(self.source.size_of(path)) for path in self.source.paths},
            "columns": asdict(self.columns),
            "types": {name: str(dtype) for name, dtype in self.types.items()},
            "min_rating": self.min_rating,
            "only": self.only,
            "month_first": self.month_first,
            "block_bytes": self.block_bytes,
        }


@dataclass
class ConversionState:
    """The progress of a conversion, stored beside its unfinished files."""

    fingerprint: dict[str, Any]
    n_blocks: int = 0
    n_read: int = 0
    n_below_rating: int = 0
    user_width: int = 1
    run_rows: list[int] = field(default_factory=list)
    n_buckets: int = 0
    written: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, building: Path, fingerprint: dict[str, Any]) -> ConversionState:
        """Return the state of interrupted work on the same log, or an empty one."""
        try:
            found = cls(**json.loads((building / PROGRESS).read_text(encoding="utf-8")))
            runs = [run_path(building, number) for number in range(len(found.run_rows))]
            if found.fingerprint == fingerprint and all(run.is_file() for run in runs):
                return found
        except (OSError, ValueError, TypeError):
            pass
        shutil.rmtree(building)
        building.mkdir()
        fresh = cls(fingerprint)
        fresh.save(building)
        return fresh

    def save(self, building: Path) -> None:
        """Save the progress."""
        write_json(building / PROGRESS, asdict(self))


def check_unfinished(building: Path) -> None:
    """Refuse to work in a folder that holds anything but an unfinished conversion."""
    if building.exists() and not (building / PROGRESS).is_file() and any(building.iterdir()):
        raise DataError(
            f"{building} is where unfinished work would go, but holds something else; move it "
            "away or give another output."
        )


def plan_log(
    source: Source,
    named: Mapping[str, str | None],
    *,
    min_rating: float | None,
    only: str | None,
    date_order: str | None,
    separator: str | None,
    header: bool | None,
    block_bytes: int,
    text_columns: Collection[str],
    report: Report,
) -> LogPlan:
    """Decide how to read a log from its first rows."""
    head, layout = read_head(source, separator=separator, header=header, report=report)
    for name in parse_only(only):
        check_column(name, head.frame.columns, source.paths[0], "to keep rows by", "only")
    columns = find_click_columns(
        drop_filter_columns(head.frame, only), source.paths[0], report, **named
    )
    uses = {columns.user: "id", columns.item: "id"}
    uses.update({name: "number" for name in (columns.time, columns.rating) if name is not None})
    types = column_types(head, uses)
    types.update(dict.fromkeys(text_columns, pl.String))
    types = {**dict.fromkeys(parse_only(only), pl.String), **types}
    dates = columns.time is not None and holds_dates(head, columns.time)
    # The first rows decide for all: another order further down is refused by its line.
    is_month_first = detect_date_order(head, columns.time, date_order, report) == "mdy"
    return LogPlan(
        source, layout, columns, types, dates, is_month_first, min_rating, only, block_bytes
    )


def write_runs(
    plan: LogPlan,
    building: Path,
    state: ConversionState,
    report: Report,
    progress: ProgressCallback,
) -> None:
    """Read a log block by block and write each as a run sorted by user.

    Rows of a user keep the order of the log inside a run, and runs are numbered in that order.
    """
    blocks = iter_blocks(
        plan.source, plan.layout, plan.types, block_bytes=plan.block_bytes, report=report
    )
    for number, table in enumerate(prefetch(blocks)):
        if number < state.n_blocks:
            continue
        rows = click_rows(
            filter_rows(table, plan.only, is_whole=False),
            plan.columns,
            plan.min_rating,
            times_are_dates=plan.times_are_dates,
            month_first=plan.month_first,
        )
        frame = _as_run(rows, plan)
        if frame.height:
            frame.write_ipc(run_path(building, len(state.run_rows)), compression="uncompressed")
            state.run_rows.append(frame.height)
            if frame["user"].dtype == pl.String:
                longest = int(frame["user"].str.len_chars().to_numpy().max())
                state.user_width = max(state.user_width, longest)
        state.n_blocks += 1
        state.n_read += len(table)
        state.n_below_rating += rows.n_below_rating
        state.save(building)
        progress({"stage": "reading", "rows": state.n_read})


def run_path(building: Path, number: int) -> Path:
    """Return the path of a run."""
    return building / f"run-{number:05}.arrow"


def open_runs(building: Path, state: ConversionState) -> Iterator[pl.DataFrame]:
    """Yield the runs in order, memory mapped."""
    arrow, ipc = require("pyarrow", extra="data"), require("pyarrow.ipc", extra="data")
    for number in range(len(state.run_rows)):
        with arrow.memory_map(str(run_path(building, number))) as stream:
            table = ipc.open_file(stream).read_all()
            yield cast(pl.DataFrame, pl.from_arrow(table, rechunk=False))


def _as_run(rows: ClickRows, plan: LogPlan) -> pl.DataFrame:
    columns = {"user": rows.users, "item": rows.items}
    for part, name in {"user": plan.columns.user, "item": plan.columns.item}.items():
        if plan.types[name] == pl.String:
            columns[part] = columns[part].cast(pl.String)
        elif columns[part].dtype == pl.String:
            raise MixedIdsError(name)
    if rows.timestamps is not None:
        columns["time"] = rows.timestamps
    return pl.DataFrame(columns).sort("user", maintain_order=True)


@dataclass(frozen=True)
class HistoryRules:
    """Rules for repeated clicks and sessions."""

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

    Result: the arrays `items`, `offsets`, `item_ids` and `user_ids`.
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
    return pl.concat([items, *waiting]).unique().sort()


def _user_bounds(building: Path, state: ConversionState, rows_at_once: int) -> pl.Series:
    """Return users that cut the log into ranges of about `rows_at_once` clicks."""
    n_ranges = -(-sum(state.run_rows) // rows_at_once)
    step = max(min(state.run_rows) // (8 * n_ranges), 1)
    users = pl.concat([run["user"].gather_every(step) for run in open_runs(building, state)])
    places = np.linspace(0, len(users), n_ranges + 1)[1:-1].astype(np.int64)
    return users.sort().gather(places).unique(maintain_order=True)


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
    users, timestamps = clicks["user"].to_numpy(), clicks["time"].to_numpy()
    first_user, first_timestamp = int(users.min()), int(timestamps.min())
    span = int(timestamps.max()) - first_timestamp + 1
    if (int(users.max()) - first_user + 1) * span >= 2**63:
        return None
    return (users - first_user) * span + (timestamps - first_timestamp)


def _append_histories(
    writers: dict[str, ArrayWriter],
    clicks: pl.DataFrame,
    vocabulary: pl.Series,
    rules: HistoryRules,
) -> None:
    items = index_cells(clicks["item"], vocabulary)
    users = clicks["user"]
    begins = np.concatenate([[True], (users[1:] != users[:-1]).to_numpy()])
    if rules.session_gap is not None:
        pauses = np.diff(clicks["time"].to_numpy())
        begins = begins | np.concatenate([[True], pauses > rules.session_gap])
    kept = nonrepeat_mask(rules.repeats, begins, items)
    starts = np.flatnonzero(begins[kept])
    stops = np.append(starts[1:], int(kept.sum()))
    writers["offsets"].append(stops + writers["items"].n_rows)
    writers["items"].append(items[kept])
    writers["user_ids"].append(ids_as_array(users.gather(np.flatnonzero(begins & kept))))

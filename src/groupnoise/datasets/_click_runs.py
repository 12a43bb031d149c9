"""The first half of an external sort: a click log in runs on disk, each in the order of users."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from groupnoise._checks import require
from groupnoise._files import write_json
from groupnoise._typing import ProgressCallback
from groupnoise.datasets._prefetch import prefetch
from groupnoise.datasets.readers._blocks import iter_blocks
from groupnoise.datasets.readers._cells import holds_dates
from groupnoise.datasets.readers._click_rows import ClickRows, click_rows
from groupnoise.datasets.readers._columns import ClickColumns, find_click_columns
from groupnoise.datasets.readers._dates import reads_month_first
from groupnoise.datasets.readers._log_head import LogLayout, column_types, read_head
from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._sources import Report, Source
from groupnoise.exceptions import DataError

PROGRESS = "progress.json"


class MixedIdsError(Exception):
    """Ids that looked like numbers at first turn out to be text further down.

    Parameters
    ----------
    column : str
        The column that holds them.
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
    block_bytes: int

    def fingerprint(self) -> dict[str, Any]:
        """Return what must be equal for interrupted work to be gone on with."""
        return {
            "files": {path: list(self.source.size_of(path)) for path in self.source.paths},
            "columns": asdict(self.columns),
            "types": {name: str(dtype) for name, dtype in self.types.items()},
            "min_rating": self.min_rating,
            "block_bytes": self.block_bytes,
        }


@dataclass
class ConversionState:
    """How far a conversion has come, kept beside its unfinished files."""

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
        """Return the state of interrupted work on the same log, or clear the folder for new."""
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
        """Record how far the work has come."""
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
    *,
    user: str | None,
    item: str | None,
    time: str | None,
    rating: str | None,
    min_rating: float | None,
    separator: str | None,
    header: bool | None,
    block_bytes: int,
    text_columns: Collection[str],
    report: Report,
) -> LogPlan:
    """Look at the first rows of a log and decide how to read all of it."""
    head, layout = read_head(source, separator=separator, header=header, report=report)
    columns = find_click_columns(
        head.frame, source.paths[0], report, user=user, item=item, time=time, rating=rating
    )
    uses = {columns.user: "id", columns.item: "id"}
    uses.update({name: "number" for name in (columns.time, columns.rating) if name is not None})
    types = column_types(head, uses)
    types.update(dict.fromkeys(text_columns, pl.String))
    dates = columns.time is not None and holds_dates(head, columns.time)
    # The first rows decide for all: another order further down is refused by its line.
    month_first = reads_month_first(head, columns.time, report)
    return LogPlan(source, layout, columns, types, dates, month_first, min_rating, block_bytes)


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
            table,
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
                state.user_width = max(state.user_width, _longest(frame["user"]))
        state.n_blocks += 1
        state.n_read += len(table)
        state.n_below_rating += rows.n_below_rating
        state.save(building)
        progress({"stage": "reading", "rows": state.n_read})


def run_path(building: Path, number: int) -> Path:
    """Return where a run lies."""
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
    if rows.moments is not None:
        columns["time"] = rows.moments
    return pl.DataFrame(columns).sort("user", maintain_order=True)


def _longest(users: pl.Series) -> int:
    return int(users.str.len_chars().to_numpy().max())

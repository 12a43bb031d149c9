"""Reading click histories from parquet, CSV or JSON lines, a block at a time.

Two layouts are understood. *Lists*: one row per history, a column `items` that holds a list. *Log*:
one row per click, columns `user` and `item`, the clicks of a user together and in time order; where
a log has a time, that order is checked. CSV files are logs, JSON lines and parquet may be either.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import require
from groupnoise.exceptions import DataError

TIME_COLUMNS = (
    "time", "timestamp", "unixreviewtime", "ts", "datetime", "date", "event_time", "created_at",
    "t_dat",
)  # fmt: skip
"""Names of a time column, the likeliest first: those that the readers of data sets know too."""


def find_time_column(names: Iterable[str]) -> str | None:
    """Return the column that looks like the time, or None."""
    by_lower_name = {name.strip().lower(): name for name in names}
    return next((by_lower_name[name] for name in TIME_COLUMNS if name in by_lower_name), None)


def read_timestamp(value: Any, place: str, column: str | None) -> float:
    """Return a number as it is and an ISO date as seconds; name the `place` of anything else."""
    timestamp = _seconds_of(value)
    if timestamp is None or not math.isfinite(timestamp):
        raise DataError(
            f"{place}: column {column!r} holds {value!r}, which says no time; write numbers or ISO "
            "dates such as 2024-01-31 10:00:00, or leave the column out of a log in time order."
        )
    return timestamp


def _seconds_of(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text.replace("/", "-").replace("Z", "+00:00"))
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()


Click = tuple[Any, Any, float | None]
"""Whose it is, the item, and when it was, where the file says."""

SEPARATORS = (",", "\t", ";", "|")
HISTORY_FORMATS = (".parquet", ".csv", ".jsonl")


@dataclass(frozen=True)
class HistoryBlock:
    """Some consecutive histories.

    Attributes
    ----------
    users : list
        Whose each history is.
    clicks : list or ndarray
        The item ids of all histories, end to end.
    offsets : int64 ndarray of shape (n_histories + 1,)
        Where each history begins in `clicks`.
    """

    users: list[Any]
    clicks: list[Any] | NDArray[Any]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.users)


def read_histories(path: Path | str, *, block_size: int) -> Iterator[HistoryBlock]:
    """Yield the histories of a file in order, `block_size` at a time; the last may be smaller."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist; give a file of click histories.")
    if path.suffix == ".parquet":
        return _read_parquet(path, block_size)
    if path.suffix == ".csv":
        return _decoded(path, _blocks(_histories_of(path, _csv_clicks(path)), block_size))
    if path.suffix == ".jsonl":
        return _decoded(path, _blocks(_json_histories(path), block_size))
    raise DataError(f"{path} must end in one of {', '.join(HISTORY_FORMATS)}.")


def count_histories(path: Path | str) -> int | None:
    """Return how many histories a file holds where that is written in it, else None."""
    path = Path(path)
    if path.suffix != ".parquet" or not path.is_file():
        return None
    parquet = _open_parquet(path)
    return int(parquet.metadata.num_rows) if "items" in parquet.schema_arrow.names else None


def _open_parquet(path: Path) -> Any:
    pyarrow = require("pyarrow", extra="data")
    try:
        return require("pyarrow.parquet", extra="data").ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet ({error}).") from None


def _read_parquet(path: Path, block_size: int) -> Iterator[HistoryBlock]:
    parquet = _open_parquet(path)
    names = parquet.schema_arrow.names
    if "user" not in names or not {"items", "item"} & set(names):
        raise DataError(
            f"{path} needs the columns `user` and `items` (lists), or `user` and `item` (one row "
            f"per click); it has {', '.join(names)}."
        )
    if "items" not in names:
        yield from _blocks(_histories_of(path, _parquet_clicks(path, parquet, names)), block_size)
        return
    for batch in parquet.iter_batches(batch_size=block_size, columns=["user", "items"]):
        lists = batch["items"]
        flat, sizes = lists.flatten(), lists.value_lengths().fill_null(0).to_numpy()
        is_number = require("pyarrow", extra="data").types.is_integer(flat.type)
        yield HistoryBlock(
            users=batch["user"].to_pylist(),
            clicks=flat.to_numpy(zero_copy_only=False) if is_number else _bare(flat.to_pylist()),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        )


def _parquet_clicks(path: Path, parquet: Any, names: list[str]) -> Iterator[Click]:
    pyarrow = require("pyarrow", extra="data")
    time = find_time_column(names)
    row = 0
    for batch in parquet.iter_batches(columns=["user", "item", *([time] if time else [])]):
        timestamps = batch[time] if time else pyarrow.nulls(batch.num_rows)
        if pyarrow.types.is_temporal(timestamps.type):  # as whole numbers of its own unit
            is_wide = timestamps.type.bit_width == 64
            timestamps = timestamps.view(pyarrow.int64() if is_wide else pyarrow.int32())
        columns = (batch["user"].to_pylist(), batch["item"].to_pylist(), timestamps.to_pylist())
        for user, item, timestamp in zip(*columns, strict=True):
            yield (
                user,
                item,
                read_timestamp(timestamp, f"{path}, row {row}", time) if time else None,
            )
            row += 1


def _decoded(path: Path, blocks: Iterator[HistoryBlock]) -> Iterator[HistoryBlock]:
    """Pass on the blocks of a text file, and refuse in one sentence text that cannot be read."""
    try:
        yield from blocks
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 ({error.reason}); convert the file first, for example with "
            "`iconv -f latin1 -t utf-8`."
        ) from None
    except (csv.Error, OSError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from None


def _csv_clicks(path: Path) -> Iterator[Click]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = enumerate(stream, start=1)
        first, header = next(((n, line) for n, line in lines if line.strip()), (1, ""))
        separator = max(SEPARATORS, key=header.count)
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        if not {"user", "item"} <= set(names):
            raise DataError(f"{path} needs a header line with the columns `user` and `item`.")
        user, item, time = names.index("user"), names.index("item"), find_time_column(names)
        when = None if time is None else names.index(time)
        width = 1 + max(user, item, when or 0)
        rows = csv.reader(stream, delimiter=separator)
        for cells in rows:
            place = f"{path} line {rows.line_num + first}"
            if cells and len(cells) < width:
                raise DataError(f"{place} has too few columns.")
            if cells:
                timestamp = None if when is None else read_timestamp(cells[when], place, time)
                yield cells[user].strip(), cells[item], timestamp


def _histories_of(path: Path, clicks: Iterable[Click]) -> Iterator[tuple[Any, list[Any]]]:
    """Gather the consecutive clicks of each user; refuse one who comes back or goes back in time.

    The file is never held in memory, so it cannot be sorted here.
    """
    finished: set[Any] = set()
    current: Any = None
    latest: float | None = None
    history: list[Any] = []
    for number, (user, item, timestamp) in enumerate(clicks):
        if history and user != current:
            yield current, history
            finished.add(current)
            history, latest = [], None
        if not history and user in finished:
            raise DataError(
                f"{path}: user {user!r} comes back in click {number + 1} after other users; sort "
                "the log by user, then by time."
            )
        if latest is not None and timestamp is not None and timestamp < latest:
            raise DataError(
                f"{path}: click {number + 1} of user {user!r} is earlier than the one before it; "
                "sort the log by user, then by time."
            )
        current, latest = user, timestamp
        history.append(item)
    if history:
        yield current, history


def _json_histories(path: Path) -> Iterator[tuple[Any, list[Any]]]:
    rows = _json_rows(path)
    first = next(rows, None)
    if first is None:
        return
    rows = chain([first], rows)
    if "item" in first[1] and "items" not in first[1]:
        yield from _histories_of(path, _json_clicks(path, rows))
        return
    for number, row in rows:
        user, items = row.get("user"), row.get("items")
        if "user" not in row or not isinstance(items, list):
            raise DataError(
                f'{path} line {number} must be like {{"user": "u1", "items": ["a", "b"]}}, or all '
                'lines like {"user": "u1", "item": "a"}.'
            )
        yield user, items


def _json_clicks(path: Path, rows: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[Click]:
    time: str | None = None
    for number, row in rows:
        time = time or find_time_column(row)
        user, item = row.get("user"), row.get("item")
        if not isinstance(user, (str, int)) or not isinstance(item, (str, int)):
            raise DataError(
                f'{path} line {number} must be like {{"user": "u1", "item": "a"}}, as the first is.'
            )
        place = f"{path} line {number}"
        yield user, item, None if time is None else read_timestamp(row.get(time), place, time)


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of every line that is not blank."""
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise DataError(
                    f'{path} line {number} must be like {{"user": "u1", "items": ["a", "b"]}}.'
                )
            yield number, row


def _bare(ids: Iterable[Any]) -> list[Any]:
    """Return ids without blanks around them, which are none of theirs in training either."""
    return [each.strip() if isinstance(each, str) else each for each in ids]


def _blocks(histories: Iterable[tuple[Any, list[Any]]], block_size: int) -> Iterator[HistoryBlock]:
    source = iter(histories)
    while block := list(islice(source, block_size)):
        sizes = [len(items) for _, items in block]
        yield HistoryBlock(
            users=[user for user, _ in block],
            clicks=_bare(item for _, items in block for item in items),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        )

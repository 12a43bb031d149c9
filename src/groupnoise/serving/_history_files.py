"""Reading click histories from parquet, CSV or JSON lines, a block at a time.

Two layouts are understood. *Lists*: one row per history, a column `items` that holds a list. *Log*:
one row per click, columns `user` and `item`, the clicks of a user together and in time order.
CSV files are logs, JSON lines are lists, parquet files are either.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import require
from groupnoise._typing import IntArray
from groupnoise.exceptions import DataError

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
        return _blocks(_histories_of(path, _csv_clicks(path)), block_size)
    if path.suffix == ".jsonl":
        return _blocks(_json_histories(path), block_size)
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
        batches = parquet.iter_batches(columns=["user", "item"])
        clicks = (
            pair
            for batch in batches
            for pair in zip(batch["user"].to_pylist(), batch["item"].to_pylist(), strict=True)
        )
        yield from _blocks(_histories_of(path, clicks), block_size)
        return
    for batch in parquet.iter_batches(batch_size=block_size, columns=["user", "items"]):
        lists = batch["items"]
        flat, sizes = lists.flatten(), lists.value_lengths().fill_null(0).to_numpy()
        is_number = require("pyarrow", extra="data").types.is_integer(flat.type)
        yield HistoryBlock(
            users=batch["user"].to_pylist(),
            clicks=flat.to_numpy(zero_copy_only=False) if is_number else flat.to_pylist(),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        )


def _csv_clicks(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream)
        if not {"user", "item"} <= set(rows.fieldnames or ()):
            raise DataError(f"{path} needs a header line with the columns `user` and `item`.")
        for row in rows:
            if row["user"] is None or row["item"] is None:
                raise DataError(f"{path} line {rows.line_num} has too few columns.")
            yield row["user"], row["item"]


def _histories_of(path: Path, clicks: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, list[Any]]]:
    """Gather the consecutive clicks of each user, and refuse a user who comes back later."""
    finished: set[Any] = set()
    current: Any = None
    history: list[Any] = []
    for number, (user, item) in enumerate(clicks):
        if history and user != current:
            yield current, history
            finished.add(current)
            history = []
        if not history and user in finished:
            raise DataError(
                f"{path}: user {user!r} comes back in click {number + 1} after other users; sort "
                "the log by user, then by time."
            )
        current = user
        history.append(item)
    if history:
        yield current, history


def _json_histories(path: Path) -> Iterator[tuple[Any, list[Any]]]:
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                user, items = row["user"], row["items"]
            except (ValueError, KeyError, TypeError, RecursionError):
                items = user = None
            if not isinstance(items, list):
                raise DataError(
                    f'{path} line {number} must be like {{"user": "u1", "items": ["a", "b"]}}.'
                )
            yield user, items


def _blocks(histories: Iterable[tuple[Any, list[Any]]], block_size: int) -> Iterator[HistoryBlock]:
    source = iter(histories)
    while block := list(islice(source, block_size)):
        sizes = [len(items) for _, items in block]
        yield HistoryBlock(
            users=[user for user, _ in block],
            clicks=[item for _, items in block for item in items],
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        )

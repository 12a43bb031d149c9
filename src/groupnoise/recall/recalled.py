"""Answers of a recall model: ranked items, explanations, and files of answers."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import require
from groupnoise.exceptions import DataError
from groupnoise.io.files import atomic_path
from groupnoise.recall.items import ItemId, ItemTable

NOISE_BELOW = 0.5
"""A click is noise if its agreement with the others is below this part of the largest."""
ANSWER_FORMATS = (".parquet", ".csv", ".jsonl")
CSV_HEADER = ("user", "rank", "item", "score", "source")


@dataclass(frozen=True)
class Recalled:
    """The answer to a list of histories.

    `positions` (n_histories, top): positions in the item table, best first; rows with fewer items
        end in -1.
    `scores` (n_histories, top): matching scores; popularity where `from_popularity`.
    `from_popularity`: True where a history held no known item.
    `unknown`: the ids of each history that the model does not know.
    `led_by` (n_histories, top): with `interests`, the representative click of each item's interest.
    """

    positions: IntArray
    scores: Float32Array
    from_popularity: BoolArray
    unknown: list[list[Any]]
    led_by: IntArray | None = None

    def rows(self, begin: int, end: int) -> Recalled:
        """Return the answer to the histories from `begin` up to `end`."""
        return Recalled(
            positions=self.positions[begin:end],
            scores=self.scores[begin:end],
            from_popularity=self.from_popularity[begin:end],
            unknown=self.unknown[begin:end],
            led_by=None if self.led_by is None else self.led_by[begin:end],
        )

    def row(self, number: int) -> tuple[IntArray, Float32Array]:
        """Return (positions, scores) of one history without the padding."""
        is_item = self.positions[number] >= 0
        return self.positions[number][is_item], self.scores[number][is_item]

    def clicks_behind(self, number: int) -> IntArray | None:
        """Return `led_by` of one history without the padding."""
        return None if self.led_by is None else self.led_by[number][self.positions[number] >= 0]


class OneRecalled(NamedTuple):
    """The answer to one history, as plain lists."""

    positions: list[int]
    scores: list[float]
    unknown: list[Any]
    from_popularity: bool


@dataclass(frozen=True)
class Click:
    """One click of an explained history.

    `weight`: see `Explanation`; None where it is not known. `is_noise`: None where the model has no
    group weights.
    """

    item: ItemId
    weight: float | None
    is_noise: bool | None


@dataclass(frozen=True)
class Reasons:
    """An explanation of the items recalled for a history.

    `clicks`: the known clicks, in order, with their weight in the group.
    `shares` (n_clicks, n_items): the part of each recalled item's score due to each click.
    """

    clicks: list[Click]
    shares: FloatArray

    def matched(self, column: int) -> tuple[Click, float] | None:
        """Return the click with the largest share of a recalled item and this share, or None."""
        if not len(self.clicks) or not self.shares[:, column].any():
            return None
        row = int(self.shares[:, column].argmax())
        return self.clicks[row], float(self.shares[row, column])


def noise_flags(weights: FloatArray) -> BoolArray:
    """Return which clicks of one history count as noise, shape (n_clicks,).

    The log-odds of a group weight measure how much the other clicks agree with a click. A click is
    noise if its agreement is less than half the largest one; if the largest is not positive, no
    click is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> noise_flags(np.array([0.99, 0.45, 0.98])).tolist()
    [False, True, False]
    """
    bounded = np.clip(weights, 1e-7, 1 - 1e-7)
    agreement = np.log(bounded) - np.log1p(-bounded)
    most = np.nanmax(agreement)
    return np.asarray((agreement < NOISE_BELOW * most) & (most > 0))


def check_recall_format(path: Path) -> None:
    """Refuse an output file of an unknown format."""
    if path.suffix not in ANSWER_FORMATS:
        raise DataError(f"{path} must end in one of {', '.join(ANSWER_FORMATS)}.")
    if path.suffix == ".parquet":
        require("pyarrow", extra="data")


def write_recalled(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    """Write the answers to histories atomically, in the format of the file name's ending."""
    writer = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json}[path.suffix]
    with atomic_path(path) as temporary:
        writer(temporary, users, recalled, items)


def join_parts(parts: Sequence[Path], output: Path, header: Sequence[str] = CSV_HEADER) -> None:
    """Write all parts as one file, atomically."""
    with atomic_path(output) as temporary:
        if output.suffix == ".parquet":
            _join_parquet(parts, temporary)
            return
        with temporary.open("wb") as target:
            if output.suffix == ".csv":
                target.write((",".join(header) + "\r\n").encode())
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)


def _rows(
    users: Sequence[Any], recalled: Recalled, items: ItemTable
) -> Iterator[tuple[Any, list[Any], list[float], str, list[Any] | None]]:
    """Yield user, items, scores, source and, with interests, the click that led to each item."""
    for number, user in enumerate(users):
        positions, scores = recalled.row(number)
        source = "popularity" if recalled.from_popularity[number] else "history"
        clicks = recalled.clicks_behind(number)
        click_ids = None if clicks is None else _ids_or_none(clicks, items)
        yield user, items.ids_of(positions), scores.tolist(), source, click_ids


def _ids_or_none(positions: IntArray, items: ItemTable) -> list[Any]:
    return [None if position < 0 else items.id_of(position) for position in positions.tolist()]


def _write_csv(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for user, ids, scores, source, clicks in _rows(users, recalled, items):
            for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1):
                led_by = () if clicks is None else (clicks[rank - 1],)
                writer.writerow((user, rank, item, f"{score:.6g}", source, *led_by))


def _write_json(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for user, ids, scores, source, clicks in _rows(users, recalled, items):
            row = {"user": user, "items": ids, "scores": scores, "source": source}
            if clicks is not None:
                row["clicks"] = clicks
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, users: Sequence[Any], recalled: Recalled, items: ItemTable) -> None:
    pyarrow = require("pyarrow", extra="data")
    is_item = recalled.positions >= 0
    ends = is_item.sum(axis=1).cumsum()
    offsets = pyarrow.array([0, *ends.tolist()], pyarrow.int32())
    id_type = pyarrow.int64() if items.has_integer_ids else pyarrow.string()
    ids = pyarrow.array(items.ids_of(recalled.positions[is_item]), id_type)
    scores = pyarrow.array(recalled.scores[is_item], pyarrow.float32())
    sources = ["popularity" if popular else "history" for popular in recalled.from_popularity]
    columns = {
        "user": pyarrow.array(users),
        "items": pyarrow.ListArray.from_arrays(offsets, ids),
        "scores": pyarrow.ListArray.from_arrays(offsets, scores),
        "source": pyarrow.array(sources, pyarrow.string()),
    }
    if recalled.led_by is not None:
        clicks = pyarrow.array(_ids_or_none(recalled.led_by[is_item], items), id_type)
        columns["clicks"] = pyarrow.ListArray.from_arrays(offsets, clicks)
    require("pyarrow.parquet", extra="data").write_table(pyarrow.table(columns), path)


def _join_parquet(parts: Sequence[Path], path: Path) -> None:
    parquet = require("pyarrow.parquet", extra="data")
    schema = parquet.read_schema(parts[0])
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part).cast(schema))

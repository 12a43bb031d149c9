"""Click logs and windows of any length on disk, made once and opened again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.blocks import BLOCK_FORMATS, BYTES_PER_ROW, is_pairs
from groupnoise.clicks.external_sort import (
    PROGRESS,
    ConversionState,
    HistoryRules,
    LogPlan,
    MixedIdsError,
    check_unfinished,
    merge_runs,
    plan_log,
    prefetch,
    run_path,
    write_runs,
)
from groupnoise.clicks.filters import REPEAT_RULES, keep_core
from groupnoise.clicks.log import read_clicks
from groupnoise.clicks.windows import check_window_sizes, find_windows, gather_windows, too_short
from groupnoise.core.arrays import IntArray, ProgressCallback, blocks
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.data_folder import (
    made_from,
    new_folder,
    open_groups,
    record_origin,
    wait_until_made,
    write_groups,
    write_manifest,
)
from groupnoise.io.datasets import ClickDataset, Windows
from groupnoise.io.growing_arrays import ArrayEntry, ArrayWriter
from groupnoise.io.sources import Guesses, Report, find_source, say_nothing


def convert_clicks(
    source: str | Path,
    folder: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    min_rating: float | None = None,
    session_gap: float | None = None,
    repeats: str = "keep",
    per_user: int = 1,
    per_item: int = 1,
    name: str | None = None,
    format: str | None = None,
    filesystem: Any = None,
    separator: str | None = None,
    header: bool | None = None,
    overwrite: bool = False,
    rows_at_once: int = 2_000_000,
    report: Report | None = None,
    progress: ProgressCallback | None = None,
) -> ClickDataset:
    """Turn a click log into a folder of histories without ever holding the log in memory.

    The log is read once, in blocks; each block is written sorted by user; then one range of users
    at a time is taken from all blocks, put in order and appended to the result. The catalogue of
    items is the only thing held whole.

    Parameters
    ----------
    source : str or Path
        CSV, TSV, `user item` text, JSON lines, Parquet or Arrow: a file, a folder, a glob or an
        address. Formats that cannot be read in blocks are read whole. Cells of CSV may hold no
        line breaks.
    folder : str or Path
        Where the histories go; it appears whole or not at all. Interrupted work lies beside it
        as `<folder>.partial` and is resumed when the same conversion is started again.
    user, item, time, rating : str, optional
        Columns, as in `read_clicks`; guessed where they are not given.
    min_rating : float, optional
        Drop clicks rated below.
    session_gap : float, optional
        Seconds without a click that begin a new history of the same user.
    repeats : str, default="keep"
        What to do with repeated clicks, as in `read_clicks`.
    per_user, per_item : int, default=1
        Keep the core in which every user and item has at least so many clicks. It is found with
        a few bytes per click in memory.
    name : str, optional
        What to call the set; by default as the source is called.
    format : str, optional
        The format of the files; by default what their names and first bytes say.
    filesystem : object, optional
        Where an address leads; an fsspec or pyarrow file system.
    separator : str, optional
        Between the cells of a text; guessed where it is not given.
    header : bool, optional
        Whether the first line names the columns; guessed where it is not given.
    overwrite : bool, default=False
        Replace a data folder that is already there.
    rows_at_once : int, default=2_000_000
        How many clicks to hold in memory; 40 to 150 bytes each.
    report : callable, optional
        Told of each guess, one sentence at a time.
    progress : callable, optional
        Called with a record after each block and each range.

    Returns
    -------
    clicks : ClickDataset
        The histories, memory mapped from `folder`.
    """
    check_choice("repeats", repeats, REPEAT_RULES)
    check_count("rows_at_once", rows_at_once)
    if session_gap is not None:
        check_positive("session_gap", session_gap)
    folder, guesses = Path(folder), Guesses(report)
    files = find_source(source, format=format, filesystem=filesystem)
    columns: dict[str, Any] = {"user": user, "item": item, "time": time, "rating": rating}
    layout: dict[str, Any] = {"separator": separator, "header": header}
    if files.format not in BLOCK_FORMATS or (files.format == "text" and not is_pairs(files)):
        clicks = read_clicks(
            source, **columns, **layout, min_rating=min_rating, session_gap=session_gap,
            repeats=repeats, per_user=per_user, per_item=per_item, name=name, format=format,
            filesystem=filesystem, report=report,
        )  # fmt: skip
        write_groups(folder, clicks, overwrite=overwrite)
        return _open_clicks(folder)

    make_plan = partial(
        plan_log, files, **columns, **layout, min_rating=min_rating,
        block_bytes=BYTES_PER_ROW * rows_at_once // 2,
    )  # fmt: skip
    beside = folder.with_name(f"{folder.name}.partial")
    check_unfinished(beside)
    with new_folder(folder, overwrite=overwrite, building=beside) as building:
        entries, notes = _convert(
            make_plan,
            building,
            HistoryRules(repeats, session_gap),
            rows_at_once,
            guesses,
            progress or _ignore,
        )
        details = {"name": name or files.name, "notes": {**notes, "guesses": guesses.sentences}}
        write_manifest(building, "clicks", entries, details)
        if per_user > 1 or per_item > 1:
            _reduce_to_core(building, per_user, per_item)
        (building / PROGRESS).unlink()
    return _open_clicks(folder)


def _convert(
    make_plan: Callable[..., LogPlan],
    building: Path,
    rules: HistoryRules,
    rows_at_once: int,
    report: Report,
    progress: ProgressCallback,
) -> tuple[dict[str, ArrayEntry], dict[str, int]]:
    """Write the arrays of a click data set, and return their entries and what was counted."""
    plan = make_plan(text_columns=(), report=report)
    if rules.session_gap is not None and plan.columns.time is None:
        raise DataError(
            f"{plan.source.paths[0]} has no column that looks like the time, which sessions need; "
            "name it with `time` (--time)."
        )
    text_columns: set[str] = set()
    while True:
        state = ConversionState.load(building, {**plan.fingerprint(), **asdict(rules)})
        try:
            write_runs(plan, building, state, report, progress)
            break
        except MixedIdsError as error:
            report(f"not all ids of column {error.column!r} are whole numbers; took them as text")
            text_columns.add(error.column)
            plan = make_plan(text_columns=text_columns, report=say_nothing)
    if not state.run_rows:
        reason = "" if plan.min_rating is None else f" rated {plan.min_rating:g} or more"
        raise DataError(f"{plan.source.paths[0]} has no click{reason}; at least one is needed.")
    entries = merge_runs(building, state, rules, rows_at_once=rows_at_once, progress=progress)
    notes = {"rows_read": state.n_read, "rows_below_min_rating": state.n_below_rating}
    if rules.repeats != "keep":
        notes["repeats_merged"] = sum(state.run_rows) - entries["items"]["shape"][0]
    for number in range(len(state.run_rows)):
        run_path(building, number).unlink()
    return entries, notes


def _reduce_to_core(building: Path, per_user: int, per_item: int) -> None:
    """Replace the arrays of an unfinished data folder by those of its core."""
    core = keep_core(_open_clicks(building), per_user=per_user, per_item=per_item)
    reduced = write_groups(building / "core", core)
    for path in reduced.iterdir():
        os.replace(path, building / path.name)
    reduced.rmdir()


def _open_clicks(folder: Path) -> ClickDataset:
    clicks = open_groups(folder)
    assert isinstance(clicks, ClickDataset)
    return clicks


def _ignore(record: dict[str, Any]) -> None:
    """Drop a progress record nobody asked for."""


def write_windows(
    folder: str | Path,
    histories: Groups,
    how: str = "sliding",
    *,
    size: int = 5,
    min_size: int | None = None,
    held_out: IntArray | None = None,
    overwrite: bool = False,
    clicks_at_once: int = 1_000_000,
    progress: ProgressCallback | None = None,
) -> Windows:
    """Cut histories into windows on disk, for logs whose windows would not fit in memory.

    Parameters
    ----------
    folder : str or Path
        Where the windows go; it appears whole or not at all.
    histories : Groups
        One group of item ids per user, usually memory mapped.
    how : {'sliding', 'chunks', 'leave_one_out'}, default='sliding'
        As in `cut_windows`. For sessions convert the log with a `session_gap` first.
    size : int, default=5
        The most clicks before the target.
    min_size : int, optional
        The fewest clicks before the target, as in `cut_windows`.
    held_out : int64 ndarray, optional
        Rows of `histories` whose last click is kept out, for a validation: the window that it is
        the target of is not written.
    overwrite : bool, default=False
        Replace a data folder that is already there.
    clicks_at_once : int, default=1_000_000
        How many clicks to cut at a time; about 150 bytes of memory each.
    progress : callable, optional
        Called with a record after each block.

    Returns
    -------
    windows : Windows
        The same as `cut_windows` returns, memory mapped from `folder`.
    """
    min_size = check_window_sizes(how, size, min_size)
    check_count("clicks_at_once", clicks_at_once)
    if how == "session":
        raise DataError("sessions are cut while the log is converted: pass `session_gap` there.")
    folder = Path(folder)
    held = np.zeros(0, dtype=np.int64) if held_out is None else np.sort(held_out)
    kinds = {
        "objects": histories.objects.dtype,
        "offsets": np.dtype(np.int64),
        "targets": histories.objects.dtype,
        "users": np.dtype(np.int64),
        "positions": np.dtype(np.int64),
    }
    with new_folder(folder, overwrite=overwrite) as building, ExitStack() as stack:
        writers = {
            name: stack.enter_context(ArrayWriter(building / f"{name}.npy", kind))
            for name, kind in kinds.items()
        }
        writers["offsets"].append(np.zeros(1))
        cut = (
            (first, len(block), _cut(block, how, size, min_size, _last_clicks(block, first, held)))
            for first, block in _blocks(histories, clicks_at_once)
        )
        for first_user, n_users, windows in prefetch(cut):
            if windows is not None:
                _append(writers, windows, first_user)
            if progress is not None:
                done = first_user + n_users
                progress({"stage": "windows", "users": done, "of_users": len(histories)})
        if writers["targets"].n_rows == 0:
            raise DataError(too_short(histories, min_size))
        entries = {name: writer.finish() for name, writer in writers.items()}
        write_manifest(building, "windows", entries, {"how": how, "size": size})
    mapped = open_groups(folder)
    assert isinstance(mapped, Windows)
    return mapped


def _blocks(histories: Groups, clicks_at_once: int) -> Iterator[tuple[int, Groups]]:
    """Yield the first user and the histories of each block; a history is never divided."""
    offsets, first = histories.offsets, 0
    while first < len(histories):
        last = int(np.searchsorted(offsets, offsets[first] + clicks_at_once, side="right")) - 1
        last = max(last, first + 1)
        begin, end = offsets[first], offsets[last]
        yield first, Groups(histories.objects[begin:end], offsets[first : last + 1] - begin)
        first = last


def _last_clicks(block: Groups, first_user: int, held: IntArray) -> IntArray:
    """Return where in a block the last clicks of the users held out are."""
    begin, end = np.searchsorted(held, [first_user, first_user + len(block)])
    return block.offsets[held[begin:end] - first_user + 1] - 1


def _cut(
    block: Groups, how: str, size: int, min_size: int, held_clicks: IntArray
) -> Windows | None:
    targets, sizes = find_windows(block, how, size, min_size)
    if len(held_clicks):  # a last click is an object of no window, so that only targets matter
        kept = ~np.isin(targets, held_clicks)
        targets, sizes = targets[kept], sizes[kept]
    return gather_windows(block, targets, sizes) if len(targets) else None


def _append(writers: dict[str, ArrayWriter], windows: Windows, first_user: int) -> None:
    groups = windows.groups
    assert groups.targets is not None
    writers["offsets"].append(groups.offsets[1:] + writers["objects"].n_rows)
    writers["objects"].append(groups.objects)
    writers["targets"].append(groups.targets)
    writers["users"].append(windows.users + first_user)
    writers["positions"].append(windows.positions)


OBJECTS_AT_ONCE = 250_000
"""Clicks of windows cut at a time; about 100 bytes of memory each."""


def clicks_on_disk(
    source: str | Path,
    folder: str | Path,
    *,
    wait: bool = False,
    rows_at_once: int = 2_000_000,
    report: Report | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> ClickDataset:
    """Convert a click log, or open what an earlier call made of the same files.

    Parameters
    ----------
    source, folder, rows_at_once, report, progress
        As in `convert_clicks`; interrupted work is gone on with.
    wait : bool, default=False
        Leave the work to another process and wait until it is done.
    **options
        Columns and the form of the log, passed to `convert_clicks`.

    Returns
    -------
    clicks : ClickDataset
        The histories, memory mapped from `folder`.

    Raises
    ------
    DataError
        If the folder holds anything else, or the log changed since.
    """
    folder, files = Path(folder), find_source(source, format=options.get("format"))
    wanted: dict[str, Any] = {"files": [list(files.size_of(path)) for path in files.paths]}
    if options:
        wanted["options"] = options
    if wait:
        wait_until_made(folder, wanted)
    if not folder.exists():
        convert_clicks(
            source,
            folder,
            rows_at_once=rows_at_once,
            report=report,
            progress=progress,
            **options,
        )
        record_origin(folder, wanted)
    elif made_from(folder) != wanted:
        raise DataError(
            f"{folder} was not made from {source} as it is now; remove it or give another folder."
        )
    clicks = open_groups(folder)
    assert isinstance(clicks, ClickDataset)
    return clicks


def windows_on_disk(
    histories: Groups,
    folder: str | Path,
    *,
    size: int,
    min_size: int,
    held_out: IntArray | None = None,
    wait: bool = False,
    progress: ProgressCallback | None = None,
) -> Windows:
    """Cut sliding windows on disk, or open what an earlier call cut from the same histories.

    Parameters
    ----------
    histories, folder, size, min_size, held_out, progress
        As in `write_windows`. Windows that an earlier call cut otherwise are replaced; any other
        folder is refused.
    wait : bool, default=False
        Leave the work to another process and wait until it is done.

    Returns
    -------
    windows : Windows
        Memory mapped from `folder`.
    """
    folder = Path(folder)
    wanted = {
        "size": size,
        "min_size": min_size,
        "histories": _digest([histories.objects, histories.offsets]),
        "held out": _digest([np.zeros(0, np.int64) if held_out is None else held_out]),
    }
    if wait:
        wait_until_made(folder, wanted)
    found = made_from(folder)
    if found != wanted:
        write_windows(
            folder,
            histories,
            size=size,
            min_size=min_size,
            held_out=held_out,
            overwrite=found is not None,
            clicks_at_once=max(1, OBJECTS_AT_ONCE // size),
            progress=progress,
        )
        record_origin(folder, wanted)
    windows = open_groups(folder)
    assert isinstance(windows, Windows)
    return windows


def _digest(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for _, part in blocks(array):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()

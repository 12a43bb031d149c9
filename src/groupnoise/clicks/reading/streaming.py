"""Click logs and windows of any length on disk, made once and opened again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from groupnoise.clicks.reading.blocks import BYTES_PER_ROW, is_pairs
from groupnoise.clicks.reading.external_sort import (
    PROGRESS,
    ConversionState,
    HistoryRules,
    LogPlan,
    MixedIdsError,
    check_unfinished,
    merge_runs,
    plan_log,
    run_path,
    write_runs,
)
from groupnoise.clicks.reading.filters import REPEAT_RULES, keep_core, missing_times_error
from groupnoise.clicks.reading.log import is_log_of_rows, read_clicks
from groupnoise.core.arrays import ProgressCallback
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.folders.data_folder import (
    make_once,
    new_data_folder,
    open_groups,
    write_groups,
    write_manifest,
)
from groupnoise.io.tables.array_files import ArrayEntry
from groupnoise.io.tables.sources import Guesses, Report, find_source, ignore_report


def convert_clicks(
    source: str | Path,
    folder: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    min_rating: float | None = None,
    only: str | None = None,
    date_order: str | None = None,
    session_gap: float | None = None,
    repeats: str = "keep",
    per_user: int = 1,
    per_item: int = 1,
    name: str | None = None,
    format: str | None = None,
    filesystem: Any = None,
    separator: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    encoding: str | None = None,
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
    only : str, optional
        Rows to keep, as in `read_clicks`.
    date_order : {'dmy', 'mdy'}, optional
        How to read dates that may be day/month/year or month/day/year, as in `read_clicks`; here
        the first rows alone tell whether they may be both.
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
    decimal : {'.', ','}, optional
        What stands before decimals; a log of which it is said is read in memory.
    sheet : str, optional
        Of a workbook, by name or number; by default the first that holds something.
    encoding : str, optional
        Of text that is not UTF-8, such as 'cp1252'.
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
    files = find_source(source, format=format, filesystem=filesystem, encoding=encoding)
    columns: dict[str, Any] = {"user": user, "item": item, "time": time, "rating": rating}
    layout: dict[str, Any] = {"separator": separator, "header": header}
    in_memory: dict[str, Any] = {"decimal": decimal, "sheet": sheet}
    given = {**columns, **layout, **in_memory}
    in_blocks = is_pairs(files) if files.format == "text" else is_log_of_rows(files, given)
    if not in_blocks:
        clicks = read_clicks(
            source, **columns, **layout, **in_memory, min_rating=min_rating, only=only,
            date_order=date_order, session_gap=session_gap, repeats=repeats, per_user=per_user,
            per_item=per_item, name=name, format=format, filesystem=filesystem, encoding=encoding,
            report=report,
        )  # fmt: skip
        write_groups(folder, clicks, overwrite=overwrite)
        return _open_clicks(folder)

    make_plan = partial(
        plan_log, files, columns, **layout, min_rating=min_rating, only=only,
        date_order=date_order, block_bytes=BYTES_PER_ROW * rows_at_once // 2,
    )  # fmt: skip
    beside = folder.with_name(f"{folder.name}.partial")
    check_unfinished(beside)
    with new_data_folder(folder, overwrite=overwrite, building=beside) as building:
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
    """Write the arrays of a click data set, and return their entries and counts."""
    plan = make_plan(text_columns=(), report=report)
    if rules.session_gap is not None and plan.columns.time is None:
        raise missing_times_error(plan.source.paths[0])
    text_columns: set[str] = set()
    while True:
        state = ConversionState.load(building, {**plan.fingerprint(), **asdict(rules)})
        try:
            write_runs(plan, building, state, report, progress)
            break
        except MixedIdsError as error:
            report(f"not all ids of column {error.column!r} are whole numbers; took them as text")
            text_columns.add(error.column)
            plan = make_plan(text_columns=text_columns, report=ignore_report)
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
    """Ignore a progress record."""


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

    Interrupted work is resumed. `wait`: leave the work to another process and wait until it
    is done. `options`: columns and the form of the log, passed to `convert_clicks`.
    """
    folder, files = Path(folder), find_source(source, format=options.get("format"))
    origin: dict[str, Any] = {"files": [list(files.size_of(path)) for path in files.paths]}
    if options:
        origin["options"] = options
    make = partial(
        convert_clicks,
        source,
        folder,
        rows_at_once=rows_at_once,
        report=report,
        progress=progress,
        **options,
    )
    make_once(folder, make, origin, source=source, wait=wait)
    return _open_clicks(folder)

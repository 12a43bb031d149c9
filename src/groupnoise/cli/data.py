"""`groupnoise data`: list, describe, fetch, check and convert data sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.options import (
    DATA_HELP,
    SETTINGS,
    AsJson,
    DataOptions,
    argument,
    check_output,
    describe_options,
    echo_err,
    option,
    progress_bars,
    with_data_options,
)
from groupnoise.cli.sources import check_columns, load_data, read_file
from groupnoise.core.words import counted
from groupnoise.exceptions import MissingDataError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from groupnoise.core.arrays import ProgressCallback
    from groupnoise.io.description import Description
    from groupnoise.io.registry import DatasetEntry

data_app = typer.Typer(help="Work with data sets: list, describe, path, fetch, check and convert.")

Name = Annotated[str, typer.Argument(help="A name from `groupnoise data list`.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder to search before GROUPNOISE_DATA and the default places."
    ),
]
MAX_BARS, BAR_WIDTH = 30, 40
"""Bars of a histogram in a terminal, and length of the longest."""
WINDOWS = ("none", "sliding", "chunks", "leave_one_out")


@data_app.command("list")
@describe_options(setting="Only sets of this setting: mil, pll or rs.")
def list_command(
    setting: str | None = None, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """List the named data sets and whether they are on this machine."""
    from groupnoise.core.checks import check_choice
    from groupnoise.io.registry import list_datasets

    if setting is not None:
        check_choice("--setting", setting, SETTINGS)
    rows = [
        {
            "name": entry.name,
            "setting": entry.setting,
            "here": _availability(entry, data_dir),
            "shape": entry.shape,
        }
        for entry in list_datasets()
        if setting in (None, entry.setting)
    ]
    _show_rows(rows, as_json)


@data_app.command("describe")
@with_data_options
@describe_options(name=argument(DATA_HELP), html="Also write an HTML page with plots.")
def describe_command(
    name: str, options: DataOptions, html: Path | None = None, as_json: AsJson = False
) -> None:
    """Summarize a data set and point out anything odd."""
    from groupnoise.io.files import write_text

    check_output(html, name)
    found = load_data(name, options)
    entry = found.entry
    description = found.setting.describe(found.dataset)
    if html is not None:
        write_text(html, description_page(description, entry))
    if as_json:
        typer.echo(json.dumps(description.as_dict(), indent=2))
        return
    _show_description(description, entry, told=getattr(found.dataset, "notes", {}).get("guesses"))
    if html is not None:
        typer.echo(f"wrote {html}")


@data_app.command("path")
def path_command(name: Name, data_dir: DataDir = None) -> None:
    """Print the paths of a data set's files, one per line."""
    from groupnoise.io.registry import find_dataset, locate_dataset

    entry = find_dataset(name)
    if not entry.files:
        raise MissingDataError(f"{entry.title} has no file: {entry.origin}.")
    for path in locate_dataset(entry, data_dir, verify=False):
        if path is not None:
            typer.echo(path)


@data_app.command("fetch")
def fetch_command(name: Name, data_dir: DataDir = None) -> None:
    """Download a data set, verify it, and print its path."""
    from groupnoise.io.registry import fetch_dataset

    with _transfer_bars() as progress:
        paths = fetch_dataset(name, data_dir=data_dir, progress=progress)
    for path in paths:
        typer.echo(path)


@data_app.command("check")
@describe_options(names=argument("Names to check; all if none is given."))
def check_command(
    names: list[str] | None = None, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Verify the checksums of local data sets; exit code 1 if one was altered."""
    from groupnoise.io.registry import check_dataset, find_dataset, list_datasets

    entries = [find_dataset(name) for name in names] if names else list_datasets()
    rows = [{"name": entry.name, "status": check_dataset(entry, data_dir)} for entry in entries]
    _show_rows(rows, as_json)
    if any(row["status"] == "altered" for row in rows):
        raise typer.Exit(1)


def _availability(entry: DatasetEntry, data_dir: Path | None) -> str:
    """Return how a set is available, without reading its files."""
    from groupnoise.io.registry import locate_file

    if not entry.files:
        return "shipped"
    if all(file.optional or locate_file(file, data_dir) for file in entry.files):
        return "yes"
    return "fetch" if entry.can_be_fetched else "no"


def _show_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    Console().print(table)


def description_page(description: Description, entry: DatasetEntry | None = None) -> str:
    """Return a description as the text of an HTML page."""
    from groupnoise.io.description import format_fact
    from groupnoise.pages import render_page

    return render_page(
        "describe.html",
        package="groupnoise.pages",
        description=description,
        entry=entry,
        format_fact=format_fact,
    )


def _show_description(
    description: Description, entry: DatasetEntry | None, *, told: Collection[str] | None
) -> None:
    """Print counts, oddities and histograms, and the citation of a named set."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from groupnoise.io.description import format_fact

    console = Console()
    console.print(f"[bold]{escape(description.name)}[/] ({description.setting})\n")
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column()
    facts.add_column(justify="right")
    for name, value in description.facts.items():
        facts.add_row(escape(name), format_fact(value))
    console.print(facts)
    for sentence in (each for each in description.oddities if each not in (told or ())):
        console.print(f"[yellow]! {escape(sentence)}[/]")
    for histogram in description.histograms:
        console.print(f"\n[bold]{escape(histogram.title)}[/]")
        bars = Table(box=None, show_header=False, pad_edge=False)
        bars.add_column(justify="right", max_width=24, overflow="ellipsis", no_wrap=True)
        bars.add_column(justify="right")
        bars.add_column()
        highest = max(*histogram.counts, 1)
        shown = list(zip(histogram.labels, histogram.counts, strict=True))
        for label, count in shown[:MAX_BARS]:
            bar = "█" * round(BAR_WIDTH * count / highest)
            bars.add_row(escape(label), format_fact(count), bar)
        if len(shown) > MAX_BARS:
            bars.add_row("...", f"{len(shown) - MAX_BARS} more", "")
        console.print(bars)
    if entry is not None:
        console.print(f"\ncite   {escape(entry.citation)}\nterms  {escape(entry.terms)}")


@contextmanager
def _transfer_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a progress callback that shows one bar per file, on the error stream."""
    from rich.markup import escape

    progress = progress_bars("bytes")
    tasks: dict[str, TaskID] = {}

    def advance(name: str, n_received: int, n_total: int | None) -> None:
        if name not in tasks:
            progress.start()
            tasks[name] = progress.add_task(escape(name))
        progress.update(tasks[name], completed=n_received, total=n_total)

    try:
        yield advance
    finally:
        progress.stop()


@data_app.command("convert")
@with_data_options
@describe_options(
    source=argument("A file, folder, glob or URL.", metavar="INPUT"),
    output=argument("The data folder to write."),
    setting="mil (bags), pll (candidate labels) or rs (clicks).",
    session_gap="rs: split histories at longer gaps, in units of the time column.",
    repeats="rs: repeated clicks on an item: keep, merge_adjacent or keep_first.",
    per_user="rs: minimum clicks per user (k-core).",
    per_item="rs: minimum clicks per item (k-core).",
    windows="rs: also write OUTPUT/windows: sliding, chunks or leave_one_out.",
    size="rs: maximum clicks in a window.",
    min_size="rs: minimum clicks in a window.",
    rows_at_once="rs: clicks to hold in memory at a time.",
    name="Name of the data set.",
    overwrite="Overwrite OUTPUT.",
    quiet=option("No messages and no progress bar.", "-q"),
)
def convert(
    source: str,
    output: Path,
    setting: str,
    options: DataOptions,
    session_gap: float | None = None,
    repeats: str = "keep",
    per_user: int = 1,
    per_item: int = 1,
    windows: str = "none",
    size: int = 5,
    min_size: int | None = None,
    rows_at_once: int = 2_000_000,
    name: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Convert a file of your own to a data folder.

    Click logs are read in blocks, so they may be larger than memory; after an
    interruption the same command resumes where it stopped.
    """
    from groupnoise.core.checks import check_choice
    from groupnoise.io.folders.data_folder import write_groups
    from groupnoise.io.setting import find_setting

    kind = find_setting(setting)
    check_choice("--windows", windows, WINDOWS)
    report = (lambda sentence: None) if quiet else echo_err
    if kind.is_streamed:
        check_columns(kind, options)
        summary = _convert_log(
            source, output, windows, size, min_size, quiet, overwrite=overwrite,
            session_gap=session_gap, repeats=repeats, per_user=per_user, per_item=per_item,
            rows_at_once=rows_at_once, name=name, report=report, **options.given,
        )  # fmt: skip
    else:
        found = read_file(source, kind, options, report=report, name=name)
        write_groups(output, found.dataset, overwrite=overwrite)
        summary = kind.summary(found.dataset)
    typer.echo(f"wrote {output}: {summary}")


def _convert_log(
    source: str,
    output: Path,
    windows: str,
    size: int,
    min_size: int | None,
    quiet: bool,
    **options: Any,
) -> str:
    from groupnoise.clicks.reading.streaming import convert_clicks
    from groupnoise.clicks.windows.stored import write_windows
    from groupnoise.io.setting import setting_of

    with conversion_progress(quiet) as show:
        clicks = convert_clicks(source, output, progress=show, **options)
        summary = setting_of(clicks).summary(clicks)
        if windows != "none":
            cut = write_windows(
                output / "windows", clicks.histories, windows, size=size, min_size=min_size,
                progress=show,
            )  # fmt: skip
            n_cut = 1 + int((cut.users[1:] != cut.users[:-1]).sum())
            n_short = len(clicks.histories) - n_cut
            short = f"{counted(n_short, 'histories')} too short for one"
            summary += f", {counted(len(cut.groups), 'windows')} ({short})"
    return summary


@contextmanager
def conversion_progress(quiet: bool) -> Iterator[ProgressCallback]:
    """Yield a progress callback for the stages of a conversion."""
    with progress_bars("elapsed", quiet=quiet) as bar:
        task = bar.add_task("reading", total=None)

        def show(record: dict[str, Any]) -> None:
            if record["stage"] == "reading":
                bar.update(task, description=f"reading, {record['rows']:,} rows")
            elif record["stage"] == "sorting":
                done, total = record["part"], record["parts"]
                bar.update(task, description="sorting", completed=done, total=total)
            else:
                done, total = record["users"], record["of_users"]
                bar.update(task, description="windows", completed=done, total=total)

        yield show

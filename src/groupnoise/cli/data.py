"""`groupnoise data`: the named data sets, where they lie, what they hold, and own files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

from groupnoise.cli.data_convert import convert
from groupnoise.cli.options import SETTINGS, DataOptions, reads_data
from groupnoise.cli.sources import find_data
from groupnoise.exceptions import MissingDataError
from groupnoise.io.description import Description, Histogram, format_fact
from groupnoise.io.registry import DatasetEntry

if TYPE_CHECKING:
    from groupnoise.io.registry import DatasetEntry


data_app = typer.Typer(help="Data sets: list, describe, path, fetch, check and convert.")
data_app.command("convert")(convert)

Name = Annotated[str, typer.Argument(help="A name from `groupnoise data list`.")]
DataDir = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads this annotation at run time on 3.10
    typer.Option("--data-dir", help="Searched before GROUPNOISE_DATA and the usual places."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead.")]


@data_app.command("list")
def list_command(
    setting: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only sets of this setting: mil, pll or rs."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets known by name, and whether they are here."""
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
@reads_data
def describe_command(
    name: Annotated[
        str,
        typer.Argument(
            help="A name from `groupnoise data list`, a folder that `groupnoise data convert` "
            "wrote, or a file of your own with --setting."
        ),
    ],
    options: DataOptions,
    html: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Also write a page with plots to this file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a data set holds and what is odd about it."""
    from groupnoise.cli.data import show_description
    from groupnoise.io.description import write_description
    from groupnoise.io.files import check_not_own_input, check_writable_file

    if html is not None:
        check_not_own_input(html, name)
        check_writable_file(html)
    found = find_data(name, options)
    entry = found.entry
    description = found.setting.describe(found.dataset)
    if html is not None:
        write_description(html, description, entry)
    if as_json:
        typer.echo(json.dumps(description.as_dict(), indent=2))
        return
    show_description(description, entry)
    if html is not None:
        typer.echo(f"wrote {html}")


@data_app.command("path")
def path_command(name: Name, data_dir: DataDir = None) -> None:
    """Print where the files of a data set lie, one path per line."""
    from groupnoise.io.registry import find_dataset, locate_dataset

    entry = find_dataset(name)
    if not entry.files:
        raise MissingDataError(f"{entry.title} has no file: {entry.origin}.")
    for path in locate_dataset(entry, data_dir, verify=False):
        if path is not None:
            typer.echo(path)


@data_app.command("fetch")
def fetch_command(name: Name, data_dir: DataDir = None) -> None:
    """Download a data set, verify it, and print where it lies."""
    from groupnoise.cli.data import transfer_bars
    from groupnoise.io.download import fetch_dataset

    with transfer_bars() as progress:
        paths = fetch_dataset(name, data_dir=data_dir, progress=progress)
    for path in paths:
        typer.echo(path)


@data_app.command("check")
def check_command(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Names to check; all if none is given."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Verify the checksums of the data sets that are here; exit code 1 if one was altered."""
    from groupnoise.io.registry import check_dataset, find_dataset, list_datasets

    entries = [find_dataset(name) for name in names] if names else list_datasets()
    rows = [{"name": entry.name, "status": check_dataset(entry, data_dir)} for entry in entries]
    _show_rows(rows, as_json)
    if any(row["status"] == "altered" for row in rows):
        raise typer.Exit(1)


def _availability(entry: DatasetEntry, data_dir: Path | None) -> str:
    """Tell how to come by a set, without reading its files."""
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

    from groupnoise.cli.data import show_rows

    show_rows(rows)


MAX_BARS = 30
BAR_WIDTH = 40


def show_rows(rows: list[dict[str, Any]]) -> None:
    """Print a table with the keys of the first row as its header."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    Console().print(table)


def show_description(description: Description, entry: DatasetEntry | None) -> None:
    """Print counts, oddities and bars, and whom to cite for a named set."""
    console = Console()
    console.print(f"[bold]{escape(description.name)}[/] ({description.setting})\n")
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column()
    facts.add_column(justify="right")
    for name, value in description.facts.items():
        facts.add_row(escape(name), format_fact(value))
    console.print(facts)
    for sentence in description.oddities:
        console.print(f"[yellow]! {escape(sentence)}[/]")
    for histogram in description.histograms:
        console.print(f"\n[bold]{escape(histogram.title)}[/]")
        console.print(_bars(histogram))
    if entry is not None:
        console.print(f"\ncite   {escape(entry.citation)}\nterms  {escape(entry.terms)}")


def _bars(histogram: Histogram) -> Table:
    """Draw one line per bar; of many, the first ones and how many are left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", max_width=24, overflow="ellipsis", no_wrap=True)
    table.add_column(justify="right")
    table.add_column()
    highest = max(*histogram.counts, 1)
    bars = list(zip(histogram.labels, histogram.counts, strict=True))
    for label, count in bars[:MAX_BARS]:
        table.add_row(escape(label), format_fact(count), "█" * round(BAR_WIDTH * count / highest))
    if len(bars) > MAX_BARS:
        table.add_row("...", f"{len(bars) - MAX_BARS} more", "")
    return table


@contextmanager
def transfer_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a progress callback that shows one bar per file, on the error stream."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
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

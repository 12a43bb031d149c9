"""Tables, bars and progress of `groupnoise data` on a terminal, and its page; loads rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import TaskID
from rich.table import Table

from groupnoise.cli.options import progress_bars
from groupnoise.io.description import Description, Histogram, format_fact
from groupnoise.io.registry import DatasetEntry
from groupnoise.pages import render_page

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


def description_page(description: Description, entry: DatasetEntry | None = None) -> str:
    """Return a description as the text of an HTML page.

    `entry`: adds the citation, terms and origin of a named set.
    """
    return render_page(
        "describe.html",
        package="groupnoise.pages",
        description=description,
        entry=entry,
        format_fact=format_fact,
    )


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

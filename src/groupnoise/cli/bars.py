"""Bars of work that is counted, on the error stream of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupnoise.core.arrays import ProgressCallback


@contextmanager
def counted_bars(stages: Sequence[str], quiet: bool = False) -> Iterator[ProgressCallback]:
    """Yield what shows records of `stage`, `done` and `total`, one bar per stage.

    Takes one record; bars vanish at the end. `stages`: what the bars are called. `quiet`: whether
    nothing is shown.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    is_hidden = quiet or not console.is_terminal  # elsewhere it would leave an empty line
    with Progress(*columns, console=console, disable=is_hidden, transient=True) as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in stages}

        def show(record: dict[str, Any]) -> None:
            bar.update(tasks[record["stage"]], completed=record["done"], total=record["total"])

        yield show

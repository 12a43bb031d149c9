"""The progress of a reproduction on the error stream: a bar, or lines without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupnoise.experiments import Plan, TimeLeft, TrialResult

LINE_EVERY_SECONDS = 60.0
"""How often a line is written where no bar can be drawn."""


def spell_seconds(seconds: float) -> str:
    """Return a time as one says it.

    Examples
    --------
    >>> spell_seconds(42.3), spell_seconds(600), spell_seconds(8000)
    ('42 s', '10 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@contextmanager
def follow(plan: Plan, left: TimeLeft) -> Iterator[Callable[[str, list[TrialResult], bool], None]]:
    """Yield what moves the bar when a job is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[latest]}"),
        console=console,
    )
    with progress:
        bar = progress.add_task(plan.recipe.name, total=len(plan.jobs), left="", latest="")
        n_done, last_line = 0, time.monotonic()

        def on_job(key: str, results: list[TrialResult], resumed: bool) -> None:
            nonlocal n_done, last_line
            n_done += 1
            left.finish(key, None if resumed else results[0].seconds)
            latest = f"{results[0].dataset}, {results[0].method}, seed {results[0].seed}"
            remaining = f"{spell_seconds(left.seconds)} left"
            progress.update(bar, advance=1, left=remaining, latest=latest)
            if not console.is_terminal and time.monotonic() - last_line > LINE_EVERY_SECONDS:
                last_line = time.monotonic()
                console.print(f"{plan.recipe.name}: {n_done} of {len(plan.jobs)}, {remaining}")

        yield on_job

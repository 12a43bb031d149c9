"""`groupnoise data convert`: the file someone has, to a data folder that is mapped, not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from groupnoise.cli.options import DataOptions, reads_data

if TYPE_CHECKING:
    from groupnoise.core.arrays import ProgressCallback

WINDOWS = ("none", "sliding", "chunks", "leave_one_out")

# typer reads these annotations at run time, so they must also hold on Python 3.10.
Number = Optional[float]  # noqa: UP045
Count = Optional[int]  # noqa: UP045


@reads_data
def convert(
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A file, a folder, a glob or an address.")
    ],
    output: Annotated[Path, typer.Argument(help="The data folder to write.")],
    setting: Annotated[
        str, typer.Option(help="mil (bags), pll (candidate labels) or rs (clicks).")
    ],
    options: DataOptions,
    session_gap: Annotated[
        Number, typer.Option(help="rs: cut histories at longer pauses, in the unit of the time.")
    ] = None,
    repeats: Annotated[
        str, typer.Option(help="rs: keep, merge_adjacent or keep_first clicks on one item.")
    ] = "keep",
    per_user: Annotated[int, typer.Option(help="rs: fewest clicks of a user (k-core).")] = 1,
    per_item: Annotated[int, typer.Option(help="rs: fewest clicks on an item (k-core).")] = 1,
    windows: Annotated[
        str,
        typer.Option(help="rs: also write OUTPUT/windows: sliding, chunks or leave_one_out."),
    ] = "none",
    size: Annotated[int, typer.Option(help="rs: the most clicks in a window.")] = 5,
    min_size: Annotated[Count, typer.Option(help="rs: the fewest clicks in a window.")] = None,
    rows_at_once: Annotated[
        int, typer.Option(help="rs: how many clicks to hold in memory at a time.")
    ] = 2_000_000,
    name: Annotated[Optional[str], typer.Option(help="What to call the set.")] = None,  # noqa: UP045
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUTPUT.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No guesses, no progress.")] = False,
) -> None:
    """Read a file of your own, say what was guessed about it, and write it as a data folder.

    Click logs are read in blocks, so they may be larger than memory; when this is interrupted,
    the same command resumes where it stopped.
    """
    from groupnoise.cli.sources import check_columns, read_file
    from groupnoise.core.checks import check_choice
    from groupnoise.io.data_folder import write_groups
    from groupnoise.io.setting import find_setting

    kind = find_setting(setting)
    check_choice("--windows", windows, WINDOWS)
    report = (lambda sentence: None) if quiet else _show_guess
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
    from groupnoise.clicks.stored_windows import write_windows
    from groupnoise.clicks.streaming import convert_clicks
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
            summary += f", {len(cut.groups)} windows ({n_short} histories too short for one)"
    return summary


def _show_guess(sentence: str) -> None:
    typer.echo(sentence, err=True)


@contextmanager
def conversion_progress(quiet: bool) -> Iterator[ProgressCallback]:
    """Yield a callback that shows each stage; the length of a log is not known beforehand."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def show(record: dict[str, Any]) -> None:
            if record["stage"] == "reading":
                bar.update(task, description=f"reading, {record['rows']:,} rows")
            elif record["stage"] == "sorting":
                bar.update(
                    task, description="sorting", completed=record["part"], total=record["parts"]
                )
            else:
                bar.update(
                    task,
                    description="windows",
                    completed=record["users"],
                    total=record["of_users"],
                )

        yield show

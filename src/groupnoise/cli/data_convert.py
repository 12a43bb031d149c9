"""`groupnoise data convert`: the file someone has, to a data folder that is mapped, not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from groupnoise.core.arrays import ProgressCallback
    from groupnoise.io.datasets import ClickDataset

SETTINGS = ("mil", "pll", "rs")
WINDOWS = ("none", "sliding", "chunks", "leave_one_out")

# typer reads these annotations at run time, so they must also hold on Python 3.10.
Column = Optional[str]  # noqa: UP045
Number = Optional[float]  # noqa: UP045
Count = Optional[int]  # noqa: UP045
Flag = Optional[bool]  # noqa: UP045


def convert(
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A file, a folder, a glob or an address.")
    ],
    output: Annotated[Path, typer.Argument(help="The data folder to write.")],
    setting: Annotated[
        str, typer.Option(help="mil (bags), pll (candidate labels) or rs (clicks).")
    ],
    user: Annotated[Column, typer.Option(help="rs: column of user ids.")] = None,
    item: Annotated[Column, typer.Option(help="rs: column of item ids.")] = None,
    time: Annotated[Column, typer.Option(help="rs: column that orders clicks.")] = None,
    rating: Annotated[Column, typer.Option(help="rs: column of ratings.")] = None,
    min_rating: Annotated[Number, typer.Option(help="rs: leave out rows rated below.")] = None,
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
    group: Annotated[Column, typer.Option(help="mil: column of bag ids.")] = None,
    label: Annotated[Column, typer.Option(help="mil: column of bag labels, or a pattern.")] = None,
    features: Annotated[
        Column, typer.Option(help="mil, pll: feature columns, as a list or a pattern like 'f*'.")
    ] = None,
    candidates: Annotated[
        Column, typer.Option(help="pll: column of candidate labels, or a pattern of indicators.")
    ] = None,
    truth: Annotated[Column, typer.Option(help="mil, pll: column of the right labels.")] = None,
    label_separator: Annotated[
        Column, typer.Option(help="mil, pll: what joins several labels in a cell.")
    ] = None,
    format: Annotated[Column, typer.Option(help="Format, if the suffix does not say it.")] = None,
    separator: Annotated[Column, typer.Option(help="What stands between cells of text.")] = None,
    header: Annotated[
        Flag, typer.Option("--header/--no-header", help="Whether text begins with column names.")
    ] = None,
    name: Annotated[Column, typer.Option(help="What to call the set.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUTPUT.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No guesses, no progress.")] = False,
) -> None:
    """Read a file of your own, say what was guessed about it, and write it as a data folder.

    Click logs are read in blocks, so they may be larger than memory; when this is interrupted,
    the same command goes on where it stopped.
    """
    from groupnoise.bags.files import read_bags
    from groupnoise.candidates.files import read_candidates
    from groupnoise.core.checks import check_choice
    from groupnoise.io.data_folder import write_groups

    check_choice("--setting", setting, SETTINGS)
    check_choice("--windows", windows, WINDOWS)
    shared: dict[str, Any] = {
        "format": format,
        "separator": separator,
        "header": header,
        "name": name,
        "report": (lambda sentence: None) if quiet else _show_guess,
    }
    labelled: dict[str, Any] = {
        "features": features,
        "truth": truth,
        "label_separator": label_separator,
    }
    if setting == "mil":
        bags = read_bags(source, group=group, label=label, **labelled, **shared)
        write_groups(output, bags, overwrite=overwrite)
        counts = f"{len(bags.bags)} bags, {bags.bags.n_objects} instances"
        summary = f"{counts}, {len(bags.class_names)} classes"
    elif setting == "pll":
        rows = read_candidates(source, candidates=candidates, **labelled, **shared)
        write_groups(output, rows, overwrite=overwrite)
        counts = f"{len(rows.features)} rows, {len(rows.class_names)} classes"
        summary = f"{counts}, {rows.candidates.sum() / len(rows.candidates):.2f} candidates per row"
    else:
        summary = _convert_log(
            source, output, windows, size, min_size, quiet, overwrite=overwrite, user=user,
            item=item, time=time, rating=rating, min_rating=min_rating, session_gap=session_gap,
            repeats=repeats, per_user=per_user, per_item=per_item,
            rows_at_once=rows_at_once, **shared,
        )  # fmt: skip
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
    from groupnoise.clicks.streaming import convert_clicks, write_windows

    with conversion_progress(quiet) as show:
        clicks = convert_clicks(source, output, progress=show, **options)
        summary = _summary(clicks)
        if windows != "none":
            cut = write_windows(
                output / "windows", clicks.histories, windows, size=size, min_size=min_size,
                progress=show,
            )  # fmt: skip
            n_cut = 1 + int((cut.users[1:] != cut.users[:-1]).sum())
            n_short = len(clicks.histories) - n_cut
            summary += f", {len(cut.groups)} windows ({n_short} histories too short for one)"
    return summary


def _summary(clicks: ClickDataset) -> str:
    parts = [
        f"{len(clicks.histories)} histories",
        f"{clicks.n_items} items",
        f"{clicks.histories.n_objects} clicks",
    ]
    left_out = {
        "rows_below_min_rating": "rows rated too low",
        "repeats_merged": "repeated clicks merged",
        "core_users_dropped": "users outside the core",
        "core_items_dropped": "items outside the core",
    }
    parts += [
        f"{clicks.notes[key]} {text}" for key, text in left_out.items() if clicks.notes.get(key)
    ]
    return ", ".join(parts)


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

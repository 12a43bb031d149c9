"""`groupnoise compare`: every method on the user's own data, under the same splits."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.methods import say_fit
from groupnoise.cli.options import DataOptions, option_of, progress_bars, reads_data

if TYPE_CHECKING:
    from groupnoise.cli.sources import Found
    from groupnoise.clicks.recall_metrics import Interval
    from groupnoise.reproduce.comparison import ComparisonOfMethods

DEFAULT_SECONDS = 600.0


@reads_data
def compare(
    data: Annotated[str, typer.Argument(help="As in `groupnoise fit`.")],
    options: DataOptions,
    methods: Annotated[
        str | None,
        typer.Option(help="Names from `groupnoise methods`, with commas.", show_default="all"),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Splits at most.", show_default="5; 1 with --protocol")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="rs: one division of the log instead of splits, each split being a further seed: "
            "leave_one_out, authors, time:0.9, time:2016-05-31:successive, cold_users."
        ),
    ] = None,
    share: Annotated[float, typer.Option(help="Share of the groups held out of a split.")] = 0.2,
    budget: Annotated[
        str, typer.Option(help="When no further fit begins: 90s, 10m, 2h, or none.")
    ] = "10m",
    seed: Annotated[int, typer.Option(min=0, help="Decides splits and fits.")] = 0,
    page: Annotated[
        Path | None, typer.Option(help="Also write a page with a picture of the intervals.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Compare all methods on your data: means, intervals, and whether one is ahead beyond chance.

    Methods are ranked by truth where the data has it, otherwise by what needs none. Every method
    is fitted at its defaults, behind the same scaling of features.

    Example: groupnoise compare bags.csv --setting mil --budget 2m
    """
    from groupnoise.cli.sources import find_data
    from groupnoise.decisions.portfolio import parse_budget
    from groupnoise.io.files import check_writable_file, write_text
    from groupnoise.reproduce.compare import compare_methods, methods_to_compare

    seconds = None if budget == "none" else parse_budget(budget, default=DEFAULT_SECONDS)
    if page is not None:
        check_writable_file(page)
    found = find_data(data, options)
    names = [name.strip() for name in methods.split(",")] if methods else []
    entries = methods_to_compare(found.setting.name, names)
    n_splits = splits or (5 if protocol is None else 1)
    with _progress(len(entries) * n_splits) as advance:
        common: dict[str, Any] = {"n_splits": n_splits, "budget": seconds, "seed": seed}
        common["on_fit"] = advance
        result: ComparisonOfMethods
        if protocol is not None:
            from groupnoise.reproduce.compare import compare_under_protocol

            result = compare_under_protocol(
                found.setting, found.dataset, entries, protocol, **common
            )
        else:
            result = compare_methods(found.setting, found.dataset, entries, share=share, **common)
    command = command_of(result.leader.name, found, options)
    if page is not None:
        from groupnoise.reproduce.report.pages import comparison_page

        write_text(page, comparison_page(result, command))
    if as_json:
        typer.echo(json.dumps({**result.as_record(), "command": command}, indent=2))
        return
    _show(result, found)
    typer.echo(command)
    if page is not None:
        typer.echo(f"page: {page}")


def command_of(method: str, found: Found, options: DataOptions) -> str:
    """Return the command that fits a method on the same data as it was compared, to copy."""
    from groupnoise.reproduce.methods import compared_parameters, find_method

    words = ["groupnoise", "fit", found.source]
    if options.setting is not None:
        words += ["--setting", options.setting]
    for name, value in options.given.items():
        if isinstance(value, bool):
            words.append("--header" if value else "--no-header")
        else:
            words += [option_of(name).split("/")[0], str(value)]
    if method != "max-matching":
        words += ["--method", method]
        entry = find_method(method, found.setting.name)
        for name, value in compared_parameters(entry).items():
            if name not in entry.fixed:
                words += ["-p", f"{name}={value}"]
    return shlex.join([*words, "-o", "runs/model"])


def _show(result: ComparisonOfMethods, found: Found) -> None:
    typer.echo(result.heading(found.setting.units))
    rows = [("method", "mean", "95 % interval", "behind the first", "splits", "seconds a fit")]
    for method in result.ranked:
        mean, behind = result.interval(method), result.behind(method)
        level = ", level" if _ends(behind) and result.is_level(method) else ""
        if result.is_too_few(method):
            level = ", too few groups to tell"
        gap = f"{behind.mean:.3f} {_ends(behind)}{level}"
        rows.append(
            (
                method.name,
                f"{mean.mean:.3f}",
                _ends(mean),
                "" if method is result.leader else gap,
                str(len(method.splits)),
                f"{method.seconds:.1f}",
            )
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    widths[0] = max(widths[0], *(len(method.name) for method in result.methods))
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    for method in result.methods:
        if method.failed is not None:
            typer.echo(f"{method.name:<{widths[0]}}  {method.failed}")
    for note in result.notes:
        typer.echo(note)
    typer.echo(f"\n{result.verdict()} To fit {result.leader.name}:")


def _ends(interval: Interval) -> str:
    return "" if math.isnan(interval.low) else f"[{interval.low:.3f}, {interval.high:.3f}]"


@contextmanager
def _progress(n_fits: int) -> Iterator[Callable[[str, int, float | None], None]]:
    """Yield what shows the fits as they end: a bar, or lines where there is no terminal."""
    bars = progress_bars("count")
    if not bars.console.is_terminal:
        yield say_fit
        return
    with bars as progress:
        task = progress.add_task("fitting", total=n_fits)

        def advance(method: str, split: int, value: float | None) -> None:
            progress.update(task, advance=1, description=f"split {split + 1}: {method}")

        yield advance

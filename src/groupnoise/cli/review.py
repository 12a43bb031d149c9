"""`groupnoise review`: a local page that shows the rows to look at first."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from groupnoise.cli.bars import counted_bars
from groupnoise.cli.options import DataOptions, reads_votes
from groupnoise.cli.resolve import note, said_of_votes

if TYPE_CHECKING:
    from groupnoise.review.questions import Questions

    Ask = Callable[[Mapping[int, str]], Questions]

Word = Optional[str]  # noqa: UP045 - typer reads this annotation at run time on 3.10


@reads_votes
def review(
    data: Annotated[str, typer.Argument(help="As in `groupnoise resolve`, or bags.")],
    options: DataOptions,
    setting: Annotated[
        Word,
        typer.Option(
            help="mil: ask which object of a bag carries its label; --label, --labels and "
            "--features are then those of `groupnoise fit`."
        ),
    ] = None,
    group: Annotated[Word, typer.Option(help="mil: column of bag ids.")] = None,
    images: Annotated[
        Word, typer.Option(help="Columns of picture paths, beside the data; found by suffix.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="mil: time that each of five models may search for parameters.")
    ] = "5s",
    answers: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="File that keeps the answers; by default DATA.answers.jsonl here."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8001,
    token: Annotated[
        Word, typer.Option(envvar="GROUPNOISE_TOKEN", help="Needed to listen beyond this machine.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides all randomness.")] = 0,
) -> None:
    """Resolve votes or candidates, then show the rows to look at first on a local page.

    Every answer is on the disk before the page goes on; started again, the desk goes on from there.
    With bags (a folder, or --setting mil) it asks which object carries the label.
    """
    from groupnoise.core.checks import check_choice, require

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="serve")
    if setting is not None:
        check_choice("--setting", setting, ("mil", "pll"))

    from groupnoise.review.desk import Desk
    from groupnoise.review.http import bind, check_access, serve

    settings = check_access(host, port, token)
    bound = bind(host, port)
    is_bags = setting == "mil" or (setting is None and (group is not None or Path(data).is_dir()))
    ask = (
        _about_bags(data, options, group, images, budget, seed)
        if is_bags
        else _about_rows(data, said_of_votes(options), images, seed)
    )
    kept = answers or Path(f"{Path(data).name}.answers.jsonl")
    desk = Desk(ask({}), kept, relearn=ask)
    done = desk.progress()
    typer.echo(f"{done['answered']} of {done['total']} answered; answers go to {kept}")
    serve(desk, settings, bound, on_ready=lambda address: typer.echo(f"listening on {address}"))
    done = desk.progress()
    typer.echo(f"{done['answered']} of {done['total']} answered, kept in {kept}")
    desk.close()
    if done["learning"]:
        # A thread in the midst of a training would abort the end of the interpreter.
        sys.stdout.flush()
        os._exit(0)


def _about_rows(data: str, said: dict[str, Any], images: str | None, seed: int) -> Ask:
    """Return what asks for the right label of rows, given the answers so far."""
    from groupnoise.audit.attachments import picture_columns, picture_paths
    from groupnoise.io.tables import Table
    from groupnoise.review.questions import RowQuestions
    from groupnoise.votes.resolution import resolve

    def ask(known: Mapping[int, str]) -> RowQuestions:
        report = None if known else note
        with counted_bars(("training",), quiet=bool(known)) as show:
            found = resolve(
                data, **said, known=known, random_state=seed, report=report, on_progress=show
            )
        table = Table(found.rows, "rows", data, str)
        columns = picture_columns(table, images)
        if not columns:
            return RowQuestions(found)
        if report is not None and images is None:
            report(f"took {', '.join(columns)} as picture paths")
        return RowQuestions(found, picture_paths(found.rows, columns, Path(data).parent))

    return ask


def _about_bags(
    data: str,
    options: DataOptions,
    group: str | None,
    images: str | None,
    budget: str,
    seed: int,
) -> Ask:
    """Return what asks for the object that carries the label of each bag."""
    from dataclasses import replace

    from groupnoise.cli.sources import find_data, is_pattern
    from groupnoise.exceptions import DataError
    from groupnoise.review.bag_questions import BagQuestions, who_carries
    from groupnoise.review.bag_views import BagViews

    columns = dict(options.columns)
    if group is not None:
        columns["group"] = group
    is_file = Path(data).exists() or is_pattern(data)
    found = find_data(data, replace(options, setting="mil" if is_file else None, columns=columns))
    if found.setting.name != "mil":
        raise DataError(f"{data} holds {found.setting.name} data; --setting mil is for bags.")
    table = None
    if found.is_file and found.dataset.source_rows is not None:
        table = found.table()
    views = BagViews.of(found.dataset, data, table, images)

    def ask(known: Mapping[int, str]) -> BagQuestions:
        carried = who_carries(
            found.dataset, known=known, budget=budget, seed=seed, report=None if known else note
        )
        return BagQuestions(found.dataset, carried, views)

    return ask

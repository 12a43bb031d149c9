"""`groupnoise review`: a local page that shows the rows to look at first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from groupnoise.cli.options import DataOptions, reads_votes
from groupnoise.cli.resolve import note, said_of_votes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupnoise.votes.resolution import Resolution


@reads_votes
def review(
    data: Annotated[str, typer.Argument(help="As in `groupnoise resolve`.")],
    options: DataOptions,
    answers: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Option(help="File that keeps the answers; by default DATA.answers.jsonl here."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8001,
    token: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Option(envvar="GROUPNOISE_TOKEN", help="Needed to listen beyond this machine."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides all randomness.")] = 0,
) -> None:
    """Resolve votes or candidates, then show the rows to look at first on a local page.

    Every answer is on the disk before the page goes on; started again, the desk goes on from there.
    """
    from groupnoise.core.checks import require

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="serve")

    from groupnoise.review.desk import Desk
    from groupnoise.review.http import serve
    from groupnoise.votes.resolution import resolve

    said = said_of_votes(options)

    def learn(known: Mapping[int, str]) -> Resolution:
        return resolve(data, **said, known=known, random_state=seed, report=None if known else note)

    kept = answers or Path(f"{Path(data).name}.answers.jsonl")
    desk = Desk(learn({}), kept, relearn=learn)
    done = desk.progress()
    typer.echo(f"{done['answered']} of {done['total']} rows answered; answers go to {kept}")
    serve(
        desk,
        host=host,
        port=port,
        token=token,
        on_ready=lambda address: typer.echo(f"listening on {address}"),
    )

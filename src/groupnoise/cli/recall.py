"""`groupnoise recall`: a file of histories in, a file of recalled items out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupnoise.cli.options import DataOptions, reads_clicks

if TYPE_CHECKING:
    from groupnoise.recall.batch import BatchProgress


@reads_clicks
def recall(
    artifact: Annotated[Path, typer.Argument(help="Folder written by `groupnoise export`.")],
    histories: Annotated[
        str,
        typer.Option(
            help="Click histories, in any form that `fit` reads: a log of clicks, or one list of "
            "items per row."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Where to write: .parquet, .csv or .jsonl.")],
    options: DataOptions,
    top: Annotated[int, typer.Option(help="Items per history.")] = 100,
    scope: Annotated[
        str | None,
        typer.Option(
            help="Score by the latest clicks (group) or by the last alone (last); by default as "
            "the model was trained."
        ),
    ] = None,
    exclude_seen: Annotated[
        bool, typer.Option(help="Leave out the items of the history itself.")
    ] = True,
    category: Annotated[
        list[str] | None, typer.Option(help="Recall only from this category; may be repeated.")
    ] = None,
    per_category: Annotated[
        int | None, typer.Option(help="At most this many items of one category.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Blocks answered at a time; one per core by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Recall items for every history of a file; a stopped run resumes with --resume."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from groupnoise.recall.artifact import open_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.options import RecallOptions

    requested = RecallOptions(
        top=top,
        scope=scope,
        exclude_seen=exclude_seen,
        categories=tuple(category or ()),
        per_category=per_category,
    )
    model = open_artifact(artifact)
    columns = ("histories", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("recall", total=None)

        def show(progress: BatchProgress) -> None:
            bar.update(task, completed=progress.n_histories, total=progress.n_total)

        done = recall_file(
            model,
            histories,
            output,
            requested,
            resume=resume,
            n_threads=threads,
            on_block=show,
            report=partial(typer.echo, err=True),
            **options.given,
        )
    rate = done.n_histories / max(done.seconds, 1e-9)
    typer.echo(
        f"{done.n_histories} histories in {done.seconds:.1f} s ({rate:.0f} a second), scored by "
        f"{model.clicks_used(scope)}; "
        f"{done.n_unknown} of {done.n_clicks} clicks unknown, "
        f"{done.n_by_popularity} histories answered by popularity; written to {output}"
    )

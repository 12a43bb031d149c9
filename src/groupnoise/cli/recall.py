"""`groupnoise recall`: a file of histories in, a file of recalled items out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.options import DataOptions, progress_bars, reads_clicks
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

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
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write: .parquet, .csv or .jsonl.")
    ],
    options: DataOptions,
    top: Annotated[
        int, typer.Option(help="Items per history; with --interests, per interest.")
    ] = 100,
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
    filter: Annotated[
        str | None,
        typer.Option(
            help="Attributes an item must have, as JSON: "
            '{"brand": ["Acme", "Bolt"], "not": {"category": "tools"}}.'
        ),
    ] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(help="Recall only ids of this text file, one per line; may be repeated."),
    ] = None,
    deny: Annotated[
        list[Path] | None,
        typer.Option(help="Recall no id of this text file, one per line; may be repeated."),
    ] = None,
    max_per: Annotated[
        list[str] | None,
        typer.Option(help="Cap for an attribute, such as brand=2; may be repeated."),
    ] = None,
    diversity: Annotated[
        float, typer.Option(help="From 0 to 1: how much unlikeness counts beside the score.")
    ] = 0.0,
    min_score: Annotated[
        float | None, typer.Option(help="Leave out matching scores below this.")
    ] = None,
    interests: Annotated[
        int | None,
        typer.Option(
            help="Answer for up to so many interests of each history, --top items for each, and "
            "name the click that stands for it."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Blocks answered at a time; one per core by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Recall items for every history of a file; a stopped run resumes with --resume."""
    from groupnoise.cli.sources import clicks_remembered
    from groupnoise.recall.artifact import log_columns, open_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.lists import read_item_list
    from groupnoise.recall.options import RecallOptions

    requested = RecallOptions(
        top=top,
        scope=scope,
        exclude_seen=exclude_seen,
        categories=tuple(category or ()),
        per_category=per_category,
        filter=_parsed(filter),
        allow_lists=tuple(map(read_item_list, allow or ())),
        deny_lists=tuple(map(read_item_list, deny or ())),
        max_per=_caps(max_per or ()),
        diversity=diversity,
        min_score=min_score,
        interests=interests,
    )
    model = open_artifact(artifact)
    with progress_bars("count", "left", quiet=quiet, transient=False) as bar:
        task = bar.add_task("histories", total=None)

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
            remembered=clicks_remembered(log_columns(model.manifest)),
            **options.given,
        )
    rate = done.n_histories / max(done.seconds, 1e-9)
    typer.echo(
        f"{counted(done.n_histories, 'histories')} in {done.seconds:.1f} s ({rate:.0f} a second), "
        f"scored by {model.clicks_used(scope)}; "
        f"{done.n_unknown} of {counted(done.n_clicks, 'clicks')} unknown, "
        f"{counted(done.n_by_popularity, 'histories')} answered by popularity; written to {output}"
    )
    if done.n_unanswered:
        reason = "what was asked for leaves none"
        if requested == RecallOptions(top=top, scope=scope, interests=interests):
            reason = "every item was seen; --no-exclude-seen recalls those again"
        typer.echo(f"{counted(done.n_unanswered, 'histories')} got no item: {reason}")


def _parsed(filter: str | None) -> Any:
    try:
        return None if filter is None else json.loads(filter)
    except ValueError as error:
        raise ParameterError(f"--filter is not JSON: {error}.") from None


def _caps(given: Iterable[str]) -> dict[str, int]:
    caps = {}
    for cap in given:
        attribute, _, most = cap.rpartition("=")
        if not attribute or not most.isdecimal():
            raise ParameterError(f"--max-per is written ATTRIBUTE=COUNT; got {cap!r}.")
        caps[attribute] = int(most)
    return caps

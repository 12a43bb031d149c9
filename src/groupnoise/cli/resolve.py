"""`groupnoise resolve`: votes or candidate labels in, one label per row out, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from groupnoise.cli.bars import counted_bars
from groupnoise.cli.options import DataOptions, reads_votes

if TYPE_CHECKING:
    from groupnoise.votes.resolution import Resolution


@reads_votes
def resolve(
    data: Annotated[str, typer.Argument(help="Table, or JSON of Label Studio or Argilla.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write .csv, .jsonl, .parquet or .xlsx.")
    ],
    options: DataOptions,
    sort: Annotated[bool, typer.Option("--sort", help="Rows to look at first come first.")] = False,
    reliability: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Option(help="Write each annotator's confusion with intervals here, as JSON."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts, each answered by the others.")] = 5,
    rounds: Annotated[int, typer.Option(help="Times votes and features judge each other.")] = 2,
    members: Annotated[int, typer.Option(help="Classifiers that are averaged.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides all randomness.")] = 0,
    checkpoint: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder for finished trainings; the same command resumes from there."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Give every row one label with a probability, and say which rows to look at first.

    Every column of DATA is kept. Labels are out of fold: no row judges itself.
    """
    from groupnoise.core.checks import check_count
    from groupnoise.io.answer_files import check_format
    from groupnoise.io.files import check_not_own_input, check_writable_file, write_json
    from groupnoise.votes.resolution import resolve as run

    check_count("--folds", folds, least=2)
    check_count("--rounds", rounds)
    check_count("--members", members)
    check_format(output)
    for path in (output, reliability):
        if path is not None:
            check_not_own_input(path, data)
            check_writable_file(path)
    with counted_bars(("training",), quiet) as show:
        found = run(
            data,
            **said_of_votes(options),
            n_folds=folds,
            n_rounds=rounds,
            n_members=members,
            random_state=seed,
            checkpoint=checkpoint,
            report=note,
            on_progress=show,
        )
    found.save(output, sort=sort)
    if reliability is not None and found.reliability is not None:
        write_json(reliability, found.reliability.as_records())
    _print_summary(found)
    typer.echo(f"{found.votes.n_rows} rows written to {output}")


def said_of_votes(options: DataOptions) -> dict[str, Any]:
    """Return what a user said about a table of votes as keywords of `groupnoise.votes.resolve`."""
    said = options.given
    if "labels" in said:
        said["labels"] = [each.strip() for each in said["labels"].split(",")]
    return said


def note(sentence: str) -> None:
    """Print what was guessed, beside the answers."""
    typer.echo(f"note: {sentence}", err=True)


def _print_summary(found: Resolution) -> None:
    """Say who can be trusted, and how many rows may be wrong."""
    import numpy as np

    if found.reliability is not None:
        known = found.reliability
        for who, name in enumerate(known.annotator_names):
            typer.echo(
                f"{name}: right in {known.accuracy[who]:.0%} "
                f"({known.accuracy_low[who]:.0%} to {known.accuracy_high[who]:.0%}) of "
                f"{known.n_votes[who]} {'vote' if known.n_votes[who] == 1 else 'votes'}"
            )
    if np.isfinite(found.alpha):
        typer.echo(f"agreement: Krippendorff's alpha {found.alpha:.3f}")
    sure = np.array([cell for cell in found.columns["probability"] if cell is not None])
    if len(sure):
        typer.echo(f"expected to be wrong: {(1 - sure).sum():.0f} of {len(sure)} labels")

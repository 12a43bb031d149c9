"""The parser and the exit codes; each command lives in a module of its own.

Command modules import their libraries inside the function that runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from groupnoise import __version__
from groupnoise.exceptions import GroupNoiseError

app = typer.Typer(
    name="groupnoise",
    help="Learn from groups whose objects are not all to be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"groupnoise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        Optional[bool],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Learn from groups whose objects are not all to be trusted."""


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    try:
        app()
    except GroupNoiseError as error:
        typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True, fg="red")
        sys.exit(130)

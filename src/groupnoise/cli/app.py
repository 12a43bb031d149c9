"""The parser and the exit codes; each command lives in a module of its own.

Command modules import their libraries inside the function that runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from groupnoise import __version__
from groupnoise.cli.artifacts import items_app, pull, push, versions_app
from groupnoise.cli.audit import audit
from groupnoise.cli.data import data_app, describe_command
from groupnoise.cli.demo import demo
from groupnoise.cli.evaluate import evaluate
from groupnoise.cli.export import export
from groupnoise.cli.fit import fit
from groupnoise.cli.heatmap import embed, heatmap, select
from groupnoise.cli.info import doctor, info
from groupnoise.cli.methods import compare, methods
from groupnoise.cli.predict import calibrate, predict
from groupnoise.cli.recall import recall, replay
from groupnoise.cli.reproduce import reproduce
from groupnoise.cli.review import resolve, review
from groupnoise.cli.serve import serve
from groupnoise.core.threads import configure_threads, is_worker
from groupnoise.exceptions import GroupNoiseError

app = typer.Typer(
    name="groupnoise",
    help="Learn from labels of groups: bags, candidate labels and click histories.",
    epilog="Start with: groupnoise data describe FILE · groupnoise fit FILE -o model · groupnoise "
    "evaluate model FILE · groupnoise predict model FILE -o answers.csv",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"groupnoise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Learn from labels of groups: bags, candidate labels and click histories."""


COMMANDS: dict[str, tuple[Callable[..., Any] | tuple[str, typer.Typer], ...]] = {
    "Train, evaluate, predict": (fit, evaluate, predict, compare, info, select, calibrate),
    "Prepare and check data": (*(("data", data_app), embed, audit, resolve, review, heatmap),),
    "Recommend next items": (
        *(export, recall, serve, ("items", items_app), ("versions", versions_app)),
        *(replay, push, pull),
    ),
    "Research and diagnostics": (demo, reproduce, methods, doctor),
}
"""Every command under the title that help shows it beneath, the first ones first."""
for title, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, tuple):
            app.add_typer(command[1], name=command[0], rich_help_panel=title)
        else:
            app.command(rich_help_panel=title)(command)
# The command most users look for; `data describe` is listed.
app.command("describe", hidden=True)(describe_command)


@cache
def _parser() -> Callable[[], Any]:
    """Return the command parser, built once since that is slow."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    configure_threads()  # before any command imports torch
    as_python_shows, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        _parser()()
    except GroupNoiseError as error:
        if is_worker():
            # All workers may fail alike; the launcher prints the error once.
            from groupnoise.training.distributed.workers import record_failure

            record_failure(error)
        else:
            typer.secho(f"error: {error}", err=True, fg="red")
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True, fg="red")
        sys.exit(130)
    finally:
        warnings.showwarning = as_python_shows


def _show_warning(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning as a sentence, without the line of code."""
    if issubclass(category, UserWarning):
        typer.echo(f"warning: {message}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)

"""Several workers on the command line: starting them, and being one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from groupnoise.distributed import is_first, is_worker, n_restarts
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.training import Workers


LAUNCHERS = ("torchrun", "ray")


def start_workers(count: int, max_restarts: int, launcher: str, *, saves: bool) -> None:
    """Run this command as several workers and exit, unless it is one of them or trains alone.

    Parameters
    ----------
    count : int
        How many workers --workers asks for.
    max_restarts : int
        How often they may be started anew.
    launcher : {"torchrun", "ray"}
        What starts them.
    saves : bool
        Whether the training saves itself, so that there is something to go on from.
    """
    from groupnoise._checks import check_choice, check_count

    check_count("--workers", count)
    check_choice("--launcher", launcher, LAUNCHERS)
    if max_restarts and not saves:
        raise ParameterError("--max-restarts needs --checkpoint, the folder to go on from.")
    if max_restarts and launcher == "ray":
        raise ParameterError("--max-restarts goes with torchrun; run Ray's job again to go on.")
    if is_worker() or (count == 1 and not max_restarts):
        return
    from groupnoise.distributed import launch, launch_on_ray

    if launcher == "ray":
        launch_on_ray("groupnoise", sys.argv[1:], workers=count)
    else:
        launch("groupnoise", sys.argv[1:], workers=count, max_restarts=max_restarts)
    raise typer.Exit


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Inside the block this process trains with the others that torchrun started, if any."""
    from groupnoise.training import OneWorker

    if not is_worker():
        yield OneWorker()
        return
    from groupnoise.distributed import TorchWorkers, process_group

    with process_group():
        if n_restarts() and is_first():
            typer.echo(f"a worker was lost; start {n_restarts() + 1} of all workers", err=True)
        yield TorchWorkers()

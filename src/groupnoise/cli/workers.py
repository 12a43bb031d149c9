"""Trainings that save themselves and share the work: `--checkpoint`, `--resume`, `--workers`."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.exceptions import ParameterError, TrainingStopped
from groupnoise.training.distributed.environment import is_first, is_worker, n_restarts

if TYPE_CHECKING:
    from groupnoise.training.checkpoints import Checkpoints
    from groupnoise.training.workers import Workers


SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_checkpoints(folder: Path | None, every: str, resume: bool) -> Checkpoints | None:
    """Return what the options --checkpoint, --checkpoint-every and --resume ask for."""
    from groupnoise.training.checkpoints import Checkpoints

    if folder is None:
        if resume:
            raise ParameterError("--resume needs --checkpoint, the folder to resume from.")
        return None
    number = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|m|h|steps?)", every)
    if number is None or (number[2].startswith("step") and "." in number[1]):
        raise ParameterError(f"--checkpoint-every takes 30s, 5m, 1h or 200steps; got {every!r}.")
    by_steps = number[2].startswith("step")
    return Checkpoints(
        folder,
        every_seconds=None if by_steps else float(number[1]) * SECONDS[number[2]],
        every_steps=int(number[1]) if by_steps else None,
        resume=resume or n_restarts() > 0,
        report=partial(typer.echo, err=True),
    )


@contextmanager
def stopping(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Inside the block signals save the training; the command to resume with is then shown."""
    from groupnoise.training.checkpoints import stop_on_signals

    if checkpoints is None:
        yield
        return
    try:
        with stop_on_signals(checkpoints):
            yield
    except TrainingStopped as stopped:
        number = stopped.signal_number or signal.SIGINT
        if is_first():
            typer.echo(f"{stopped.where}; resume with: {_command_to_resume()}", err=True)
        raise typer.Exit(128 + number) from None


def _command_to_resume() -> str:
    words = ["groupnoise", *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


LAUNCHERS = ("torchrun", "ray")
MIN_GROUPS_EACH = 1024
"""Groups of a step for each worker below which sending rows takes longer than it saves."""


def start_workers(count: int, max_restarts: int, launcher: str, *, saves: bool) -> None:
    """Run this command as several workers and exit, unless it is one of them or trains alone.

    `count`: how many workers --workers asks for. `max_restarts`: how often they may be started
    anew. `saves`: whether the training saves itself, so that there is something to resume from.
    """
    from groupnoise.core.checks import check_choice, check_count

    check_count("--workers", count)
    check_choice("--launcher", launcher, LAUNCHERS)
    if max_restarts and not saves:
        raise ParameterError("--max-restarts needs --checkpoint, the folder to resume from.")
    if max_restarts and launcher == "ray":
        raise ParameterError("--max-restarts goes with torchrun; run Ray's job again to resume.")
    if is_worker() or (count == 1 and not max_restarts):
        return
    from groupnoise.training.distributed.launcher import launch, launch_on_ray

    if launcher == "ray":
        launch_on_ray("groupnoise", sys.argv[1:], workers=count)
    else:
        launch("groupnoise", sys.argv[1:], workers=count, max_restarts=max_restarts)
    raise typer.Exit


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Inside the block this process trains with the others that torchrun started, if any."""
    from groupnoise.training.workers import OneWorker

    if not is_worker():
        yield OneWorker()
        return
    from groupnoise.training.distributed.launcher import process_group
    from groupnoise.training.distributed.workers import TorchWorkers

    with process_group():
        if n_restarts() and is_first():
            typer.echo(f"a worker was lost; start {n_restarts() + 1} of all workers", err=True)
        yield TorchWorkers()


def small_batch(estimator: Any, count: int) -> str | None:
    """Return a sentence where several workers train a recommender more slowly than one would.

    None where the batch is large enough, or what is trained sends no rows of items. `estimator`:
    not fitted yet. `count`: how many workers share its training.
    """
    from groupnoise.clicks.window_training import CLICK_VALUES, WindowTraining

    if count == 1 or not isinstance(estimator, WindowTraining):
        return None
    asked = estimator.get_params()["batch_size"]
    batch_size: int = CLICK_VALUES["batch_size"] if asked == "auto" else asked
    if batch_size >= count * MIN_GROUPS_EACH:
        return None
    return (
        f"batch_size={batch_size} is little work for {count} workers, who will be slower than one "
        f"process; -p batch_size={count * MIN_GROUPS_EACH} pays where memory or time is short."
    )

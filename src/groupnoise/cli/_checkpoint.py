"""Checkpoints on the command line: reading the options, and what is said when training stops."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from groupnoise.distributed import is_first, n_restarts
from groupnoise.exceptions import ParameterError, TrainingStopped

if TYPE_CHECKING:
    from groupnoise.training import Checkpoints

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_checkpoints(folder: Path | None, every: str, resume: bool) -> Checkpoints | None:
    """Return what the options --checkpoint, --checkpoint-every and --resume ask for."""
    from groupnoise.training import Checkpoints

    if folder is None:
        if resume:
            raise ParameterError("--resume needs --checkpoint, the folder to go on from.")
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
    """Inside the block signals save the training; the command to go on with is then shown."""
    from groupnoise.training import stop_on_signals

    if checkpoints is None:
        yield
        return
    try:
        with stop_on_signals(checkpoints):
            yield
    except TrainingStopped as stopped:
        number = stopped.signal_number or signal.SIGINT
        if is_first():
            typer.echo(f"{stopped.where}; go on with: {_command_to_resume()}", err=True)
        raise typer.Exit(128 + number) from None


def _command_to_resume() -> str:
    words = ["groupnoise", *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])

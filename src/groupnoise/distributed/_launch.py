"""Start the workers of a training on this machine: torchrun's agent, and what it says of failures.

The agent runs in this process. What it is told by signals it passes on to the workers, each of
which runs the same command and finds its place in the environment.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    get_error_handler,
)
from torch.distributed.run import parse_args, run

from groupnoise.distributed._environment import REFUSED
from groupnoise.exceptions import TrainingError


def launch(module: str, arguments: Sequence[str], *, workers: int, max_restarts: int = 0) -> None:
    """Run `python -m module arguments` as several workers on this machine and wait for them.

    Parameters
    ----------
    module : str
        What every worker runs.
    arguments : sequence of str
        Its arguments.
    workers : int
        How many processes share the training; each gets its part of the cores.
    max_restarts : int
        How often all are started anew after one was lost.

    Raises
    ------
    TrainingError
        If a worker failed, and no restart is left.
    SystemExit
        If this process was told to end by a signal, after the workers did.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    # The agent lists exit codes and advice for developers; one sentence of ours says it better.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    options = ["--standalone", f"--nproc-per-node={workers}", f"--max-restarts={max_restarts}"]
    try:
        run(parse_args([*options, "-m", module, *arguments]))
    except SignalException as stopped:
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        rank, failure = min(error.failures.items(), key=lambda each: _remoteness(each[1]))
        raise TrainingError(_sentence(rank, workers, failure)) from None


def record_failure(error: Exception) -> None:
    """Leave the sentence of an error where torchrun looks for the reason of a failure."""
    get_error_handler().record_exception(error)


def _remoteness(failure: ProcessFailure) -> int:
    """Order failures from cause to consequence.

    Whoever loses a killed worker fails too, and the agent ends with SIGTERM who is left.
    """
    if failure.exitcode == -signal.SIGTERM:
        return 2
    return 0 if failure.exitcode < 0 else 1


def _sentence(rank: int, workers: int, failure: ProcessFailure) -> str:
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        return (
            f"worker {rank} of {workers} was killed by {name}, and no restart is left; fit with "
            "--checkpoint and --max-restarts to go on by itself after a loss."
        )
    message: Any = failure.message  # declared as text, but structured where an error was recorded
    if failure.exitcode == REFUSED and isinstance(message, dict):
        _, _, sentence = message["message"].partition(": ")
        return str(sentence)
    return f"worker {rank} of {workers} ended with exit code {failure.exitcode}."

"""Scripts run by several real processes at once, as torchrun would start them, or by torchrun."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

TIMEOUT_SECONDS = 240
RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def run_workers(script: Path, *arguments: object, count: int) -> None:
    """Run a script as `count` workers that find each other by their environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    workers = [
        subprocess.Popen(
            [sys.executable, script, *map(str, arguments)],
            env={**os.environ, **place, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    errors = [worker.communicate(timeout=TIMEOUT_SECONDS)[1] for worker in workers]
    assert not any(worker.returncode for worker in workers), "\n".join(errors)


ABORT_AT_EXIT = "terminate called without an active exception"
"""What a worker says when a thread of gloo outlives the interpreter, once in some thirty runs."""


def run_torchrun(*command: object, count: int) -> None:
    """Run a command line (a script, or `-m module`, and arguments) under torchrun.

    A run that torch itself aborted at exit is repeated once: it says nothing about the training.
    """
    words = [*RUN, f"--nproc-per-node={count}", *map(str, command)]
    for _ in range(2):
        finished = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        if ABORT_AT_EXIT not in finished.stderr:
            break
    assert finished.returncode == 0, finished.stderr

"""Ray as the second launcher: it finds machines for the workers, which run the same command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from groupnoise._checks import require
from groupnoise.distributed._environment import ERROR_FILE
from groupnoise.exceptions import TrainingError


def launch_on_ray(module: str, arguments: Sequence[str], *, workers: int) -> None:
    """Run `python -m module arguments` as workers of a Ray cluster and wait for them.

    The cluster is the one that `RAY_ADDRESS` names, or one started for the purpose on this
    machine. Data, checkpoints and the model must lie where every machine reaches them.

    Parameters
    ----------
    module : str
        What every worker runs.
    arguments : sequence of str
        Its arguments.
    workers : int
        How many processes share the training; each asks for one core.

    Raises
    ------
    TrainingError
        If a worker failed.
    """
    ray = require("ray", extra="ray")
    ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=True, configure_logging=False)
    try:
        worker = ray.remote(num_cpus=1)(_Worker)
        team = [worker.remote() for _ in range(workers)]
        host, port = ray.get(team[0].address.remote())
        meeting = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(workers)}
        running = [
            each.run.remote({**meeting, "RANK": str(rank)}, module, list(arguments))
            for rank, each in enumerate(team)
        ]
        while running:
            done, running = ray.wait(running)
            # The first failure ends the training: the others would only wait for who is gone.
            for failure in filter(None, ray.get(done)):
                raise TrainingError(failure)
    except ray.exceptions.RayError as error:
        raise TrainingError(f"Ray lost a worker ({type(error).__name__}).") from None
    finally:
        ray.shutdown()


class _Worker:
    """One place in the cluster."""

    def address(self) -> tuple[str, int]:
        """Return where the other workers can meet this one."""
        with socket.socket() as free:
            free.bind(("", 0))
            return socket.gethostbyname(socket.gethostname()), free.getsockname()[1]

    def run(self, place: dict[str, str], module: str, arguments: list[str]) -> str | None:
        """Run the command in a process of its own; return why it failed, if it did."""
        with tempfile.TemporaryDirectory() as folder:
            reason = Path(folder) / "error.json"
            process = subprocess.run(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, **place, ERROR_FILE: str(reason), "OMP_NUM_THREADS": "1"},
            )
            if process.returncode == 0:
                return None
            if reason.is_file():
                recorded = json.loads(reason.read_text(encoding="utf-8"))
                return str(recorded["message"]["message"].partition(": ")[2])
            return f"worker {place['RANK']} ended with exit code {process.returncode}."

"""How long commands take to start, on the clock and of the processors.

    python benchmarks/speed/start_up.py

Every start is a process of its own; a figure is the median of some, after one that fills the
caches. Each waits for a quiet machine and is repeated where others disturbed it. A service counts
as started when it has printed its address; every byte of its artifact, random vectors of 64
dimensions, has been checked then. More time of the processors than on the clock means two cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result
from quiet import measured_quietly
from serving_batch import write_catalogue

GROUPNOISE = (sys.executable, "-m", "groupnoise")
READY = "listening on"


def start(*command: str) -> tuple[float, float]:
    """Start a command; return the seconds until it ended or listened, on the clock and worked.

    What a service works while it stops counts too, which is little.
    """
    before, started = _worked(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(READY.encode()):
                break
        seconds = time.perf_counter() - started
        if "serve" in command:
            process.terminate()
    if process.returncode not in (0, -15):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, _worked() - before


def _worked() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(task: Callable[[], tuple[float, float]], rounds: int) -> dict[str, float]:
    task()
    starts = [measured_quietly(task) for _ in range(rounds)]
    clock, worked = zip(*(each.value for each in starts), strict=True)
    return {
        "seconds": round(statistics.median(clock), 2),
        "processor_seconds": round(statistics.median(worked), 2),
        "others_took": round(max(each.disturbance for each in starts), 2),
    }


def main() -> None:
    """Time all starts and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        small, large = str(Path(name, "small")), str(Path(name, "large"))
        write_catalogue(Path(small), 1000)
        write_catalogue(Path(large), options.items)
        serve = (*GROUPNOISE, "serve", "--port", "0")
        commands = {
            "`import groupnoise`": ("", sys.executable, "-c", "import groupnoise"),
            "`groupnoise --help`": (".4 of the processors", *GROUPNOISE, "--help"),
            "`groupnoise serve`, 1000 items": ("", *serve, small),
            f"`groupnoise serve`, {options.items:_} items".replace("_", " "): ("1", *serve, large),
            "`groupnoise serve --demo`": ("4", *serve, "--demo"),
        }
        found = {}
        for task, (goal, *command) in commands.items():
            found[task] = {**measure(partial(start, *command), options.rounds), "goal": goal}
            print(json.dumps({task: found[task]}))
    write_result("start_up", {"rounds": options.rounds, "starts": found})


if __name__ == "__main__":
    main()

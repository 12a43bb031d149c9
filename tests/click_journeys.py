"""What the journeys of clicks share: a small shop, the command line, and a real service."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from typer.testing import CliRunner

from groupnoise.cli.app import app
from groupnoise.exceptions import GroupNoiseError

N_ITEMS = 40
QUICK = ("-p", "dim=6", "-p", "max_epochs=2", "-p", "encoder=null", "-p", "linear=null", "-q")


def run(*words: object) -> str:
    """Return what a command prints, in this process; raise what it refuses."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, GroupNoiseError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def shop_histories(n_users: int = 60, seed: int = 0) -> list[list[str]]:
    """Return histories of a shop with four aisles, where one click in four is a stray one."""
    rng = np.random.default_rng(seed)
    histories = []
    for user in range(n_users):
        aisle = user % 4
        inside = aisle * 10 + rng.integers(10, size=9)
        clicks = np.where(rng.random(9) < 0.25, rng.integers(N_ITEMS, size=9), inside)
        histories.append([f"item {click:02}" for click in clicks])
    # Every item is known to the model, whatever was drawn.
    histories.append([f"item {click:02}" for click in range(N_ITEMS)])
    return histories


def asked_histories() -> list[list[str]]:
    """Return histories to answer: of one click, of a window, longer, with unknown and repeats."""
    long = shop_histories(4, seed=1)
    return [
        long[0][:1],
        long[1][:3],
        long[2][:5],
        long[3],
        ["item 03", "never seen", "item 31"],
        ["item 12", "item 12", "item 25", "item 12"],
    ]


def write_log(path: Path, histories: list[list[str]]) -> Path:
    """Write histories as a log that names its columns as every command expects them."""
    lines = ["user,item,time"]
    lines += [
        f"u{user:04},{item},{time}"
        for user, history in enumerate(histories)
        for time, item in enumerate(history)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_answers(path: Path) -> dict[str, tuple[list[Any], list[float]]]:
    """Return the items and scores of each user in a .jsonl that `recall` wrote."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {str(row["user"]): (row["items"], row["scores"]) for row in rows}


@contextlib.contextmanager
def serving(artifact: Path, log: Path) -> Iterator[httpx.Client]:
    """Run `groupnoise serve` on a free port of this machine, and end it afterwards."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "groupnoise", "serve", str(artifact), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    try:
        said = process.stdout.readline().strip()
        assert said.startswith("listening on "), f"it did not start: {said} {log.read_text()}"
        with httpx.Client(base_url=said.removeprefix("listening on "), timeout=30) as client:
            yield client
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
        process.stdout.close()

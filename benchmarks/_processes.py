"""Python programs in processes of their own, whose time and peak memory are measured alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PEAK_MB = r"""
def peak_mb():  # VmHWM begins with this program; getrusage includes the process that started it
    import re
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s*(\d+)", status.read())[1]) // 1024
"""
"""Defines `peak_mb` in such a program."""


def run_python(
    code: str,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    folder: Path | str | None = None,
) -> str:
    """Run a program and return its output; a failure ends the benchmark with its traceback."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env=None if environment is None else dict(environment),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def environment_without(*prefixes: str) -> dict[str, str]:
    """Return the environment without the variables that begin with one of `prefixes`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}

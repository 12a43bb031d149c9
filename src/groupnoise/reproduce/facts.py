"""What is needed to repeat a run: the command, the versions and the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

PACKAGES = ("groupnoise", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class RunFacts:
    """How figures came about.

    Parameters
    ----------
    command : str
        What was typed.
    seeds : tuple of int
        The seeds of the trials.
    seconds : float
        How long it took, on the clock.
    day : str
        When, as year-month-day.
    versions : dict
        Version of Python and of each package that can change a figure.
    machine : str
        Kind of machine and number of cores.
    """

    command: str
    seeds: tuple[int, ...]
    seconds: float
    day: str = field(default_factory=lambda: date.today().isoformat())
    versions: dict[str, str] = field(default_factory=lambda: versions_in_use())
    machine: str = field(default_factory=lambda: _machine())


def spell_command(arguments: Sequence[str]) -> str:
    """Return `groupnoise` and its arguments as they would be typed.

    Examples
    --------
    >>> spell_command(["demo", "--output", "my runs"])
    "groupnoise demo --output 'my runs'"
    """
    return shlex.join(["groupnoise", *arguments])


def versions_in_use() -> dict[str, str]:
    """Return the version of Python and of each package that can change a figure."""
    found = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found}


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"

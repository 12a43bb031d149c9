"""Provenance of results: command, code, versions, machine and time."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import groupnoise

PACKAGES = ("groupnoise", "torch", "numpy", "scipy", "scikit-learn")
ROOMS = {"mil": "bags", "pll": "candidates", "rs": "clicks"}
SHARED = ("core", "training", "decisions")
"""Subpackages that every method depends on."""
TIMES = "reproduce/recipes/times.json"
PROTOCOL = ("jobs.py", "recipes.py", "run.py", "trials.py")
"""Modules of this subpackage that affect results."""


@dataclass(frozen=True)
class RunFacts:
    """Provenance of a report."""

    command: str
    seeds: tuple[int, ...]
    seconds: float
    day: str = field(default_factory=lambda: date.today().isoformat())
    versions: dict[str, str] = field(default_factory=lambda: versions_in_use())
    machine: str = field(
        default_factory=lambda: f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    )


def spell_command(arguments: Sequence[str]) -> str:
    """Return `groupnoise` and its arguments as they would be typed.

    >>> spell_command(["demo", "--output", "my runs"])
    "groupnoise demo --output 'my runs'"
    """
    return shlex.join(["groupnoise", *arguments])


def versions_in_use() -> dict[str, str]:
    """Return the version of Python and of each package that can affect results."""
    found = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found}


@functools.cache
def code_fingerprint(setting: str) -> str:
    """Return a hash of the code that affects the results of a setting, twelve hexadecimal digits.

    Readers, pages and commands are left out.
    """
    package = Path(groupnoise.__path__[0])
    rooms = [package / name for name in (*SHARED, ROOMS[setting])]
    paths = [path for room in rooms for path in room.rglob("*.py")]
    paths += [package / "reproduce" / name for name in PROTOCOL]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def provenance(setting: str) -> dict[str, Any]:
    """Return the provenance of a trial that just ended.

    Commit and whether files differ from it (None outside a checkout), code fingerprint, versions,
    processor, cores, threads, load of the last minute and time.
    """
    import torch

    return {
        "code": code_fingerprint(setting),
        **checkout(),
        "versions": versions_in_use(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


@functools.cache
def checkout(folder: Path = Path(groupnoise.__path__[0])) -> dict[str, Any]:
    """Return the commit of the package's own checkout, if it is one, and whether files differ.

    The table of times is left out: recording trials rewrites it.
    """
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        # A repository that merely contains the environment is not this package's.
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")
        changed = _git(folder, "status", "--porcelain", "--", ".", f":(exclude){TIMES}")
        return {"commit": commit, "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def _git(folder: Path, *words: str) -> str:
    finished = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return finished.stdout.strip()


@functools.cache
def processor_name() -> str:
    """Return the name of the processor as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

"""What torchrun tells a process about its place, read without loading torch."""

from __future__ import annotations

import os


def is_worker() -> bool:
    """Whether torchrun (or Ray) started this process as a worker."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_first() -> bool:
    """Whether this process speaks for all: the first worker, or the only one."""
    return not is_worker() or os.environ["RANK"] == "0"


def n_restarts() -> int:
    """How often torchrun has already started the workers anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

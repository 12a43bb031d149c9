"""Time measurements on a quiet machine, or marked as disturbed.

    python benchmarks/quiet.py            # how quiet is this machine now?

`measured_quietly` runs a task and looks how much processor time others took meanwhile: processes
that are neither this one nor its children, and the host (steal). A disturbed run is repeated; if
all are disturbed the least disturbed is kept, with the share that others took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

MAX_DISTURBANCE = 0.1
"""Share of one core that others may take while a figure counts as quiet."""
N_TRIES = 3
WAIT_SECONDS = 20.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class QuietFigure(Generic[Result]):
    """The result of a task, and the load of other processes meanwhile (1.0 is one core)."""

    value: Result
    disturbance: float
    n_tries: int

    @property
    def is_quiet(self) -> bool:
        """Whether others took no more than `MAX_DISTURBANCE`."""
        return self.disturbance <= MAX_DISTURBANCE

    def as_record(self) -> dict[str, Any]:
        """Return the record for a result file."""
        return {"others_took": round(self.disturbance, 3), "disturbed": not self.is_quiet}


def measured_quietly(task: Callable[[], Result]) -> QuietFigure[Result]:
    """Run a task until nothing disturbs it, a few times at most.

    Processes that it starts must have ended when it returns.
    """
    best: QuietFigure[Result] | None = None
    for number in range(1, N_TRIES + 1):
        _wait_for_quiet()
        before = _processor_seconds()
        value = task()
        found = QuietFigure(value, _taken_by_others(before), number)
        if best is None or found.disturbance < best.disturbance:
            best = found
        if found.is_quiet:
            break
    assert best is not None
    return best


def disturbance(seconds: float = 1.0) -> float:
    """Return the share of a core that others take while this process sleeps."""
    before = _processor_seconds()
    time.sleep(seconds)
    return _taken_by_others(before)


def _wait_for_quiet() -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while disturbance(0.5) > MAX_DISTURBANCE and time.monotonic() < deadline:
        pass


def _processor_seconds() -> tuple[float, float, float]:
    """Return clock, processor seconds of everybody with steal, and of this process and children."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(float, fields[:8])
    everybody = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return time.monotonic(), everybody, sum(os.times()[:4])


def _taken_by_others(before: tuple[float, float, float]) -> float:
    now = _processor_seconds()
    clock, everybody, own = (end - start for end, start in zip(now, before, strict=True))
    return max(0.0, everybody - own) / max(clock, 1e-9)


if __name__ == "__main__":
    taken = disturbance(3.0)
    print(f"others take {taken:.2f} of a core: {'quiet' if taken <= MAX_DISTURBANCE else 'busy'}")

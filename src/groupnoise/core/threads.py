"""Number of threads and workers, and a warning about steps that become slow."""

from __future__ import annotations

import math
import os
import statistics
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from groupnoise.core.words import counted

CGROUP = Path("/sys/fs/cgroup")
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
"""Idle threads sleep. Spinning ones starve each other as soon as a core has other work: a step of
5 ms then takes half a second."""

MIN_PARALLEL_WORK = 100_000_000
"""Multiplications of a training step from which a second thread earns its waking: threads that
sleep are woken tens of times in a step, and a small step is over before they work."""

MAX_ROWS_OF_THREAD = 5_000
"""Rows up to which one thread solves a system of equations in numpy or scipy: threads of OpenBLAS
spin while they wait. On busy cores a factor of 5000 rows took one thread a second of a processor
and two threads three to eight; of 8000 rows both were level by the clock."""

SLEEPING = "threads sleep while they wait"


@dataclass(frozen=True)
class ThreadChoice:
    """How many threads were chosen, and why.

    `n_threads`: threads that torch and the linear algebra libraries use.
    `is_passive`: whether idle threads sleep instead of spinning.
    `reason`: a sentence for people.
    """

    n_threads: int
    is_passive: bool
    reason: str


def available_cores() -> int:
    """Return how many cores this process may really use: affinity and the quota of its cgroup."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """Return the cores that the cgroup of this process grants, None if it sets no limit."""
    try:
        granted, period = (CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            granted = (CGROUP / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (CGROUP / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        quota = float(granted) / float(period)
    except (ValueError, ZeroDivisionError):  # "max": no limit
        return None
    return quota if quota > 0 else None


def configure_threads() -> ThreadChoice:
    """Choose threads for busy machines; call it before torch is imported, as the commands do.

    What `OMP_NUM_THREADS`, `OMP_WAIT_POLICY` or `GOMP_SPINCOUNT` already say is left alone. The
    load of the machine does not change the number, which would change the last digits of results;
    threads that sleep while they wait lose little on busy cores. Those of OpenBLAS, which numpy and
    scipy multiply and solve with, cannot sleep: there one thread works, and more only where a fit
    solves a large system. `OPENBLAS_NUM_THREADS` is left alone too.

    Returns
    -------
    ThreadChoice
        What is in force now, and why.

    Examples
    --------
    >>> from groupnoise import configure_threads
    >>> configure_threads().n_threads >= 1
    True
    """
    global _is_chosen_here, _is_one_for_arrays
    said = os.environ.get("OMP_NUM_THREADS", "")
    given = said.partition(",")[0].strip()  # a list has a number for each level of nesting
    asked = not _is_chosen_here and given.isdigit() and int(given) > 0
    _is_chosen_here = not asked
    if not asked and "OPENBLAS_NUM_THREADS" not in os.environ:
        _is_one_for_arrays = True
    threads = int(given) if asked else available_cores()
    source = f"{counted(threads, 'cores')} available to this process"
    if asked:
        source = f"OMP_NUM_THREADS={said}"
    if _is_one_for_arrays:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        source += ", one for arrays of numpy"
        if "numpy" in sys.modules:  # it has read its environment
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            threadpool_limits(1, user_api="blas")
    if "torch" in sys.modules:
        import torch

        if not asked:
            torch.set_num_threads(threads)
        if _is_passive():
            return ThreadChoice(torch.get_num_threads(), True, f"{source}; {SLEEPING}")
        late = (
            "threads spin while they wait, because torch was imported first: call "
            "configure_threads() before it, or set OMP_WAIT_POLICY=PASSIVE"
        )
        return ThreadChoice(torch.get_num_threads(), False, f"{source}; {late}")
    if not asked:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if not any(name in os.environ for name in WAITING):
        os.environ.update(WAITING)
    waiting = SLEEPING if _is_passive() else "threads wait as the environment says"
    return ThreadChoice(threads, _is_passive(), f"{source}; {waiting}")


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Make small training steps on one thread inside the block, if the number was chosen here.

    By the size of the work and not by the clock, so that the same fit is the same to the last
    digit. Threads that spin, or whose number the user has set, are left alone.

    `work`: multiplications of one step forward: rows of a batch times parameters they meet.
    """
    import torch

    before = torch.get_num_threads()
    is_small = work < MIN_PARALLEL_WORK and before > 1
    if not (is_small and _is_chosen_here and _is_passive()):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_to_solve(n_rows: int) -> Iterator[None]:
    """Solve systems of up to `MAX_ROWS_OF_THREAD` equations by one thread inside the block.

    Larger ones by as many as there are cores if the number was chosen here, else by those in force.
    """
    from threadpoolctl import threadpool_limits

    n_threads: int | None = 1
    if n_rows > MAX_ROWS_OF_THREAD:
        n_threads = available_cores() if _is_one_for_arrays else None
    with threadpool_limits(n_threads, user_api="blas"):
        yield


@contextmanager
def thread_pool(n_threads: int) -> Iterator[Executor | None]:
    """Yield threads whose operations, as those of the block, run on one thread each.

    None where one thread is enough.
    """
    if n_threads == 1:
        yield None
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(n_threads, "step", torch.set_num_threads, (1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


_is_chosen_here = False
"""Whether `configure_threads` chose the number in force, and not the user."""

_is_one_for_arrays = False
"""Whether `configure_threads` left one thread to OpenBLAS."""


def _is_passive() -> bool:
    policy = os.environ.get("OMP_WAIT_POLICY", "").upper()
    return policy == "PASSIVE" or os.environ.get("GOMP_SPINCOUNT") == "0"


@dataclass
class StepWatch:
    """Warns once when steps become far slower than the first ones were.

    `factor`: how many times slower is worth a warning.
    `n_steps`: how many steps are compared, first and last.
    `min_seconds`: steps faster than this are never warned of: they are all overhead.
    """

    factor: float = 10.0
    n_steps: int = 20
    min_seconds: float = 0.02
    _first: list[float] = field(default_factory=list)
    _last: list[float] = field(default_factory=list)
    _has_warned: bool = False

    def add(self, seconds: float) -> None:
        """Take the time of one more step."""
        if self._has_warned:
            return
        times = self._first if len(self._first) < self.n_steps else self._last
        times.append(seconds)
        if len(self._last) < self.n_steps:
            return
        before, now = statistics.median(self._first), statistics.median(self._last)
        self._last.clear()
        is_slow = now > max(self.factor * before, self.min_seconds)
        if is_slow and sys.modules["torch"].get_num_threads() > 1:  # one thread waits for nobody
            self._has_warned = True
            warnings.warn(
                f"training steps take {now / before:.0f} times as long as at the start "
                f"({1e3 * now:.0f} ms): other work uses the cores, and torch's threads wait for "
                "each other. Call groupnoise.configure_threads() before importing torch, or set "
                "OMP_NUM_THREADS=1.",
                RuntimeWarning,
                stacklevel=2,
            )


def is_worker() -> bool:
    """Whether torchrun (or Ray) started this process as a worker."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_first() -> bool:
    """Whether this process speaks for all: the first worker, or the only one."""
    return not is_worker() or os.environ["RANK"] == "0"


def n_restarts() -> int:
    """How often torchrun has already started the workers anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

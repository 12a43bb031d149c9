"""Peak memory of a piece of work, above the memory in use before."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def extra_megabytes(work: Callable[[], object]) -> float:
    """Run `work` and return how many megabytes above its start resident memory peaked (Linux)."""
    gc.collect()
    # What was freed but kept for later would hide what the work needs.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    # Writing 5 sets the kernel's record of the peak back to what is resident now.
    CLEAR.write_text("5", encoding="ascii")
    before = _resident_peak()
    work()
    return round(_resident_peak() - before, 1)


def _resident_peak() -> float:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

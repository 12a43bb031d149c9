"""Memory that a training frees is kept for its next step, instead of going back to the system."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Names of glibc's parameters in `mallopt`."""
KEEP_ALL = 2**31 - 1
USUAL_MMAPS = 65536
LARGE = 32 << 20
"""Bytes from which glibc takes a block from the system and gives it back, at the most."""

_lock = threading.Lock()
_n_inside = 0


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let large tensors reuse the memory of those before them inside the block.

    glibc returns a large block to the system as soon as it is freed. The next tensor of that size
    gets new pages, which the system fills with zeros one page fault at a time: a third of the
    processor time of a training whose scores cover a whole catalogue. At the end of the block
    what is free is given back. Without glibc nothing happens.

    Examples
    --------
    >>> from groupnoise.core.allocator import keeping_freed_memory
    >>> with keeping_freed_memory():
    ...     pass  # steps
    """
    global _n_inside
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _n_inside += 1
        if _n_inside == 1:
            library.mallopt(MMAP_MAX, 0)
            library.mallopt(TRIM_THRESHOLD, KEEP_ALL)
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                # What glibc sets by itself after the first large block.
                library.mallopt(MMAP_MAX, USUAL_MMAPS)
                library.mallopt(MMAP_THRESHOLD, LARGE)
                library.mallopt(TRIM_THRESHOLD, 2 * LARGE)
                library.malloc_trim(0)


@cache
def _glibc() -> Any:
    """Return the C library if it is glibc, None elsewhere."""
    try:
        library = ctypes.CDLL(None)
        return library if library.gnu_get_libc_version and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None

"""Devices of trainings, and an allocator setting that reuses freed memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import nn

from groupnoise.exceptions import ParameterError

CPU = torch.device("cpu")
KINDS = ("cpu", "cuda", "mps")

_current: ContextVar[torch.device] = ContextVar("device", default=CPU)
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Names of glibc's parameters in `mallopt`."""
KEEP_ALL = 2**31 - 1
USUAL_MMAPS = 65536
LARGE = 32 << 20
"""Bytes from which glibc takes a block from the system and gives it back, at the most."""


def available_devices() -> list[str]:
    """Return the devices of this machine that a training can run on, the CPU first."""
    found = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return [*found, "mps"] if torch.backends.mps.is_available() else found


def find_device(name: str, *, n_workers: int = 1) -> torch.device:
    """Return the device that a parameter names, or say which ones are there.

    "auto" takes the first CUDA device, or else the CPU. `n_workers`: processes that share the
    training, which they do on the CPU.

    >>> find_device("cpu")
    device(type='cpu')
    """
    there = available_devices()
    if name == "auto":
        # Apple's devices lack sparse gradients and double precision: only on request.
        taken = next((each for each in there if each.startswith("cuda")), "cpu")
        return torch.device(taken if n_workers == 1 else "cpu")
    listing = ", ".join(there)
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in KINDS:
        raise ParameterError(
            f"device must be 'auto', 'cpu', 'cuda', 'cuda:0' or the like, or 'mps'; got {name!r}. "
            f"This machine has {listing}."
        )
    named = f"cuda:{device.index or 0}" if device.type == "cuda" else device.type
    if named not in there:
        raise ParameterError(f"device={name!r} is not on this machine, which has {listing}.")
    if n_workers > 1 and device.type != "cpu":
        raise ParameterError(
            f"device={name!r} trains in one process; {n_workers} workers share a training on the "
            "CPU, so leave out device or the workers."
        )
    return torch.device(named)


@contextmanager
def training_on(name: str) -> Iterator[None]:
    """Set the device on which the models of a search are trained inside the block."""
    token = _current.set(find_device(name))
    try:
        yield
    finally:
        _current.reset(token)


def current_device() -> torch.device:
    """Return the device set by :func:`training_on`, the CPU by default."""
    return _current.get()


@contextmanager
def evaluating_on_cpu(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Move a network to the CPU inside the block, for predictions during training."""
    network.to(CPU)
    try:
        yield
    finally:
        network.to(device)


_lock = threading.Lock()
_n_inside = 0


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Keep freed memory for later tensors inside the block.

    glibc returns large blocks to the system as soon as they are freed, and the next tensor causes
    page faults again: a third of the processor time of a training that scores a whole catalogue.
    Free memory is returned at the end of the block. Without glibc nothing happens.
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

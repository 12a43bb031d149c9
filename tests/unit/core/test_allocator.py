"""Freed memory is kept between steps, and given back after them."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from groupnoise.core.device import keeping_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.empty(1 << 23).fill_(1.0)  # 32 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

faults()
outside = faults()
with keeping_freed_memory():
    with keeping_freed_memory():
        faults()
    inside, held = faults(), resident()
print(outside, inside, held - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the parameters")
def test_large_tensors_reuse_their_memory_inside_and_none_is_held_after():
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    outside, inside, given_back = map(int, done.stdout.split())
    # 32 MB have 8192 pages; a kernel that takes idle ones back may cost one round of eight.
    assert inside < max(1000, outside / 4)
    assert given_back > 25


def test_nothing_happens_without_glibc(monkeypatch):
    from groupnoise.core import device

    monkeypatch.setattr(device, "_glibc", lambda: None)
    with device.keeping_freed_memory():
        pass

"""Threads on machines that are shared: what is chosen, what is left alone, what is warned of."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch

from groupnoise.core import threads
from groupnoise.core.threads import StepWatch, available_cores

SHOW = """
import os
from groupnoise import configure_threads
choice = configure_threads()
from groupnoise.core.threads import threads_for
import torch
with threads_for(1e3): small = torch.get_num_threads()
with threads_for(1e12): large = torch.get_num_threads()
print(torch.get_num_threads(), os.environ.get("OMP_WAIT_POLICY"), choice.is_passive, small, large)
"""
SOLVE = """
import sys
from groupnoise import configure_threads
if "torch first" in sys.argv: import torch
if "numpy first" in sys.argv: import numpy
assert ("one for arrays" in configure_threads().reason) == ("left alone" not in sys.argv)
import scipy.linalg
from threadpoolctl import threadpool_info
from groupnoise.core.threads import MAX_ROWS_OF_THREAD, threads_to_solve
def now(): return max(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
found = [now()]
for n_rows in (MAX_ROWS_OF_THREAD, MAX_ROWS_OF_THREAD + 1):
    with threads_to_solve(n_rows): found.append(now())
print(*found, now())
"""
CORES = str(available_cores())


def chosen(*words, code=SHOW, **environment):
    mine = ("OMP_", "GOMP_", "OPENBLAS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_torch_gets_the_cores_of_this_process_and_idle_threads_sleep_and_small_steps_wake_none():
    assert chosen() == [CORES, "PASSIVE", "True", "1", CORES]


def test_what_the_user_set_is_left_alone():
    given = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "ACTIVE"}
    assert chosen(**given) == ["2", "ACTIVE", "False", "2", "2"]
    assert chosen(GOMP_SPINCOUNT="9")[-2:] == [CORES, CORES]
    nested = {"OMP_NUM_THREADS": "1,1", "OMP_MAX_ACTIVE_LEVELS": "2"}
    assert chosen(**nested) == ["1", "PASSIVE", "True", "1", "1"]


def test_arrays_are_multiplied_and_solved_by_one_thread_and_large_systems_by_all():
    assert chosen(code=SOLVE) == ["1", "1", CORES, "1"]
    for before in ("numpy first", "torch first"):
        assert chosen(before, code=SOLVE) == ["1", "1", CORES, "1"]


def test_threads_for_arrays_that_the_user_set_are_left_alone_but_few_rows_take_one():
    assert chosen("left alone", code=SOLVE, OMP_NUM_THREADS="2") == ["2", "1", "2", "2"]
    assert chosen("left alone", code=SOLVE, OPENBLAS_NUM_THREADS="2") == ["2", "1", "2", "2"]
    assert chosen("left alone", code=SOLVE, OPENBLAS_NUM_THREADS="1") == ["1", "1", "1", "1"]


@pytest.mark.parametrize(
    ("granted", "cores"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("nonsense", 8)],
)
def test_the_quota_of_a_container_counts(tmp_path, monkeypatch, granted, cores):
    (tmp_path / "cpu.max").write_text(granted)
    monkeypatch.setattr(threads, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert available_cores() == cores


def test_a_late_call_says_that_threads_spin(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    choice = threads.configure_threads()  # torch is loaded here
    assert not choice.is_passive
    assert "before it" in choice.reason


def test_steps_that_become_far_slower_are_warned_of_once(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    watch = StepWatch(n_steps=3)
    for seconds in (0.005, 0.005, 0.005, 0.450, 0.450):
        watch.add(seconds)
    with pytest.warns(RuntimeWarning, match="90 times as long as at the start"):
        watch.add(0.450)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            watch.add(0.450)


def test_even_steps_and_tiny_ones_are_not_warned_of(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    even, tiny = StepWatch(n_steps=2), StepWatch(n_steps=2)
    for _ in range(20):
        even.add(0.5)
    for seconds in (0.0001, 0.0001, 0.005, 0.005):
        tiny.add(seconds)


@pytest.mark.slow
def test_doctor_says_what_was_chosen_and_why():
    done = subprocess.run(
        [sys.executable, "-m", "groupnoise", "doctor"], capture_output=True, text=True
    )
    assert "threads " in done.stdout
    assert "wait" in done.stdout

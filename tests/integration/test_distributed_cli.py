"""`groupnoise fit --workers`: real processes, one of which is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from groupnoise import MaxMatchingRecommender
from worker_processes import run_torchrun

TIMEOUT_SECONDS = 240
FIT = [sys.executable, "-m", "groupnoise", "fit", "shop", "-q", "--validation", "0"]
SMALL = ["-p", "dim=8", "-p", "max_epochs=3", "-p", "init=random"]


def start(*arguments):
    return subprocess.Popen(
        [*FIT, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def finish(process):
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    return process.returncode, output, errors


def children_of(process):
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def weights_digest(folder):
    return MaxMatchingRecommender.load(folder).item_vectors()


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc"
)


@pytest.mark.slow
@needs_proc
def test_training_goes_on_after_a_worker_is_killed(tmp_path):
    saves = tmp_path / "saves"
    process = start(
        *("-o", tmp_path / "model", "--workers", 2, "--max-restarts", 1),
        *("--checkpoint", saves, "--checkpoint-every", "3steps", *SMALL, "-p", "batch_size=1000"),
    )
    wait_until(lambda: any(saves.glob("checkpoint-*")))
    os.kill(children_of(process)[1], signal.SIGKILL)
    code, output, errors = finish(process)
    assert code == 0, errors
    assert "a worker was lost" in errors
    assert "saved to" in output
    ids, _ = MaxMatchingRecommender.load(tmp_path / "model").recommend([[1, 2]], top=3)
    assert ids.shape == (1, 3)
    assert not saves.exists()


@needs_proc
@pytest.mark.nightly
def test_a_killed_training_ends_with_the_weights_of_an_undisturbed_one(tmp_path):
    common = ("--workers", 2, "--checkpoint-every", "3steps", *SMALL, "-p", "batch_size=1000")
    code, _, errors = finish(
        start("-o", tmp_path / "calm", "--checkpoint", tmp_path / "calm-saves", *common)
    )
    assert code == 0, errors
    saves = tmp_path / "saves"
    process = start("-o", tmp_path / "killed", "--checkpoint", saves, "--max-restarts", 3, *common)
    for number in (2, 4):
        wait_until(lambda number=number: (saves / f"checkpoint-{number:06}").is_dir())
        os.kill(children_of(process)[0], signal.SIGKILL)
    code, _, errors = finish(process)
    assert code == 0, errors
    for killed, calm in zip(
        weights_digest(tmp_path / "killed"), weights_digest(tmp_path / "calm"), strict=True
    ):
        np.testing.assert_array_equal(killed, calm)


@needs_proc
@pytest.mark.nightly
def test_a_lost_worker_without_restarts_is_named_in_one_sentence(tmp_path):
    process = start("-o", tmp_path / "model", "--workers", 2, "-p", "max_epochs=1000")
    wait_until(lambda: len(children_of(process)) == 2)
    time.sleep(5)
    os.kill(children_of(process)[1], signal.SIGKILL)
    code, _, errors = finish(process)
    assert code == 2
    assert errors.startswith("error: worker 1 of 2 was killed by SIGKILL")
    assert len(errors.splitlines()) == 1


@needs_proc
@pytest.mark.nightly
def test_sigterm_saves_and_says_how_to_go_on(tmp_path):
    saves = tmp_path / "saves"
    process = start(
        *("-o", tmp_path / "model", "--workers", 2, "-p", "max_epochs=1000"),
        *("--checkpoint", saves, "--checkpoint-every", "5steps"),
    )
    wait_until(lambda: any(saves.glob("checkpoint-*")))
    process.send_signal(signal.SIGTERM)
    code, _, errors = finish(process)
    assert code == 128 + signal.SIGTERM
    assert errors.count("resume with: groupnoise fit shop") == 1
    assert "--resume" in errors


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-p", "max_epoch=2"], "did you mean 'max_epochs'?"),
        (["--method", "popularity"], "--workers goes with max-matching"),
        (["--max-restarts", "2"], "--max-restarts needs --checkpoint"),
    ],
)
def test_what_all_workers_refuse_is_said_once(tmp_path, arguments, sentence):
    code, _, errors = finish(start("-o", tmp_path / "model", "--workers", 2, *arguments))
    assert code == 2
    assert errors.startswith("error: ")
    assert errors.count(sentence) == 1
    assert len(errors.splitlines()) == 1


@pytest.mark.nightly
def test_torchrun_runs_the_same_training(tmp_path):
    code, _, errors = finish(start("-o", tmp_path / "ours", "--workers", 2, *SMALL))
    assert code == 0, errors
    run_torchrun(*FIT[1:], "-o", tmp_path / "theirs", *SMALL, count=2)
    for ours, theirs in zip(
        weights_digest(tmp_path / "ours"), weights_digest(tmp_path / "theirs"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)

"""Training survives what happens to processes: kill -9, signals, full disks, damaged files."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest

from groupnoise.training import Checkpoints
from groupnoise.training.checkpoints import next_number
from training_processes import SETTINGS, command_line, exit_code, fit_and_save, start

KILLS = 7
"""For each of three settings: 21 in all."""

FIT = ["fit", "digit-candidates", "-q", "--paper", "-p", "n_members=2"]
EVERY_STEP = ["--checkpoint-every", "1step"]


def n_saved(folder):
    """Return the numbers of the newest saves, added up over members."""
    saves = [Checkpoints(folder), *map(Checkpoints, folder.glob("member-*"))]
    return sum(next_number(part) - 1 for part in saves)


def wait_for_saves(process, folder, n_more):
    """Return when a process has saved some more times, or ended."""
    before = n_saved(folder)
    while process.is_alive() and n_saved(folder) < before + n_more:
        time.sleep(0.002)


def weights(model_folder):
    (path,) = model_folder.glob("weights-*.safetensors")
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_killed_at_random_moments_training_ends_with_the_same_bits(setting, tmp_path):
    alone = start(fit_and_save, setting, tmp_path / "alone")
    moments = np.random.default_rng()
    for _ in range(KILLS):
        process = start(fit_and_save, setting, tmp_path / "killed", tmp_path / "saves", True)
        wait_for_saves(process, tmp_path / "saves", moments.integers(5))
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        assert exit_code(process) == -signal.SIGKILL
    last = start(fit_and_save, setting, tmp_path / "killed", tmp_path / "saves", True)
    assert exit_code(last) == 0
    assert exit_code(alone) == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "alone")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The weights of the command below when nothing happens to it."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    process = start(command_line, [*FIT, "-o", folder / "model", "-p", "max_epochs=3"], os.devnull)
    assert exit_code(process) == 0
    return weights(folder / "model")


class Command:
    """`groupnoise fit` with checkpoints in a folder of the test."""

    def __init__(self, folder):
        self.saves, self.model, self.said = (folder / n for n in ("saves", "model", "said.txt"))
        self.words = [*FIT, "-o", self.model, "-p", "max_epochs=3", "--checkpoint", self.saves]

    def start(self, *more, largest_file=None):
        return start(command_line, [*self.words, *more], self.said, largest_file)

    def run(self, *more, **limits):
        code = exit_code(self.start(*more, **limits))
        return code, self.said.read_text()

    def interrupt(self, signal_number, after=3):
        process = self.start(*EVERY_STEP)
        wait_for_saves(process, self.saves, after)
        os.kill(process.pid, signal_number)
        return exit_code(process), self.said.read_text()

    def newest(self):
        return Checkpoints(self.saves / "member-1").saves()[-1]


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_says_the_command_to_go_on_with(command, uninterrupted, number, code):
    stopped, said = command.interrupt(number)
    assert stopped == code
    assert said.count("\n") == 1
    assert f"saved in {command.newest()}; resume with: groupnoise fit digit-candidates" in said
    assert said.strip().endswith("--resume")
    assert command.run("--resume") == (0, "")
    assert weights(command.model) == uninterrupted
    assert not command.saves.exists()  # the model is saved, so the checkpoints have served


@pytest.mark.slow
def test_a_limit_on_files_ends_with_a_sentence_and_the_last_good_save(command, uninterrupted):
    command.interrupt(signal.SIGKILL)
    good = command.newest()
    code, said = command.run("--resume", *EVERY_STEP, largest_file=1000)
    assert code == 2
    assert "there is no space left to write" in said
    assert f"The last good one, {good}, is untouched." in said
    assert command.newest() == good
    assert command.run("--resume") == (0, "")
    assert weights(command.model) == uninterrupted


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 128 kB, which holds one save of the command below and not two."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_ends_with_a_sentence_and_the_last_good_save(tmp_path, small_disk):
    command = Command(tmp_path)
    command.saves = small_disk / "saves"
    command.words[-1] = command.saves
    code, said = command.run(*EVERY_STEP)
    assert code == 2
    assert "there is no space left to write" in said
    assert said.count("\n") == 1
    saved = Checkpoints(command.saves / "member-1").saves()
    assert saved
    assert str(saved[-1]) in said
    assert sorted(p.name for p in saved[-1].parent.iterdir()) == [p.name for p in saved]


def test_a_truncated_save_is_passed_over_with_a_sentence(command, uninterrupted):
    command.interrupt(signal.SIGKILL, after=4)
    (path,) = command.newest().glob("worker-0/weights-*")
    path.write_bytes(path.read_bytes()[:100])
    code, said = command.run("--resume")
    assert code == 0
    assert "is passed over, an older checkpoint is used" in said
    assert weights(command.model) == uninterrupted


def test_another_training_is_refused_in_one_sentence(command):
    command.interrupt(signal.SIGKILL)
    before = command.newest()
    for words, named in (
        (["-p", "learning_rate=0.5"], "was saved with learning_rate 0.01, but now it is 0.5"),
        (["--seed", "1"], "was saved with random_state 0, but now it is 1"),
        (["--validation", "0.2"], "n_ids 1617, but now it is 1438"),
    ):
        code, said = command.run("--resume", *words)
        assert code == 2
        assert named in said
        assert said.count("\n") == 1
        assert command.newest() == before

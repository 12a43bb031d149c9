"""Two processes never train into one checkpoint folder, and a killed one leaves it free."""

import os
import signal

import pytest

from groupnoise.training import folder_lock as _folder_lock
from training_processes import (
    PROCESSES,
    command_line,
    exit_code,
    fit_and_save,
    hold_folder,
    start,
)

pytestmark = pytest.mark.skipif(not _folder_lock.HAS_LOCKS, reason="needs the locks of POSIX")

FIT = ["fit", "digit-candidates", "-q", "-p", "hidden=[8]", "-p", "max_epochs=2"]


@pytest.fixture
def holder(tmp_path):
    is_held = PROCESSES.Event()
    process = start(hold_folder, tmp_path / "saves", is_held)
    assert is_held.wait(timeout=60)
    yield process
    process.kill()
    process.join()


@pytest.mark.slow
@pytest.mark.parametrize("n_members", [1, 2])
def test_the_second_is_refused_in_one_sentence_and_goes_on_once_the_first_is_killed(
    holder, tmp_path, n_members
):
    saves, model, said = (tmp_path / name for name in ("saves", "model", "said.txt"))
    words = [*FIT, "-o", model, "-p", f"n_members={n_members}", "--checkpoint", saves, "--resume"]
    assert exit_code(start(command_line, words, said)) == 2
    assert said.read_text().count("\n") == 1
    assert f"another training saves itself in {saves}; wait" in said.read_text()
    assert not model.exists()

    os.kill(holder.pid, signal.SIGKILL)  # not awaited: the next one waits for the lock by itself
    assert exit_code(start(command_line, words, said)) == 0
    assert model.is_dir()
    assert not saves.exists()


def test_of_two_started_together_one_ends_and_the_other_is_refused_or_resumes(tmp_path):
    both = [
        start(fit_and_save, "partial labels", tmp_path / name, tmp_path / "saves", True)
        for name in ("first", "second")
    ]
    codes = sorted(exit_code(process) for process in both)
    assert codes in ([0, 0], [0, 1])
    assert sorted(path.name for path in (tmp_path / "saves").iterdir()) == ["member-1", "member-2"]

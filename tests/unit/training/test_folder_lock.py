"""The lock on a checkpoint folder: one training at a time, and no trace of it afterwards."""

import errno
import os

import pytest

from groupnoise.exceptions import CheckpointError
from groupnoise.training import Checkpoints, folder_lock as _folder_lock
from groupnoise.training.folder_lock import LOCK_FILE, FolderLock
from groupnoise.training.saver import exclusive_training
from groupnoise.training.workers import Workers

pytestmark = pytest.mark.skipif(not _folder_lock.HAS_LOCKS, reason="needs the locks of POSIX")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(_folder_lock, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(_folder_lock, "PAUSE_SECONDS", 0.001)


class SecondWorker(Workers):
    rank = 1


@pytest.fixture
def saves(tmp_path):
    return tmp_path / "saves"


def test_a_second_training_is_refused_with_the_folder_and_the_remedy(saves):
    with (
        Checkpoints(saves).held(),
        pytest.raises(CheckpointError, match=f"saves itself in {saves}; wait .* or give"),
        Checkpoints(saves).held(),
    ):
        pass
    with Checkpoints(saves).held():
        pass


def test_members_share_the_lock_of_the_whole(saves):
    with Checkpoints(saves).member(1).held():
        with pytest.raises(CheckpointError, match="another training"), Checkpoints(saves).held():
            pass
        with (
            pytest.raises(CheckpointError, match="another training"),
            Checkpoints(saves).member(2).held(),
        ):
            pass


def test_blocks_of_the_same_training_may_be_nested(saves):
    whole = Checkpoints(saves)
    with whole.held():
        for number in (1, 2):
            with whole.member(number).held():
                pass
        with pytest.raises(CheckpointError), Checkpoints(saves).held():
            pass  # the end of an inner block frees nothing


def test_only_the_first_worker_holds_the_folder(saves):
    with (
        exclusive_training(Checkpoints(saves), Workers()),
        exclusive_training(Checkpoints(saves), SecondWorker()),
        exclusive_training(None, Workers()),
    ):
        assert [path.name for path in saves.iterdir()] == [LOCK_FILE]


def test_an_error_frees_the_folder_and_nothing_is_left_of_it(saves):
    with pytest.raises(KeyboardInterrupt), Checkpoints(saves).held():
        raise KeyboardInterrupt
    assert not saves.exists()


def test_a_folder_that_was_there_before_stays(saves):
    saves.mkdir()
    with Checkpoints(saves).held():
        pass
    assert list(saves.iterdir()) == []


@pytest.mark.parametrize("is_held", [True, False])
def test_clearing_removes_the_folder_with_its_lock(saves, is_held):
    checkpoints = Checkpoints(saves)
    saves.mkdir()
    checkpoints.member(1).folder.mkdir()
    if is_held:
        with checkpoints.held():
            checkpoints.clear()
    else:
        checkpoints.clear()
    assert not saves.exists()


def test_clearing_refuses_a_folder_that_is_trained_into(saves):
    with Checkpoints(saves).held():
        (saves / "checkpoint-000001").mkdir()
        with pytest.raises(CheckpointError, match="another training"):
            Checkpoints(saves).clear()
        assert (saves / "checkpoint-000001").is_dir()


def test_clearing_nothing_makes_nothing(saves):
    Checkpoints(saves).clear()
    assert not saves.exists()


def test_a_file_that_a_killed_process_left_is_no_lock(saves):
    saves.mkdir()
    (saves / LOCK_FILE).touch()
    with Checkpoints(saves).held():
        pass
    assert list(saves.iterdir()) == []


def test_a_lock_on_a_file_that_was_removed_meanwhile_counts_for_nothing(saves, monkeypatch):
    lock, other, take = FolderLock(saves), FolderLock(saves), _folder_lock.fcntl.flock

    def remove_then_take(descriptor, how):
        monkeypatch.setattr(_folder_lock.fcntl, "flock", take)
        (saves / LOCK_FILE).unlink()
        other.acquire()
        take(descriptor, how)

    monkeypatch.setattr(_folder_lock.fcntl, "flock", remove_then_take)
    with pytest.raises(CheckpointError, match="another training"):
        lock.acquire()
    other.release()
    lock.acquire()
    lock.release()
    assert not saves.exists()


def failing_with(number):
    def fail(*arguments, **keywords):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks_is_trained_on_without(saves, monkeypatch, number):
    monkeypatch.setattr(_folder_lock.fcntl, "flock", failing_with(number))
    with Checkpoints(saves).held(), Checkpoints(saves).held():
        pass


def test_without_locks_in_the_system_trainings_go_on_without(saves, monkeypatch):
    monkeypatch.setattr(_folder_lock, "HAS_LOCKS", False)
    with Checkpoints(saves).held(), Checkpoints(saves).held():
        assert not saves.exists()


def test_a_folder_that_cannot_be_written_may_still_be_read(saves, monkeypatch):
    monkeypatch.setattr(_folder_lock.os, "open", failing_with(errno.EROFS))
    with Checkpoints(saves).held():
        pass


@pytest.mark.parametrize("where", ["open", "flock"])
def test_a_full_disk_is_named_as_such(saves, monkeypatch, where):
    owner = _folder_lock.os if where == "open" else _folder_lock.fcntl
    monkeypatch.setattr(owner, where, failing_with(errno.ENOSPC))
    with pytest.raises(CheckpointError, match="no space left"), Checkpoints(saves).held():
        pass


def test_a_folder_that_cannot_be_made_is_not_taken_for_a_held_one(tmp_path, monkeypatch):
    monkeypatch.setattr("groupnoise.training.folder_lock.WAIT_SECONDS", 0.1)

    def refuse(*_, **__):
        raise FileNotFoundError(2, "No such file or directory")  # as /proc does

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with (
        pytest.raises(CheckpointError, match="saves cannot be written: No such file"),
        Checkpoints(tmp_path / "saves").held(),
    ):
        pass

"""Histories and windows on disk for a training: made once, and never from something else."""

import json
import threading

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import cut_windows, write_windows
from groupnoise.clicks.reading.streaming import clicks_on_disk
from groupnoise.clicks.windows.stored import windows_on_disk
from groupnoise.exceptions import DataError
from groupnoise.io.folders import data_folder

HISTORIES = Groups.from_lists([[1, 2, 3, 4], [5, 6], [7, 8, 9], [2, 4, 6, 8, 1]])


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n" + "".join(f"{i % 3},{i % 5}\n" for i in range(30)))
    return path


def lists(windows):
    return [
        (group.tolist(), int(target))
        for group, target in zip(windows.groups, windows.groups.targets, strict=True)
    ]


def test_a_log_is_converted_once(log, tmp_path):
    progress = []
    first = clicks_on_disk(log, tmp_path / "clicks", progress=progress.append)
    n_calls = len(progress)
    again = clicks_on_disk(log, tmp_path / "clicks", progress=progress.append)
    assert n_calls > 0
    assert len(progress) == n_calls
    assert [h.tolist() for h in again.histories] == [h.tolist() for h in first.histories]


def test_a_folder_made_from_something_else_is_refused_and_kept(log, tmp_path):
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match=r"was not made from .*log\.csv"):
        clicks_on_disk(log, tmp_path / "clicks")
    with pytest.raises(DataError, match="exists already"):
        windows_on_disk(HISTORIES, tmp_path / "clicks", size=2, min_size=1)
    assert (tmp_path / "clicks" / "diary.txt").read_text() == "mine"


@pytest.mark.parametrize("how", ["sliding", "chunks", "leave_one_out"])
@pytest.mark.parametrize("clicks_at_once", [3, 100])
def test_windows_of_held_out_clicks_are_those_of_shorter_histories(tmp_path, how, clicks_at_once):
    held_out = np.array([3, 0])
    windows = write_windows(
        tmp_path / "w", HISTORIES, how, size=2, min_size=1, held_out=held_out,
        clicks_at_once=clicks_at_once,
    )  # fmt: skip
    whole = cut_windows(HISTORIES, how, size=2, min_size=1)
    is_last = whole.positions == HISTORIES.sizes[whole.users] - 1
    kept = ~(is_last & np.isin(whole.users, held_out))
    assert lists(windows) == [pair for pair, keep in zip(lists(whole), kept, strict=True) if keep]
    assert windows.users.tolist() == whole.users[kept].tolist()


@pytest.mark.parametrize(
    "changed",
    [
        {"size": 3},
        {"min_size": 2},
        {"held_out": np.array([1])},
        {"histories": Groups.from_lists([[1, 2, 3, 4], [5, 7], [7, 8, 9], [2, 4, 6, 8, 1]])},
    ],
)
def test_windows_are_cut_anew_only_if_they_would_differ(tmp_path, changed):
    settings = {"histories": HISTORIES, "size": 2, "min_size": 1, "held_out": np.array([0])}
    n_cuts = []
    for arguments in (settings, settings, settings | changed):
        calls = []
        windows = windows_on_disk(folder=tmp_path / "w", progress=calls.append, **arguments)
        n_cuts.append(len(calls))
    assert n_cuts == [1, 0, 1]
    fresh = write_windows(tmp_path / "fresh", **(settings | changed))
    assert lists(windows) == lists(fresh)


def test_other_workers_wait_for_the_one_that_does_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(data_folder, "PAUSE_SECONDS", 0.001)
    found = []

    def wait():
        found.append(windows_on_disk(HISTORIES, tmp_path / "w", size=2, min_size=1, wait=True))

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(timeout=0.05)
    assert waiting.is_alive()
    made = windows_on_disk(HISTORIES, tmp_path / "w", size=2, min_size=1)
    waiting.join(timeout=10)
    assert lists(found[0]) == lists(made)


def test_a_damaged_record_counts_as_none(log, tmp_path):
    clicks_on_disk(log, tmp_path / "clicks")
    record = tmp_path / "clicks" / "made_from.json"
    assert json.loads(record.read_text())
    record.write_text("{")
    with pytest.raises(DataError, match="was not made from"):
        clicks_on_disk(log, tmp_path / "clicks")

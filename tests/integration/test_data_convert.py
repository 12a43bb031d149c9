"""`groupnoise data convert` as a process: what it prints, and what it leaves on a full disk."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from groupnoise.clicks import read_clicks
from groupnoise.io import open_groups

# The command as the `groupnoise` program runs it.
PROGRAM = [sys.executable, "-m", "groupnoise", "data", "convert"]
ONE_MEGABYTE = 1 << 20


def convert(*arguments, limit=None, **options):
    """Run the command; `limit` bounds the size of every file it may write."""

    def bound():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        preexec_fn=bound,
        env={**os.environ, "COLUMNS": "200", "POLARS_MAX_THREADS": "1"},
        **options,
    )


def write_log(path, n_rows=300_000):
    generator = np.random.default_rng(0)
    pl.DataFrame(
        {
            "user": generator.integers(0, 30_000, n_rows),
            "item": generator.integers(0, 5_000, n_rows),
            "time": np.arange(n_rows),
        }
    ).write_csv(path)
    return path


def test_a_click_log_becomes_a_folder_and_the_guesses_are_printed(groupnoise, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "uid,asin,overall,ts\n" + "".join(f"u{i % 3},i{i},{i % 5},{i}\n" for i in range(40))
    )
    words = ("--setting", "rs", "--min-rating", 1, "--windows", "sliding")
    code, out, said = groupnoise("data", "convert", log, tmp_path / "out", *words)
    assert not code, said
    assert "took column 'uid' as the user" in said
    assert "took column 'overall' as the rating" in said
    assert "3 histories, 32 items, 32 clicks, 8 rows rated too low, 17 windows" in out
    clicks = open_groups(tmp_path / "out", verify=True)
    assert clicks.user_ids.tolist() == ["u0", "u1", "u2"]
    assert len(open_groups(tmp_path / "out" / "windows").groups) == 17


def test_bags_and_candidates_are_converted_too(groupnoise, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("image,f1,f2,kind\nx,1,2,cat\nx,3,4,cat\ny,5,6,dog\n")
    words = ("--setting", "mil", "--group", "image", "--label", "kind")
    out = groupnoise("data", "convert", table, tmp_path / "bags", *words)[1]
    assert "2 bags, 3 instances, 2 classes" in out
    assert open_groups(tmp_path / "bags").class_names == ["cat", "dog"]
    table.write_text("f1,names,truth\n1,ann;bob,bob\n2,bob,bob\n")
    words = ("--setting", "pll", "--candidates", "names", "--quiet")
    _, out, said = groupnoise("data", "convert", table, tmp_path / "rows", *words)
    assert "2 rows, 2 classes, 1.50 candidates per row" in out
    assert said == ""


def test_bad_input_ends_with_one_sentence_and_exit_code_2(groupnoise, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("user,item,time\n1,2,3\n1,2,x\n")
    words = ("data", "convert", log, tmp_path / "out", "--setting")
    code, _, said = groupnoise(*words, "rs", "--quiet")
    assert code == 2
    assert said.strip().startswith(f"error: {log}, line 3: column 'time' holds 'x'")
    code, _, said = groupnoise(*words, "soup")
    assert code == 2
    assert "--setting must be one of 'mil', 'pll', 'rs'" in said
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.parametrize("limit", [ONE_MEGABYTE // 4, 2 * ONE_MEGABYTE])
def test_a_full_quota_leaves_nothing_behind(tmp_path, limit):
    log = write_log(tmp_path / "log.csv")
    answer = convert(log, tmp_path / "out", "--setting", "rs", "--windows", "sliding", limit=limit)
    assert answer.returncode == 2
    assert "no space left to write" in answer.stderr or "cannot be written" in answer.stderr
    leftovers = {path.name for path in tmp_path.iterdir()} - {"log.csv"}
    assert leftovers in (set(), {"out"})
    if leftovers:  # the histories were complete, only the windows did not fit
        assert not (tmp_path / "out" / "windows").exists()
        assert {path.name for path in (tmp_path / "out").iterdir()} <= {
            "manifest.json", "items.npy", "offsets.npy", "user_ids.npy", "item_ids.npy",
        }  # fmt: skip
        open_groups(tmp_path / "out", verify=True)


@contextlib.contextmanager
def small_disk(folder, n_bytes):
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk needs the rights of root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("n_megabytes", [2, 8])
def test_a_full_disk_leaves_nothing_behind(tmp_path, n_megabytes):
    log = write_log(tmp_path / "log.csv")
    with small_disk(tmp_path / "disk", n_megabytes * ONE_MEGABYTE) as disk:
        answer = convert(log, disk / "out", "--setting", "rs")
        assert answer.returncode == 2
        assert f"there is no space left to write {disk / 'out'}" in answer.stderr
        assert list(disk.iterdir()) == []
        answer = convert(log, tmp_path / "out", "--setting", "rs")
        assert answer.returncode == 0


@pytest.mark.slow
def test_a_killed_conversion_goes_on_where_it_stopped(tmp_path):
    log = write_log(tmp_path / "log.csv")
    arguments = [log, tmp_path / "out", "--setting", "rs", "--rows-at-once", 5000]
    command = [*PROGRAM, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "out.partial" / "run-00003.arrow").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    answer = convert(*arguments)
    assert answer.returncode == 0, answer.stderr
    assert not (tmp_path / "out.partial").exists()
    clicks, expected = open_groups(tmp_path / "out", verify=True), read_clicks(log)
    assert np.array_equal(clicks.histories.objects, expected.histories.objects)
    assert np.array_equal(clicks.histories.offsets, expected.histories.offsets)

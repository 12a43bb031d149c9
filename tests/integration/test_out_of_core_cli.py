"""`groupnoise fit --out-of-core`: a click log is trained on from disk, with the same result."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.cli.app import app
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io import ClickDataset, open_groups, write_groups
from training_processes import PROCESSES, command_line_within

MEGABYTE = 1 << 20
SMALL = ["-p", "dim=4", "-p", "n_negatives=8", "-p", "max_epochs=2"]


def fit(*words):
    answer = CliRunner().invoke(app, ["fit", *map(str, words), "-q"])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


def weights(folder):
    return MaxMatchingRecommender.load(folder).item_vectors().query


@pytest.fixture
def log(tmp_path):
    """400 users who keep to one of ten topics."""
    generator = np.random.default_rng(0)
    rows = [
        f"u{user},i{10 * (user % 10) + generator.integers(10)},{time}"
        for user in range(400)
        for time in range(generator.integers(2, 12))
    ]
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("preset", [[], ["--paper"]])
def test_windows_on_disk_give_the_weights_of_windows_in_memory(log, tmp_path, preset):
    words = [log, "--setting", "rs", "--validation", 0, "-p", "shuffle_pool=500", *SMALL, *preset]
    fit(*words, "-o", tmp_path / "memory")
    fit(*words, "-o", tmp_path / "disk", "--out-of-core", tmp_path / "work")
    np.testing.assert_array_equal(weights(tmp_path / "disk"), weights(tmp_path / "memory"))


def test_some_last_clicks_are_held_out(log, tmp_path):
    work = tmp_path / "work"
    answer = fit(log, "--setting", "rs", "-o", tmp_path / "model", "--out-of-core", work, *SMALL)
    assert "the last click of 40 of 400 histories held out" in answer.stdout
    histories = open_groups(work / "clicks").histories
    windows = open_groups(work / "windows")
    n_last = (windows.positions == histories.sizes[windows.users] - 1).sum()
    assert n_last == len(histories) - 40
    parameters = MaxMatchingRecommender.load(tmp_path / "model").get_params()
    assert parameters["shuffle_pool"] == 1_000_000


def test_a_second_run_takes_up_what_the_first_one_made(log, tmp_path):
    words = [log, "--setting", "rs", "-o", tmp_path / "model", "--out-of-core", tmp_path / "work"]
    fit(*words, *SMALL)
    first = weights(tmp_path / "model")
    made = [tmp_path / "work" / name / "made_from.json" for name in ("clicks", "windows")]
    before = [path.stat().st_mtime_ns for path in made]
    fit(*words, *SMALL)
    assert [path.stat().st_mtime_ns for path in made] == before
    np.testing.assert_array_equal(weights(tmp_path / "model"), first)
    fit(*words, *SMALL, "-p", "window_size=3")
    after = [path.stat().st_mtime_ns for path in made]
    assert after[0] == before[0]
    assert after[1] > before[1]
    assert open_groups(tmp_path / "work" / "windows").groups.sizes.max() == 3


def test_a_log_that_changed_is_refused(log, tmp_path):
    words = [log, "--setting", "rs", "-o", tmp_path / "model", "--out-of-core", tmp_path / "work"]
    fit(*words, *SMALL)
    with log.open("a") as stream:
        stream.write("u1,i1,99\n")
    with pytest.raises(DataError, match=r"clicks was not made from .*log.csv as it is now"):
        fit(*words, *SMALL)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digit-candidates"], "goes with click logs"),
        (["bags.csv", "--setting", "mil"], "goes with click logs"),  # no such file
        (["shop", "--method", "popularity"], "popularity trains in memory"),
        (["shop", "-p", "dimm=4"], "did you mean 'dim'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(tmp_path, words, sentence):
    with pytest.raises(ParameterError, match=sentence):
        fit(*words, "-o", tmp_path / "model", "--out-of-core", tmp_path / "work")
    assert list(tmp_path.iterdir()) == []


def write_clicks(folder, n_users):
    """Write 100 clicks of each user, all on one of a hundred topics."""
    generator = np.random.default_rng(0)
    topics = np.repeat(generator.integers(100, size=n_users), 100)
    clicks = (topics * 10 + generator.integers(10, size=len(topics))).astype(np.int32)
    histories = Groups(clicks, np.arange(0, len(clicks) + 1, 100))
    write_groups(folder, ClickDataset("topics", histories, np.arange(1000), np.arange(n_users)))
    return folder


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA leaves mapped files out on Linux alone"
)
@pytest.mark.parametrize("from_disk", [True, False])
def test_windows_larger_than_the_memory_allowed_are_trained_on_from_disk(tmp_path, from_disk):
    limit, said = 28 * MEGABYTE, tmp_path / "said.txt"
    settings = ["-q", "--validation", 0.01, *SMALL, "-p", "max_epochs=1", "-p", "weighting=null"]
    settings += ["-p", "batch_size=4096", "-p", "shuffle_pool=50000"]
    large, small = (
        ["fit", write_clicks(tmp_path / name, n_users), "-o", tmp_path / f"{name}-model", *settings]
        + (["--out-of-core", tmp_path / f"{name}-work"] if from_disk else [])
        for name, n_users in (("large", 10_000), ("small", 500))
    )
    process = PROCESSES.Process(target=command_line_within, args=(limit, large, small, said))
    process.start()
    process.join(timeout=120)
    if not from_disk:
        assert process.exitcode == 2
        assert "not enough memory to train on" in said.read_text()
        assert "trained on from disk with --out-of-core DIR" in said.read_text()
        return
    assert process.exitcode == 0, said.read_text()
    windows = open_groups(tmp_path / "large-work" / "windows").groups
    assert sum(a.nbytes for a in (windows.objects, windows.offsets, windows.targets)) > limit
    loss = MaxMatchingRecommender.load(tmp_path / "large-model").history_.column("loss")[0]
    assert loss < np.log(9)


def test_a_log_is_converted_whether_its_setting_is_said_or_guessed(log, tmp_path):
    answer = fit(log, "-o", tmp_path / "model", "--out-of-core", tmp_path / "work", *SMALL)
    assert "read as clicks (--setting rs)" in answer.stderr
    assert open_groups(tmp_path / "work/clicks").histories.n_objects > 0


def test_a_bot_is_told_of_on_disk_too(log, tmp_path):
    with log.open("a") as rows:
        rows.writelines(f"robot,i{n % 7},{n}\n" for n in range(600))
    work = tmp_path / "work"
    answer = fit(log, "--setting", "rs", "-o", tmp_path / "model", "--out-of-core", work, *SMALL)
    assert "user robot clicks unlike people do: 600 clicks" in answer.stderr
    assert f"`groupnoise audit {log}`" in answer.stderr

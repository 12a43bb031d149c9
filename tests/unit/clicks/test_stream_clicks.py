"""Logs converted in blocks: the same result as in memory, resumable, never half-written."""

import gzip

import numpy as np
import polars as pl
import pytest

from groupnoise import Groups
from groupnoise.clicks import cut_windows, read_clicks
from groupnoise.clicks.reading.streaming import convert_clicks
from groupnoise.clicks.windows.stored import write_windows
from groupnoise.core import collate
from groupnoise.exceptions import DataError

SMALL = {"rows_at_once": 97}


def random_log(n_rows=1000, seed=0):
    generator = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user": generator.integers(0, 60, n_rows),
            "item": generator.integers(0, 40, n_rows) * 7,
            "time": generator.integers(0, 500, n_rows),
            "rating": generator.integers(1, 6, n_rows),
        }
    )


def write_log(frame, path):
    if path.name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path, row_group_size=300)
    elif path.suffix == ".arrow":
        frame.write_ipc(path)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.select("user", "item").write_csv(path, separator=" ", include_header=False)
    return path


def assert_same(streamed, whole):
    assert streamed.item_ids.tolist() == whole.item_ids.tolist()
    assert streamed.user_ids.tolist() == whole.user_ids.tolist()
    assert streamed.histories.offsets.tolist() == whole.histories.offsets.tolist()
    assert streamed.histories.objects.tolist() == whole.histories.objects.tolist()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.arrow", "a.jsonl", "a.txt"])
def test_a_streamed_log_equals_the_log_read_whole(tmp_path, name):
    path = write_log(random_log(), tmp_path / name)
    clicks = convert_clicks(path, tmp_path / "out", **SMALL)
    assert isinstance(clicks.histories.objects, np.memmap)
    assert_same(clicks, read_clicks(path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, "out"])


@pytest.mark.parametrize(
    "options",
    [
        {"repeats": "merge_adjacent"},
        {"repeats": "keep_first"},
        {"session_gap": 30},
        {"session_gap": 30, "repeats": "keep_first"},
        {"min_rating": 4},
        {"only": "rating=4,5"},
        {"only": "item; rating=1"},
        {"per_user": 14, "per_item": 10},
    ],
)
def test_every_rule_gives_the_same_streamed_and_whole(tmp_path, options):
    path = write_log(random_log(), tmp_path / "a.csv")
    clicks = convert_clicks(path, tmp_path / "out", **SMALL, **options)
    assert_same(clicks, read_clicks(path, **options))
    assert clicks.notes["rows_read"] == 1000


def test_ids_may_be_text_of_any_width(tmp_path):
    log = random_log().with_columns(
        user=pl.format("ü{}{}", "user", pl.col("user") ** 5),
        item=pl.format("i{}", "item"),
    )  # fmt: skip
    path = write_log(log, tmp_path / "a.csv")
    assert_same(convert_clicks(path, tmp_path / "out", **SMALL), read_clicks(path))


def test_ids_that_turn_into_text_far_down_make_all_of_them_text(tmp_path):
    log = random_log(60_000).cast({"user": pl.String})
    log[59_990, "user"] = "anna"
    path = write_log(log, tmp_path / "a.csv")
    clicks = convert_clicks(path, tmp_path / "out", rows_at_once=20_000)
    assert_same(clicks, read_clicks(path))
    assert "anna" in clicks.user_ids
    assert (
        "not all ids of column 'user' are whole numbers; took them as text"
        in (clicks.notes["guesses"])
    )


def test_ids_that_only_look_alike_stay_apart_far_down_too(tmp_path):
    text = "user,item\n" + "7,1\n" * 100_000 + "007,1\n"
    (tmp_path / "a.csv").write_text(text)
    clicks = convert_clicks(tmp_path / "a.csv", tmp_path / "out", rows_at_once=20_000)
    assert clicks.user_ids.tolist() == ["007", "7"]


def test_several_files_are_one_log(tmp_path):
    log, folder = random_log(), tmp_path / "logs"
    folder.mkdir()
    for part in range(4):
        write_log(log[part * 250 : (part + 1) * 250], folder / f"part{part}.csv")
    assert_same(convert_clicks(folder, tmp_path / "out", **SMALL), read_clicks(folder))


def test_interrupted_work_is_gone_on_with(tmp_path):
    path = write_log(random_log(), tmp_path / "a.parquet")
    expected = read_clicks(path)
    records = []
    convert_clicks(path, tmp_path / "whole", progress=records.append, **SMALL)
    n_records = len(records)
    for stage in ("reading", "sorting"):
        seen = []

        def interrupt(record, stage=stage, seen=seen):
            seen.append(record["stage"])
            if seen.count(stage) == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert_clicks(path, tmp_path / stage, progress=interrupt, **SMALL)
        assert not (tmp_path / stage).exists()
        assert (tmp_path / f"{stage}.partial").exists()
        again = []
        clicks = convert_clicks(path, tmp_path / stage, progress=again.append, **SMALL)
        assert_same(clicks, expected)
        assert not (tmp_path / f"{stage}.partial").exists()
        assert len(again) == n_records - 3 - seen.count("reading") * (stage == "sorting")


def test_interrupted_work_on_another_log_is_not_mixed_in(tmp_path):
    path = write_log(random_log(seed=1), tmp_path / "a.parquet")

    def interrupt(record):
        if record["stage"] == "sorting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_clicks(path, tmp_path / "out", progress=interrupt, **SMALL)
    write_log(random_log(seed=2, n_rows=20), path)
    assert_same(convert_clicks(path, tmp_path / "out", **SMALL), read_clicks(path))
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".npy", ".json"}


def test_a_folder_of_the_users_own_is_never_cleared(tmp_path):
    path = write_log(random_log(), tmp_path / "a.csv")
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "diary.txt").write_text("keep me")
    with pytest.raises(DataError, match="holds something else"):
        convert_clicks(path, tmp_path / "out", **SMALL)
    assert (tmp_path / "out.partial" / "diary.txt").exists()


def test_a_bad_row_far_down_leaves_nothing_behind(tmp_path):
    text = "user,item,time\n" + "1,2,3\n" * 40_000 + "1,2,tomorrow\n" + "1,2,4\n" * 40_000
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=r"a.csv, line 40002: column 'time' holds 'tomorrow'"):
        convert_clicks(tmp_path / "a.csv", tmp_path / "out", rows_at_once=5000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_core_that_leaves_nothing_leaves_no_folder(tmp_path):
    path = write_log(random_log(), tmp_path / "a.csv")
    with pytest.raises(DataError, match="no click is left"):
        convert_clicks(path, tmp_path / "out", per_user=500, **SMALL)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(("how", "min_size"), [("sliding", None), ("sliding", 1), ("chunks", None)])
def test_windows_written_in_blocks_equal_those_cut_at_once(tmp_path, how, min_size):
    clicks = read_clicks(random_log())
    whole = cut_windows(clicks.histories, how, min_size=min_size)
    mapped = write_windows(
        tmp_path / "w", clicks.histories, how, min_size=min_size, clicks_at_once=50
    )
    assert isinstance(mapped.groups.objects, np.memmap)
    assert np.array_equal(mapped.groups.objects, whole.groups.objects)
    assert np.array_equal(mapped.groups.offsets, whole.groups.offsets)
    assert np.array_equal(mapped.groups.targets, whole.groups.targets)
    assert np.array_equal(mapped.users, whole.users)
    assert np.array_equal(mapped.positions, whole.positions)


def test_batches_for_training_are_made_straight_from_mapped_windows(tmp_path):
    histories = read_clicks(random_log()).histories
    mapped = write_windows(tmp_path / "w", histories, min_size=1)
    rows = np.array([5, 0, 17])
    batch, expected = (
        collate(windows.groups, rows) for windows in (mapped, cut_windows(histories, min_size=1))
    )
    assert batch.objects.tolist() == expected.objects.tolist()
    assert batch.targets.tolist() == expected.targets.tolist()
    assert batch.mask.tolist() == expected.mask.tolist()


def test_histories_without_a_window_leave_no_folder(tmp_path):
    with pytest.raises(DataError, match="no history is long enough"):
        write_windows(tmp_path / "w", Groups.from_lists([[1, 2], [3]]))
    assert not list(tmp_path.iterdir())

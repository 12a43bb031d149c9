"""Click histories read from every form a log comes in."""

import gzip

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.fs
import pytest

from groupnoise.clicks import convert_clicks, read_clicks
from groupnoise.exceptions import DataError, ParameterError


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def histories(clicks):
    """Map each user to the items clicked, as ids of the source."""
    return {
        user: clicks.item_ids[clicks.histories[row]].tolist()
        for row, user in enumerate(clicks.user_ids.tolist())
    }


EXPECTED = {1: [10, 30, 20], 2: [20]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.txt", "1 10\n1 30\n2 20\n1 20\n"),
        ("tabs.txt.gz", "1\t10\r\n1\t30\r\n\r\n2\t20\r\n1\t20\r\n"),
        ("lines.txt", "1 10 30 20\n2 20\n"),
        ("log.csv", "user_id,item_id,timestamp\n2,20,5\n1,20,9\n1,10,3\n1,30,4\n"),
        ("log.csv.gz", "user_id;item_id;timestamp\n2;20;5\n1;20;9\n1;10;3\n1;30;4\n"),
        ("log.tsv", "item\ttime\tuser\n20\t5\t2\n20\t9\t1\n10\t3\t1\n30\t4\t1\n"),
        ("ratings.csv", "2,20,5.0,1500000\n1,20,1.0,1500009\n1,10,2,1400000\n1,30,3,1400001\n"),
        ("three.csv", "1,10,1400000000\n1,20,1500000009\n2,20,1500000000\n1,30,1400000001\n"),
        ("log.jsonl", '{"user":1,"items":[10,30,20]}\n\n{"user":2,"items":[20]}\n'),
        ("d.csv", "uid,sku,ts\n1,30,2020-02-02\n1,10,2020-02-01\n1,20,2020-03-01\n2,20,2020-02-01"),
    ],
)  # fmt: skip
def test_every_form_of_a_log_gives_the_same_histories(tmp_path, name, text):
    assert histories(read_clicks(write(tmp_path / name, text))) == EXPECTED


def test_a_folder_of_partitions_is_called_as_the_folder_is(tmp_path):
    for month in ("month=2026-01", "month=2026-02"):
        (tmp_path / "lake" / month).mkdir(parents=True)
        frame = pl.DataFrame({"user": ["a", "a"], "item": [1, 2]})
        frame.write_parquet(tmp_path / "lake" / month / "part-0.parquet")
    assert read_clicks(tmp_path / "lake").name == "lake"


def test_parquet_may_be_a_file_a_folder_a_glob_an_address_or_another_filesystem(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    frame = pl.DataFrame({"user": [1, 1, 2, 1], "item": [10, 30, 20, 20], "time": [1, 2, 3, 4]})
    frame[:2].write_parquet(folder / "part-0.parquet")
    frame[2:].write_parquet(folder / "part-1.parquet")
    frame.write_parquet(tmp_path / "whole.parquet")
    (folder / "_SUCCESS").touch()
    elsewhere = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for clicks in (
        read_clicks(tmp_path / "whole.parquet"),
        read_clicks(folder),
        read_clicks(str(folder / "*.parquet")),
        read_clicks(folder.as_uri()),
        read_clicks("log", filesystem=elsewhere),
        read_clicks("whole.parquet", filesystem=elsewhere),
    ):
        assert histories(clicks) == EXPECTED


def test_frames_are_taken_and_ids_may_be_text():
    pandas = pytest.importorskip("pandas")
    columns = {"user": ["b", "a", "b"], "item": ["x", "y", "z"], "time": [2, 1, 1]}
    for frame in (pl.DataFrame(columns), pandas.DataFrame(columns), pa.table(columns)):
        clicks = read_clicks(frame)
        assert histories(clicks) == {"a": ["y"], "b": ["z", "x"]}


def test_ids_that_only_look_alike_stay_apart(tmp_path):
    clicks = read_clicks(write(tmp_path / "a.csv", "user,item\n007,1\n7,1\n"))
    assert clicks.user_ids.tolist() == ["007", "7"]
    assert clicks.item_ids.tolist() == [1]


def test_numbers_and_words_mixed_in_an_id_column_are_text(tmp_path):
    clicks = read_clicks(write(tmp_path / "a.txt", "1 10\nanna x9\n"))
    assert clicks.user_ids.tolist() == ["1", "anna"]


def test_npz_columns_are_read_as_a_log(tmp_path):
    np.savez(tmp_path / "log.npz", user=[1, 1, 2, 1], item=[10, 30, 20, 20])
    assert histories(read_clicks(tmp_path / "log.npz")) == EXPECTED


def test_column_names_by_option_and_guesses_in_the_notes(tmp_path):
    path = write(tmp_path / "a.csv", "who,what,user,when\nx,1,9,2\nx,2,9,1\n")
    told = []
    clicks = read_clicks(path, user="who", item="what", time="when", report=told.append)
    assert histories(clicks) == {"x": [2, 1]}
    assert clicks.notes["guesses"] == told == []
    assert clicks.notes["clicks_out_of_time_order"] == 2
    assert clicks.notes["rows_read"] == 2


def test_the_one_column_of_dates_is_the_time_whatever_it_is_called(tmp_path):
    rows = "customer,sku,seen{}\n1,b,2026-03-02T10:00:00Z{}\n1,a,2026-03-01T10:00:00Z{}\n"
    told = []
    one = read_clicks(write(tmp_path / "one.csv", rows.format("", "", "")), report=told.append)
    assert histories(one) == {1: ["a", "b"]}
    assert "took column 'seen' as the time: it holds dates" in told
    more = rows.format(",paid", ",2026-03-02", ",2026-03-01")
    two = read_clicks(write(tmp_path / "two.csv", more), report=told.append)
    assert histories(two) == {1: ["b", "a"]}
    assert "several columns hold dates (seen, paid)" in told[-1]


TIMES = [  # a later one, and an earlier one that is written as a larger number or text
    ("02.03.2026 10:00", "11.02.2026 09:00"),
    ("03/14/2026", "03/13/2026"),
    ("14/03/2026 8:05", "15/02/2026 9:05"),
    ("2026-03-02T10:00:00Z", "2026-03-02T11:00:00+02:00"),
    ("2026-03-02 10:00", "2026-03-02 09:00"),
    ("2026-03-02 10:00:00 UTC", "2026-03-02 09:00:00 UTC"),
    ("2026-03-02 10:00:00.250", "2026-03-02 10:00:00.125"),
    ("2026/03/02", "2026/03/01"),
    ("1770000001", "1770000000"),
    ("1770000000500", "1770000000499"),
]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(("later", "earlier"), TIMES)
def test_times_are_found_and_ordered_however_they_are_written(tmp_path, form, later, earlier):
    cells = [int(cell) if cell.isdigit() else cell for cell in (later, earlier)]
    frame = pl.DataFrame({"customer": [1, 1], "sku": ["b", "a"], "seen": cells})
    getattr(frame, f"write_{form}")(path := tmp_path / f"log.{form}")
    assert histories(read_clicks(path)) == {1: ["a", "b"]}


def test_times_of_a_type_with_a_zone_are_ordered(tmp_path):
    seen = pl.Series(["2026-03-02T10:00:00Z", "2026-03-02T09:30:00Z"]).str.to_datetime()
    for cells in (seen, seen.dt.convert_time_zone("Asia/Tokyo"), seen.dt.cast_time_unit("ns")):
        frame = pl.DataFrame({"customer": [1, 1], "sku": ["b", "a"], "seen": cells})
        frame.write_parquet(path := tmp_path / "log.parquet")
        read = read_clicks(path)
        assert histories(read) == {1: ["a", "b"]}
        assert read.timestamps.tolist() == [1772443800.0, 1772445600.0]


def test_dates_that_may_be_both_are_asked_about_and_read_as_said(tmp_path):
    # The first 150 rows fit both; a day beyond the 12th at the end leaves one reading.
    rows = ["1,b,03/02/2026"] * 150
    text = "customer,sku,seen\n" + "\n".join([*rows, "1,a,02/03/2026"]) + "\n"
    path = write(tmp_path / "log.csv", text)
    with pytest.raises(DataError, match=r"fit both.*--date-order dmy or mdy"):
        read_clicks(path)
    assert histories(read_clicks(path, date_order="dmy"))[1][-1] == "a"
    assert histories(read_clicks(path, date_order="mdy"))[1][0] == "a"
    write(path, text + "1,c,02/28/2026\n")
    told = []
    read = read_clicks(path, report=told.append)
    assert "read the dates in column 'seen' as month/day/year" in told
    assert histories(read)[1][:2] == ["a", "c"]
    assert read.columns["date_order"] == "mdy"
    # What was said of another file does not make a day of the 28th month.
    assert histories(read_clicks(path, date_order="dmy"))[1][:2] == ["a", "c"]
    with pytest.raises(ParameterError, match="date_order"):
        read_clicks(path, date_order="ymd")


def test_clicks_at_the_same_time_keep_the_order_of_the_rows(tmp_path):
    path = write(tmp_path / "a.csv", "user,item,time\n1,3,5\n1,1,5\n1,2,5\n")
    assert histories(read_clicks(path)) == {1: [3, 1, 2]}


@pytest.mark.parametrize(
    ("dates", "order"),
    [
        (["02/01/2024", "01/31/2024", "03/05/2023"], "month/day/year"),
        (["1/2/2024 10:00", "31/1/2024 9:30", "5/3/2023 1:00"], "day/month/year"),
        (["01.02.2024", "02.01.2024", "05.03.2023"], "day/month/year"),
        (["02-01-2024", "01-31-2024", "03-05-2023"], "month/day/year"),
    ],
)
def test_day_and_month_are_told_apart_and_the_order_is_reported(tmp_path, dates, order):
    rows = [f"1,{item},{date}\n" for item, date in zip("cba", dates, strict=True)]
    path = write(tmp_path / "a.csv", "user,item,time\n" + "".join(rows))
    guesses = []
    assert histories(read_clicks(path, report=guesses.append)) == {1: ["a", "b", "c"]}
    assert f"read the dates in column 'time' as {order}" in guesses
    streamed = convert_clicks(path, tmp_path / "out", rows_at_once=1)
    assert histories(streamed) == {1: ["a", "b", "c"]}


@pytest.mark.parametrize(
    "text",
    [
        "user,item\r1,a\r1,b\r2,a\r",
        "user, item\n1, a\n1,b \n 2,a\n",
        "user,item\r\n1,a\r\n1,b\r\n2,a",
    ],
)
def test_line_ends_and_blanks_around_ids_make_no_difference(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    expected = {1: ["a", "b"], 2: ["a"]}
    assert histories(read_clicks(tmp_path / "a.csv")) == expected
    assert histories(convert_clicks(tmp_path / "a.csv", tmp_path / "out")) == expected


def test_a_rating_threshold_leaves_rows_out_and_counts_them(tmp_path):
    path = write(tmp_path / "a.csv", "user,item,rating\n1,10,4\n1,11,2\n2,12,-1\n1,13,5\n")
    clicks = read_clicks(path, min_rating=4)
    assert histories(clicks) == {1: [10, 13]}
    assert clicks.item_ids.tolist() == [10, 13]
    assert clicks.notes["rows_below_min_rating"] == 2
    with pytest.raises(
        DataError, match=r"a.csv, line 4: the rating is negative \(-1\).*--min-rating"
    ):
        read_clicks(path)
    with pytest.raises(DataError, match="no click rated 9"):
        read_clicks(path, min_rating=9)


def test_sessions_become_histories_of_their_own(tmp_path):
    path = write(tmp_path / "a.csv", "user,item,time\n1,1,0\n1,2,10\n1,3,100\n2,4,101\n")
    clicks = read_clicks(path, session_gap=30)
    assert clicks.user_ids.tolist() == [1, 1, 2]
    assert clicks.histories.sizes.tolist() == [2, 1, 1]
    with pytest.raises(DataError, match="sessions need"):
        read_clicks(write(tmp_path / "b.csv", "user,item\n1,1\n"), session_gap=30)


def test_repeats_and_core_are_applied_in_that_order(tmp_path):
    path = write(tmp_path / "a.txt", "1 5\n1 5\n1 6\n2 5\n2 6\n3 7\n3 7\n")
    clicks = read_clicks(path, repeats="merge_adjacent", per_user=2, per_item=2)
    assert histories(clicks) == {1: [5, 6], 2: [5, 6]}
    assert clicks.notes["repeats_merged"] == 2
    assert clicks.notes["core_users_dropped"] == 1


def test_a_user_with_two_lines_is_refused_where_lines_hold_whole_histories(tmp_path):
    path = write(tmp_path / "a.txt", "1 10 11\n2 12\n1 13\n")
    with pytest.raises(DataError, match=r"a.txt, line 3: user '1' already has line 1; give each"):
        read_clicks(path)
    path = write(tmp_path / "a.jsonl", '{"user":1,"items":[1]}\n{"user":1,"items":[2]}\n')
    with pytest.raises(DataError, match=r"a.jsonl, line 2: user 1 occurs twice"):
        read_clicks(path)


def test_the_shared_logs_have_their_published_counts(data_directory):
    path = data_directory / "rs" / "amazon_video_games_sasrec.txt.gz"
    if not path.exists():
        pytest.skip("amazon_video_games_sasrec.txt.gz is not in the data directory")
    clicks = read_clicks(path)
    assert (len(clicks.histories), clicks.n_items, clicks.histories.n_objects) == (
        31_013,
        23_715,
        287_107,
    )


def test_some_kinds_of_rows_are_kept(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item,event,code\na,1,view,1\na,2,cart,\n,3,cart,2\nb,4,buy,2\n")
    said = []
    clicks = read_clicks(path, only="user; event=cart, buy", report=said.append)
    assert clicks.user_ids.tolist() == ["a", "b"]
    assert clicks.item_ids.tolist() == [2, 4]
    assert "kept 2 of 4 rows: user; event=cart, buy (--only)" in said
    assert not any("left out column 'event'" in each for each in said)
    frame = pl.read_csv(path).with_columns(pl.col("code").cast(pl.Float64))
    assert read_clicks(frame, only="user; code=2").item_ids.tolist() == [4]
    for only, words in (
        ("event=crt", "no row that says 'crt' in column 'event' .did you mean 'cart'"),
        ("evnt", "no column 'evnt' to keep rows by .did you mean 'event'"),
        ("=x", "is COLUMN=VALUE,VALUE or COLUMN; got '=x'"),
        ("user; item=9", "no row that says '9'"),
    ):
        with pytest.raises((DataError, ParameterError), match=words):
            read_clicks(path, only=only)
    with pytest.raises(DataError, match=r"line 4: .*drop such rows \(`only`, --only user\)"):
        read_clicks(path)

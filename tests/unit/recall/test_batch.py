import json

import numpy as np
import pytest

from groupnoise.exceptions import DataError
from groupnoise.recall import RecallOptions, recall_file
from groupnoise.recall import batch as _batch
from groupnoise.recall.history_files import TIME_COLUMNS, read_histories

HISTORIES = [("u1", ["tea"]), ("u2", ["hammer", "x"]), ("u3", ["zz"]), ("u4", ["tea", "cup"])]


def write_histories(path):
    if path.suffix == ".csv":
        clicks = [f"{user},{item}" for user, items in HISTORIES for item in items]
        path.write_text("user,item\n" + "\n".join(clicks) + "\n")
    elif path.suffix == ".jsonl":
        rows = [json.dumps({"user": user, "items": items}) for user, items in HISTORIES]
        path.write_text("\n".join(rows) + "\n\n")
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        if "log" in path.name:
            clicks = [(user, item) for user, items in HISTORIES for item in items]
            columns = {
                "user": [user for user, _ in clicks],
                "item": [item for _, item in clicks],
            }
        else:
            columns = {
                "user": [user for user, _ in HISTORIES],
                "items": [items for _, items in HISTORIES],
            }
        parquet.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_batch, "BLOCK_HISTORIES", 1)


@pytest.mark.parametrize("name", ["h.csv", "h.jsonl", "h.parquet", "log.parquet"])
@pytest.mark.parametrize("block_size", [1, 3, 10])
def test_every_format_yields_the_same_histories(tmp_path, name, block_size):
    path = write_histories(tmp_path / name)
    found = [
        (user, list(block.clicks[begin:end]))
        for block in read_histories(path, block_size=block_size)
        for user, begin, end in zip(block.users, block.offsets[:-1], block.offsets[1:], strict=True)
    ]
    assert found == HISTORIES


def test_a_user_who_comes_back_is_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\na,1\nb,1\na,2\n")
    with pytest.raises(DataError, match="user 'a' comes back in click 3"):
        list(read_histories(path, block_size=2))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.txt", "", r"must end in one of \.parquet"),
        ("h.csv", "visitor,item\n1,2\n", "columns `user` and `item`"),
        ("h.csv", "user,item\n1\n", "line 2 has too few columns"),
        ("h.jsonl", '{"user": 1, "items": [1]}\nnonsense\n', "line 2 must be like"),
        ("h.jsonl", '{"user": 1, "items": "abc"}\n', "line 1 must be like"),
        ("h.jsonl", '{"user": 1, "item": 2}\n{"user": 1, "items": [2]}\n', "line 2 must be like"),
        ("h.jsonl", '{"user": [1], "item": 2}\n', "line 1 must be like"),
        ("h.jsonl", "[1, 2]\n", "line 1 must be like"),
        ("h.csv", "user,item,time\na,1,soon\n", "line 2: column 'time' holds 'soon'"),
        ("h.csv", "user,item,time\na,1,31/01/2024\n", "ISO dates such as 2024-01-31"),
        ("h.csv", "user,item,time\na,1,\n", "line 2: column 'time' holds ''"),
        ("h.csv", "\n\nuser,item\n1,2\n3\n", "line 5 has too few columns"),
        ("h.parquet", "not parquet", "cannot be read as parquet"),
    ],
)
def test_unreadable_histories_are_named_by_file_and_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        list(read_histories(tmp_path / name, block_size=2))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bom.csv", b"\xef\xbb\xbfuser,item\na,1\na,2\nb,3\n"),
        ("semicolons.csv", b"item;user\r\n1;a\r\n2;a\r\n3;b\r\n"),
        ("quoted.csv", b'\nuser\t"item"\r"a"\t1\ra\t2\rb\t3\r'),
        ("times.csv", b"user,item,Time\na,1,9\na,2,10\nb,3,2.5\n"),
        ("dates.csv", b"date,user,item\n2024-01-31,a,1\n2024/02/01 09:00:00,a,2\n2020-01-01,b,3"),
        ("zones.csv", b"user,item,ts\na,1,2024-01-01T02:00:00Z\na,2,2024-01-01T02:00:01\nb,3,1"),
        (
            "clicks.jsonl",
            b'\xef\xbb\xbf{"user": "a", "item": "1", "time": 1}\r\n\n'
            b'{"user": "a", "item": "2", "time": 1}\r\n{"user": "b", "item": "3", "time": 0}',
        ),
    ],
)
def test_logs_are_read_as_they_are_for_training(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    (block,) = read_histories(tmp_path / name, block_size=9)
    assert (block.users, block.clicks) == (["a", "b"], ["1", "2", "3"])
    assert block.offsets.tolist() == [0, 2, 3]


def test_the_same_names_of_the_time_are_known_as_for_training():
    from groupnoise.io.columns import USUAL_NAMES

    assert USUAL_NAMES["time"] == TIME_COLUMNS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "user,item,time\na,1,2\nb,1,1\nb,2,0\n"),
        ("log.csv", "user,item,time\na,1,9\nb,1,10\nb,2,9\n"),
        ("log.csv", "user,item,date\na,1,2024-01-02\nb,2,2024-01-02\nb,3,2024-01-01\n"),
        (
            "log.jsonl",
            "".join(f'{{"user": "{u}", "item": 1, "ts": {t}}}\n' for u, t in ["a1", "b3", "b2"]),
        ),
    ],
)
def test_a_user_who_goes_back_in_time_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=r"click 3 of user 'b' is earlier .* sort the log by user"):
        list(read_histories(tmp_path / name, block_size=2))


def test_the_times_of_parquet_are_compared_in_their_own_type(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from datetime import date, datetime

    from pyarrow import parquet

    ascending = [datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(2023, 1, 1)]
    for times in (ascending, [date(2024, 1, 1), date(2024, 1, 2), date(2023, 1, 1)], [1, 2, 0]):
        for order, is_sorted in (([0, 1, 2], True), ([1, 0, 2], False)):
            columns = {"user": ["a", "a", "b"], "item": [1, 2, 3]}
            columns["timestamp"] = [times[position] for position in order]
            parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
            blocks = read_histories(tmp_path / "log.parquet", block_size=9)
            if is_sorted:
                assert [block.users for block in blocks] == [["a", "b"]]
            else:
                with pytest.raises(DataError, match="click 2 of user 'a' is earlier"):
                    list(blocks)


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes("user,item\na,caf\u00e9\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"not UTF-8 .*iconv"):
        list(read_histories(tmp_path / "log.csv", block_size=1))


@pytest.mark.parametrize("bad", ["a,1\nb,1\na,2\n", "a,1\nb,1\nc\n", "nonsense\n"])
def test_bad_input_leaves_nothing_behind_to_block_the_corrected_file(
    shop, tmp_path, small_blocks, bad
):
    (tmp_path / "h.csv").write_text("user,item\n" + bad)
    with pytest.raises(DataError):
        recall_file(shop, tmp_path / "h.csv", tmp_path / "out.csv")
    assert [path.name for path in tmp_path.glob("out*")] == []
    (tmp_path / "h.csv").write_text("user,item\na,tea\n")
    assert recall_file(shop, tmp_path / "h.csv", tmp_path / "out.csv").n_histories == 1


def test_options_that_are_refused_leave_nothing_behind(shop, tmp_path):
    histories = write_histories(tmp_path / "h.csv")
    with pytest.raises(DataError, match="no category is called"):
        recall_file(shop, histories, tmp_path / "o.csv", RecallOptions(categories=("toys",)))
    assert list(tmp_path.glob("o.csv*")) == []


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_histories(tmp_path / "none.csv", block_size=1)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_batch_answers_as_the_model_does(shop, tmp_path, ending, small_blocks):
    histories = write_histories(tmp_path / "h.jsonl")
    output = tmp_path / f"recs.{ending}"
    records = []
    done = recall_file(shop, histories, output, RecallOptions(top=2), on_block=records.append)
    assert (done.n_histories, done.n_unknown, done.n_by_popularity) == (4, 2, 1)
    assert len(records) == 4
    expected = shop.recall([items for _, items in HISTORIES], RecallOptions(top=2))
    answers = read_answers(output)
    assert list(answers) == [user for user, _ in HISTORIES]
    for number, answer in enumerate(answers.values()):
        assert answer == shop.items.ids_of(expected.row(number)[0])
    assert [path.name for path in tmp_path.glob("recs*")] == [output.name]


def read_answers(path):
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return {row["user"]: row["items"] for row in rows}
    if path.suffix == ".parquet":
        from pyarrow import parquet

        rows = parquet.read_table(path).to_pylist()
        return {row["user"]: row["items"] for row in rows}
    answers = {}
    header, *lines = path.read_text().splitlines()
    assert header == "user,rank,item,score,source"
    for line in lines:
        user, _, item, _, source = line.split(",")
        assert source == ("popularity" if user == "u3" else "history")
        answers.setdefault(user, []).append(item)
    return answers


class Stop(Exception):
    """Ends a run in the middle."""


def test_an_interrupted_run_resumes_where_it_stopped(shop, tmp_path, small_blocks):
    histories, output = write_histories(tmp_path / "h.jsonl"), tmp_path / "recs.csv"

    def stop_after_two(progress):
        if progress.n_histories == 2:
            raise Stop

    with pytest.raises(Stop):
        recall_file(shop, histories, output, n_threads=1, on_block=stop_after_two)
    assert not output.exists()
    parts = tmp_path / "recs.csv.parts"
    finished = {path.name: path.stat().st_mtime_ns for path in parts.glob("part-*.csv")}
    assert len(finished) >= 2
    with pytest.raises(DataError, match="--resume"):
        recall_file(shop, histories, output)

    def check_untouched(_):
        for name, written in finished.items():
            assert (parts / name).stat().st_mtime_ns == written

    done = recall_file(shop, histories, output, resume=True, on_block=check_untouched)
    assert done.n_histories == 4
    whole = tmp_path / "whole.csv"
    recall_file(shop, histories, whole)
    assert output.read_bytes() == whole.read_bytes()


def test_a_run_is_not_resumed_with_other_options(shop, tmp_path, small_blocks):
    histories, output = write_histories(tmp_path / "h.jsonl"), tmp_path / "recs.csv"

    def stop(_):
        raise Stop

    with pytest.raises(Stop):
        recall_file(shop, histories, output, on_block=stop)
    with pytest.raises(DataError, match="another artifact, input or options"):
        recall_file(shop, histories, output, RecallOptions(top=3), resume=True)


def test_a_file_without_histories_is_refused(shop, tmp_path):
    (tmp_path / "h.csv").write_text("user,item\n")
    with pytest.raises(DataError, match="holds no history"):
        recall_file(shop, tmp_path / "h.csv", tmp_path / "out.csv")
    with pytest.raises(DataError, match="must end in"):
        recall_file(shop, tmp_path / "h.csv", tmp_path / "out.xlsx")


def test_numbered_items_stay_numbers_in_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from groupnoise.recall import open_artifact
    from serving_support import write_random

    model = open_artifact(write_random(tmp_path / "artifact", 50))
    table = pa.table({"user": [1, 2], "items": [[3, 4], [99]]})
    parquet.write_table(table, tmp_path / "h.parquet")
    done = recall_file(model, tmp_path / "h.parquet", tmp_path / "out.parquet")
    assert (done.n_total, done.n_unknown) == (2, 1)
    answer = parquet.read_table(tmp_path / "out.parquet")
    assert answer.schema.field("items").type.value_type == pa.int64()
    assert answer["items"].to_pylist()[1] == np.arange(49, 39, -1).tolist()
    assert answer["source"].to_pylist() == ["history", "popularity"]

import json

import numpy as np
import pytest

from groupnoise.clicks import convert_clicks
from groupnoise.clicks.reading.log import read_histories
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.recall import RecallOptions, batch as _batch, recall_file

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


def as_lists(histories):
    rows = np.split(histories.item_ids[histories.items], histories.offsets[1:-1])
    return [(user, row.tolist()) for user, row in zip(histories.user_ids, rows, strict=True)]


@pytest.mark.parametrize("name", ["h.csv", "h.jsonl", "h.parquet", "log.parquet"])
def test_every_format_yields_the_same_histories(tmp_path, name):
    assert as_lists(read_histories(write_histories(tmp_path / name))) == HISTORIES


def test_rows_of_lists_stay_where_they_are_even_empty_ones(tmp_path):
    lists = [("b", ["x", "y"]), ("a", []), ("b", ["y"])]
    rows = [json.dumps({"user": user, "items": items}) for user, items in lists]
    (tmp_path / "h.jsonl").write_text("\n".join(rows))
    assert as_lists(read_histories(tmp_path / "h.jsonl")) == lists
    (tmp_path / "empty.jsonl").write_text('{"user": 1, "items": []}\n')
    assert as_lists(read_histories(tmp_path / "empty.jsonl")) == [(1, [])]


def test_a_large_log_is_put_in_order_on_disk_and_answered_alike(shop, tmp_path, monkeypatch):
    log = "who,item,when\nu2,hammer,1\nu1,cup,9\nu2,nail,0\nu1,tea,3\n"
    (tmp_path / "log.csv").write_text(log)
    columns = {"user": "who", "time": "when"}
    recall_file(shop, tmp_path / "log.csv", tmp_path / "small.jsonl", **columns)
    monkeypatch.setattr(_batch, "IN_MEMORY_BYTES", 0)
    recall_file(shop, tmp_path / "log.csv", tmp_path / "large.jsonl", **columns)
    assert (tmp_path / "large.jsonl").read_bytes() == (tmp_path / "small.jsonl").read_bytes()
    (tmp_path / "lists.jsonl").write_text('{"user": "a", "items": []}\n')
    assert recall_file(shop, tmp_path / "lists.jsonl", tmp_path / "o.csv").n_by_popularity == 1
    assert [path.name for path in tmp_path.glob("*.parts*")] == []


def test_a_data_folder_is_answered_too(shop, tmp_path):
    (tmp_path / "log.csv").write_text("user,item\na,tea\nb,nail\n")
    convert_clicks(tmp_path / "log.csv", tmp_path / "folder")
    assert recall_file(shop, tmp_path / "folder", tmp_path / "out.csv").n_histories == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.csv", "whom,item\n1,2\n", "has no column that looks like the user"),
        ("h.csv", "user,item\n1\n", "line 2"),
        ("h.jsonl", '{"user": 1, "items": [1]}\nnonsense\n', "line 2"),
        ("h.csv", "user,item,time\na,1,soon\n", "holds 'soon', which is neither a number nor"),
        ("h.csv", "user,item,time\na,1,\n", "column 'time' is empty there"),
        ("h.parquet", "not parquet", "not a whole Parquet file"),
        ("h.xlsx", "PK", "save it as CSV"),
    ],
)
def test_unreadable_histories_are_named_by_file_and_line(shop, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as refused:
        recall_file(shop, tmp_path / name, tmp_path / "out.csv")
    assert name in str(refused.value)
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("bad", ["a,1\nb,\na,2\n", "a,1\nb,1\nc\n", "nonsense\n"])
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


def test_a_missing_file_is_named(shop, tmp_path):
    with pytest.raises(MissingDataError, match=r"none\.csv"):
        recall_file(shop, tmp_path / "none.csv", tmp_path / "out.csv")


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
    with pytest.raises(DataError, match="at least one is needed"):
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


def test_a_log_of_another_shop_is_told_of(shop, tmp_path):
    (tmp_path / "h.csv").write_text("user,item\na,1\nb,2\n")
    said = []
    recall_file(shop, tmp_path / "h.csv", tmp_path / "out.csv", report=said.append)
    assert any("knows none of the 2 items" in sentence for sentence in said)

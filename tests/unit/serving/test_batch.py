import json

import numpy as np
import pytest

from groupnoise.exceptions import DataError
from groupnoise.serving import RecallOptions, _batch, recall_file
from groupnoise.serving._history_files import read_histories

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
        ("h.parquet", "not parquet", "cannot be read as parquet"),
    ],
)
def test_unreadable_histories_are_named_by_file_and_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        list(read_histories(tmp_path / name, block_size=2))


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
    assert header == "user,rank,item,score"
    for line in lines:
        user, _, item, _ = line.split(",")
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

    from groupnoise.serving import open_artifact
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

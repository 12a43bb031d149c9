"""What users do to files: every fault ends in one sentence with file, line and remedy."""

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.io import savemat

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.clicks import convert_clicks, read_clicks
from groupnoise.exceptions import DataError, MissingDataError, ParameterError


def read_whole(path, folder, **options):
    return read_clicks(path, **options)


def read_streamed(path, folder, **options):
    return convert_clicks(path, folder / "out", rows_at_once=50, **options)


both_ways = pytest.mark.parametrize("read", [read_whole, read_streamed])


def file_of(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def assert_refused(path, read, *parts):
    """The error is one line, names the file, and holds every part; nothing is left behind."""
    before = set(path.parent.iterdir())
    with pytest.raises(DataError) as caught:
        read(path, path.parent)
    sentence = str(caught.value)
    assert path.name in sentence
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence
    assert set(path.parent.iterdir()) == before


@both_ways
def test_a_missing_column(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "whom,item\n1,2\n")
    assert_refused(
        path,
        read,
        "no column that looks like the user",
        "name it with `user` (--user)",
        "'whom', 'item'",
    )


def test_a_column_named_by_option_that_is_not_there(tmp_path):
    path = file_of(tmp_path, "log.csv", "user,item\n1,2\n")
    with pytest.raises(DataError, match=r"no column 'when' to be the time; its columns are 'user'"):
        read_clicks(path, time="when")
    with pytest.raises(DataError, match=r"no column 'User' to be the user \(did you mean 'user'"):
        read_clicks(path, user="User")
    with pytest.raises(DataError, match=r"no column 'g\*' to be the features"):
        read_bags(file_of(tmp_path, "b.csv", "bag,label,f\n1,1,1\n"), features="g*")


def test_mixed_types_in_a_feature_column(tmp_path):
    path = file_of(tmp_path, "bags.csv", "bag,label,f\n1,a,0.5\n1,a,1.5\n2,b,n/a\n3,b,?\n")
    assert_refused(
        path, lambda p, _: read_bags(p), "line 4", "column 'f' holds 'n/a', which is not a number",
        "2 such cells", "correct or drop",
    )  # fmt: skip


@both_ways
def test_mixed_types_in_the_time_column(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,time\n1,2,100\n1,3,soon\n")
    assert_refused(path, read, "line 3", "column 'time' holds 'soon'")


@both_ways
def test_dates_that_may_be_read_two_ways(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,time\n1,2,01/05/2024\n1,3,02/03/2024\n")
    assert_refused(path, read, "may be day/month/year or month/day/year", "--date-order dmy")


@both_ways
def test_dates_in_two_orders(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,time\n1,2,13/05/2024\n1,3,02/28/2024\n")
    assert_refused(path, read, "line 3", "'02/28/2024'", "YYYY-MM-DD")


def test_decimal_commas(tmp_path):
    path = file_of(tmp_path, "bags.csv", 'bag,label,f\n1,a,"0,5"\n1,a,"1,5"\n')
    assert_refused(path, lambda p, _: read_bags(p), "line 2", "'0,5'", "say --decimal ,")
    path = file_of(tmp_path, "bags.csv", "bag;label;f\n1;a;0.5\n1;a;1,5\n")
    assert_refused(path, lambda p, _: read_bags(p), "line 3", "'1,5'", "write it with a point")


@both_ways
def test_a_spreadsheet_of_another_kind_or_cut_off_is_to_be_saved_again(tmp_path, read):
    path = file_of(tmp_path, "log.ods", b"PK")
    assert_refused(path, read, "is a spreadsheet", "save it as .xlsx or CSV")
    path = file_of(tmp_path, "log.xlsx", b"PK")
    assert_refused(path, read, "is no whole .xlsx workbook", "save it as CSV")


@both_ways
def test_a_blank_id(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item\n1,a\n1,  \n")
    assert_refused(path, read, "line 3", "is blank")


def test_several_columns_without_name_that_hold_something(tmp_path):
    path = file_of(tmp_path, "a.csv", "x,candidates,,,\n1,a,2,,3\n2,b,2,,3\n")
    assert_refused(path, lambda p, _: read_candidates(p), "line 1: 2 columns have no name")


def test_features_that_are_not_finite(tmp_path):
    path = file_of(tmp_path, "bags.csv", "bag,label,f\n1,a,0.5\n1,a,nan\n")
    assert_refused(path, lambda p, _: read_bags(p), "line 3", "not finite", "impute or drop")


@both_ways
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.txt", "log.jsonl"])
def test_broken_utf8(tmp_path, read, name):
    rows = {
        "csv": (b"user,item\n", b"1,caf\xe9\n", b"1,tea\n"),
        "txt": (b"", b"1 caf\xe9\n", b"1 tea\n"),
        "jsonl": (b"", b'{"user":1,"item":"caf\xe9"}\n', b'{"user":1,"item":"tea"}\n'),
    }
    head, bad, good = rows[name.split(".")[1]]
    content = head + good * 3 + bad + good
    line = content[: content.index(bad)].count(b"\n") + 1
    path = file_of(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    assert_refused(
        path, read, f"line {line}: byte 0xe9 is not UTF-8", "--encoding cp1252 if 'caf\xe9"
    )


@both_ways
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8"])
def test_text_is_read_in_the_encoding_that_is_said(tmp_path, read, encoding):
    path = file_of(tmp_path, "log.csv", "user,item\n1,café\n1,Tee\n".encode(encoding))
    clicks = read(path, tmp_path, encoding=encoding)
    assert sorted(clicks.item_ids.tolist()) == ["Tee", "café"]


def test_an_encoding_that_is_none_or_not_that_of_the_file_is_refused(tmp_path):
    path = file_of(tmp_path, "bags.csv", "bag,label,f\n1,ä,0.5\n")
    with pytest.raises(ParameterError, match=r"'nix' is not known; give one such as cp1252"):
        read_bags(path, encoding="nix")
    with pytest.raises(DataError, match=r"bags\.csv is not text in the encoding that was said"):
        read_bags(path, encoding="ascii")


def test_missing_numbers_of_all_columns_are_told_together(tmp_path):
    cells = ["bag,label,a,b,c,d,e,f,g", "1,yes,1,1,1,1,1,1,1", "1,yes,,NA,nan,?,,n/a,1"]
    path = file_of(
        tmp_path, "bags.csv", "\n".join([*cells, "2,no,2,,2,2,2,2,2", "2,no,2,2,2,2,2,2,2"])
    )
    with pytest.raises(DataError) as refused:
        read_bags(path, features="a,b,c,d,e,f,g")
    told = "line 3, and 1 further row: numbers are missing in the columns 'a', 'b', 'c', 'd', 'e' "
    assert f"{told}and 1 more" in str(refused.value)
    assert "fill them" in str(refused.value)


def test_few_missing_numbers_of_a_column_are_filled_unasked_and_told(tmp_path):
    rows = [f"{n // 2},{'yes' if n % 4 > 1 else 'no'},{n}.5,{n * n % 7}" for n in range(30)]
    whole = file_of(tmp_path, "whole.csv", "\n".join(["bag,label,a,b", *rows]))
    rows[3], rows[8] = "1,yes,,2", "4,no,8.5,NA"
    gaps = file_of(tmp_path, "gaps.csv", "\n".join(["bag,label,a,b", *rows]))
    said = []
    bags = read_bags(gaps, report=said.append)
    assert bags.columns["fill"] == {"a": [15.5, 0.5, 29.5], "b": [2.0, 0.0, 4.0]}
    assert bags.bags.objects[3].tolist() == [15.5, 2.0]
    assert (
        "filled 2 missing numbers in the columns 'a', 'b' with the median of the column "
        "(--fill no refuses them)" in said
    )
    with pytest.raises(DataError, match=r"line 5, and 1 further row: numbers are missing"):
        read_bags(gaps, fill="no")
    # A table without gaps gives its medians to further ones, few rows or not.
    values = read_bags(whole).columns["fill"]
    further = file_of(tmp_path, "more.csv", "bag,a,b\n9,,1\n")
    again = read_bags(
        further, group="bag", fill=values, feature_names=("a", "b"), labels_needed=False
    )
    assert again.bags.objects.tolist() == [[15.0, 1.0]]
    mostly = [f"{n // 2},{'yes' if n % 4 > 1 else 'no'},,{n % 7}" for n in range(20)]
    few = file_of(tmp_path, "few.csv", "\n".join(["bag,label,a,b", *mostly, *rows[20:]]))
    with pytest.raises(DataError, match=r"numbers are missing in the column 'a'; fill them"):
        read_bags(few)


@pytest.mark.parametrize("word", ["#N/A", "missing", "--", "NA"])
def test_words_for_nothing_in_cells_of_labels_are_missing_numbers_too(tmp_path, word):
    rows = [f"{n // 2},{'yes' if n % 4 > 1 else 'no'},{n}.5,{n}" for n in range(30)]
    rows[3] = f"1,yes,{word},3"
    said = []
    read_bags(
        file_of(tmp_path, "bags.csv", "\n".join(["bag,label,a,b", *rows])), report=said.append
    )
    assert any("filled 1 missing number in the column 'a'" in sentence for sentence in said)


def test_columns_far_outside_of_those_of_the_training_are_told_of(tmp_path):
    rows = [f"{n // 2},{'yes' if n % 4 > 1 else 'no'},{150 + n}.5,{n * n % 7}" for n in range(30)]
    values = read_bags(file_of(tmp_path, "cm.csv", "\n".join(["bag,label,a,b", *rows])))
    metres = "\n".join(["bag,a,b", *(f"{n},1.{n}5,{n % 3}" for n in range(6))])
    said = []
    options = {"group": "bag", "feature_names": ("a", "b"), "labels_needed": False}
    options = {**options, "fill": values.columns["fill"], "report": said.append}
    read_bags(file_of(tmp_path, "m.csv", metres), **options)
    assert said[-1] == (
        "column 'a' goes from 1.05 to 1.55, and went from 150.5 to 179.5 where the model learned: "
        "see that both have the same units"
    )
    said.clear()
    alike = "\n".join(["bag,a,b", *(f"{n},14{n},{n % 3}" for n in range(6))])
    read_bags(file_of(tmp_path, "alike.csv", alike), **options)
    assert not any("units" in sentence for sentence in said)


@pytest.mark.parametrize("as_frame", [False, True])
def test_missing_numbers_are_filled_with_medians_that_further_files_keep(tmp_path, as_frame):
    cells = "bag,label,a,b\n1,yes,1,7.5\n1,yes,,8\n2,no,3,NA\n2,no,8,9\n"
    source = file_of(tmp_path, "bags.csv", cells)
    source = pd.read_csv(source) if as_frame else source
    with pytest.raises(DataError, match=r"numbers are missing in .*fill them .* --fill median"):
        read_bags(source)
    said = []
    bags = read_bags(source, fill="median", report=said.append)
    assert bags.bags.objects.tolist() == [[1, 7.5], [3, 8], [3, 8], [8, 9]]
    filled = "filled 2 missing numbers in the columns 'a', 'b'"
    assert f"{filled} with the median of the column" in said
    assert bags.columns["fill"] == {"a": [3.0, 1.0, 8.0], "b": [8.0, 7.5, 9.0]}
    further = file_of(tmp_path, "more.csv", "bag,a,b\n9,,?\n")
    known = {**bags.columns, "feature_names": bags.feature_names, "labels_needed": False}
    again = read_bags(
        further,
        group="bag",
        report=said.append,
        **{part: known[part] for part in ("fill", "feature_names", "labels_needed")},
    )
    assert again.bags.objects.tolist() == [[3, 8]]
    assert said[-1] == f"{filled} as when the model was fitted"
    with pytest.raises(ParameterError, match=r"fill \(--fill\) must be median or no; got 'mean'"):
        read_bags(source, fill="mean")


def test_missing_numbers_of_candidates_are_filled(tmp_path):
    path = file_of(tmp_path, "rows.csv", "candidates,a,b\nx;y,1,2\nx,,3\ny,5,4\n")
    rows = read_candidates(path, fill="median")
    assert rows.features.tolist() == [[1, 2], [3, 3], [5, 4]]


@both_ways
def test_utf16_text(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item\n1,2\n".encode("utf-16"))
    assert_refused(path, read, "line 1", "--encoding utf-16")


@both_ways
@pytest.mark.parametrize("name", ["log.csv.gz", "log.txt.gz"])
def test_a_truncated_gzip(tmp_path, read, name):
    generator = np.random.default_rng(0)
    sep = "," if "csv" in name else " "
    rows = "".join(f"{u}{sep}{i}\n" for u, i in generator.integers(0, 999, (50_000, 2)))
    whole = gzip.compress(("user,item\n" + rows if "csv" in name else rows).encode())
    path = file_of(tmp_path, name, whole[: len(whole) * 3 // 4])
    assert_refused(path, read, "not a whole gzip file", "fetch it again")
    path = file_of(tmp_path, name, b"not gzip at all")
    assert_refused(path, read, "not a whole gzip file")


@both_ways
@pytest.mark.parametrize("name", ["log.parquet", "log.arrow"])
@pytest.mark.parametrize("kept", [0.0, 0.4, 0.9])
def test_a_truncated_parquet_or_arrow_file(tmp_path, read, name, kept):
    frame = pl.DataFrame({"user": range(5000), "item": range(5000)})
    path = tmp_path / name
    frame.write_parquet(path) if name.endswith("parquet") else frame.write_ipc(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert_refused(path, read, "is empty" if kept == 0 else "cut off or damaged")


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.97])
def test_truncated_mat_and_npz_files(tmp_path, kept):
    arrays = {
        "data": np.random.default_rng(0).random((200, 5)),
        "partial_target": np.ones((200, 2)),
    }
    savemat(tmp_path / "a.mat", arrays)
    np.savez(tmp_path / "a.npz", **arrays)
    for path in (tmp_path / "a.mat", tmp_path / "a.npz"):
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * kept)])
        assert_refused(path, lambda p, _: read_candidates(p), "cut off or damaged")


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", data=np.array([{"a": 1}], dtype=object))
    assert_refused(tmp_path / "a.npz", lambda p, _: read_candidates(p), "pickled objects")


def test_a_matlab_7_3_file_says_how_to_save_it(tmp_path):
    header = b"MATLAB 7.3 MAT-file".ljust(124) + bytes([0x00, 0x02]) + b"IM"
    path = file_of(tmp_path, "a.mat", header + b"\x89HDF\r\n\x1a\n" + bytes(500))
    assert_refused(path, lambda p, _: read_candidates(p), "MATLAB 7.3", "-v7")


@both_ways
@pytest.mark.parametrize("name", ["log.csv", "log.txt", "log.jsonl", "log.parquet"])
@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_empty_file(tmp_path, read, name, content):
    path = file_of(tmp_path, name, content)
    if name.endswith("parquet") and content:
        assert_refused(path, read, "cut off or damaged" if read is read_streamed else "is empty")
    else:
        assert_refused(path, read, "is empty")


@both_ways
def test_a_header_without_rows(tmp_path, read):
    assert_refused(file_of(tmp_path, "log.csv", "user,item\n"), read, "at least one is needed")


@both_ways
def test_a_line_with_too_many_cells(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item\n1,2\n1,2,3\n")
    assert_refused(path, read, "line 3: 3 cells where the first line has 2", "quote")


@both_ways
def test_a_quotation_mark_that_is_never_closed(tmp_path, read):
    path = file_of(tmp_path, "log.csv", 'user,item\n1,"2\n3,4\n')
    assert_refused(path, read, "line 2: a quotation mark opens a cell there and is not closed")
    path = file_of(tmp_path, "log.csv", 'user,item\n1,"a\n\nb"\n5,6" pipe\n1,"2\n3,"4"\n7,8\n')
    assert_refused(path, read, "line 6: a quotation mark opens a cell there and is not closed")


def test_a_separator_that_is_none_names_the_one_that_is(tmp_path):
    path = file_of(tmp_path, "log.csv", "user;item\n1;2\n1;3\n")
    for given in (",", "tab"):
        with pytest.raises(DataError, match="one column; ';' does: say --separator ';'"):
            read_clicks(path, separator=given)
    path = file_of(tmp_path, "log.csv", "user id;item id\n1;2\n1;a b c d\n")
    with pytest.raises(DataError, match=r"line 3: 4 cells .* or say --separator ';', by which all"):
        read_clicks(path, separator="space", user="user")


@both_ways
def test_a_line_that_ends_too_early(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item\n1,2\n\n3\n")
    assert_refused(path, read, "line 4: column 'item' is empty", "fill it or drop")


def test_a_word_that_stands_alone(tmp_path):
    path = file_of(tmp_path, "log.txt", "1 2\n\n3\n")
    assert_refused(path, read_whole, "line 3: '3' stands alone")


@both_ways
def test_two_columns_of_one_name(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,user\n1,2,3\n")
    assert_refused(path, read, "line 1: two columns are called 'user'")


@both_ways
def test_two_columns_of_one_name_below_comments_are_said_to_stand_there(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "# exported\n# twice\nuser,item,user\n1,2,3\n")
    assert_refused(path, read, "line 3: two columns are called 'user'")


@both_ways
def test_json_that_is_broken_or_no_object(tmp_path, read):
    path = file_of(tmp_path, "log.jsonl", '{"user":1,"item":2}\n\n{"user":1,\n')
    assert_refused(path, read, "line 3: not valid JSON")
    path = file_of(tmp_path, "log.jsonl", '{"user":1,"item":2}\n[1, 2]\n')
    assert_refused(path, read, "line 2: a JSON object is needed")


@both_ways
@pytest.mark.parametrize(
    ("cell", "kind", "reason"),
    [
        (float("nan"), pl.Float64, "fill it or drop that row"),
        (float("inf"), pl.Float64, "fill it or drop that row"),
        (2.0**63, pl.Float64, "write the ids as whole numbers or text"),
        (2.0**53, pl.Float64, "write the ids as whole numbers or text"),
        (2.0**24, pl.Float32, "write the ids as whole numbers or text"),
        (1.5, pl.Float64, "ids must be text or whole numbers"),
    ],
)
def test_ids_that_are_numbers_with_a_fraction(tmp_path, read, cell, kind, reason):
    items = pl.Series([1.0, cell, 2.0], dtype=kind)
    pl.DataFrame({"user": [1, 1, 1], "item": items}).write_parquet(tmp_path / "log.parquet")
    assert_refused(tmp_path / "log.parquet", read, "row 1: column 'item' holds", reason)


@both_ways
def test_negative_ratings(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,rating\n1,2,5\n1,3,-1\n")
    assert_refused(path, read, "line 3: the rating is negative (-1)", "--min-rating")


@both_ways
def test_unsorted_time_is_put_in_order(tmp_path, read):
    path = file_of(tmp_path, "log.csv", "user,item,time\n1,30,3\n1,10,1\n2,9,9\n1,20,2\n")
    clicks = read(path, tmp_path)
    assert clicks.item_ids[clicks.histories[0]].tolist() == [10, 20, 30]


def test_files_of_one_folder_that_do_not_fit_together(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    file_of(folder, "a.csv", "user,item\n1,2\n")
    file_of(folder, "b.csv", "user,product\n1,2\n")
    for read in (read_whole, read_streamed):
        with pytest.raises(DataError, match="files read together must share theirs"):
            read(folder, tmp_path)
    file_of(folder, "c.jsonl", "{}\n")
    with pytest.raises(DataError, match=r"several formats \(csv, jsonl\)"):
        read_clicks(folder)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(MissingDataError, match=r"there is no file .*nothing.csv; check the path"):
        read_clicks(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match=r"data.xyz has no suffix that says its format"):
        read_clicks(file_of(tmp_path, "data.xyz", b"\x00\x01 2"))
    with pytest.raises(DataError, match="neither a path nor a data frame"):
        read_clicks(42)
    with pytest.raises(ParameterError, match="format must be one of"):
        read_clicks(tmp_path, format="excel")
    with pytest.raises(DataError, match="cannot be opened"):
        read_clicks("nowhere://bucket/log.csv")


def test_a_folder_and_a_file_without_read_permission():
    if os.name != "posix":
        pytest.skip("permissions of this kind are POSIX")
    # Root may read everything: the child gives up its rights once it has loaded the library.
    script = (
        "import os, sys\n"
        "from groupnoise.clicks import read_clicks\n"
        "from groupnoise.exceptions import DataError\n"
        "import polars\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        read_clicks(path)\n"
        "    except DataError as error:\n"
        "        print(error)\n"
    )
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        folder, file = Path(base) / "closed", Path(base) / "closed.csv"
        folder.mkdir()
        file_of(folder, "a.csv", "user,item\n1,2\n")
        file.write_text("user,item\n1,2\n")
        folder.chmod(0o000)
        file.chmod(0o000)
        try:
            answer = subprocess.run(
                [sys.executable, "-c", script, str(folder), str(file)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
        finally:
            folder.chmod(0o700)
    remedy = "may not be read by this user; change its permissions or copy it."
    assert answer.stdout.splitlines() == [f"{folder} {remedy}", f"{file} {remedy}"]


def test_equally_many_rows_of_features_in_each_cell_are_refused_with_a_remedy():
    rows = {
        "bag": ["a", "b"],
        "label": ["x", "y"],
        "patches": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    }
    with pytest.raises(DataError, match=r"'patches' holds several .* frame.explode\('patches'\)"):
        read_bags(pd.DataFrame(rows))
    assert len(read_bags(pd.DataFrame(rows).explode("patches")).bags) == 2


@pytest.mark.parametrize("mark", ["x", "✓", "Ja"])
def test_ticked_columns_are_candidates(tmp_path, mark):
    text = f"is_a,is_b,f\n{mark},,1\n,{mark},2\n{mark},{mark},3\n"
    rows = read_candidates(file_of(tmp_path, "rows.csv", text), candidates="is_*")
    assert rows.candidates.tolist() == [[True, False], [False, True], [True, True]]

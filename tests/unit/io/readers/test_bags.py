"""Bags read from tables, arrays and AMIL files."""

import json

import numpy as np
import polars as pl
import pytest

from groupnoise.bags import load_digit_bags, read_bags
from groupnoise.exceptions import DataError

ROWS = """bag,f1,f2,label,truth
b,1,2,cat,cat
a,3,4,dog,
b,5,6,cat,background
a,7,8,dog,dog
"""


def write(path, text):
    path.write_text(text)
    return path


def test_rows_of_a_bag_need_not_be_adjacent(tmp_path):
    bags = read_bags(write(tmp_path / "bags.csv", ROWS))
    assert bags.name == "bags"
    assert bags.bags[0].tolist() == [[1, 2], [5, 6]]
    assert bags.bags[1].tolist() == [[3, 4], [7, 8]]
    assert bags.class_names == ["cat", "dog"]
    assert bags.labels.tolist() == [[True, False], [False, True]]
    assert bags.instance_labels.tolist() == [0, -1, -1, 1]
    assert bags.bag_ids.tolist() == ["b", "a"]
    assert bags.source_rows.tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("cells", [("1", "0", ""), ("1.0", "0.0", ""), ("true", "false", "")])
def test_a_truth_of_zeros_and_ones_is_read_beside_labels_with_names(tmp_path, cells):
    told = []
    rows = [
        f"a,1,pos,{cells[0]}",
        f"a,2,pos,{cells[1]}",
        f"b,3,neg,{cells[1]}",
        f"b,4,neg,{cells[2]}",
    ]
    path = write(tmp_path / "bags.csv", "\n".join(["bag,f1,label,truth", *rows]))
    bags = read_bags(path, report=told.append)
    assert bags.class_names == ["neg", "pos"]
    assert bags.instance_labels.tolist() == [1, 0, 0, -1]
    assert "column 'truth' holds 0 and 1: 0 is read as 'neg', 1 as 'pos'" in told


def test_a_truth_of_zeros_and_ones_is_refused_where_no_label_is_negative(tmp_path):
    path = write(tmp_path / "bags.csv", "bag,f1,label,truth\na,1,cat,1\nb,2,dog,0\n")
    with pytest.raises(
        DataError, match=r"line 2: the truth '1' is not one of the 2 labels \('cat', "
    ):
        read_bags(path)


@pytest.mark.parametrize("word", ["Hintergrund", "aucun", "fondo", "nessuno", "i.O.", "normal"])
def test_words_for_background_are_no_class_of_the_truth(tmp_path, word):
    told = []
    path = write(
        tmp_path / "b.csv", f"bag,f1,label,truth\na,1,Riss,RISS\na,2,Riss,{word}\nb,3,Rost,Rost\n"
    )
    bags = read_bags(path, report=told.append)
    assert bags.instance_labels.tolist() == [0, -1, 1]
    is_said = "took 'i.o.' in column 'truth' as background" in told
    assert is_said == (word == "i.O.")


def test_words_for_background_are_the_negative_label_where_there_is_one(tmp_path):
    rows = "bag,f1,label,truth\na,1,krank,krank\na,2,krank,Hintergrund\nb,3,gesund,unauffällig\n"
    bags = read_bags(write(tmp_path / "b.csv", rows))
    assert [bags.class_names[k] for k in bags.instance_labels] == ["krank", "gesund", "gesund"]


def test_every_guess_is_reported(tmp_path):
    told = []
    text = "bag,note,f1,f2,label\n1,hello,1,2,0\n2,you,3,4,1\n"
    read_bags(write(tmp_path / "bags.csv", text), report=told.append)
    assert told == [
        "took column 'bag' as the group",
        "took column 'label' as the label",
        "took 2 numeric columns as features, 'f1' to 'f2'",
        "left out 'note' (not numeric)",
    ]


def test_columns_of_categories_are_features_where_they_are_named(tmp_path):
    rows = [
        "bag,label,colour,n",
        "1,0,red,5",
        "1,0,blue,6",
        "2,1,red,7",
        "2,1,Blue,8",
        "2,1,green,9",
    ]
    path, told = write(tmp_path / "bags.csv", "\n".join([*rows, "3,0,green,1"])), []
    assert read_bags(path, report=told.append).feature_names == ("n",)
    assert "left out 'colour' (not numeric; --features takes its words if you name it)" in told
    named = read_bags(path, features=["colour", "n"])
    assert named.feature_names == ("colour: blue", "colour: green", "colour: red", "n")
    assert named.bags[0].tolist() == [[0, 0, 1, 5], [1, 0, 0, 6]]
    new = write(tmp_path / "new.csv", "bag,label,colour,n\n4,0,violet,2\n4,0,RED,3\n")
    again = read_bags(new, feature_names=named.feature_names)
    assert again.bags[0].tolist() == [[0, 0, 0, 2], [0, 0, 1, 3]]


def categories(path, **more):
    """Write forty bags of three with a category, a number, and what else is given."""
    rows = np.arange(120)
    frame = {
        "bag": rows // 3,
        "n": (rows * 37 % 101) / 7,
        "colour": np.array(["red", "blue"])[rows % 2],
    }
    frame |= {"label": (rows // 3) % 2, **more}
    pl.DataFrame(frame).write_csv(path)
    return path


def test_categories_that_recur_are_features_without_being_named(tmp_path):
    told = []
    found = read_bags(categories(tmp_path / "bags.csv"), report=told.append)
    assert found.feature_names == ("n", "colour: blue", "colour: red")
    assert "took the categories of 'colour' as features" in told
    assert np.array_equal(found.bags.objects[:2, 1:], [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("ref", 100_001 + 7 * (np.arange(120) * 41 % 120), "an id"),
        ("taken", 100_001 + 3 * np.arange(120), "rises from row to row"),
        ("seen", 1_700_000_000 + np.arange(120) * 40 % 997, "times"),
    ],
)
def test_numbers_that_name_rows_or_times_are_no_features(tmp_path, name, cells, why):
    told = []
    found = read_bags(categories(tmp_path / "bags.csv", **{name: cells}), report=told.append)
    assert name not in found.feature_names
    assert any(f"{name!r} ({why}" in each for each in told)


def test_the_part_of_a_split_is_no_feature(tmp_path):
    split = np.array(["train", "test", "train"])[np.arange(120) % 3]
    assert (
        "split: test" not in read_bags(categories(tmp_path / "bags.csv", split=split)).feature_names
    )


@pytest.mark.parametrize("words", [("fine", "broken"), (0, 1)])
def test_a_column_that_tells_the_label_of_every_bag_is_no_feature(tmp_path, words):
    rows, told = np.arange(120), []
    broken = ((rows // 3) % 2 == 1) & (rows % 3 == 1)
    path = categories(tmp_path / "bags.csv", state=np.array(words)[broken.astype(int)])
    assert read_bags(path, report=told.append).feature_names == ("n", "colour: blue", "colour: red")
    assert any("'state' (tells the label of every bag by itself" in each for each in told)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow", "jsonl"])
def test_every_table_format_gives_the_same_bags(tmp_path, suffix):
    frame = pl.DataFrame(
        {"bag": ["x", "x", "y"], "f1": [1.5, 2.5, 3.5], "f2": [0.0, 1.0, 2.0], "label": [1, 1, 7]}
    )
    path = tmp_path / f"data.{suffix}"
    writers = {
        "csv": lambda: frame.write_csv(path),
        "tsv": lambda: frame.write_csv(path, separator="\t"),
        "parquet": lambda: frame.write_parquet(path),
        "arrow": lambda: frame.write_ipc(path),
        "jsonl": lambda: frame.write_ndjson(path),
    }
    writers[suffix]()
    bags = read_bags(path)
    assert bags.bags.objects.tolist() == [[1.5, 0], [2.5, 1], [3.5, 2]]
    assert bags.bags.sizes.tolist() == [2, 1]
    assert bags.class_names == ["1", "7"]


def test_frames_of_pandas_and_polars_are_taken():
    pandas = pytest.importorskip("pandas")
    columns = {"bag": [1, 1, 2], "f": [0.5, 1.5, 2.5], "label": ["a", "a", "b"]}
    for frame in (
        pl.DataFrame(columns), pl.LazyFrame(columns), pandas.DataFrame(columns), columns
    ):  # fmt: skip
        bags = read_bags(frame)
        assert bags.bags.sizes.tolist() == [2, 1]
        assert bags.labels.tolist() == [[True, False], [False, True]]


def test_bags_may_have_several_labels_in_one_cell_or_indicator_columns(tmp_path):
    joined = "bag,f,label\n1,0.5,cat;dog\n1,1,cat;dog\n2,2,bird\n"
    bags = read_bags(write(tmp_path / "joined.csv", joined))
    assert bags.class_names == ["bird", "cat", "dog"]
    assert bags.labels.tolist() == [[False, True, True], [True, False, False]]
    columns = "bag,f,is_cat,is_dog\n1,0.5,1,1\n2,2,0,1\n"
    bags = read_bags(write(tmp_path / "columns.csv", columns), label="is_*")
    assert bags.class_names == ["cat", "dog"]
    assert bags.labels.tolist() == [[True, True], [False, True]]


def test_features_may_be_lists_or_named_by_pattern(tmp_path):
    rows = [{"bag": b, "label": b, "features": [b, b + 0.5], "score": 9} for b in (0, 1)]
    path = write(tmp_path / "bags.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_bags(path).bags.objects.tolist() == [[0, 0.5], [1, 1.5]]
    text = write(tmp_path / "bags.csv", "bag,x1,x2,z,label\n1,1,2,3,0\n")
    assert read_bags(text, features="x*").bags.objects.tolist() == [[1, 2]]
    assert read_bags(text, features=["z", "x1"]).bags.objects.tolist() == [[3, 1]]


def test_rows_of_a_bag_with_different_labels_are_refused(tmp_path):
    path = write(tmp_path / "bags.csv", "bag,f,label\nb7,1,cat\nb7,2,dog\n")
    with pytest.raises(DataError, match=r"bags.csv, line 3: bag 'b7' has rows with different"):
        read_bags(path)


def test_npz_arrays_with_one_label_per_bag_or_per_row(tmp_path):
    digits = load_digit_bags()
    classes = digits.labels.argmax(axis=1)
    for labels in (classes, classes[digits.bags.group_of_object]):
        np.savez(
            tmp_path / "digits.npz",
            X=digits.bags.objects,
            bag=digits.bags.group_of_object,
            bag_label=labels,
            instance_label=digits.instance_labels,
        )
        again = read_bags(tmp_path / "digits.npz")
        assert np.array_equal(again.bags.objects, digits.bags.objects)
        assert np.array_equal(
            again.labels.argmax(axis=1), np.unique(classes, return_inverse=True)[1]
        )
        assert np.array_equal(again.instance_labels, digits.instance_labels)


def test_label_per_bag_follows_sorted_ids_when_bags_come_in_another_order(tmp_path):
    np.savez(tmp_path / "b.npz", X=np.eye(3), bag=[5, 2, 5], bag_label=["two", "five"])
    bags = read_bags(tmp_path / "b.npz")
    assert [bags.class_names[c] for c in bags.labels.argmax(axis=1)] == ["five", "two"]


def test_labels_that_fit_neither_bags_nor_rows_are_refused(tmp_path):
    np.savez(tmp_path / "b.npz", X=np.eye(3), bag=[0, 0, 1], bag_label=[1, 2, 3, 4])
    with pytest.raises(DataError, match="fit neither its 2 bags nor its 3 rows"):
        read_bags(tmp_path / "b.npz")


def test_a_matrix_of_labels_other_than_0_and_1_is_refused(tmp_path):
    signs = np.array([[1, -1], [-1, 1]])
    np.savez(tmp_path / "b.npz", X=np.eye(3), bag=[0, 0, 1], bag_label=signs)
    with pytest.raises(DataError, match=r"b\.npz: a matrix of labels may hold only 0 and 1"):
        read_bags(tmp_path / "b.npz")


def test_an_amil_folder_is_recognised(tmp_path):
    for number, name in enumerate(["apple", "book"]):
        (tmp_path / f"{name}.names").write_text("0,1.\nf1: continuous.\nf2: continuous.\n")
        (tmp_path / f"{name}.data").write_text(f"{name}_1,0,1,2,0.\n{name}_1,1,3,{number},1.\n")
    told = []
    bags = read_bags(tmp_path, report=told.append)
    assert bags.class_names == ["apple", "book"]
    assert bags.instance_labels.tolist() == [-1, 0, -1, 1]
    assert "AMIL" in told[0]


def test_features_keep_the_names_of_their_columns_or_their_positions(tmp_path):
    assert read_bags(write(tmp_path / "bags.csv", ROWS)).feature_names == ("f1", "f2")
    lists = pl.DataFrame({"bag": [1, 2], "features": [[1.0, 2], [3, 4]], "label": ["a", "b"]})
    assert read_bags(lists).feature_names is None
    bare = write(tmp_path / "bare.csv", "1,0.5,a\n2,1.5,b\n")
    named = {"group": "column_1", "label": "column_3", "header": False}
    assert read_bags(bare, **named).feature_names == ("column_2",)


def test_the_columns_of_a_model_are_taken_in_its_order_and_are_never_labels(tmp_path):
    text = "bag,note,target,f2,label,f1\n1,,5,2,a,1\n2,9,6,4,b,3\n"
    bags = read_bags(write(tmp_path / "bags.csv", text), feature_names=["f1", "f2", "target"])
    assert bags.bags.objects.tolist() == [[1, 2, 5], [3, 4, 6]]
    assert bags.class_names == ["a", "b"]
    with pytest.raises(DataError, match=r"bags.csv lacks 1 of the 2 columns .* from: 'f3'"):
        read_bags(tmp_path / "bags.csv", feature_names=["f1", "f3"])


def test_lists_and_arrays_have_no_names_to_match(tmp_path):
    lists = pl.DataFrame({"bag": [1, 2], "features": [[1.0, 2], [3, 4]], "label": ["a", "b"]})
    assert read_bags(lists, feature_names=["f1", "f2"]).bags.objects.tolist() == [[1, 2], [3, 4]]
    np.savez(tmp_path / "a.npz", X=np.eye(2), bag=[0, 1], bag_label=[0, 1])
    assert len(read_bags(tmp_path / "a.npz", feature_names=["f1", "f2"]).bags) == 2


def test_bags_to_be_answered_about_need_no_labels(tmp_path):
    path = write(tmp_path / "a.csv", "bag,f,label\n1,0.5,\n1,1,x\n2,2,y\n")
    bags = read_bags(path, labels_needed=False)
    assert bags.bags.objects.tolist() == [[0.5], [1], [2]]
    assert (bags.labels.shape, bags.class_names) == ((2, 0), [])
    path = write(tmp_path / "b.csv", "bag,f\n1,0.5\n2,2\n")
    assert read_bags(path, labels_needed=False).bag_ids.tolist() == [1, 2]
    np.savez(tmp_path / "c.npz", X=np.eye(2), bag=[0, 1])
    assert len(read_bags(tmp_path / "c.npz", labels_needed=False).bags) == 2


def test_tables_of_a_folder_and_their_labels_are_read_in_the_form_that_is_said(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        write(folder / f"b{number}.csv", f"u;v\n{number},5;1,5\n2,5;3,5\n")
    labels = tmp_path / "labels.csv"
    labels.write_bytes("file;label\nb0;Äcker\nb1;Grau\nb2;Äcker\nb3;Grau\n".encode("cp1252"))
    with pytest.raises(DataError, match="line 2: byte 0xc4 is not UTF-8; say --encoding cp1252"):
        read_bags(folder, labels=labels)
    bags = read_bags(folder, labels=labels, encoding="cp1252", decimal=",")
    assert bags.class_names == ["Grau", "Äcker"]
    assert bags.bags[1].tolist() == [[1.5, 1.5], [2.5, 3.5]]
    with pytest.raises(DataError, match="If each file is a bag, give the table of their labels"):
        read_bags(folder)


@pytest.mark.parametrize("ids", ["a,,,b,,c,,", "a,a,a,b,b,c,c,c"])
def test_ids_and_labels_of_merged_cells_are_those_of_the_rows_below(tmp_path, ids):
    told = []
    labels = ["x", "", "", "y", "", "x", "", ""]
    rows = [
        f"{bag},{label},{n}"
        for n, (bag, label) in enumerate(zip(ids.split(","), labels, strict=True))
    ]
    path = write(tmp_path / "bags.csv", "\n".join(["bag,label,f", *rows]) + "\n")
    bags = read_bags(path, report=told.append)
    assert bags.bag_ids.tolist() == ["a", "b", "c"]
    assert bags.bags.sizes.tolist() == [3, 2, 3]
    assert bags.labels.argmax(axis=1).tolist() == [0, 1, 0]
    assert "took the one label of each bag in column 'label' as that of all its rows" in told
    assert any("with the one above" in each for each in told) == (",," in ids)


def test_numbers_with_units_are_left_out_with_the_reason():
    told = []
    rows = {
        "bag": [1, 1, 2, 2],
        "label": ["x", "x", "y", "y"],
        "f": [1.0, 2.0, 3.0, 5.0],
        "share": ["1 %", "2.5 %", "3 %", "4 %"],
        "sum": ["1,200.5", "9,000.5", "12,000", "7"],
        "day": ["11.03.2024", "12.03.2024", "13.03.2024", "14.03.2024"],
    }
    read_bags(rows, report=told.append)
    why = "numbers with a unit or marks between thousands: write the numbers alone"
    assert told[-1] == f"left out 'share' and 'sum' ({why}); 'day' (not numeric)"

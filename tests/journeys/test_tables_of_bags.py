"""A table per bag: its features are those of all bags, and what tells the answer is none."""

import csv
import json

import numpy as np
import pytest

from groupnoise.bags import read_bags
from groupnoise.exceptions import DataError, MissingColumnError

N_BAGS = 24


def write_tables(place, columns):
    """Write a table per bag of six rows; `columns`: by name, what gives rows of a bag by number."""
    (place / "bags").mkdir()
    for bag in range(N_BAGS):
        with (place / f"bags/b{bag:02d}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*(cells(bag) for cells in columns.values()), strict=True))
    labels = [f"b{bag:02d},{'ab'[bag % 2]}" for bag in range(N_BAGS)]
    (place / "labels.csv").write_text("\n".join(["bag,label", *labels]) + "\n")


def drawn(bag):
    """Six numbers, by which the third row of bags of `b` is told."""
    values = np.random.default_rng(bag).normal(size=6)
    values[2] += 5 * (bag % 2)
    return values.round(4)


def rare(bag):
    """A feature that is zero in most bags, the first one among them."""
    return [0, 0, int(bag % 8 == 3), 0, 0, 0]


def read(place, **options):
    said = []
    labels = place / "labels.csv"
    return read_bags(place / "bags", labels=labels, report=said.append, **options), "; ".join(said)


def test_a_feature_that_the_first_bag_lacks_is_one(tmp_path):
    write_tables(tmp_path, {"f": drawn, "rare": rare, "never": lambda bag: [0] * 6})
    found, said = read(tmp_path)
    assert found.feature_names == ("f", "rare")
    assert found.bags.objects[:, 1].sum() == 3
    assert "left out 'never' (constant)" in said


@pytest.mark.parametrize("name", ["label", "class", "instance_label", "bag_id", "split"])
def test_what_is_called_as_a_label_is_no_feature_and_it_is_said(tmp_path, name):
    write_tables(tmp_path, {"f": drawn, name: lambda bag: [0, 0, bag % 2, 0, 0, 0]})
    if name == "instance_label":
        (tmp_path / "bags/b01.csv").write_text("f,instance_label\n1,a\n6,b\n")
        with pytest.raises(DataError, match="the truth '0' is not one of the 2 labels"):
            read(tmp_path)
        return
    found, said = read(tmp_path)
    assert found.feature_names == ("f",)
    assert f"left out column '{name}' of the tables of bags, which is no feature" in said
    assert (f"--truth {name} takes it" in said) == (name in ("label", "class"))
    named, _ = read(tmp_path, features=["f", name])
    assert named.feature_names == ("f", name)


def test_what_is_the_same_in_all_rows_of_each_bag_is_left_out(tmp_path):
    write_tables(tmp_path, {"f": drawn, "age": lambda bag: [40 + bag % 7] * 6})
    found, said = read(tmp_path)
    assert found.feature_names == ("f",)
    assert "left out 'age': the same in all rows of each bag" in said


def test_x_and_y_alone_are_features(tmp_path):
    write_tables(tmp_path, {"x": drawn, "y": lambda bag: drawn(bag + 100)})
    found, said = read(tmp_path)
    assert (found.feature_names, found.coordinates) == (("x", "y"), None)
    assert "took 'x' and 'y' as features, for no other column is one" in said


def test_the_remedy_for_missing_numbers_is_one_that_can_be_followed(tmp_path):
    columns = {"f1": drawn, "f2": lambda bag: ["", *drawn(bag)[1:]] if bag == 3 else drawn(bag)}
    write_tables(tmp_path, columns)
    with pytest.raises(DataError, match=r"b03\.csv, line 2: .*'f2'; fill them with the median"):
        read(tmp_path)
    found, said = read(tmp_path, fill="median")
    assert "filled 1 missing number in the column 'f2' with the median" in said
    numbers = [drawn(bag) for bag in range(N_BAGS)]
    kept = [float(x) for bag, drawn_ in enumerate(numbers) for x in drawn_[bag == 3 :]]
    assert found.bags[3][0, 1] == pytest.approx(np.median(kept))


def test_a_table_that_lacks_a_column_is_told_of_others(tmp_path):
    write_tables(tmp_path, {"f": drawn, "g": lambda bag: drawn(bag + 100)})
    (tmp_path / "bags/b07.csv").write_text("f\n1\n2\n")
    with pytest.raises(DataError, match=r"b07.csv lacks column 'g', which tables of other bags"):
        read(tmp_path)


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_labels_of_objects_are_what_evaluate_scores_by(command, tmp_path, form):
    columns = {"f": drawn, "is_b": lambda bag: ["a", "a", "ab"[bag % 2], "a", "a", "a"]}
    write_tables(tmp_path, columns)
    if form == "npz":
        for bag in range(N_BAGS):
            (tmp_path / f"bags/b{bag:02d}.csv").unlink()
            np.savez(tmp_path / f"bags/b{bag:02d}.npz", features=drawn(bag)[:, None],
                     is_b=np.array(columns["is_b"](bag)))  # fmt: skip
    words = ["bags", "--setting", "mil", "--labels", "labels.csv", "--truth", "is_b"]
    told = json.loads(command("data", "describe", *words, "--json").out)
    assert told["facts"]["features"] == 1
    command("fit", *words, "-o", "model", "-q", "-p", "max_epochs=3", "-p", "dim=4")
    judged = json.loads(command("evaluate", "model", "bags", "--on", "all", "--json").out)
    assert judged["instances with known truth"] == 6 * N_BAGS
    command("predict", "model", "bags", "-o", "answers.csv")
    with pytest.raises(MissingColumnError, match="no column 'wrong' to be the truth"):
        read(tmp_path, truth="wrong")

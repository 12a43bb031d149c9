"""Splits that tools keep in a table of their own beside the bags."""

import csv
import itertools
import json

import numpy as np
import pytest

from bag_folders import make_bags, write_bag, write_folder, write_labels

QUICK = ["-p", "max_epochs=2", "-p", "dim=8"]
IDS = list(make_bags())
SIDES = {"train": IDS[:14], "val": IDS[14:18], "test": IDS[18:22]}


def write_split(path, sides=SIDES):
    """A column per side, as CLAM writes it: shorter columns end in empty cells."""
    lines = itertools.zip_longest(*sides.values(), fillvalue="")
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["", *sides])
        writer.writerows([number, *line] for number, line in enumerate(lines))


def held_out(place):
    return json.loads((place / "model/manifest.json").read_text())["training_data"]["held_out"]


def test_a_folder_of_clam_with_its_split_needs_no_option(command, tmp_path):
    bags = make_bags()
    (tmp_path / "job/h5_files").mkdir(parents=True)
    for bag, (features, coordinates, _) in bags.items():
        write_bag(tmp_path / "job/h5_files" / bag, "h5", features, coordinates)
    write_labels(tmp_path / "job/tumor_vs_normal.csv", bags)
    write_split(tmp_path / "job/splits_0.csv")
    (tmp_path / "job/splits_0_descriptor.csv").write_text(",train,val,test\nbenign,7,2,2\n")
    said = " ".join(command("fit", "job", "-o", "model", "-q", *QUICK).err.split())
    assert "took job/tumor_vs_normal.csv as the table of labels" in said
    assert "held out as job/splits_0.csv says (14 train, 4 validation, 4 test); 2 bags" in said
    assert held_out(tmp_path) == list(range(14, 22))
    judged = json.loads(command("evaluate", "model", "job", "--json").out)
    assert (judged["on"], judged["groups"]) == ("held-out", 8)
    command("predict", "model", "job", "-o", "answers.csv")
    with (tmp_path / "answers.csv").open() as stream:
        assert {row["bag"] for row in csv.DictReader(stream)} == set(IDS)


@pytest.mark.parametrize("form", ["names", "flags"])
def test_a_table_of_a_split_elsewhere_is_named_and_remembered(command, tmp_path, form):
    data, words = write_folder(tmp_path, "npy")
    split = tmp_path / "mine.csv"
    if form == "names":
        write_split(split)
    else:
        of_bag = {bag: side for side, bags in SIDES.items() for bag in bags}
        flags = [f"{bag},{','.join(str(side == of_bag[bag]) for side in SIDES)}" for bag in of_bag]
        split.write_text("\n".join([f",{','.join(SIDES)}", *flags]) + "\n")
    command("fit", data, *words, "--split", "mine.csv", "-o", "model", "-q", *QUICK)
    assert held_out(tmp_path) == list(range(14, 22))
    judged = json.loads(command("evaluate", "model", data, "--json").out)
    assert (judged["on"], judged["groups"]) == ("held-out", 8)
    split.unlink()
    judged = json.loads(command("evaluate", "model", data, "--json").out)
    assert (judged["on"], judged["groups"], judged["trained_on"]) == ("all", 24, 14)


def test_of_several_splits_none_is_taken_and_a_column_goes_first(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    for number in range(2):
        write_split(tmp_path / f"bags/splits_{number}.csv")
    said = " ".join(command("data", "describe", data, *words).err.split())
    assert "bags holds 2 tables of splits; --split bags/splits_0.csv holds out" in said
    (tmp_path / "bags/splits_1.csv").unlink()
    split = ["test" if number < 6 else "train" for number in range(len(IDS))]
    write_labels(tmp_path / "labels.csv", make_bags(), split=split)
    said = command("data", "describe", data, *words).err
    assert "held out as column 'split' says (18 train, 6 test)" in said


def _on_both(sides, place):
    sides["val"] = [*sides["val"], IDS[0]]


def _of_nobody(sides, place):
    sides["test"] = [*sides["test"], "slide_99"]


def _without_training(sides, place):
    sides["train"] = []


def _without_columns(sides, place):
    sides["fold"] = sides.pop("train")


def _of_a_patient(sides, place):
    patients = [f"p{number // 4}" for number in range(len(IDS))]
    write_labels(place / "labels.csv", make_bags(), patient=patients)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_on_both, "mine.csv, line 6: bag 'slide_00' is on both sides of the split, here in "
                   "validation and in train before (mine.csv, line 2); leave it on one."),
        (_of_nobody, "mine.csv, line 6: bag 'slide_99' of the split has no file in bags; add"),
        (_without_training, "mine.csv leaves no bag to train on"),
        (_without_columns, "mine.csv is no table of a split: it has no columns train, val and"),
        (_of_a_patient, "mine.csv, bag 'slide_14': patient 'p3' is on both sides of the split"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)  # fmt: skip
def test_a_wrong_table_of_a_split_is_one_sentence(command, tmp_path, spoil, words):
    data, options = write_folder(tmp_path, "npy")
    sides = dict(SIDES)
    spoil(sides, tmp_path)
    write_split(tmp_path / "mine.csv", sides)
    said = command("fit", data, *options, "--split", "mine.csv", "-o", "model", code=2).err
    assert words in said
    assert len(said.strip().splitlines()) == 1, said


def test_methods_are_compared_on_the_split_once(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    write_split(tmp_path / "mine.csv")
    given = [*words, "--split", "mine.csv", "--methods", "milr,gicf", "--splits", "3"]
    found = json.loads(command("compare", data, *given, "--json").out)
    assert found["n_splits"] == 1
    assert found["held_out_share"] == pytest.approx(8 / 22, abs=1e-4)


def test_evaluate_says_that_another_split_is_not_what_it_scores(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    write_split(tmp_path / "mine.csv")
    turned = {"train": SIDES["val"] + SIDES["test"], "test": SIDES["train"]}
    write_split(tmp_path / "other.csv", turned)
    command("fit", data, *words, "--split", "mine.csv", "-o", "model", "-q", *QUICK)
    said = command("evaluate", "model", data, "--split", "other.csv").err
    assert "which trained on 14 of its 14; scored are the 8 that `fit` held out" in said
    assert "warning" not in command("evaluate", "model", data, "--split", "mine.csv").err


def test_a_folder_of_splits_is_told_to_name_one(command, tmp_path):
    data, options = write_folder(tmp_path, "npy")
    (tmp_path / "splits").mkdir()
    for number in range(2):
        write_split(tmp_path / f"splits/splits_{number}.csv")
    said = command("fit", data, *options, "--split", "splits", "-o", "model", code=2).err
    assert "name one of its tables of splits: splits/splits_0.csv, splits/splits_1.csv." in said


@pytest.mark.parametrize("form", ["csv", "npy"])
def test_notes_beside_folders_called_by_labels_are_no_bags(command, tmp_path, form):
    for bag, (features, _, label) in make_bags().items():
        (tmp_path / "bags" / label).mkdir(parents=True, exist_ok=True)
        place = tmp_path / "bags" / label / bag
        if form == "npy":
            np.save(place.with_suffix(".npy"), features)
        else:
            head = ",".join(f"f{k}" for k in range(features.shape[1]))
            np.savetxt(place.with_suffix(".csv"), features, delimiter=",", header=head, comments="")
    notes = [f"{bag},{number % 3}" for number, bag in enumerate(IDS)]
    (tmp_path / "bags/notes.csv").write_text("\n".join(["slide_id,scanner", *notes]) + "\n")
    said = " ".join(command("data", "describe", "bags").err.split())
    assert "took the names of folders below bags as labels: benign (12), tumour (12)" in said

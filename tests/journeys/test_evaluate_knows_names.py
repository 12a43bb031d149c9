"""`evaluate` knows bags and patients of the training by their names, whatever their values."""

import json

import numpy as np

from bag_folders import N_BAGS, make_bags, write_bag, write_folder, write_labels

QUICK = ["-p", "max_epochs=1", "-p", "dim=4"]


def test_bags_that_were_encoded_otherwise_are_known_by_their_names(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    (tmp_path / "again").mkdir()
    for bag, (features, coordinates, _) in make_bags().items():
        write_bag(tmp_path / "again" / bag, "float16", features, coordinates)
    judged = command("evaluate", "model", "again", *words)
    n_trained = N_BAGS - json.loads(command("evaluate", "model", data, "--json").out)["groups"]
    assert f"{n_trained} of the {N_BAGS} bags scored have names of those" in judged.err
    assert f"compared by their values, but {n_trained} by their names" in judged.out
    found = json.loads(command("evaluate", "model", "again", *words, "--json").out)
    assert (found["trained_on"], found["named_as_trained"]) == (0, {"names": n_trained})


def test_other_bags_of_patients_of_the_training_are_told_of(command, tmp_path):
    bags = make_bags(36)
    old, new = dict(list(bags.items())[:24]), dict(list(bags.items())[24:])
    for name, part, first in (("old", old, 0), ("new", new, 8)):
        (tmp_path / name).mkdir()
        for bag, (features, coordinates, _) in part.items():
            write_bag(tmp_path / name / bag, "npz", features, coordinates)
        patients = [f"P{first + row // 3}" for row in range(len(part))]
        write_labels(tmp_path / f"{name}.csv", part, patient=patients)
    command("fit", "old", "--labels", "old.csv", "-o", "model", "-q", "--validation", "0", *QUICK)
    said = command("evaluate", "model", "new", "--labels", "new.csv")
    assert "have names of those" not in said.err
    assert "come from patients" not in said.err  # P8 to P11, and P0 to P7 were trained on
    write_labels(tmp_path / "new.csv", new, patient=[f"P{row // 3 + 6}" for row in range(12)])
    said = command("evaluate", "model", "new", "--labels", "new.csv")
    assert "6 of the 12 bags scored come from patients that model learned from" in said.err
    assert "none of them trained on, compared by their values\n" in said.out


def test_a_model_of_an_earlier_release_that_knows_no_names_is_read(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "model", "-q", *QUICK)
    manifest = tmp_path / "model" / "manifest.json"
    held = json.loads(manifest.read_text())
    del held["training_data"]["names"]
    manifest.write_text(json.dumps(held))
    file = tmp_path / data / "slide_00.npy"
    np.save(file, np.load(file) + 1)
    assert "have names" not in command("evaluate", "model", data).err

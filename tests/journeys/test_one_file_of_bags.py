"""Bags in one file, a bag by itself, and labels that files hold: no table is needed."""

import json

import numpy as np
import pytest

from bag_folders import N_BAGS, make_bags, write_bag, write_folder
from groupnoise.bags import read_bags
from groupnoise.exceptions import DataError

QUICK = ["-p", "max_epochs=3", "-p", "dim=8", "-q"]


@pytest.mark.parametrize("form", ["h5", "pt", "npy"])
def test_a_single_bag_is_answered_about(command, tmp_path, form):
    pytest.importorskip("h5py")
    data, words = write_folder(tmp_path, form)
    command("fit", data, *words, "-o", "model", *QUICK)
    command("predict", "model", data, "-o", "all.csv")
    command("predict", "model", f"{data}/slide_00.{form}", "-o", "one.csv")
    n_rows = len(make_bags()["slide_00"][0])
    lines = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in ("all", "one")]
    assert lines[0][: n_rows + 1] == lines[1]
    said = command("heatmap", "model", f"{data}/slide_00.{form}", "-o", "map.html")
    assert "heat maps of 1 of 1 bag" in said.out
    assert "left aside" not in said.err
    if form == "h5":
        said = command("fit", f"{data}/slide_00.h5", "-o", "model", *QUICK, code=2).err
        assert "bags/slide_00.h5 is a single bag; give the folder of all of them" in said


@pytest.mark.parametrize("form", ["h5", "zarr"])
def test_groups_in_groups_called_by_labels_are_bags(command, tmp_path, form):
    module = pytest.importorskip({"h5": "h5py"}.get(form, form))
    name = f"bags.{form}"
    file = module.File(tmp_path / name, "w") if form == "h5" else module.open_group(
        str(tmp_path / name), mode="w"
    )  # fmt: skip
    for number, (bag, (features, coordinates, label)) in enumerate(make_bags().items()):
        group = file.create_group(f"{'test' if number % 5 == 4 else 'train'}/{label}/{bag}")
        group["features"], group["coords"] = features, coordinates
    if form == "h5":
        file.close()
    said = command("fit", name, "-o", "model", *QUICK).err
    assert "took 24 groups below 4 others of" in said
    assert "as labels: benign (12), tumour (12)" in said
    judged = json.loads(command("evaluate", "model", name, "--json").out)
    assert (judged["on"], judged["groups"]) == ("held-out", 4)
    if form == "h5":
        with module.File(tmp_path / name, "a") as file:
            file.create_group("train/benign/nothing")
        said = command("fit", name, "-o", "model", *QUICK, code=2).err
        assert "bag 'nothing' (bags.h5, group 'train/benign/nothing') has no array" in said


def _with_label(form, place, bag, features, coordinates, label):
    """One bag of one file, or a group of a large one, that says its label itself."""
    if form == "npz":
        np.savez(place / bag, features=features, coords=coordinates, label=label)
    elif form == "pt":
        import torch

        whole = {"features": torch.from_numpy(features), "label": label, "slide": bag}
        torch.save(whole, place / f"{bag}.pt")
    else:
        import h5py

        with h5py.File(place / f"{bag}.h5" if form == "h5" else place / "bags.h5", "a") as file:
            node = file if form == "h5" else file.create_group(bag)
            node["features"], node["coords"] = features, coordinates
            node.attrs["label"] = label


@pytest.mark.parametrize("form", ["npz", "pt", "h5", "one_h5"])
def test_labels_that_files_hold_are_taken(tmp_path, form):
    pytest.importorskip("h5py")
    (tmp_path / "bags").mkdir()
    for bag, (features, coordinates, label) in make_bags().items():
        _with_label(form, tmp_path / "bags", bag, features, coordinates, label)
    source, said = tmp_path / "bags", []
    if form == "one_h5":
        source /= "bags.h5"
    found = read_bags(source, report=said.append)
    assert "took the labels that the files of bags hold" in said
    assert [found.class_names[k] for k in found.labels.argmax(axis=1)] == [
        label for _, _, label in make_bags().values()
    ]
    assert len(found.bags) == N_BAGS
    if form == "h5":
        write_bag(tmp_path / "bags/stranger", "h5", *make_bags()["slide_00"][:2])
        with pytest.raises(DataError, match=r"bag 'stranger' .* says no label, but bag 'slide_00'"):
            read_bags(source)

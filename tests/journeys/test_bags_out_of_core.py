"""`groupnoise fit --out-of-core` trains on bags from disk: the same model, also by workers."""

import json

import numpy as np
import pytest

from bag_folders import N_BAGS, make_bags, write_folder
from groupnoise import load_model
from groupnoise.io import open_groups

QUICK = ["-p", "max_epochs=3", "-q"]


def weights(folder):
    return load_model(folder).model_.state_dict()


def assert_alike(ours, theirs):
    for name, tensor in weights(theirs).items():
        np.testing.assert_allclose(weights(ours)[name], tensor, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", ["npy", "float16"])
def test_bags_on_disk_give_the_weights_of_bags_in_memory(command, tmp_path, form):
    data, words = write_folder(tmp_path, form)
    command("fit", data, *words, "-o", "memory", *QUICK)
    command("fit", data, *words, "-o", "disk", "--out-of-core", "work", *QUICK)
    assert_alike(tmp_path / "disk", tmp_path / "memory")
    stored = open_groups(tmp_path / "work/bags")
    assert stored.bag_ids.tolist() == list(make_bags())
    said = [json.loads(command("evaluate", m, data, "--json").out) for m in ("disk", "memory")]
    assert said[0]["on"] == said[1]["on"] == "held-out"


def test_a_second_run_takes_up_the_copy_and_notices_a_change(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    options = ["fit", data, *words, "-o", "model", "--out-of-core", "work", *QUICK]
    command(*options)
    made = (tmp_path / "work/bags/made_from.json").stat().st_mtime_ns
    command(*options)
    assert (tmp_path / "work/bags/made_from.json").stat().st_mtime_ns == made
    np.save(tmp_path / "bags/slide_05.npy", np.ones((9, 6), dtype=np.float32))
    said = command(*options, code=2).err
    assert "work/bags was not made from bags as it is now; remove it" in said


def test_a_plain_fit_on_disk_tells_of_its_sample(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    told = command("fit", data, *words, "-o", "model", "--out-of-core", "work").out
    assert "larger than memory" in " ".join(told.split())
    assert load_model(tmp_path / "model").decisions_.facts["bags"] == N_BAGS - 2


def test_workers_share_one_copy_and_make_the_same_model(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "memory", *QUICK)
    command(
        "fit", data, *words, "-o", "disk", "--out-of-core", "work", "--workers", "2",
        "--checkpoint", "saved", *QUICK,
    )  # fmt: skip
    assert_alike(tmp_path / "disk", tmp_path / "memory")

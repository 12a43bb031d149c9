"""`groupnoise fit --out-of-core` trains on bags from disk: the same model, also by workers."""

import json
import sys

import numpy as np
import pytest

from bag_folders import N_BAGS, make_bags, write_folder
from groupnoise import Groups, load_model
from groupnoise.io import BagDataset, open_groups, write_groups
from training_processes import PROCESSES, command_line_within

MEGABYTE = 1 << 20

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


@pytest.mark.slow
def test_a_plain_fit_on_disk_tells_of_its_sample(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    told = command("fit", data, *words, "-o", "model", "--out-of-core", "work").out
    assert "larger than memory" in " ".join(told.split())
    assert load_model(tmp_path / "model").decisions_.facts["bags"] == N_BAGS - 2


@pytest.mark.slow
def test_workers_share_one_copy_and_make_the_same_model(command, tmp_path):
    data, words = write_folder(tmp_path, "npy")
    command("fit", data, *words, "-o", "memory", *QUICK)
    command(
        "fit", data, *words, "-o", "disk", "--out-of-core", "work", "--workers", "2",
        "--checkpoint", "saved", *QUICK,
    )  # fmt: skip
    assert_alike(tmp_path / "disk", tmp_path / "memory")


def write_large(folder, n_bags):
    """Bags of 2000 instances in half precision, a megabyte each."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(2000 * n_bags, 256)).astype(np.float16)
    bags = Groups(rows, np.arange(0, len(rows) + 1, 2000))
    labels = np.eye(2, dtype=bool)[np.arange(n_bags) % 2]
    return write_groups(folder, BagDataset("large", bags, labels, ["no", "yes"]))


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA leaves mapped files out on Linux alone"
)
@pytest.mark.parametrize("from_disk", [True, False])
def test_bags_larger_than_the_memory_allowed_are_trained_on_from_disk(tmp_path, from_disk):
    limit, said = 90 * MEGABYTE, tmp_path / "said.txt"
    settings = ["-q", "--validation", 0, "-p", "max_epochs=1", "-p", "batch_size=2"]
    settings += ["-p", "weighting_strength=0", "-p", "scaling=none"]
    large, small = (
        ["fit", write_large(tmp_path / name, n_bags), "-o", tmp_path / f"{name}-model", *settings]
        + (["--out-of-core", tmp_path / f"{name}-work"] if from_disk else [])
        for name, n_bags in (("large", 80), ("small", 4))
    )
    process = PROCESSES.Process(target=command_line_within, args=(limit, large, small, said))
    process.start()
    process.join(timeout=240)
    if from_disk:
        assert process.exitcode == 0, said.read_text()
        assert load_model(tmp_path / "large-model").n_features_in_ == 256
        return
    assert process.exitcode == 2
    assert "bags (mil) are trained on from disk with --out-of-core DIR" in said.read_text()

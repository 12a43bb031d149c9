"""Data folders: what is written comes back, mapped, checked and never half."""

import json
from dataclasses import replace

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import cut_windows, make_shop
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.folders.data_folder import is_data_folder, open_groups, write_groups


@pytest.fixture
def shop():
    return make_shop(n_users=60, random_state=0)


def test_bags_come_back_as_they_were(tmp_path):
    names = tuple(f"p{number}" for number in range(64))
    bags = load_digit_bags(40, random_state=0)
    bags = replace(
        bags,
        feature_names=names,
        bag_ids=np.array([f"b{number:03d}" for number in range(40)]),
        source_rows=np.arange(bags.bags.n_objects)[::-1],
    )
    again = open_groups(write_groups(tmp_path / "bags", bags), verify=True)
    assert isinstance(again.bags.objects, np.memmap)
    assert np.array_equal(again.bags.objects, bags.bags.objects)
    assert np.array_equal(again.bags.offsets, bags.bags.offsets)
    assert np.array_equal(again.labels, bags.labels)
    assert np.array_equal(again.instance_labels, bags.instance_labels)
    assert (again.name, again.class_names) == (bags.name, bags.class_names)
    assert again.feature_names == names
    assert np.array_equal(again.bag_ids, bags.bag_ids)
    assert np.array_equal(again.source_rows, bags.source_rows)


def test_candidates_come_back_as_they_were(tmp_path):
    data = load_digit_candidates(random_state=0)
    again = open_groups(write_groups(tmp_path / "candidates", data), verify=True)
    for part in ("features", "candidates", "truth"):
        assert np.array_equal(getattr(again, part), getattr(data, part))
    assert again.feature_names is None


def test_clicks_and_windows_come_back_as_they_were(tmp_path, shop):
    again = open_groups(write_groups(tmp_path / "clicks", shop), verify=True)
    assert np.array_equal(again.histories.objects, shop.histories.objects)
    assert again.histories.objects.dtype == np.int32
    assert np.array_equal(again.item_ids, shop.item_ids)
    assert again.titles == shop.titles
    assert again.notes.keys() == shop.notes.keys()
    windows = cut_windows(again.histories)
    mapped = open_groups(write_groups(tmp_path / "windows", windows))
    assert np.array_equal(mapped.groups.objects, windows.groups.objects)
    assert np.array_equal(mapped.groups.targets, windows.groups.targets)
    assert np.array_equal(mapped.positions, windows.positions)


def test_an_existing_folder_is_replaced_only_when_asked(tmp_path, shop):
    write_groups(tmp_path / "data", shop)
    with pytest.raises(DataError, match="exists already; overwrite it"):
        write_groups(tmp_path / "data", shop)
    write_groups(tmp_path / "data", cut_windows(shop.histories), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("keep me")
    with pytest.raises(DataError, match="is no data folder, so it is never replaced"):
        write_groups(tmp_path / "mine", shop, overwrite=True)
    assert (tmp_path / "mine" / "diary.txt").exists()


def test_damage_is_noticed(tmp_path, shop):
    folder = write_groups(tmp_path / "data", shop)
    items = folder / "items.npy"
    content = items.read_bytes()
    items.write_bytes(content[:-4] + b"\1\0\0\0")
    open_groups(folder)
    with pytest.raises(DataError, match="does not match the checksum"):
        open_groups(folder, verify=True)
    items.write_bytes(content[:-4])
    with pytest.raises(DataError, match=r"items.npy is damaged .*; convert the data again"):
        open_groups(folder)
    items.unlink()
    with pytest.raises(DataError, match=r"items.npy is missing"):
        open_groups(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not the manifest of a groupnoise data folder"),
        ({"format_version": 99}, "format version 99"),
        ({"arrays": None}, "lists no arrays"),
        ({"arrays": {"items": {"file": "../items.npy"}}}, "outside of itself"),
        ({"arrays": {}}, "is incomplete"),
        ({"kind": "soup"}, "is incomplete"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(tmp_path, shop, change, message):
    folder = write_groups(tmp_path / "data", shop)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(DataError, match=message):
        open_groups(folder)


def test_a_folder_without_manifest_says_what_to_give(tmp_path):
    assert not is_data_folder(tmp_path)
    with pytest.raises(MissingDataError, match="groupnoise data convert"):
        open_groups(tmp_path)

import json

import numpy as np
import pytest

from groupnoise.exceptions import ModelFileError
from groupnoise.serving._storage import MANIFEST, read_arrays, read_manifest, write_folder

ARRAYS = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3), "words": np.array([b"a", b"bc"])}


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path, manifest={"kind": "test"}, arrays=ARRAYS)
    return tmp_path


@pytest.mark.parametrize("memory_map", [True, False])
def test_arrays_come_back_as_they_were(folder, memory_map):
    arrays = read_arrays(folder, read_manifest(folder), memory_map=memory_map)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_equal_contents_make_equal_versions(tmp_path):
    versions = {
        write_folder(tmp_path / name, manifest={"kind": kind}, arrays=ARRAYS)
        for name, kind in (("a", "test"), ("b", "test"))
    }
    assert len(versions) == 1
    assert write_folder(tmp_path / "c", manifest={"kind": "other"}, arrays=ARRAYS) not in versions


@pytest.mark.parametrize(
    "change", [{"categories": ["ink", "tea"]}, {"index": {"kind": "ivf", "effort": 4}}]
)
def test_renamed_categories_and_another_index_effort_make_another_version(folder, change):
    before = read_manifest(folder)["version"]
    assert write_folder(folder, manifest={"kind": "test", **change}, arrays=ARRAYS) != before


def test_what_is_only_said_about_a_model_keeps_its_version(folder):
    before = read_manifest(folder)["version"]
    described = {"kind": "test", "card": {"name": "x"}, "created": "today"}
    assert write_folder(folder, manifest=described, arrays=ARRAYS) == before


def test_a_second_write_replaces_the_first_and_leaves_nothing_behind(folder):
    write_folder(folder, manifest={"kind": "test"}, arrays={"numbers": np.zeros(1)})
    assert len(list(folder.iterdir())) == 2
    assert list(read_arrays(folder, read_manifest(folder), memory_map=True)) == ["numbers"]


def test_a_mapped_array_outlives_its_replacement(folder):
    mapped = read_arrays(folder, read_manifest(folder), memory_map=True)
    write_folder(folder, manifest={"kind": "test"}, arrays={"numbers": np.zeros(1)})
    np.testing.assert_array_equal(mapped["numbers"], ARRAYS["numbers"])


@pytest.mark.parametrize("memory_map", [True, False])
def test_a_truncated_file_is_refused(folder, memory_map):
    path = next(folder.glob("numbers-*.npy"))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelFileError, match="truncated or was altered"):
        read_arrays(folder, read_manifest(folder), memory_map=memory_map)


def test_an_altered_byte_is_refused_when_read(folder):
    path = next(folder.glob("numbers-*.npy"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="does not match the checksum"):
        read_arrays(folder, read_manifest(folder), memory_map=False)


@pytest.mark.parametrize("memory_map", [True, False])
def test_a_missing_file_is_named(folder, memory_map):
    next(folder.glob("words-*.npy")).unlink()
    with pytest.raises(ModelFileError, match=r"words-.* is missing"):
        read_arrays(folder, read_manifest(folder), memory_map=memory_map)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not the manifest"),
        ({"format_version": 99}, "format version 99"),
    ],
)
def test_a_foreign_manifest_is_refused(folder, change, message):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, **change}))
    with pytest.raises(ModelFileError, match=message):
        read_manifest(folder)


def test_a_manifest_cannot_lead_out_of_its_folder(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["numbers"]["file"] = "../secret.npy"
    with pytest.raises(ModelFileError, match="outside its own folder"):
        read_arrays(folder, manifest, memory_map=True)


def test_pickled_arrays_are_never_loaded(folder):
    path = next(folder.glob("numbers-*.npy"))
    np.save(path, np.array([{"run": "me"}], dtype=object), allow_pickle=True)
    manifest = read_manifest(folder)
    manifest["files"]["numbers"]["bytes"] = path.stat().st_size
    with pytest.raises(ModelFileError, match="cannot be mapped"):
        read_arrays(folder, manifest, memory_map=True)


def test_a_folder_without_manifest_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"holds no manifest\.json"):
        read_manifest(tmp_path / "nowhere")


def test_garbled_json_is_refused(folder):
    (folder / MANIFEST).write_text("{")
    with pytest.raises(ModelFileError, match="cannot be read as JSON"):
        read_manifest(folder)

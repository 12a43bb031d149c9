import hashlib
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from groupnoise.exceptions import ModelFileError
from groupnoise.io.folders import array_folder as _storage
from groupnoise.io.folders.array_folder import (
    MANIFEST,
    read_arrays,
    read_folder,
    read_manifest,
    write_folder,
)

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


@pytest.mark.parametrize("memory_map", [True, False])
def test_a_folder_replaced_while_it_is_read_gives_the_new_artifact(folder, memory_map, monkeypatch):
    old = read_manifest(folder)
    new = {name: array[:1] for name, array in ARRAYS.items()}
    write_folder(folder, manifest={"kind": "test"}, arrays=new)
    manifests = iter([old, read_manifest(folder)])
    monkeypatch.setattr(_storage, "read_manifest", lambda folder: next(manifests))
    manifest, arrays = read_folder(folder, memory_map=memory_map)
    assert manifest["version"] != old["version"]
    np.testing.assert_array_equal(arrays["numbers"], ARRAYS["numbers"][:1])


def test_a_file_that_stays_missing_is_refused_after_a_second_look(folder):
    next(folder.glob("words-*.npy")).unlink()
    with pytest.raises(ModelFileError, match=r"words-.* is missing"):
        read_folder(folder, memory_map=True)


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
    with pytest.raises(ModelFileError, match=r"not a plain \.npy array"):
        read_arrays(folder, manifest, memory_map=True)


def test_a_folder_without_manifest_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"holds no manifest\.json"):
        read_manifest(tmp_path)
    with pytest.raises(ModelFileError, match=r"there is no folder .*nowhere"):
        read_manifest(tmp_path / "nowhere")


def test_garbled_json_is_refused(folder):
    (folder / MANIFEST).write_text("{")
    with pytest.raises(ModelFileError, match="cannot be read as JSON"):
        read_manifest(folder)


def replace_file(folder, data, name="numbers"):
    """Put other bytes in place of an array file, with a manifest that says so."""
    manifest = read_manifest(folder)
    entry = manifest["files"][name]
    (folder / entry["file"]).write_bytes(data)
    entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    return manifest


def npy(header, data=b"", version=1):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + data


def described(shape, descr="'<f4'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def zipped():
    stream = io.BytesIO()
    np.savez(stream, numbers=np.zeros(3))
    return stream.getvalue()


ODD_FILES = {
    "empty": b"",
    "zip": zipped(),
    "pickle": b"\x80\x04.",
    "zeros": b"\0" * 200,
    "version 2": npy(described("(2,)"), b"\0" * 8, version=2),
    "unbalanced": npy("{'descr': '<f4', 'fortran_order': False, 'shape': ((((((4, }"),
    "deep": npy("[" * 3000),
    "deeper": npy("-" * 9000 + "1"),
    "code": npy("__import__('os').abort()"),
    "cut header": npy(described("(2,)"))[:40],
    "truth as length": npy(described("(True, 2)"), b"\0" * 8),
    "negative": npy(described("(-2,)"), b"\0" * 8),
    "huge": npy(described("(1000000000000, 17)")),
    "overflow": npy(described(f"({2**62}, {2**62})")),
    "short": npy(described("(3,)"), b"\0" * 8),
    "long": npy(described("(1,)"), b"\0" * 8),
    "lengths run together": npy(described("(1 2)"), b"\0" * 8),
    "columns first": npy(described("(2, 1)", order="True"), b"\0" * 8),
    "objects": npy(described("(1,)", descr="'|O8'"), b"\0" * 8),
    "records": npy(described("(1,)", descr="[('a', '<f4'), ('b', '<f4')]"), b"\0" * 8),
    "nothing, often": npy(described("(1000000000,)", descr="'|S0'")),
    "no such type": npy(described("(2,)", descr="'<f3'"), b"\0" * 6),
}


@pytest.mark.parametrize("memory_map", [True, False])
@pytest.mark.parametrize("data", ODD_FILES.values(), ids=ODD_FILES)
def test_a_file_that_holds_no_plain_array_is_refused(folder, data, memory_map):
    manifest = replace_file(folder, data)
    with pytest.raises(ModelFileError, match=r"is not a plain \.npy array"):
        read_arrays(folder, manifest, memory_map=memory_map)


@pytest.mark.parametrize("memory_map", [True, False])
@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.zeros(0, dtype=np.uint8), np.array(2.5)])
def test_arrays_of_no_entry_or_no_dimension_come_back(tmp_path, array, memory_map):
    write_folder(tmp_path, manifest={"kind": "test"}, arrays={"odd": array})
    odd = read_arrays(tmp_path, read_manifest(tmp_path), memory_map=memory_map)["odd"]
    np.testing.assert_array_equal(odd, np.ascontiguousarray(array))


@pytest.mark.parametrize("name", ["a\0b", "..", "", "\ud800", 5, None, "x" * 5000])
@pytest.mark.parametrize("memory_map", [True, False])
def test_a_name_no_file_can_have_is_refused(folder, name, memory_map):
    manifest = read_manifest(folder)
    manifest["files"]["numbers"]["file"] = name
    with pytest.raises(ModelFileError):
        read_arrays(folder, manifest, memory_map=memory_map)


def make_special(path, kind):
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["pipe", "folder", "/dev/zero"])
@pytest.mark.parametrize("memory_map", [True, False])
def test_a_special_file_is_refused_instead_of_waited_for(folder, kind, memory_map):
    make_special(next(folder.glob("numbers-*.npy")), kind)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_arrays(folder, read_manifest(folder), memory_map=memory_map)


@pytest.mark.parametrize("kind", ["pipe", "folder", "/dev/zero"])
def test_a_special_file_is_no_manifest(folder, kind):
    make_special(folder / MANIFEST, kind)
    with pytest.raises(ModelFileError, match="cannot be read as JSON"):
        read_manifest(folder)


def test_an_artifact_may_be_made_of_links(folder, tmp_path_factory):
    linked = tmp_path_factory.mktemp("linked")
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    arrays = read_arrays(linked, read_manifest(linked), memory_map=False)
    np.testing.assert_array_equal(arrays["numbers"], ARRAYS["numbers"])


@pytest.mark.parametrize(
    "content",
    [b"9" * 5000, b"[" * 100_000, b"\xff\xfe", b"[" + b" " * (64 << 20) + b"]"],
    ids=["long_number", "deep", "not_text", "too_large"],
)
def test_an_odd_manifest_is_refused(folder, content):
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(ModelFileError, match=r"cannot be read as JSON|is not the manifest"):
        read_manifest(folder)


def test_a_hole_of_40_gigabytes_is_refused_before_it_is_read(folder):
    manifest = read_manifest(folder)
    entry = manifest["files"]["numbers"]
    with (folder / entry["file"]).open("r+b") as stream:
        stream.truncate(40 << 30)
    with pytest.raises(ModelFileError, match=r"truncated or was altered|more than the memory"):
        read_arrays(folder, manifest, memory_map=False)
    entry["bytes"] = 40 << 30
    for memory_map in (True, False):
        with pytest.raises(ModelFileError, match=r"cannot hold shape|more than the memory"):
            read_arrays(folder, manifest, memory_map=memory_map)


def test_what_is_larger_than_memory_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(_storage.os, "sysconf", lambda name: 8)
    with pytest.raises(ModelFileError, match="more than the memory of this machine"):
        read_arrays(folder, read_manifest(folder), memory_map=False)
    assert read_arrays(folder, read_manifest(folder), memory_map=True)


READ_IN_LITTLE_MEMORY = """
import resource, sys
from groupnoise.exceptions import ModelFileError
from groupnoise.io.folders.array_folder import read_arrays, read_manifest
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    read_arrays(sys.argv[1], read_manifest(sys.argv[1]), memory_map=False)
except ModelFileError as error:
    sys.exit("does not fit in memory" not in str(error))
"""


def test_running_out_of_memory_is_a_refusal(folder):
    manifest = read_manifest(folder)
    entry = manifest["files"]["numbers"]
    header = npy(described(f"({3 << 30},)", descr="'|u1'"))
    with (folder / entry["file"]).open("wb") as stream:
        stream.write(header)
        stream.truncate(len(header) + (3 << 30))
    entry["bytes"] = len(header) + (3 << 30)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    command = [sys.executable, "-c", READ_IN_LITTLE_MEMORY, str(folder)]
    assert subprocess.run(command, check=False).returncode == 0

"""Model folders: round trips, refused files, and saves that were interrupted."""

import json
import os
import pickle
import shutil
import signal

import numpy as np
import pytest

from groupnoise.exceptions import ModelFileError
from groupnoise.io.files import sha256_of, write_json
from groupnoise.io.folders import model_files as _model_files
from groupnoise.io.folders.model_files import (
    MANIFEST,
    pack_labels,
    read_model,
    read_model_manifest,
    refuse_incomplete_model,
    unpack_labels,
    write_model,
)
from processes import run_python

ARRAYS = {
    "table": np.arange(6, dtype=np.float32).reshape(2, 3),
    "offsets": np.array([0, 2, 5]),
    "mask": np.array([True, False]),
    "level": np.array(0.25),
    "nothing": np.zeros((0, 3)),
}
NEW_ARRAYS = {"table": np.ones((4, 4))}


def save(folder, arrays=ARRAYS, **manifest):
    write_model(folder, kind="Example", manifest=manifest, arrays=arrays)


@pytest.fixture
def folder(tmp_path):
    """A folder that holds a good model."""
    save(tmp_path / "model", classes=["a", "b"])
    return tmp_path / "model"


def weights_digest(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    write_json(folder / MANIFEST, manifest | changes)


def assert_holds(folder, expected):
    _, arrays = read_model(folder, kind="Example")
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert np.array_equal(array, expected[name])


def test_what_was_saved_is_loaded(folder):
    assert_holds(folder, ARRAYS)
    manifest, _ = read_model(folder, kind="Example")
    assert manifest["kind"] == "Example"
    assert manifest["classes"] == ["a", "b"]
    assert read_model_manifest(folder) == manifest


def test_arrays_of_any_memory_order_come_back_equal(tmp_path):
    table = np.arange(12.0).reshape(3, 4)
    save(tmp_path, {"turned": table.T, "strided": table[:, ::2]})
    assert_holds(tmp_path, {"turned": table.T, "strided": table[:, ::2]})


def test_a_saved_model_is_two_files(folder):
    assert {path.name for path in folder.iterdir()} == {MANIFEST, weights_digest(folder).name}


def test_saving_again_replaces_the_model_and_leaves_no_old_weights(folder):
    save(folder, NEW_ARRAYS)
    assert_holds(folder, NEW_ARRAYS)
    assert len(list(folder.iterdir())) == 2


def test_saving_the_same_model_again_changes_nothing(folder):
    before = weights_digest(folder)
    save(folder, classes=["a", "b"])
    assert weights_digest(folder) == before
    assert_holds(folder, ARRAYS)


def test_a_model_is_not_saved_over_a_file(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match="is a file; give a folder"):
        save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_copied_folder_loads_elsewhere(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    assert_holds(tmp_path / "elsewhere", ARRAYS)


def _truncate(folder):
    path = weights_digest(folder)
    path.write_bytes(path.read_bytes()[:-5])


def _flip_a_bit(folder):
    path = weights_digest(folder)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _truncate_manifest(folder):
    path = folder / MANIFEST
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")


def _make_manifest_a_pipe(folder):
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)


def _link_manifest_to_zeros(folder):
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).symlink_to("/dev/zero")


def _name_weights(name):
    return lambda folder: edit_manifest(folder, weights={"file": name, "sha256": "0"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "truncated or was altered. Restore it or refit"),
        (_flip_a_bit, "does not match the checksum"),
        (lambda folder: weights_digest(folder).unlink(), "is missing; restore it or refit"),
        (lambda folder: (folder / MANIFEST).unlink(), "holds no manifest.json; give the folder"),
        (_truncate_manifest, "cannot be read as JSON"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe\x00"), "cannot be read as JSON"),
        (lambda folder: (folder / MANIFEST).write_text("[" * 100_000), "cannot be read as JSON"),
        (lambda folder: (folder / MANIFEST).write_text("9" * 5000), "cannot be read as JSON"),
        (_make_manifest_a_pipe, "cannot be read as JSON"),
        (_link_manifest_to_zeros, "cannot be read as JSON"),
        (
            lambda folder: (folder / MANIFEST).write_text("[1]"),
            "is not the manifest of",
        ),
        (
            lambda folder: edit_manifest(folder, format="onnx"),
            "is not the manifest of",
        ),
        (lambda folder: edit_manifest(folder, format_version=2), "reads version 1. Upgrade"),
        (lambda folder: edit_manifest(folder, format_version=None), "format version None"),
        (lambda folder: edit_manifest(folder, kind="Other"), "holds a 'Other' model, not a"),
        (lambda folder: edit_manifest(folder, weights=None), "does not name a weights file"),
        (lambda folder: edit_manifest(folder, weights="w"), "does not name a weights file"),
        (_name_weights(3), "does not name a weights file"),
        (_name_weights("../secret"), "does not name a weights file of its own folder"),
        (_name_weights("sub/secret"), "does not name a weights file of its own folder"),
        (_name_weights("/etc/hostname"), "does not name a weights file of its own folder"),
        (_name_weights(".."), "does not name a weights file of its own folder"),
        (_name_weights(""), "does not name a weights file of its own folder"),
    ],
    ids=[
        "truncated_weights",
        "altered_weights",
        "missing_weights",
        "missing_manifest",
        "truncated_manifest",
        "binary_manifest",
        "deep_manifest",
        "long_number_manifest",
        "pipe_manifest",
        "endless_manifest",
        "list_manifest",
        "foreign_manifest",
        "future_version",
        "no_version",
        "other_kind",
        "no_weights_entry",
        "odd_weights_entry",
        "weights_number",
        "parent_path",
        "nested_path",
        "absolute_path",
        "parent_itself",
        "empty_name",
    ],
)
def test_damaged_and_foreign_models_get_one_clear_sentence(folder, damage, message):
    damage(folder)
    with pytest.raises(ModelFileError) as caught:
        read_model(folder, kind="Example")
    assert message in str(caught.value)


def test_a_path_that_holds_no_model_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"notes.txt holds no manifest.json"):
        read_model(tmp_path / "notes.txt")
    with pytest.raises(ModelFileError, match=r"there is no folder .*nowhere; give the folder"):
        read_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("classes"), "('classes' is missing)"),
        (RuntimeError("Errors:\n\tsize mismatch."), "(Errors: size mismatch)"),
        (ValueError("no such part"), "(no such part)"),
        (AttributeError("no items"), "(no items)"),
        (IndexError("out of range"), "(out of range)"),
    ],
)
def test_content_that_does_not_fit_together_gets_one_sentence(error, reason):
    with pytest.raises(ModelFileError) as caught, refuse_incomplete_model("runs/7"):
        raise error
    assert str(caught.value) == f"runs/7 does not hold a whole model {reason}; restore or refit it."


@pytest.mark.parametrize("labels", [["a", "bb"], [1, 2], [True], [0.5], np.array([3], np.uint8)])
def test_labels_come_back_with_their_type(labels):
    again = unpack_labels(json.loads(json.dumps(pack_labels(np.asarray(labels)))))
    assert again.dtype == np.asarray(labels).dtype
    assert again.tolist() == list(labels)


@pytest.mark.parametrize(
    "packed",
    [{}, {"dtype": "O", "values": [1]}, {"dtype": "|i1", "values": [300]}, {"dtype": "<i8"}, 3],
)
def test_labels_that_cannot_be_read_are_refused(packed):
    with pytest.raises(ModelFileError, match="no readable labels"):
        unpack_labels(packed)


class _Bomb:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_in_place_of_the_weights_is_never_executed(folder, tmp_path):
    weights_digest(folder).write_bytes(pickle.dumps(_Bomb(tmp_path / "executed")))
    digest = sha256_of(weights_digest(folder))
    edit_manifest(folder, weights={"file": weights_digest(folder).name, "sha256": digest})
    with pytest.raises(ModelFileError, match="is not a safetensors file"):
        read_model(folder)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "X9"])
def test_weights_of_a_type_that_numpy_lacks_are_refused(folder, dtype):
    header = json.dumps({"table": {"dtype": dtype, "shape": [2], "data_offsets": [0, 4]}}).encode()
    weights_digest(folder).write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    digest = sha256_of(weights_digest(folder))
    edit_manifest(folder, weights={"file": weights_digest(folder).name, "sha256": digest})
    with pytest.raises(ModelFileError, match="is not a safetensors file"):
        read_model(folder)


def test_weights_of_a_type_that_another_library_brought_are_refused(folder):
    pytest.importorskip("ml_dtypes", reason="it teaches numpy bfloat16")
    test_weights_of_a_type_that_numpy_lacks_are_refused(folder, "BF16")


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_save_that_fails_leaves_the_old_model_and_nothing_else(folder, failing, monkeypatch):
    before = {path.name for path in folder.iterdir()}
    replace, calls = os.replace, []

    def fail_at_last(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError("no space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_last)
    with pytest.raises(OSError, match="no space left"):
        save(folder, NEW_ARRAYS)
    monkeypatch.undo()
    assert_holds(folder, ARRAYS)
    assert {path.name for path in folder.iterdir()} == before


def test_a_manifest_that_json_cannot_hold_leaves_the_old_model_and_nothing_else(folder):
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(folder, NEW_ARRAYS, score=float("nan"))
    assert_holds(folder, ARRAYS)
    assert {path.name for path in folder.iterdir()} == before


SAVE_AND_DIE = """
import os, signal, sys
import numpy as np
from groupnoise.io.folders import model_files as _model_files
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(_model_files, sys.argv[2], die)
_model_files.write_model(
    sys.argv[1], kind="Example", manifest={}, arrays={"table": np.ones((4, 4))}
)
"""


@pytest.mark.parametrize(
    "step", ["sha256_of", "write_json"], ids=["while_writing_weights", "between_the_two_files"]
)
def test_a_process_killed_while_saving_leaves_the_old_model_whole(folder, step):
    assert hasattr(_model_files, step)
    killed = run_python(SAVE_AND_DIE, str(folder), step, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert_holds(folder, ARRAYS)
    save(folder, NEW_ARRAYS)
    assert_holds(folder, NEW_ARRAYS)
    assert len(list(folder.iterdir())) == 2  # what the killed process left is gone

"""Atomic writes: old or new, never half, and nothing left over."""

import hashlib
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from groupnoise.exceptions import MissingDataError, OutputError, ParameterError
from groupnoise.io.files import (
    atomic_path,
    check_not_own_input,
    check_writable_file,
    check_writable_folder,
    sha256_of,
    write_error_message,
    write_json,
    write_text,
)
from processes import run_python


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_text_is_written_as_utf8_and_folders_are_made(tmp_path):
    path = tmp_path / "new" / "folder" / "notes.txt"
    write_text(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()


def test_json_is_readable_and_complete(tmp_path):
    write_json(tmp_path / "value.json", {"a": [1, 2.5, None]})
    assert json.loads((tmp_path / "value.json").read_text()) == {"a": [1, 2.5, None]}


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    write_json(tmp_path / "value.json", [np.int64(3), np.float32(0.5), np.bool_(True)])
    assert json.loads((tmp_path / "value.json").read_text()) == [3, 0.5, True]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": {1}}])
def test_a_value_json_cannot_hold_leaves_the_old_file(tmp_path, value):
    path = tmp_path / "value.json"
    write_json(path, "old")
    with pytest.raises((ValueError, TypeError), match="JSON"):
        write_json(path, value)
    assert json.loads(path.read_text()) == "old"
    assert names(tmp_path) == ["value.json"]


def write_half(path):
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"half of the n")
        raise RuntimeError("interrupted")


def test_a_block_that_fails_leaves_the_old_content_and_no_temporary_file(tmp_path):
    path = tmp_path / "table.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="interrupted"):
        write_half(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["table.bin"]


def test_a_rename_that_fails_leaves_the_old_content_and_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "table.bin"
    path.write_bytes(b"old")

    def refuse(source, target):
        raise OSError("read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="read-only"):
        write_text(path, "new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["table.bin"]


def test_a_reader_sees_nothing_before_the_block_ends(tmp_path):
    path = tmp_path / "table.bin"
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"


def test_a_process_killed_while_writing_leaves_the_old_content(tmp_path):
    path = tmp_path / "table.bin"
    path.write_bytes(b"old")
    killed = run_python(
        "import os, signal, sys\n"
        "from groupnoise.io.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
        str(path),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


def test_checksum_is_that_of_the_whole_content(tmp_path):
    content = bytes(range(256)) * 10_000  # more than one block
    (tmp_path / "big").write_bytes(content)
    assert sha256_of(tmp_path / "big") == hashlib.sha256(content).hexdigest()


def test_what_the_system_refuses_becomes_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder cannot be written: Is a directory\.$"):
        write_text(tmp_path / "folder", "text")
    with pytest.raises(OutputError, match=r"file.x cannot be written"):
        write_text(tmp_path / "file" / "x", "text")
    assert names(tmp_path / "folder") == []


def test_an_error_of_the_writer_itself_passes_unchanged(tmp_path):
    with pytest.raises(MissingDataError, match="gone"), atomic_path(tmp_path / "x"):
        raise MissingDataError("gone")


def test_a_check_of_the_output_leaves_no_trace(tmp_path):
    check_writable_folder(tmp_path / "new" / "folder")
    check_writable_file(tmp_path / "new" / "file.csv")
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file; give a folder"):
        check_writable_folder(tmp_path / "file")
    with pytest.raises(OutputError, match="is a folder; give a file"):
        check_writable_file(tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        check_writable_folder(tmp_path / "file" / "x" / "y")
    assert names(tmp_path) == ["file"]


def test_a_name_that_is_no_file_is_never_its_own_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_not_own_input(Path("shop"), "shop")  # a set known by name
    Path("shop").mkdir()
    with pytest.raises(ParameterError, match="is what is read"):
        check_not_own_input(Path("shop"), "./shop")
    check_not_own_input(Path("shop/new.csv"), "shop")
    Path("shop/old.csv").touch()
    with pytest.raises(ParameterError, match="is what is read"):
        check_not_own_input(Path("shop/old.csv"), "shop")


def test_an_array_that_a_disk_takes_a_part_of_is_told_as_a_full_disk(tmp_path):
    short = OSError("178240 requested and 11232 written")
    assert "no space left" in write_error_message(tmp_path / "a.npy", short)

"""SIVAL in its AMIL edition: C4.5 tasks joined into one set of bags."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from groupnoise.bags.sival import load_amil
from groupnoise.exceptions import DataError, GroupNoiseError, MissingDataError
from groupnoise.io import load_dataset

NAMES = "0,1.\nbag_id: {a,b}.\nsegment_id: {1,2}.\n" + "".join(
    f"f{number}: continuous. | a colour\n" for number in range(3)
)
APPLE = """\
lamp_Apple_01, 1, 0.1, 0.2, 0.3, 1.
lamp_Apple_01, 2, 0.4, 0.5, 0.6, 0.
sun_Book_07, 1, 7, 8, 9, 0.
sun_Book_07, 2, 1, 1, 1, 0.
"""
BOOK = """\
sun_Book_07,1,7,8,9,0.
sun_Book_07,2,1,1,1,1.
lamp_Apple_01,1,0.1,0.2,0.3,0.

rain_Cup_09,1,5,5,5,0.
"""


def write(folder, **tasks):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in tasks.items():
        (folder / f"{name}.data").write_text(data)
        (folder / f"{name}.names").write_text(NAMES)
    return folder


def test_overlapping_tasks_become_one_multi_class_set(tmp_path):
    dataset = load_amil("SIVAL", write(tmp_path, Apple=APPLE, Book=BOOK))
    assert dataset.class_names == ["Apple", "Book"]
    assert dataset.bags.sizes.tolist() == [2, 2]
    assert dataset.labels.tolist() == [[True, False], [False, True]]
    assert dataset.instance_labels.tolist() == [0, -1, -1, 1]
    np.testing.assert_allclose(dataset.bags[0], [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])


def test_a_bag_whose_object_has_no_file_is_left_out(tmp_path):
    dataset = load_amil("SIVAL", write(tmp_path, Book=BOOK))
    assert len(dataset.bags) == 1


def test_the_registry_loads_the_folder(tmp_path):
    write(tmp_path / "mil" / "sival", Apple=APPLE, Book=BOOK)
    assert len(load_dataset("sival", data_dir=tmp_path).bags) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a,1,2,3,1.", r"line 1 has 5 values where 6 are declared \(bag, segment, 3 features"),
        ("a,1,2,3,x,1.", "line 1 holds a feature that is no number"),
        ("a,1,2,3,4,yes.", "line 1 ends with 'yes', not with 0 or 1"),
        ("a,1,2,3,4,0.", "no segment in .* is labelled 1"),
        ("a,1,2,3,4,1.\na,1,2,3,4,1.", "line 2 gives segment 1 of bag a a second time"),
        ("a,1,2,nan,4,1.", "NaN or infinite values"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, sentence):
    with pytest.raises(DataError, match=sentence):
        load_amil("SIVAL", write(tmp_path, Apple=line))


def test_a_bag_with_two_classes_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"Book.data line 1 gives bag a a second class"):
        load_amil("SIVAL", write(tmp_path, Apple="a,1,2,3,4,1.", Book="a,1,2,3,4,1."))


def test_an_empty_folder_and_a_lone_data_file_say_what_is_missing(tmp_path):
    with pytest.raises(MissingDataError, match=r"holds no \.data file"):
        load_amil("SIVAL", tmp_path)
    (tmp_path / "Apple.data").write_text(APPLE)
    with pytest.raises(MissingDataError, match=r"each \.data file needs its \.names file"):
        load_amil("SIVAL", tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    write(tmp_path, Apple=APPLE)
    (tmp_path / "Apple.data").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"Apple\.data is not UTF-8 text"):
        load_amil("SIVAL", tmp_path)


cell = st.one_of(st.text(max_size=5), st.sampled_from(["1", "0.", "a", "2.5", "nan", "-1e400"]))
line = st.lists(cell, max_size=8).map(",".join)


@settings(max_examples=50, deadline=None)
@given(data=st.lists(line, max_size=6).map("\n".join), names=st.sampled_from([NAMES, "", "x: y."]))
def test_any_text_is_read_or_refused_with_our_own_error(data, names):
    with tempfile.TemporaryDirectory() as folder, suppress(GroupNoiseError):
        (Path(folder) / "Apple.data").write_text(data, "utf-8", errors="replace")
        (Path(folder) / "Apple.names").write_text(names, "utf-8")
        assert load_amil("SIVAL", folder).labels.any(axis=1).all()

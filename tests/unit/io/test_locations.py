"""Where data is looked for."""

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.registry import (
    DataFile,
    check_dataset,
    data_directories,
    find_dataset,
    locate_dataset,
)

CONTENT = b"1 2\n1 3\n"
PACKED = gzip.compress(CONTENT, mtime=0)


@pytest.fixture
def entry():
    file = DataFile(
        path="rs/log.txt.gz",
        sha256=hashlib.sha256(PACKED).hexdigest(),
        plain_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    return replace(find_dataset("amazon-video-games"), files=(file,))


def put(directory: Path, name: str, content: bytes) -> Path:
    path = directory / "rs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_directories_are_searched_in_the_documented_order(nowhere, monkeypatch, entry):
    monkeypatch.setenv("GROUPNOISE_DATA", str(nowhere / "environment"))
    given, environment, cache = (
        nowhere / "given",
        nowhere / "environment",
        nowhere / "cache" / "groupnoise",
    )
    assert data_directories(given) == [given, environment, cache]
    (given).mkdir()
    for directory in (cache, environment, given):
        path = put(directory, "log.txt.gz", PACKED)
        assert locate_dataset(entry, given) == [path]


def test_an_unpacked_file_is_taken_in_place_of_a_packed_one(nowhere, entry):
    path = put(nowhere, "log.txt", CONTENT)
    assert locate_dataset(entry, nowhere) == [path]
    assert check_dataset(entry, nowhere) == "ok"


def test_a_missing_set_says_what_to_get_from_where_and_where_to_put_it(nowhere):
    with pytest.raises(MissingDataError) as caught:
        locate_dataset(find_dataset("yahoo-news"), nowhere)
    sentence = str(caught.value)
    assert sentence.startswith("Yahoo! News is not here: get it (")
    assert "https://palm.seu.edu.cn/zhangml" in sentence
    assert sentence.endswith(f"put it at {nowhere / 'pll' / 'Yahoo! News.mat'}.")
    assert "\n" not in sentence


def test_a_missing_set_that_can_be_fetched_names_the_command(nowhere):
    with pytest.raises(MissingDataError, match="run `groupnoise data fetch lost`, or get it"):
        locate_dataset(find_dataset("lost"))


def test_a_data_directory_that_does_not_exist_is_named(nowhere, entry):
    with pytest.raises(MissingDataError, match=r"data directory .*absent does not exist"):
        locate_dataset(entry, nowhere / "absent")


def test_an_altered_file_is_refused_unless_asked_for(nowhere, entry):
    path = put(nowhere, "log.txt.gz", PACKED + b"more")
    with pytest.raises(DataError, match="its SHA-256 differs"):
        locate_dataset(entry, nowhere)
    assert locate_dataset(entry, nowhere, verify=False) == [path]
    assert check_dataset(entry, nowhere) == "altered"


def test_an_optional_file_may_be_absent(nowhere, entry):
    titles = DataFile(path="rs/titles.tsv", optional=True)
    with_titles = replace(entry, files=(*entry.files, titles))
    path = put(nowhere, "log.txt.gz", PACKED)
    assert locate_dataset(with_titles, nowhere) == [path, None]


def test_the_status_tells_shipped_missing_and_unverifiable_sets_apart(nowhere, entry):
    assert check_dataset(find_dataset("shop"), nowhere) == "shipped"
    assert check_dataset(entry, nowhere) == "missing"
    put(nowhere, "log.txt.gz", PACKED)
    unknown = replace(entry, files=(DataFile(path="rs/log.txt.gz"),))
    assert check_dataset(unknown, nowhere) == "present"

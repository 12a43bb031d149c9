"""The registry of named data sets."""

import re

import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.io import list_datasets
from groupnoise.io.named import _DRAWN, _READ
from groupnoise.io.registry import find_dataset

THE_PAPERS = [
    *("sival", "fg-net", "msrcv2", "birdsong", "yahoo-news", "lost"),
    *("amazon-video-games", "amazon-beauty", "amazon-toys-and-games-5core"),
]
OTHERS = [
    *("sival25", "hja-birdsong", "letter-nonsense", "letter-walk", "spambase-bags", "musk1"),
    *("musk2", "elephant", "fox", "tiger", "ucsb-breast", "natural-scene", "soccer-player"),
    *("mirflickr", "movietweetings", "amazon-beauty-5core"),
]


@pytest.mark.parametrize("name", THE_PAPERS + OTHERS)
def test_every_promised_set_is_known(name):
    assert find_dataset(name).name == name


def test_names_and_aliases_are_unique():
    names = [name for entry in list_datasets() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", list_datasets(), ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry):
    assert entry.setting in {"mil", "pll", "rs"}
    assert entry.form in _READ or entry.form in _DRAWN
    for text in (entry.title, entry.shape, entry.truth, entry.citation, entry.terms, entry.origin):
        assert text.strip()
    for file in entry.files:
        for checksum in (file.sha256, file.plain_sha256):
            assert checksum is None or re.fullmatch("[0-9a-f]{64}", checksum)


@pytest.mark.parametrize("entry", list_datasets(), ids=lambda entry: entry.name)
def test_a_set_has_an_address_or_says_where_it_lies_or_that_none_is_known(entry):
    if entry.files and not entry.can_be_fetched:
        assert re.search("https?://|address", entry.origin)


def test_whatever_can_be_fetched_has_a_checksum_to_be_verified_with():
    for file in (file for entry in list_datasets() for file in entry.files if file.url):
        assert file.plain_sha256 if file.path.endswith(".gz") else file.sha256


@pytest.mark.parametrize("typed", ["Video", "VIDEO", "video_games", "amazon-video-games"])
def test_a_set_is_found_by_alias_in_any_case(typed):
    assert find_dataset(typed).title == "Amazon Video Games"


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(ParameterError, match="no data set is called 'amzon-beauty'; did you mean"):
        find_dataset("amzon-beauty")


def test_a_name_like_no_other_points_to_the_list():
    with pytest.raises(ParameterError, match="`groupnoise data list` shows all names"):
        find_dataset("?")

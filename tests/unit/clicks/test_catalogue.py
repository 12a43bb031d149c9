"""Ids and indices both ways, and the best k against a full sort."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from groupnoise import Groups
from groupnoise.clicks.items.catalogue import Catalogue, top_k
from groupnoise.exceptions import DataError, ModelFileError


@pytest.mark.parametrize("ids", [[30, 10, 20], ["c", "a", "b"]])
def test_ids_and_indices_are_inverse(ids):
    catalogue = Catalogue(ids)
    assert catalogue.indices_of(ids).tolist() == [0, 1, 2]
    assert catalogue.ids_at(np.array([2, 0])).tolist() == [ids[2], ids[0]]


def test_unknown_items_are_counted_and_left_out_even_if_none_remains():
    indexed = Catalogue([5, 7]).index([[7, 1, 5], [], [2]])
    assert indexed.items.tolist() == [1, 0]
    assert indexed.offsets.tolist() == [0, 2, 2, 2]
    assert indexed.n_unknown.tolist() == [1, 0, 1]
    assert indexed.rows.tolist() == [0, 0]


def test_groups_are_taken_as_indices():
    indexed = Catalogue(["a", "b"]).index(Groups.from_lists([[1, 0], [5, -1, 1]]))
    assert indexed.items.tolist() == [1, 0, 1]
    assert indexed.n_unknown.tolist() == [0, 2]


def test_the_catalogue_of_histories_is_sorted():
    assert Catalogue.of_histories([["pear"], ["fig", "pear"]]).ids.tolist() == ["fig", "pear"]


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint32, np.uint64])
def test_arrays_of_ids_are_read_as_lists_are(dtype):
    lists = [[7, 1, 5], [], [7]]
    arrays = [np.array(history, dtype=dtype) for history in lists]
    catalogue, expected = Catalogue.of_histories(arrays), Catalogue.of_histories(lists)
    assert catalogue.ids.dtype == expected.ids.dtype == np.int64
    assert catalogue.ids.tolist() == expected.ids.tolist()
    indexed, by_lists = catalogue.index(arrays), expected.index(lists)
    for found, wanted in zip(indexed, by_lists, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("ids", [[3, -1, 2**40], ["é", "", "日本", "a b"]])
def test_arrays_restore_the_same_catalogue(ids):
    catalogue = Catalogue(ids)
    arrays = catalogue.to_arrays()
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    assert Catalogue.from_arrays(arrays).ids.tolist() == ids


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "item_ids_utf8 is missing"),
        ({"item_ids": np.array([1.5])}, "item_ids is of type float64"),
        ({"item_ids": np.array([[1]])}, "item_ids has shape"),
        ({"item_ids": np.array([1, 1])}, "no catalogue: item id 1 occurs twice"),
        ({"item_ids_utf8": b"abc"}, "item_ids_ends is missing"),
        ({"item_ids_utf8": b"abc", "item_ids_ends": [2, 9]}, "does not rise from 0 to 3"),
        ({"item_ids_utf8": b"abc", "item_ids_ends": [-2, 3]}, "does not rise from 0 to 3"),
        ({"item_ids_utf8": b"abc", "item_ids_ends": [2, 1, 3]}, "does not rise from 0 to 3"),
        ({"item_ids_utf8": b"a\xff", "item_ids_ends": [1, 2]}, "not text in UTF-8"),
    ],
)
def test_stored_ids_that_make_no_catalogue_are_refused(arrays, message):
    stored = {
        name: np.frombuffer(a, dtype=np.uint8) if isinstance(a, bytes) else np.asarray(a)
        for name, a in arrays.items()
    }
    with pytest.raises(ModelFileError, match=message):
        Catalogue.from_arrays(stored)


@pytest.mark.parametrize(
    ("histories", "words"),
    [
        ("abc", "sequences of item ids"),
        (3, "sequences of item ids"),
        (["apple", "pear"], "Wrap a single item in a list"),
        ([4, 5], "Wrap a single item in a list"),
        ([[1, "a"]], "all whole numbers or all strings"),
        ([["a", None]], "got None of type NoneType"),
        ([[1.5]], "all whole numbers or all strings"),
        ([[True]], "all whole numbers or all strings"),
        ([[2**70]], "give ids as strings"),
        ([np.array([2**63], dtype=np.uint64)], "give ids as strings"),
        ([np.array([1.0])], "all whole numbers or all strings"),
        ([np.array([True])], "all whole numbers or all strings"),
        ([["a"]], "whole numbers in this catalogue, but 'a' was given"),
    ],
)
def test_what_is_no_history_is_refused_in_words(histories, words):
    with pytest.raises(DataError, match=words):
        Catalogue([1, 2]).index(histories)


def test_a_catalogue_without_items_or_with_twins_is_refused():
    with pytest.raises(DataError, match="at least one item"):
        Catalogue([])
    with pytest.raises(DataError, match="'a' occurs twice"):
        Catalogue(["a", "b", "a"])


@given(
    scores=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.sampled_from([0.0, 1.0, 2.0, -np.inf]),
    ),
    k=st.integers(1, 10),
)
def test_top_k_agrees_with_a_stable_sort(scores, k):
    indices, best = top_k(scores, k)
    assert indices.shape == best.shape == (len(scores), k)
    for row, values in enumerate(scores):
        order = sorted(np.flatnonzero(values > -np.inf), key=lambda item: (-values[item], item))
        expected = [int(item) for item in order[:k]]
        assert indices[row].tolist() == expected + [-1] * (k - len(expected))
        assert best[row, : len(expected)].tolist() == [values[item] for item in expected]


@pytest.mark.parametrize("n_values", [2, 30, 10**9], ids=["mostly tied", "tied", "distinct"])
@pytest.mark.parametrize("n_items", [640, 1001])
def test_top_k_of_long_rows_agrees_with_a_stable_sort(n_items, n_values):
    rng = np.random.default_rng(0)
    scores = rng.integers(n_values, size=(20, n_items)).astype(np.float32)
    scores[3, 5:] = -np.inf
    for rows in (scores, np.delete(scores, 3, axis=0)):
        indices, best = top_k(rows, 7)
        order = np.argsort(-rows, axis=1, kind="stable")[:, :7]
        values = np.take_along_axis(rows, order, axis=1)
        np.testing.assert_array_equal(best, values)
        np.testing.assert_array_equal(indices, np.where(np.isneginf(values), -1, order))


def test_top_k_never_returns_what_is_excluded_and_leaves_scores_alone():
    scores = np.array([[3.0, 2.0, 1.0]])
    indices, _ = top_k(scores, 2, exclude=(np.array([0]), np.array([0])))
    assert indices.tolist() == [[1, 2]]
    assert scores[0, 0] == 3.0


def test_places_left_over_have_no_id():
    assert Catalogue([4]).ids_at(np.array([0, -1])).tolist() == [4, -1]
    assert Catalogue(["a"]).ids_at(np.array([0, -1])).tolist() == ["a", ""]

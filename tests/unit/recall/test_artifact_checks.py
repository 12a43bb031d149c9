"""Artifacts altered together with their checksums: refused when opened, or at the latest in use."""

import json

import numpy as np
import pytest

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.exceptions import DataError, ModelFileError, ParameterError
from groupnoise.io.folders.array_folder import read_folder, write_folder
from groupnoise.recall import IndexSpec, RecallOptions, open_artifact
from groupnoise.recall.artifact import add_index
from serving_support import write_neighbour_shop, write_random, write_shop

EITHER_WAY = pytest.mark.parametrize("memory_map", [True, False])


def alter_array(folder, name, change):
    manifest, arrays = read_folder(folder, memory_map=False)
    write_folder(folder, manifest=manifest, arrays={**arrays, name: change(arrays[name])})


def alter_manifest(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def assert_refused(folder, message, *, memory_map):
    with pytest.raises(ModelFileError) as caught:
        open_artifact(folder, memory_map=memory_map)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)


@EITHER_WAY
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ids", lambda a: a[:3], "id_order has shape (6,) where (3,) is needed"),
        ("ids", lambda a: a.astype("U10"), "is not a plain .npy array"),
        ("ids", lambda a: np.arange(6.0), "ids is of type float64"),
        ("ids", lambda a: a.reshape(2, 3), "ids has shape (2, 3) where (any,) is needed"),
        ("ids", lambda a: a[:0], "it holds no item"),
        ("ids", lambda a: np.array([b"\xff"] * 6), "ids are not text in UTF-8"),
        ("ids", lambda a: np.array([b"a\xc3", b"\xa9b"] * 3), "ids are not text in UTF-8"),
        ("id_order", lambda a: a - 5, "id_order points outside 0 to 5"),
        ("id_order", lambda a: a + 10**6, "id_order points outside 0 to 5"),
        ("id_order", lambda a: a.astype(float), "id_order is of type float64"),
        ("id_order", lambda a: a[:3], "id_order has shape (3,) where (6,)"),
        ("popular_order", lambda a: np.r_[a[:5], -7], "popular_order points outside 0 to 5"),
        ("popular_order", lambda a: a[:0], "popular_order has shape (0,)"),
        ("popularity", lambda a: a * np.nan, "popularity holds values that are NaN"),
        ("popularity", lambda a: a[:3], "popularity has shape (3,)"),
        ("titles_offsets", lambda a: a - 10**6, "titles_offsets does not rise"),
        ("titles_offsets", lambda a: a + 1, "titles_offsets does not rise"),
        ("titles_offsets", lambda a: a[:3], "titles_offsets has shape (3,)"),
        ("titles_offsets", lambda a: a.astype(float), "titles_offsets is of type float64"),
        ("titles", lambda a: a[:5], "titles_offsets does not rise from 0 to 5"),
        ("titles", lambda a: a.astype(np.float32), "titles is of type float32"),
        ("search_text_offsets", lambda a: a * 0, "search_text_offsets does not rise"),
        ("search_text", lambda a: a.astype(np.int64), "search_text is of type int64"),
        ("category_codes", lambda a: a + 1000, "category_codes points outside 0 to 1"),
        ("category_codes", lambda a: a[:2], "category_offsets does not rise from 0 to 2"),
        ("target_vectors", lambda a: a[:2], "target_vectors has shape (2, 3) where (6, any)"),
        ("target_vectors", lambda a: a[:, :1], "no column beside the bias"),
        ("target_vectors", lambda a: a[0], "target_vectors has shape (3,)"),
        ("target_vectors", lambda a: a[:, :2], "gives 2 as dimension where it is 1"),
        ("target_vectors", lambda a: a.astype(np.float64), "target_vectors is of type float64"),
        ("target_vectors", lambda a: a.astype(">f4"), "target_vectors is of type >f4"),
        ("log_normalizer", lambda a: a[:5], "log_normalizer has shape (5,)"),
        ("log_normalizer", lambda a: a * np.inf, "log_normalizer holds values that are NaN"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, name, change, message, memory_map):
    alter_array(write_shop(tmp_path), name, change)
    assert_refused(tmp_path, message, memory_map=memory_map)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("target_vectors", lambda a: a * np.nan, "target_vectors holds values that are NaN"),
        ("target_vectors", lambda a: a * np.float32(1e30), "NaN or too large"),
        ("id_order", lambda a: a[::-1], "id_order does not sort the ids"),
        ("titles", lambda a: np.full_like(a, 255), "titles does not end every line"),
        ("titles", lambda a: np.where(a == ord("T"), 255, a).astype("u1"), "titles is not text"),
    ],
)
def test_values_are_looked_at_where_everything_is_read(tmp_path, name, change, message):
    alter_array(write_shop(tmp_path), name, change)
    assert_refused(tmp_path, message, memory_map=False)


@EITHER_WAY
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": {"a": 1}}, "no str under 'version'"),
        ({"version": None}, "no str under 'version'"),
        ({"kind": ["vectors"]}, "no str under 'kind'"),
        ({"kind": "neighbours"}, "scores is missing"),
        ({"categories": ["x"]}, "category_codes points outside 0 to 0"),
        ({"categories": []}, "category_codes points outside 0 to -1"),
        ({"categories": [1, 2]}, "a category by something that is not text"),
        ({"categories": "ab"}, "no list under 'categories'"),
        ({"card": [1]}, "no dict under 'card'"),
        ({"card": {"a": float("nan")}}, "cannot be shown"),
        ({"card": {"name": "\ud800"}}, "cannot be shown"),
        ({"created": 5}, "no str under 'created'"),
        ({"dimension": "x"}, "no int under 'dimension'"),
        ({"n_items": -1}, "gives -1 as n_items where it is 6"),
        ({"n_items": True}, "gives True as n_items"),
        ({"scoring": None}, "no dict under 'scoring'"),
        ({"scoring": {}}, "the scoring rule does not say its"),
        ({"index": 5}, "no dict under 'index'"),
    ],
)
def test_a_manifest_of_other_types_is_refused(tmp_path, changes, message, memory_map):
    alter_manifest(write_shop(tmp_path), **changes)
    assert_refused(tmp_path, message, memory_map=memory_map)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("weighting_strength", 10**400),
        ("weighting_strength", 1e300),
        ("weighting_strength", "1"),
        ("weighting_strength", True),
        ("similarity_scale", None),
        ("recency", -1e30),
        ("window_size", 0),
        ("window_size", 2.5),
        ("window_size", True),
    ],
)
def test_scoring_rules_that_are_no_usable_numbers_are_refused(tmp_path, rule, value):
    write_shop(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    alter_manifest(tmp_path, scoring={**manifest["scoring"], rule: value})
    assert_refused(tmp_path, rule, memory_map=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, 10**400, "1"])
def test_scoring_rules_that_are_no_usable_numbers_are_not_written(tmp_path, value):
    with pytest.raises(ParameterError, match="similarity_scale must be a number of at most"):
        write_shop(tmp_path, rule=ScoringRule(similarity_scale=value))


def test_popularity_that_is_not_finite_is_not_written(tmp_path):
    with pytest.raises(DataError, match="popularity holds 1 NaN"):
        write_shop(tmp_path, popularity=[1, 2, 3, 4, 5, np.nan])


@EITHER_WAY
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda a: a - 10**6, "indptr does not rise from 0 to 6"),
        ("indptr", lambda a: a * 10**9, "indptr does not rise from 0 to 6"),
        ("indptr", lambda a: a[:3], "indptr has shape (3,)"),
        ("indptr", lambda a: a.astype(float), "indptr is of type float64"),
        ("indices", lambda a: a[:3], "indices has shape (3,) where (6,)"),
        ("indices", lambda a: a.astype(float), "indices is of type float64"),
        ("scores", lambda a: a.astype(int), "scores is of type int64"),
    ],
)
def test_neighbours_that_do_not_fit_are_refused(tmp_path, name, change, message, memory_map):
    alter_array(write_neighbour_shop(tmp_path), name, change)
    assert_refused(tmp_path, message, memory_map=memory_map)


@pytest.mark.parametrize("shift", [-1000, 1000])
def test_neighbours_that_do_not_exist_are_refused_when_read_or_met(tmp_path, shift):
    alter_array(write_neighbour_shop(tmp_path), "indices", lambda a: a + np.int32(shift))
    assert_refused(tmp_path, "indices points outside 0 to 5", memory_map=False)
    with pytest.raises(ModelFileError, match="names neighbours it has no item for"):
        open_artifact(tmp_path).recall([["tea"]])


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # numpy says so before we do
def test_vectors_that_are_no_numbers_are_refused_when_met(tmp_path):
    alter_array(write_shop(tmp_path), "target_vectors", lambda a: a * np.nan)
    mapped = open_artifact(tmp_path)
    for scope in ("last", "group"):
        with pytest.raises(ModelFileError, match="scores an item with NaN"):
            mapped.recall([["tea", "cup"]], RecallOptions(top=2, scope=scope))


def test_a_mapped_title_that_is_no_text_is_shown_as_such(tmp_path):
    alter_array(write_shop(tmp_path), "titles", lambda a: np.full_like(a, 255))
    assert set(open_artifact(tmp_path).items.title_of(0)) == {"�"}


@pytest.fixture
def indexed(tmp_path):
    pytest.importorskip("faiss")
    write_random(tmp_path / "indexed", 600, dimension=8)
    add_index(tmp_path / "indexed", IndexSpec(least_recall=0.3))
    return tmp_path / "indexed"


@pytest.mark.parametrize("shape", [(600, 5), (500, 8)])
def test_an_index_of_other_vectors_is_refused(tmp_path, indexed, shape):
    write_random(tmp_path / "other", shape[0], dimension=shape[1])
    add_index(tmp_path / "other", IndexSpec(least_recall=0.3))
    foreign = read_folder(tmp_path / "other", memory_map=False)[1]["index"]
    alter_array(indexed, "index", lambda _: foreign)
    assert_refused(indexed, "was built on other vectors", memory_map=False)


def test_an_index_that_answers_with_foreign_positions_is_refused(indexed):
    import faiss

    def renumbered(data):
        index = faiss.deserialize_index(data)
        index.make_direct_map()
        vectors = index.reconstruct_n(0, index.ntotal)
        index.set_direct_map_type(faiss.DirectMap.NoMap)
        index.reset()
        index.add_with_ids(vectors, np.arange(len(vectors)) + 10**6)
        return faiss.serialize_index(index)

    alter_array(indexed, "index", renumbered)
    assert_refused(indexed, "index points outside 0 to 599", memory_map=True)


def test_an_index_of_another_kind_is_refused(indexed):
    import faiss

    flat = faiss.IndexFlatIP(9)
    flat.add(np.zeros((600, 9), dtype=np.float32))
    alter_array(indexed, "index", lambda _: faiss.serialize_index(flat))
    assert_refused(indexed, "no ivf index of whole vectors", memory_map=True)


def test_an_index_that_asks_for_more_room_than_its_bytes_is_refused(indexed):
    faiss = pytest.importorskip("faiss")
    if not hasattr(faiss, "set_deserialization_loop_limit"):
        pytest.skip("this faiss cannot be limited")
    limit = faiss.get_deserialization_vector_byte_limit()

    def with_endless_lists(data):
        at = data.tobytes().index(b"ilar") + 4
        return np.concatenate([data[:at], np.array([1 << 40]).view(np.uint8), data[at + 8 :]])

    alter_array(indexed, "index", with_endless_lists)
    assert_refused(indexed, "faiss cannot read the index", memory_map=False)
    assert faiss.get_deserialization_vector_byte_limit() == limit


@pytest.mark.parametrize(
    "changes", [{"kind": "flat"}, {"effort": "8"}, {"recall": None}, {"recall": 7}, {"effort": 0}]
)
def test_an_index_described_otherwise_is_refused(indexed, changes):
    manifest = json.loads((indexed / "manifest.json").read_text())
    alter_manifest(indexed, index={**manifest["index"], **changes})
    assert_refused(indexed, next(iter(changes)), memory_map=True)


def test_no_index_is_built_on_vectors_that_are_no_numbers(tmp_path):
    pytest.importorskip("faiss")
    alter_array(write_random(tmp_path, 600), "target_vectors", lambda a: a * np.nan)
    with pytest.raises(ModelFileError, match="target_vectors holds values that are NaN"):
        add_index(tmp_path, IndexSpec())

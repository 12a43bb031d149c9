import json
import subprocess
import sys
import time

import numpy as np
import pytest

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.exceptions import DataError, ModelFileError, ParameterError
from groupnoise.recall import IndexSpec, RecallOptions, open_artifact
from groupnoise.recall.artifact import add_index, write_neighbour_artifact
from serving_support import IDS, VECTORS, write_random, write_shop


def test_a_shared_table_is_stored_once(tmp_path):
    write_shop(tmp_path / "shared")
    write_shop(tmp_path / "apart", query_vectors=-VECTORS)
    assert not list((tmp_path / "shared").glob("query_vectors-*"))
    assert len(list((tmp_path / "apart").glob("query_vectors-*"))) == 1
    first = open_artifact(tmp_path / "apart").recall([["tea"]], RecallOptions(top=1))
    assert first.positions.tolist() == [[IDS.index("hammer")]]


def test_the_log_normalizer_is_computed_where_none_is_given(tmp_path):
    model = open_artifact(write_shop(tmp_path))
    scores = VECTORS @ VECTORS.T
    np.testing.assert_allclose(
        model.ranker.vectors.log_normalizer, np.log(np.exp(scores).sum(axis=1)), rtol=1e-5
    )


def test_scores_of_mm_are_log_probabilities(tmp_path):
    model = open_artifact(write_shop(tmp_path))
    options = RecallOptions(top=6, scope="last", exclude_seen=False)
    scores = model.recall([["tea"]], options).scores[0]
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": IDS[:5]}, "one entry per item"),
        ({"target_bias": np.zeros(2)}, "target_bias must have shape"),
        ({"target_bias": np.full(6, np.nan)}, "NaN"),
        ({"query_vectors": VECTORS[:4]}, "4 query and 6 target"),
        ({"query_vectors": np.ones((6, 3))}, "3 features"),
        ({"target_vectors": VECTORS * np.inf}, "NaN or infinite"),
        ({"rule": ScoringRule(negatives=(6,))}, "negatives of the rule must lie between 0 and 5"),
        ({"log_normalizer": np.zeros(3)}, "log_normalizer must have shape"),
    ],
)
def test_inconsistent_parts_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        write_shop(tmp_path, **change)


def test_a_window_must_hold_a_click(tmp_path):
    with pytest.raises(ParameterError, match="window_size"):
        write_shop(tmp_path, rule=ScoringRule(window_size=0))


def test_an_artifact_that_lacks_a_part_is_refused(tmp_path):
    write_shop(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["files"]["popularity"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="popularity"):
        open_artifact(tmp_path)


def test_an_unknown_kind_is_refused(tmp_path):
    write_shop(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "kind": "oracle"}))
    with pytest.raises(ModelFileError, match="'oracle'"):
        open_artifact(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": [0, 1]}, "indptr"),
        ({"indices": [9, 0]}, "between 0 and 1"),
        ({"scores": [1.0]}, "2 entries"),
        ({"scores": [1.0, np.nan]}, "NaN"),
    ],
)
def test_inconsistent_neighbours_are_refused(tmp_path, change, message):
    parts = {"indptr": [0, 1, 2], "indices": [1, 0], "scores": [1.0, 2.0], **change}
    with pytest.raises(DataError, match=message):
        write_neighbour_artifact(tmp_path, ids=["a", "b"], popularity=[1, 1], **parts)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_an_index_is_measured_and_stays_behind_the_same_interface(tmp_path, kind):
    pytest.importorskip("faiss")
    write_random(tmp_path, 3000, dimension=8)
    exact = open_artifact(tmp_path)
    found = add_index(tmp_path, IndexSpec(kind=kind, least_recall=0.9))
    assert found["recall"] >= 0.9
    model = open_artifact(tmp_path, least_recall=0.9)
    assert model.manifest["index"] == found
    assert model.version != exact.version
    histories = [[int(item), int(item) + 1] for item in range(0, 2900, 29)]
    for scope in ("last", "group", None):
        options = RecallOptions(top=10, scope=scope)
        ours, theirs = model.recall(histories, options), exact.recall(histories, options)
        hits = [
            len(np.intersect1d(a, b)) for a, b in zip(ours.positions, theirs.positions, strict=True)
        ]
        assert np.mean(hits) / 10 > 0.85
        shared = ours.positions == theirs.positions
        np.testing.assert_allclose(ours.scores[shared], theirs.scores[shared], rtol=1e-4)
    filtered = RecallOptions(top=5, allow=tuple(range(100)))
    np.testing.assert_array_equal(
        model.recall(histories, filtered).positions, exact.recall(histories, filtered).positions
    )


def test_an_index_below_the_stated_recall_is_refused(tmp_path):
    pytest.importorskip("faiss")
    write_random(tmp_path, 3000, dimension=8)
    version = open_artifact(tmp_path).version
    add_index(tmp_path, IndexSpec(kind="ivf", least_recall=0.3))
    recorded = open_artifact(tmp_path).manifest["index"]["recall"]
    with pytest.raises(ModelFileError, match=f"recall of {recorded} at 10, below"):
        open_artifact(tmp_path, least_recall=recorded + 0.001)
    with pytest.raises(DataError, match="catalogue this small"):
        add_index(write_shop(tmp_path / "small"), IndexSpec())
    assert open_artifact(tmp_path).version != version


def test_an_unreachable_recall_is_refused_and_the_artifact_stays(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr("groupnoise.recall.index.EFFORTS", (1,))
    write_random(tmp_path, 3000, dimension=8)
    version = open_artifact(tmp_path).version
    with pytest.raises(DataError, match=r"below the 1\.0 asked for"):
        add_index(tmp_path, IndexSpec(kind="ivf", least_recall=1.0))
    assert open_artifact(tmp_path).version == version


def test_a_large_artifact_opens_at_once(tmp_path):
    write_random(tmp_path, 200_000)
    started = time.perf_counter()
    model = open_artifact(tmp_path)
    assert time.perf_counter() - started < 1.0
    assert model.items.positions_of([199_999, 200_000]).tolist() == [199_999, -1]


def test_opening_and_recalling_never_loads_torch(tmp_path):
    write_shop(tmp_path)
    program = (
        "import sys; from groupnoise.recall import open_artifact; import groupnoise.recall.http;"
        f"open_artifact({str(tmp_path)!r}).recall([['tea']]);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

"""What goes with an item is the same in Python, in an artifact and over HTTP: items and scores."""

import numpy as np
import pytest

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.baselines import (
    ALSRecommender,
    CooccurrenceRecommender,
    EASERecommender,
    ItemCFRecommender,
    SASRecRecommender,
)
from groupnoise.recall import open_artifact
from serving_support import running_service

GROUPED = {"dim": 6, "max_epochs": 2, "candidates": "full", "random_state": 0}
MODELS = {
    "history": MaxMatchingRecommender(
        encoder="recurrence", dim=6, max_epochs=2, linear=None, random_state=0
    ),
    "click": MaxMatchingRecommender(normalization="click", window_size=3, **GROUPED),
    "last": MaxMatchingRecommender(normalization="click", scope="last", **GROUPED),
    "no weighting": MaxMatchingRecommender(weighting=None, **GROUPED),
    "contrastive": MaxMatchingRecommender(weighting="contrastive", **GROUPED),
    "co-occurrence": CooccurrenceRecommender(),
    "item-CF": ItemCFRecommender(n_neighbors=4),
    "EASE": EASERecommender(ridge=2.0),
    "ALS": ALSRecommender(dim=4, random_state=0),
    "SASRec": SASRecRecommender(dim=8, max_epochs=2, n_negatives=8, random_state=0),
}
ASKED = ["i3", "i12", "odd/one ü"]


@pytest.fixture(scope="module")
def histories():
    rng = np.random.default_rng(0)
    rows = [[f"i{12 * (user % 2) + n}" for n in rng.permutation(12)[:6]] for user in range(60)]
    return [*rows, ["odd/one ü", "i3"], ["odd/one ü", "i5"]]


@pytest.mark.parametrize("name", MODELS)
def test_similar_items_are_alike_wherever_they_are_asked_for(name, histories, tmp_path):
    model = MODELS[name].fit(histories)
    ids, scores = model.similar_items(ASKED, top=5)
    model.export(tmp_path / "artifact")
    artifact = open_artifact(tmp_path / "artifact")
    with running_service(tmp_path, tmp_path / "artifact") as service, service.client() as client:
        for item, own_ids, own_scores in zip(ASKED, ids, scores, strict=True):
            filled = own_scores > -np.inf
            found = artifact.similar(item, top=5)
            positions, values = found.row(0)
            assert artifact.items.ids_of(positions) == own_ids[filled].tolist()
            np.testing.assert_allclose(values, own_scores[filled], rtol=1e-4, atol=1e-6)
            path = "/v1/similar/" + item.replace("/", "%2F")
            told = client.get(path, params={"top": 5}).json()["items"]
            assert [each["item"] for each in told] == own_ids[filled].tolist()
            np.testing.assert_allclose(
                [each["score"] for each in told], own_scores[filled], rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("name", ["history", "click", "last"])
def test_similar_items_of_vectors_are_what_is_recommended_after_that_click(name, histories):
    model = MODELS[name].fit(histories)
    ids, scores = model.similar_items(["i3"], top=5)
    expected_ids, expected = model.recommend([["i3"]], top=5)
    assert ids.tolist() == expected_ids.tolist()
    np.testing.assert_allclose(scores, expected, rtol=1e-5)

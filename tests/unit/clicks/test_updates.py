"""A fitted recommender goes on with more clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.evidence import evidence_scores, joined
from groupnoise.clicks.evidence_options import EvidenceLearner, averaged
from groupnoise.clicks.resumed_evidence import ResumedEvidence, members_of, turned
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError

MEMBERS: dict[str, Any] = {
    "dim": 8,
    "window_size": 6,
    "init": "spectral",
    "candidates": "sampled",
    "n_negatives": 64,
    "max_epochs": 2,
    "batch_size": 128,
    "learning_rate": 5e-3,
    "weight_decay": 1.0,
    "shared": False,
}


def two_kinds(n_users: int = 120, seed: int = 0) -> list[list[str]]:
    """Return histories of letters or of digits, never of both."""
    generator = np.random.default_rng(seed)
    kinds = [list("abcdefghij"), list("0123456789")]
    return [
        generator.choice(kinds[user % 2], size=6, replace=False).tolist() for user in range(n_users)
    ]


def fitted(**parameters: Any) -> MaxMatchingRecommender:
    settings = {**MEMBERS, "encoder": None, "linear": None, **parameters}
    return MaxMatchingRecommender(**settings, random_state=0).fit(two_kinds())


def evidence_of(encoder: Any, linear: bool = False) -> tuple[Any, Groups]:
    """Return evidence of members, with linear evidence after them if asked for."""
    histories = Groups.from_lists([[int(item, 36) for item in row] for row in two_kinds()])
    learner = EvidenceLearner(20, 0)
    learned, _ = learner.learned(histories, {**MEMBERS, "encoder": encoder})
    if linear:
        own = learner.linear(histories, {"together": 4})["together"].evidence(30.0, 0.05, 30, 4)
        learned = joined([learned, own])
    return learned, histories


@pytest.mark.parametrize("encoder", [None, "recurrence"])
def test_resumed_evidence_scores_as_it_did(encoder: str | None) -> None:
    evidence, histories = evidence_of(encoder)
    again = ResumedEvidence(evidence, np.random.default_rng(0)).eval().evidence()
    np.testing.assert_allclose(
        evidence_scores(again, histories), evidence_scores(evidence, histories), atol=1e-5
    )


def test_members_taken_apart_are_what_was_put_together() -> None:
    evidence, histories = evidence_of(("recurrence", None), linear=True)
    members, rest = members_of(evidence, 2, 1)
    assert [len(each.encoders) for each in members] == [1, 0]
    assert members[0].position_weights.shape[1] == MEMBERS["window_size"]
    together = joined([averaged(members), *rest])
    np.testing.assert_allclose(
        evidence_scores(together, histories), evidence_scores(evidence, histories), atol=1e-4
    )


def test_initial_vectors_are_turned_not_changed() -> None:
    evidence, _ = evidence_of(None)
    generator = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(generator.normal(size=(8, 8)))
    start = (evidence.targets @ rotation).astype(np.float32)
    _, targets = turned(start, evidence)
    np.testing.assert_allclose(targets, evidence.targets, atol=1e-4)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"encoder": ("recurrence", None)},
        {"linear": {"together": (0.5, 30.0, 0.05), "following": (0.5, 30.0, 0.0)}},
        {"shared": True, "init": "random"},
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_new_items_are_learned_and_old_ones_kept(
    parameters: dict[str, Any], is_whole: bool
) -> None:
    model = fitted(**parameters)
    before, today = two_kinds(), [[*row[-3:], "k"] for row in two_kinds(40, seed=1)[::2]]
    old_items, old_counts = model.items_.copy(), model.popularity_.copy()
    known = [len(row) for row in before] + [0] * len(today)
    if is_whole:
        model.partial_fit([*before, *today], known=known)
    else:
        model.partial_fit(today)
    assert model.items_.tolist() == [*old_items.tolist(), "k"]
    assert model.popularity_[-1] == len(today)
    assert model.popularity_.sum() == old_counts.sum() + sum(map(len, today))
    letters, digits = model.scores([["a", "b", "c"], ["0", "1", "2"]], items=["k"]).ravel()
    assert letters > digits
    assert set(model.recommend([["a", "b"]], top=3)[0][0]) <= set("cdefghijk")


def test_a_model_of_windows_goes_on_too() -> None:
    model = MaxMatchingRecommender(normalization="click", dim=8, random_state=0).fit(two_kinds())
    model.partial_fit([["a", "b", "k"], ["c", "k", "d"]])
    letters, digits = model.scores([["a", "b", "c"], ["0", "1", "2"]], items=["k"]).ravel()
    assert letters > digits


def test_a_model_that_went_on_is_saved_exported_and_goes_on_again(tmp_path: Path) -> None:
    from groupnoise.recall import open_artifact

    model = fitted(encoder=("recurrence", None)).partial_fit([["a", "b", "k"]])
    model.save(tmp_path / "model")
    loaded = MaxMatchingRecommender.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.scores([["a"]]), model.scores([["a"]]), rtol=1e-6)
    loaded.export(tmp_path / "artifact")
    assert len(open_artifact(tmp_path / "artifact").items) == 21
    assert loaded.partial_fit([["a", "l"]]).n_items_ == 22


def test_counts_fade_and_items_are_forgotten() -> None:
    model = fitted()
    counts = dict(zip(model.items_.tolist(), model.popularity_.tolist(), strict=True))
    model.partial_fit([["a", "b", "c"]], decay=0.5, forget=["c", "0"])
    assert {"c", "0"}.isdisjoint(model.items_.tolist())
    after = dict(zip(model.items_.tolist(), model.popularity_.tolist(), strict=True))
    assert after["a"] == 0.5 * counts["a"] + 1
    assert after["9"] == 0.5 * counts["9"]
    assert not {"c", "0"} & set(model.recommend([["a"], ["1"]], top=18)[0].ravel().tolist())


def test_clicks_that_follow_none_are_counted() -> None:
    model = fitted()
    before = model.item_vectors().target.copy()
    model.partial_fit([["a"], ["b"], ["new"]])
    assert model.popularity_[-1] == 1
    np.testing.assert_array_equal(model.item_vectors().target[:-1], before)


def test_what_is_no_update_is_said() -> None:
    model = fitted()
    with pytest.raises(DataError, match="ids of these clicks are whole numbers, such as 1; those"):
        model.partial_fit([[1, 2]])
    with pytest.raises(DataError, match=r"none of the 2 items of these clicks is known.*same shop"):
        model.partial_fit([["x1", "x2"]])
    with pytest.raises(DataError, match="known must say of each of the 1 histories"):
        model.partial_fit([["a", "b"]], known=[1, 2])
    with pytest.raises(DataError, match="every click is on an item to be forgotten"):
        model.partial_fit([["a", "b"]], forget=["a", "b"])

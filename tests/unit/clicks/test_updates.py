"""A fitted recommender goes on with more clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks.evidence.model import EvidenceModel, evidence_scores, sum_evidence
from groupnoise.clicks.evidence.options import EvidenceLearner, average_evidence
from groupnoise.clicks.evidence.resumed import ResumedEvidence, align_vectors, split_members
from groupnoise.clicks.evidence.steps import EvidencePlan
from groupnoise.clicks.evidence.training import train_evidence
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, ModelFileError, ParameterError
from groupnoise.training.optimizer import Adam
from groupnoise.training.state import Moments, check_moments, restore_moments

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
    learned, _ = learner.train(histories, {**MEMBERS, "encoder": encoder})
    if linear:
        own = learner.linear(histories, {"together": 4})["together"].evidence(30.0, 0.05, 30, 4)
        learned = sum_evidence([learned, own])
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
    members, rest = split_members(evidence, 2, 1)
    assert [len(each.encoders) for each in members] == [1, 0]
    assert members[0].position_weights.shape[1] == MEMBERS["window_size"]
    together = sum_evidence([average_evidence(members), *rest])
    np.testing.assert_allclose(
        evidence_scores(together, histories), evidence_scores(evidence, histories), atol=1e-4
    )


def test_initial_vectors_are_turned_not_changed() -> None:
    evidence, _ = evidence_of(None)
    generator = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(generator.normal(size=(8, 8)))
    start = (evidence.targets @ rotation).astype(np.float32)
    _, targets = align_vectors(start, evidence)
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


def test_a_table_of_items_brings_no_forgotten_one_back() -> None:
    model = fitted()
    ids = [*model.items_.tolist(), "cold"]
    table = pd.DataFrame({"item": ids, "kind": [each.isdigit() for each in ids]})
    model.partial_fit([["a", "b", "1"]], item_features=table, forget=["1"])
    left = set(model.items_.tolist())
    assert "cold" in left
    assert "1" not in left


def test_items_to_be_forgotten_that_nobody_knows_are_told_of() -> None:
    with pytest.warns(UserWarning, match=r"1 of the 2 items to be forgotten are not known.*'No 0'"):
        fitted().partial_fit([["a", "b"]], forget=["No 0", "0"])


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


@pytest.mark.parametrize("shared", [True, False])
def test_two_runs_that_keep_the_optimizer_are_one_run(shared: bool) -> None:
    histories = Groups.from_lists([[int(item, 36) for item in row] for row in two_kinds()])
    objects = np.random.default_rng(0).normal(scale=0.1, size=(20, 8)).astype(np.float32)
    start = [torch.from_numpy(objects.copy()) for _ in range(1 if shared else 2)]

    def trained(runs: list[tuple[int, float]], moments: Moments | None) -> np.ndarray:
        model = EvidenceModel(objects, np.zeros(20, np.float32), history_length=6, shared=shared)
        for n_epochs, rate in runs:
            plan = EvidencePlan(
                max_epochs=n_epochs,
                batch_size=10_000,
                learning_rate=rate,
                dropout=0.0,
                n_negatives=None,
            )
            train_evidence(
                model, histories, plan, np.random.default_rng(0), anchors=start, moments=moments
            )
        return model.targets.detach().numpy()

    # One step an epoch, and the step size falls by half before the second.
    whole = trained([(2, 0.1)], None)
    np.testing.assert_allclose(trained([(1, 0.1), (1, 0.05)], {}), whole, atol=1e-6)
    assert np.abs(trained([(1, 0.1), (1, 0.05)], None) - whole).max() > 1e-3


@pytest.mark.parametrize(
    "parameters",
    [
        {"encoder": ("recurrence", None)},
        {"shared": True},
        {"normalization": "click", "candidates": "full"},
        {"normalization": "click", "weight_decay": 0.2},
    ],
)
def test_the_optimizer_is_kept_with_the_model_and_goes_on(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    model = fitted(**parameters, keep_optimizer=True)
    model.save(tmp_path / "model")
    loaded = MaxMatchingRecommender.load(tmp_path / "model")
    names = [set(each) for each in model.optimizer_state_]
    assert [set(each) for each in loaded.optimizer_state_] == names
    for kept, own in zip(loaded.optimizer_state_, model.optimizer_state_, strict=True):
        for name in own:
            np.testing.assert_array_equal(kept[name], own[name])
    before = [dict(each) for each in loaded.optimizer_state_]
    today = [["a", "b", "k"], ["c", "k", "d"]]
    loaded.partial_fit(today)
    for kept, own in zip(loaded.optimizer_state_, before, strict=True):
        assert set(kept) == set(own)
        assert len(kept["bias.first"]) == 21
        assert kept["bias.steps"] > own["bias.steps"]
    afresh = MaxMatchingRecommender.load(tmp_path / "model").set_params(keep_optimizer=False)
    asked = [["a", "b"], ["0", "1"]]
    assert np.abs(afresh.partial_fit(today).scores(asked) - loaded.scores(asked)).max() > 1e-6
    loaded.partial_fit([["a", "b"]], forget=["c"])
    assert all(len(each["bias.first"]) == 20 for each in loaded.optimizer_state_)
    loaded.partial_fit([["a", "b", "k"]])


def test_an_optimizer_of_new_items_begins_at_nothing() -> None:
    (moments,) = fitted(keep_optimizer=True).optimizer_state_
    grown = np.zeros((21, 8), dtype=np.float32)
    model = EvidenceModel(grown, grown[:, 0], history_length=6, shared=False)
    optimizer = Adam([model.targets], 0.1)
    restore_moments(model, [optimizer], moments)
    state = optimizer.state[model.targets]
    np.testing.assert_array_equal(state["exp_avg_sq"][:20], moments["targets.second"])
    assert not state["exp_avg_sq"][20].any()
    assert float(state["step"]) == moments["targets.steps"]


def test_with_the_whole_log_biases_and_encoders_are_remembered_and_vectors_are_not() -> None:
    model = fitted(encoder="recurrence", keep_optimizer=True)
    steps = {
        name: float(model.optimizer_state_[0][f"{name}.steps"]) for name in ("bias", "targets")
    }
    today = [*two_kinds(), ["a", "b", "k"]]
    model.partial_fit(today, known=[6] * 120 + [0])
    (after,) = model.optimizer_state_
    assert after["bias.steps"] > steps["bias"]
    assert after["bias.steps"] - steps["bias"] == after["targets.steps"]


def test_an_optimizer_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ParameterError, match="keep_optimizer goes with one model trained in one"):
        fitted(normalization="click", n_members=2, keep_optimizer=True)
    (moments,) = fitted(keep_optimizer=True).optimizer_state_
    with pytest.raises(ModelFileError, match=r"no moments as .*second"):
        check_moments({**moments, "bias.second": moments["bias.second"] - 1e9})
    with pytest.raises(ModelFileError, match="holds no moments"):
        check_moments({name: moments[name] for name in moments if name != "bias.steps"})

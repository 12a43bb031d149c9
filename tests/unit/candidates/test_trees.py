"""The forest: its own formula, its turns, its trust, its file."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_wine
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import reference
from groupnoise import MaxMatchingPartialLabelClassifier, load_model
from groupnoise.candidates import add_candidates, gradient_free
from groupnoise.candidates.gradient_free import ForestBuilder, grow_trees
from groupnoise.core.trees import FLOOR, MAX_DEPTH, join_trees
from groupnoise.exceptions import ModelFileError


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(gradient_free, "N_TREES", 12)
    monkeypatch.setattr(gradient_free, "N_TREES_PER_ITERATION", 10)


def wine():
    rows, truth = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    candidates, _ = add_candidates(truth, 3, epsilon=0.9, tau=2, random_state=0)
    return rows[order].astype(np.float32), candidates[order], truth[order]


def test_an_encoder_walks_from_node_to_node():
    rows, candidates, _ = wine()
    encoder, errors = grow_trees(rows[:60], candidates[:60], generator=np.random.default_rng(0))
    expected = reference.forest_logits(
        rows[60:70],
        encoder.roots.tolist(),
        encoder.feature.tolist(),
        encoder.threshold.numpy(),
        encoder.following.tolist(),
        encoder.leaves.numpy(),
        FLOOR,
    )
    np.testing.assert_allclose(encoder(torch.from_numpy(rows[60:70])), expected, atol=1e-5)
    assert len(errors) == gradient_free.N_ITERATIONS


def test_tables_answer_what_the_trees_answered():
    rows, candidates, _ = wine()
    weights, generator = np.ones(80), np.random.default_rng(0)
    shares = candidates[:80] / candidates[:80].sum(axis=1, keepdims=True)
    growing = [ForestBuilder(rows[:80], weights, extra, generator) for extra in (False, True)]
    grown = [each.tree(shares, each.draw()) for each in growing]
    mean = np.mean([each.predict(rows) for each in grown], axis=0)
    logits = join_trees(grown, rows.shape[1])(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(np.exp(logits), mean + FLOOR / 3, atol=1e-6)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, ExtraTreeRegressor])
def test_trees_grown_without_checks_are_those_grown_with_them(kind):
    rows, candidates, _ = wine()
    growing = ForestBuilder(
        rows, np.ones(len(rows)), kind is ExtraTreeRegressor, np.random.default_rng(0)
    )
    growing.tree(candidates.astype(float), growing.draw())  # the second is not touched by the first
    drawn = growing.draw()
    seed = int(copy.deepcopy(growing.generator).integers(2**31))
    quick = growing.tree(candidates.astype(float), drawn)
    used = np.flatnonzero(drawn)
    checked = kind(max_features="sqrt", max_depth=MAX_DEPTH, random_state=seed)
    checked.fit(rows[used], candidates[used].astype(float), sample_weight=drawn[used])
    np.testing.assert_array_equal(quick.tree_.threshold, checked.tree_.threshold)
    np.testing.assert_array_equal(quick.tree_.value, checked.tree_.value)


def test_a_row_is_judged_by_trees_that_did_not_see_it():
    generator = np.random.default_rng(0)
    rows = np.arange(40, dtype=np.float32)[:, None]
    # One row says something else than its neighbours: whoever saw it repeats it.
    shares = np.tile([1.0, 0.0], (40, 1))
    shares[20] = [0.0, 1.0]
    unseen = ForestBuilder(rows, np.ones(40), False, generator).out_of_bag_shares(shares)
    assert unseen[20, 1] == 0.0
    assert unseen[[19, 21], 1].max() > 0.0
    np.testing.assert_allclose(unseen.sum(axis=1), 1.0)


def test_turns_find_the_truth_among_candidates():
    rows, candidates, truth = wine()
    encoder, errors = grow_trees(rows[:120], candidates[:120], generator=np.random.default_rng(0))
    answers = encoder(torch.from_numpy(rows[120:])).argmax(1).numpy()
    assert (answers == truth[120:]).mean() > 0.9
    assert errors[-1] < errors[0]


def test_trusted_candidates_win():
    rows, candidates, truth = wine()
    trust = np.where(np.arange(3) == truth[:, None], 1.0, 1e-3)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="trees", random_state=0)
    model.fit(rows, candidates, candidate_weights=trust)
    assert (model.disambiguate(rows, candidates) == truth).mean() > 0.97


def test_rows_that_say_nothing_are_answered_alike():
    candidates = np.array([[True, False], [True, True], [False, True], [True, False]] * 10)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="trees", random_state=0)
    answers = model.fit(np.zeros((40, 2)), candidates).predict_proba([[0.0, 0.0], [5.0, -5.0]])
    np.testing.assert_allclose(answers[0], answers[1])
    assert answers[0, 0] > answers[0, 1]


def test_trees_are_saved_and_answer_the_same(tmp_path):
    rows, candidates, truth = wine()
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="trees", random_state=0)
    model.fit(rows[:120], candidates[:120])
    assert model.score(rows[120:], truth[120:]) > 0.9
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("name", ["feature", "following", "roots"])
def test_nodes_that_lead_nowhere_are_refused(tmp_path, name):
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="trees", random_state=0)
    model.fit(rows, candidates).save(tmp_path / "model")
    (path,) = (tmp_path / "model").glob("*.safetensors")
    arrays = load_file(path)
    (key,) = (each for each in arrays if each.endswith(f"target_encoder.{name}"))
    arrays[key] = arrays[key] + 10**6
    save_file(arrays, path)
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "model")

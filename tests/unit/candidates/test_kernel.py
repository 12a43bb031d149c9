"""The kernel between rows: its own formula, its landmarks, its trust, its file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from threadpoolctl import threadpool_info, threadpool_limits

import reference
from groupnoise import MaxMatchingPartialLabelClassifier, load_model
from groupnoise.candidates import add_candidates, gradient_free
from groupnoise.candidates.gradient_free import (
    KernelEncoder,
    best_gain,
    count_landmarks,
    fit_kernel,
)
from groupnoise.core.scaling import Scaler
from groupnoise.exceptions import ParameterError


def wine():
    rows, truth = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    candidates, _ = add_candidates(truth, 3, epsilon=0.9, tau=2, random_state=0)
    return Scaler("standard").fit(rows)(rows)[order], candidates[order], truth[order]


def fitted(rows, candidates, **settings):
    encoder = KernelEncoder(rows.shape[1], count_landmarks(len(rows)), candidates.shape[1])
    fit_kernel(encoder, rows, candidates, generator=np.random.default_rng(0), **settings)
    return encoder


def test_an_encoder_is_the_plain_sum_of_bumps():
    rows, candidates, _ = wine()
    encoder = fitted(rows[:40], candidates[:40], scale=0.7)
    expected = reference.kernel_logits(
        rows[40:46],
        encoder.landmarks.numpy(),
        float(encoder.width),
        encoder.weight.numpy(),
        encoder.bias.numpy(),
    )
    np.testing.assert_allclose(encoder(torch.from_numpy(rows[40:46])), expected, atol=1e-4)


def test_few_landmarks_tell_labels_apart_nearly_as_well_as_all_rows(monkeypatch):
    rows, candidates, truth = wine()
    whole = fitted(rows[:120], candidates[:120])(torch.from_numpy(rows[120:]))
    monkeypatch.setattr(gradient_free, "MAX_EXACT", 60)
    monkeypatch.setattr(gradient_free, "N_LANDMARKS", 60)
    sparse = fitted(rows[:120], candidates[:120])
    assert len(sparse.landmarks) == 60
    few = sparse(torch.from_numpy(rows[120:]))
    right = [(each.argmax(1).numpy() == truth[120:]).mean() for each in (whole, few)]
    assert right[0] > 0.9
    assert right[1] > right[0] - 0.06


def test_a_row_that_counts_twice_is_a_row_given_twice():
    rows, candidates, _ = wine()
    rows, candidates = rows[:50], candidates[:50]
    once = gradient_free._alternate(
        np.exp(-(reference.distances(rows, rows) ** 2) / 8) + 1,
        None,
        candidates,
        candidates.astype(float),
        np.where(np.arange(50) < 10, 2.0, 1.0),
        0.1,
    )[0]
    more = np.concatenate([np.arange(50), np.arange(10)])
    twice = gradient_free._alternate(
        np.exp(-(reference.distances(rows[more], rows[more]) ** 2) / 8) + 1,
        None,
        candidates[more],
        candidates[more].astype(float),
        np.ones(60),
        0.1,
    )[0]
    together = twice[:50].copy()
    together[:10] += twice[50:]
    np.testing.assert_allclose(once, together, atol=1e-5)


def test_trusted_candidates_win():
    rows, candidates, truth = wine()
    trust = np.where(np.arange(3) == truth[:, None], 1.0, 1e-3)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
    model.fit(rows, candidates, candidate_weights=trust)
    assert (model.disambiguate(rows, candidates) == truth).mean() > 0.99


def test_the_gain_makes_sure_answers_of_outputs_that_are_right():
    candidates = np.eye(3, dtype=bool)[np.arange(90) % 3]
    right = 0.1 + 0.8 * candidates
    assert best_gain(right, candidates) == max(gradient_free.GAINS)
    assert best_gain(right[:, [1, 2, 0]], candidates) == min(gradient_free.GAINS)


def test_a_kernel_is_saved_and_answers_the_same(tmp_path):
    rows, candidates, truth = wine()
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
    model.fit(rows[:120], candidates[:120])
    assert model.score(rows[120:], truth[120:]) > 0.9
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("name", ["kernel_scale", "kernel_ridge"])
def test_a_width_or_ridge_of_zero_is_refused(name):
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", **{name: 0.0})
    with pytest.raises(ParameterError, match=name):
        model.fit(rows, candidates)


def test_a_search_with_a_word_about_the_objective_offers_no_kernel():
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier(selection="max", max_epochs=2, random_state=0)
    model.fit(rows, candidates)
    assert not any("kernel" in trial.option for trial in model.decisions_.trials)
    only = MaxMatchingPartialLabelClassifier(encoder="kernel", random_state=0).fit(rows, candidates)
    assert all("kernel" in trial.option for trial in only.decisions_.trials)


def test_few_rows_are_solved_by_one_thread_whatever_others_use(monkeypatch):
    seen = []
    solver = gradient_free._solver

    def watched(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return solver(*arguments)

    monkeypatch.setattr(gradient_free, "_solver", watched)
    rows, candidates, _ = wine()
    with threadpool_limits(2, user_api="blas"):
        fitted(rows, candidates)
        assert set(seen) == {1}
        after = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        assert after == {2}

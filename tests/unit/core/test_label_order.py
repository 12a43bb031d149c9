"""Probabilities of labels that stand in an order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.core.prior_weights import smooth_over_neighbours
from groupnoise.exceptions import ParameterError


def test_each_label_is_the_gaussian_average_of_those_around_it() -> None:
    given = torch.rand(3, 6, dtype=torch.float64).softmax(-1)
    expected = torch.zeros_like(given)
    for row in range(3):
        for label in range(6):
            weights = [math.exp(-0.5 * ((other - label) / 1.5) ** 2) for other in range(6)]
            parts = [w * float(p) for w, p in zip(weights, given[row], strict=True)]
            expected[row, label] = sum(parts) / sum(weights)
    expected /= expected.sum(-1, keepdim=True)
    torch.testing.assert_close(smooth_over_neighbours(given.log(), 1.5).exp(), expected)


def test_numbers_as_text_are_neighbours_by_their_numbers() -> None:
    given = torch.rand(3, 12, dtype=torch.float64).log_softmax(-1)
    labels = np.arange(12).astype(str)
    order = np.argsort(labels)
    spread = smooth_over_neighbours(given[:, order], 1.0, labels[order])
    torch.testing.assert_close(spread, smooth_over_neighbours(given, 1.0)[:, order])
    names = np.array([f"c{label}" for label in labels])
    by_column = smooth_over_neighbours(given, 1.0, names)
    torch.testing.assert_close(by_column, smooth_over_neighbours(given, 1.0))


def test_no_spread_changes_nothing() -> None:
    given = torch.rand(2, 4).log_softmax(-1)
    assert smooth_over_neighbours(given, 0.0) is given


def test_two_neighbours_that_agree_beat_one_that_stands_alone() -> None:
    given = torch.tensor([[0.0, 0.28, 0.30, 0.0, 0.0, 0.0, 0.42, 0.0, 0.0, 0.0]]).log()
    assert given.argmax() == 6
    assert smooth_over_neighbours(given, 1.0).argmax() in (1, 2)


def test_impossible_labels_stay_finite() -> None:
    given = torch.tensor([[1.0] + [0.0] * 60]).log()
    assert torch.isfinite(smooth_over_neighbours(given, 0.5)).all()


def test_the_classifier_spreads_its_answers_and_keeps_the_setting(tmp_path) -> None:
    draw = np.random.default_rng(0)
    ages = draw.integers(10, size=120)
    rows = ages[:, None] + draw.normal(size=(120, 3))
    candidates = [{int(age), int((age + 1) % 10)} for age in ages]
    model = MaxMatchingPartialLabelClassifier.fixed(
        encoder="linear", ordinal_smoothing=1.0, max_epochs=5, random_state=0
    )
    proba = model.fit(rows, candidates).predict_proba(rows[:5])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-5)
    plain = model.set_params(ordinal_smoothing=0.0).predict_proba(rows[:5])
    assert proba.max() < plain.max()
    model.set_params(ordinal_smoothing=1.0).save(tmp_path / "model")
    again = MaxMatchingPartialLabelClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(rows[:5]), proba)


def test_a_negative_spread_is_refused() -> None:
    with pytest.raises(ParameterError, match="ordinal_smoothing"):
        MaxMatchingPartialLabelClassifier.fixed(ordinal_smoothing=-1.0).fit(
            np.eye(2), [{"a"}, {"b"}]
        )

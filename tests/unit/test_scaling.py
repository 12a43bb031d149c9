"""Feature scaling: learned from training rows, and the same for rows seen later."""

import numpy as np

from groupnoise._scaling import Scaler

ROWS = np.random.default_rng(0).normal(3.0, [1.0, 10.0, 100.0], size=(50, 3))


def test_standard_centres_and_spreads_every_feature():
    scaled = Scaler("standard").fit(ROWS)(ROWS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-5)


def test_l2_gives_every_row_one_length_and_keeps_its_direction():
    scaled = Scaler("l2").fit(ROWS)(ROWS)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), np.sqrt(3), rtol=1e-5)
    cosine = (scaled * ROWS).sum(axis=1) / np.sqrt(3) / np.linalg.norm(ROWS, axis=1)
    np.testing.assert_allclose(cosine, 1.0, rtol=1e-5)


def test_l2_leaves_a_row_of_zeros_alone():
    assert Scaler("l2").fit(ROWS)(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


def test_a_constant_feature_becomes_zero():
    rows = np.column_stack([np.full(5, 7.0), np.arange(5.0)])
    assert (Scaler("standard").fit(rows)(rows)[:, 0] == 0).all()

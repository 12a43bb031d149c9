import math

import numpy as np
import pytest

from groupnoise.recall.scoring import (
    MatchingVectors,
    log_group_weight,
    log_normalisers,
    log_sum_exp,
)


def weight_by_loops(features, scale=1.0):
    """Eq. 5 for one group, a loop at a time."""
    weights = []
    for k, feature in enumerate(features):
        others = [other for j, other in enumerate(features) if j != k]
        if not others:
            weights.append(1.0)
            continue
        likeness = [math.exp(scale * float(feature @ other)) for other in others]
        context = sum(
            like / sum(likeness) * other for like, other in zip(likeness, others, strict=True)
        )
        weights.append(1 / (1 + math.exp(-scale * float(context @ feature))))
    return weights


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_group_weights_follow_equation_five(size, scale):
    groups = np.random.default_rng(size).standard_normal((4, size, 3)).astype(np.float32)
    expected = [weight_by_loops(group.astype(float), scale) for group in groups]
    np.testing.assert_allclose(np.exp(log_group_weight(groups, scale=scale)), expected, rtol=2e-5)


def test_a_group_of_one_has_weight_one():
    assert log_group_weight(np.ones((2, 1, 4), dtype=np.float32)).tolist() == [[0.0], [0.0]]


def test_normalisers_equal_a_plain_log_sum_exp():
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((300, 4)).astype(np.float32)
    targets = generator.standard_normal((5000, 4)).astype(np.float32)
    expected = np.log(np.exp((queries @ targets.T).astype(float)).sum(axis=1))
    np.testing.assert_allclose(log_normalisers(queries, targets), expected, rtol=1e-5)


def test_log_sum_exp_survives_large_scores():
    scores = np.array([[1000.0, 1000.0]], dtype=np.float32)
    np.testing.assert_allclose(log_sum_exp(scores, axis=1), [1000 + math.log(2)])


def test_only_the_latest_clicks_of_a_window_are_looked_at():
    vectors = MatchingVectors(np.eye(3, dtype="f4"), np.eye(3, dtype="f4"), np.zeros(3, "f4"))
    history = np.array([0, 1, 2])
    assert vectors.group_of(history).tolist() == [0, 1, 2]
    windowed = MatchingVectors(
        vectors.targets, vectors.queries, vectors.log_normalizer, window_size=2
    )
    assert windowed.group_of(history).tolist() == [1, 2]

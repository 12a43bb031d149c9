import numpy as np
import pytest

from groupnoise.recall import vectors as module
from groupnoise.recall.vectors import ItemClusters, exact_log_normalizers, log_normalizers


def topics(n_items, *, spread, seed=0):
    """Return queries and targets that lie around a few topics, with a bias each."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((n_items // 20, 8))
    rows = centres[generator.integers(len(centres), size=n_items)]
    rows = rows + spread * generator.standard_normal(rows.shape)
    bias = generator.standard_normal((n_items, 1))
    queries = np.concatenate([rows, np.ones((n_items, 1))], axis=1)
    return queries.astype(np.float32), np.concatenate([rows, bias], axis=1).astype(np.float32)


def test_normalizers_equal_a_plain_log_sum_exp():
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((300, 4)).astype(np.float32)
    targets = generator.standard_normal((5000, 4)).astype(np.float32)
    expected = np.log(np.exp((queries @ targets.T).astype(float)).sum(axis=1))
    np.testing.assert_allclose(log_normalizers(queries, targets), expected, rtol=1e-5)


def test_normalizers_of_many_queries_and_of_scores_beyond_the_range_of_exponentials():
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((5000, 4)).astype(np.float32)
    targets = generator.standard_normal((1500, 4)).astype(np.float32)
    targets[700] *= 200
    scores = queries.astype(float) @ targets.T.astype(float)
    expected = np.logaddexp.reduce(scores, axis=1)
    assert expected.max() > 500
    np.testing.assert_allclose(log_normalizers(queries, targets), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spread", [0.05, 0.5])
@pytest.mark.parametrize("pairs_together", [1, 1 << 22])
def test_sums_by_clusters_agree_with_sums_over_all_items(monkeypatch, spread, pairs_together):
    monkeypatch.setattr(module, "MAX_EXACT_PAIRS", 1000)
    monkeypatch.setattr(module, "_PAIRS_TOGETHER", pairs_together)
    queries, targets = topics(3000, spread=spread)
    exact = exact_log_normalizers(queries, targets)
    assert np.abs(log_normalizers(queries, targets) - exact).max() < 2 * module.MAX_ERROR


def test_clusters_of_which_every_item_is_summed_are_exact():
    queries, targets = topics(500, spread=1.0)
    clusters = ItemClusters.of(targets)
    assert sorted(map(tuple, clusters.targets)) == sorted(map(tuple, targets))
    exact = exact_log_normalizers(queries, targets)
    np.testing.assert_allclose(clusters.log_sums(queries, 0.0), exact, rtol=1e-5, atol=1e-5)


def test_a_cluster_whose_scores_are_normal_is_summed_by_mean_and_variance():
    generator = np.random.default_rng(0)
    targets = (0.3 * generator.standard_normal((4000, 3))).astype(np.float32)
    one = ItemClusters._sorted(targets, np.zeros(4000, dtype=np.int64))
    queries = generator.standard_normal((20, 3)).astype(np.float32)
    told = one.log_sums(queries, 2.0)  # no cluster is noticeable
    expected = np.log(4000) + queries @ one.means[0] + 0.5 * queries**2 @ one.variances[0]
    np.testing.assert_allclose(told, expected, rtol=1e-5)
    np.testing.assert_allclose(told, exact_log_normalizers(queries, targets), atol=0.02)

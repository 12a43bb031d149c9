"""The quick way for one history answers as the general search does."""

import numpy as np
import pytest

from groupnoise.clicks.evidence.recurrence import Recurrence, weight_shapes
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.recall import one_history
from groupnoise.recall.one_history import OneHistorySearch
from groupnoise.recall.search import Eligible, ExactSearch
from groupnoise.recall.vectors import MatchingVectors

N_ITEMS, DIM = 60, 6
HISTORY = {
    "normalization": "history",
    "window_size": 8,
    "block_widths": (2, 4),
    "position_weights": ((1.0, 0.5, 0.3, 0.2, 0.1, 0.1, 0.0, 0.0), (1.0,) * 8),
    "exponents": (0.5, 1.0),
}
RULES = {
    "paper": {},
    "last click": {"scope": "last"},
    "recent clicks": {"window_size": 3, "recency": 0.4, "weighting_strength": 0.7},
    "no weights": {"weighting": None},
    "contrastive": {"weighting": "contrastive", "negatives": (1, 4, 4, 9)},
    "history": HISTORY,
    "history, last click": {**HISTORY, "scope": "last"},
}


def vectors_of(rule, *, shared=False):
    generator = np.random.default_rng(0)
    targets = generator.standard_normal((N_ITEMS, DIM + 1)).astype(np.float32)
    queries = targets if shared else generator.standard_normal((N_ITEMS, DIM)).astype(np.float32)
    normalizer = generator.standard_normal(N_ITEMS).astype(np.float32)
    return MatchingVectors(targets, queries, normalizer, rule)


def assert_same(vectors, clicks, n, excluded):
    one = OneHistorySearch(vectors).search(clicks.tolist(), n, excluded.tolist())
    assert one is not None
    eligible = Eligible(denied=np.unique(excluded))
    positions, scores = ExactSearch(vectors).search(vectors.mixture([clicks]), n, eligible)
    np.testing.assert_array_equal(one[0], positions[0])
    np.testing.assert_allclose(one[1], scores[0], rtol=1e-4, atol=1e-4)


@pytest.fixture(params=[0, 1024], autouse=True)
def with_and_without_pairs(request, monkeypatch):
    monkeypatch.setattr(one_history, "MAX_PAIRED_ITEMS", request.param)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5, 20])
@pytest.mark.parametrize("rule", list(RULES))
def test_one_history_is_ranked_as_many_are(rule, size, shared):
    clicks = np.random.default_rng(size).integers(N_ITEMS, size=size)
    vectors = vectors_of(ScoringRule(**RULES[rule]), shared=shared)
    assert_same(vectors, clicks, 7, clicks)
    assert_same(vectors, clicks, N_ITEMS, np.empty(0, dtype=np.int64))


def test_an_encoder_reads_one_history_as_it_reads_many():
    n_weights = sum(int(np.prod(shape)) for shape in weight_shapes(DIM, 5, 2).values())
    weights = np.random.default_rng(0).standard_normal(n_weights).astype(np.float32)
    rule = ScoringRule(**HISTORY, encoders=(Recurrence(0, DIM, 5, 2, 4, weights),))
    clicks = np.array([3, 8, 3, 20])
    assert_same(vectors_of(rule), clicks, 9, clicks)


@pytest.mark.parametrize("scale", [0.0, 30.0, 2000.0])
def test_clicks_that_agree_beyond_measure_are_weighed_as_in_general(scale):
    clicks = np.array([3, 8, 3, 20])
    assert_same(vectors_of(ScoringRule(similarity_scale=scale)), clicks, 9, clicks)


@pytest.mark.parametrize("n_items", [7, 100, 1000])
@pytest.mark.parametrize("n", [1, 5, 7])
def test_of_equal_scores_the_first_item_comes_first(n_items, n):
    values = np.random.default_rng(0).integers(9, size=n_items).astype(np.float32)
    order = np.argsort(-values, kind="stable")[:n]
    found = one_history._largest(values, n)
    assert found == (order.tolist(), values[order].tolist())


def test_what_only_the_general_search_can_answer_is_left_to_it():
    search = OneHistorySearch(vectors_of(ScoringRule()))
    assert search.search([0], N_ITEMS + 1, []) is None
    assert search.search([0], N_ITEMS, [0]) is None  # one item is left out
    far = vectors_of(ScoringRule())
    far.targets[5] = -1e4 * far.queries[0, :1]
    assert OneHistorySearch(far).search([0], N_ITEMS, []) is None

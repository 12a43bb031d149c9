import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.recall.search import Eligible, ExactSearch, tournament
from groupnoise.recall.vectors import MatchingVectors, log_normalizers


def random_vectors(n_items, *, seed=0, shared=False, **rule):
    generator = np.random.default_rng(seed)
    targets = generator.standard_normal((n_items, 6)).astype(np.float32)
    queries = targets if shared else generator.standard_normal((n_items, 5)).astype(np.float32)
    normalizer = generator.standard_normal(n_items).astype(np.float32)
    return MatchingVectors(
        targets, queries, normalizer, ScoringRule(weighting_strength=0.7, **rule)
    )


def random_histories(n_items, sizes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(n_items, size=size) for size in sizes]


def all_scores(vectors, histories, scope=None):
    """Scores of every item, straight from the definition and in double precision."""
    mixture = vectors.mixture(histories, scope)
    rows = []
    for row in range(len(histories)):
        terms = slice(mixture.offsets[row], mixture.offsets[row + 1])
        queries = mixture.queries[mixture.query_of[terms]].astype(float)
        pair = queries @ vectors.targets[:, :5].T.astype(float) + vectors.targets[:, 5]
        clicks = mixture.items[mixture.query_of[terms]]
        offset = mixture.log_weight[terms] - vectors.log_normalizer[clicks]
        rows.append(np.logaddexp.reduce(pair + offset[:, None], axis=0))
    return np.array(rows)


def search(vectors, histories, n, scope=None, **eligible):
    return ExactSearch(vectors).search(vectors.mixture(histories, scope), n, Eligible(**eligible))


@pytest.mark.parametrize("n_items", [3, 4096, 4097, 10_000])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scope", ["group", "last"])
def test_the_best_are_those_of_a_full_sort(n_items, shared, scope):
    vectors = random_vectors(n_items, shared=shared, window_size=5)
    histories = random_histories(n_items, (1, 2, 7, 2))
    positions, scores = search(vectors, histories, 3, scope)
    full = all_scores(vectors, histories, scope)
    order = np.argsort(-full, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_allclose(scores, np.take_along_axis(full, order, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scope", ["group", "last"])
@pytest.mark.parametrize("with_candidates", [True, False])
def test_what_a_history_leaves_out_is_never_found(scope, with_candidates):
    n_items = 9000
    vectors = random_vectors(n_items, window_size=5)
    histories = random_histories(n_items, (1, 3, 8000, 5))
    candidates = np.arange(7, n_items, 13) if with_candidates else None
    denied = np.array([8, 5000]) if candidates is None else np.empty(0, dtype=np.int64)
    positions, _ = search(
        vectors, histories, 40, scope, candidates=candidates, denied=denied, seen=histories
    )
    full = all_scores(vectors, histories, scope)
    for row, history in enumerate(histories):
        allowed = np.arange(n_items) if candidates is None else candidates
        allowed = np.setdiff1d(np.setdiff1d(allowed, history), denied)
        expected = allowed[np.argsort(-full[row, allowed], kind="stable")[:40]]
        np.testing.assert_array_equal(positions[row], expected)


@pytest.mark.parametrize("candidates", [np.array([], dtype=int), np.array([2, 5])])
def test_too_few_candidates_leave_marked_gaps(candidates):
    positions, scores = search(random_vectors(10), [np.array([0])], 4, candidates=candidates)
    assert sorted(positions[0].tolist()) == sorted(
        [*candidates.tolist(), *[-1] * (4 - len(candidates))]
    )
    assert np.isneginf(scores[positions < 0]).all()


def test_many_histories_are_cut_into_chunks_without_a_seam():
    vectors = random_vectors(5000)
    histories = random_histories(5000, [5] * 300)
    together = search(vectors, histories, 10, seen=histories)[0]
    alone = [search(vectors, [row], 10, seen=[row])[0][0] for row in histories[::37]]
    np.testing.assert_array_equal(together[::37], alone)


def test_queries_that_are_no_items_are_normalized_over_the_catalogue():
    vectors = random_vectors(50)
    exact = log_normalizers(
        np.column_stack([vectors.queries, np.ones(50)]).astype(np.float32), vectors.targets
    )
    vectors = MatchingVectors(vectors.targets, vectors.queries, exact, vectors.rule)
    for sizes, scope in (((2, 3), "group"), ((2, 3), "last")):
        histories = random_histories(50, sizes)
        mixture = vectors.mixture(histories, scope)
        for eligible in (Eligible(seen=histories), Eligible(np.arange(0, 50, 3), seen=histories)):
            named = ExactSearch(vectors).search(mixture, 5, eligible)
            unnamed = ExactSearch(vectors).search(mixture._replace(items=None), 5, eligible)
            np.testing.assert_array_equal(named[0], unnamed[0])
            np.testing.assert_allclose(named[1], unnamed[1], rtol=1e-5, atol=1e-5)


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 60),
    st.integers(0, 2**32 - 1),
)
def test_a_tournament_equals_a_full_sort(n_blocks, n_rows, width, n, seed):
    values = np.random.default_rng(seed).permutation(n_blocks * n_rows * width)
    scores = values.reshape(n_blocks, n_rows, width).astype(np.float32)
    positions, best = tournament(scores, scores.max(axis=0), n)
    flat = scores.transpose(1, 0, 2).reshape(n_rows, -1)
    order = np.argsort(-flat, axis=1)[:, :n]
    n_found = order.shape[1]
    np.testing.assert_array_equal(positions[:, :n_found], order)
    assert (positions[:, n_found:] == -1).all()
    assert np.isneginf(best[:, n_found:]).all()


@pytest.mark.parametrize("scope", ["group", "last"])
@pytest.mark.parametrize("n", [3, 200])
@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_one_history_alone_is_answered_as_among_others(scope, n, spread):
    """A small catalogue has its own way for one history; far spread scores fall back."""
    vectors = random_vectors(200, window_size=5)
    vectors = MatchingVectors(
        spread * vectors.targets, vectors.queries, vectors.log_normalizer, vectors.rule
    )
    for history in random_histories(200, (1, 4, 9)):
        denied = np.array([3, 8])
        for left_out in ({}, {"seen": [history]}, {"seen": [history], "denied": denied}):
            alone = search(vectors, [history], n, scope, **left_out)
            twice = {**left_out, "seen": 2 * left_out["seen"]} if "seen" in left_out else left_out
            among = search(vectors, [history, history], n, scope, **twice)
            np.testing.assert_array_equal(alone[0][0], among[0][0])
            np.testing.assert_allclose(alone[1][0], among[1][0], rtol=1e-4, atol=1e-4)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupnoise.recall.exact import ExactSearch, tournament
from groupnoise.recall.scoring import MatchingVectors


def random_vectors(n_items, *, seed=0, shared=False):
    generator = np.random.default_rng(seed)
    targets = generator.standard_normal((n_items, 6)).astype(np.float32)
    queries = targets if shared else generator.standard_normal((n_items, 5)).astype(np.float32)
    normalizer = generator.standard_normal(n_items).astype(np.float32)
    return MatchingVectors(targets, queries, normalizer, weighting_strength=0.7)


def all_scores(vectors, histories):
    """MM+ for every item, straight from its definition and in double precision."""
    rows = []
    for history in histories:
        features = vectors.queries[history, :5].astype(float)
        pair = features @ vectors.targets[:, :5].T.astype(float) + vectors.targets[:, 5]
        offset = 0.7 * vectors.log_group_weight(history[None])[0] - vectors.log_normalizer[history]
        rows.append(np.logaddexp.reduce(pair + offset[:, None], axis=0))
    return np.array(rows)


@pytest.mark.parametrize("n_items", [3, 4096, 4097, 10_000])
@pytest.mark.parametrize("shared", [True, False])
def test_the_best_by_last_click_are_those_of_a_full_sort(n_items, shared):
    vectors = random_vectors(n_items, shared=shared)
    clicks = np.array([0, n_items - 1, 1])
    positions, scores = ExactSearch(vectors).by_last_click(clicks, 3)
    full = vectors.query_rows(clicks) @ vectors.targets.T - vectors.log_normalizer[clicks, None]
    order = np.argsort(-full, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_allclose(scores, np.take_along_axis(full, order, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_best_by_all_clicks_follow_the_definition(size):
    vectors = random_vectors(5000)
    histories = np.random.default_rng(size).integers(0, 5000, (9, size))
    positions, scores = ExactSearch(vectors).by_all_clicks(histories, 20)
    expected = all_scores(vectors, histories)
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :20], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        np.take_along_axis(expected, positions, axis=1), scores, rtol=1e-4, atol=1e-4
    )


def test_candidates_are_the_only_items_found():
    vectors = random_vectors(5000)
    candidates = np.arange(7, 5000, 13)
    positions, scores = ExactSearch(vectors).by_last_click(np.array([4]), 5, candidates=candidates)
    full = (vectors.query_rows(np.array([4])) @ vectors.targets.T)[0] - vectors.log_normalizer[4]
    expected = candidates[np.argsort(-full[candidates])[:5]]
    assert positions.tolist() == [expected.tolist()]
    np.testing.assert_allclose(scores[0], full[expected], rtol=1e-5)


@pytest.mark.parametrize("candidates", [np.array([], dtype=int), np.array([2, 5])])
def test_too_few_candidates_leave_marked_gaps(candidates):
    positions, scores = ExactSearch(random_vectors(10)).by_last_click(
        np.array([0]), 4, candidates=candidates
    )
    assert sorted(positions[0].tolist()) == sorted(
        [*candidates.tolist(), *[-1] * (4 - len(candidates))]
    )
    assert np.isneginf(scores[positions < 0]).all()


def test_many_histories_are_cut_into_chunks_without_a_seam():
    vectors = random_vectors(5000)
    histories = np.random.default_rng(0).integers(0, 5000, (300, 5))
    search = ExactSearch(vectors)
    together = search.by_all_clicks(histories, 10)[0]
    alone = np.concatenate([search.by_all_clicks(row[None], 10)[0] for row in histories[::37]])
    np.testing.assert_array_equal(together[::37], alone)


def test_no_history_gives_an_empty_answer():
    positions, scores = ExactSearch(random_vectors(10)).by_last_click(np.array([], dtype=int), 4)
    assert positions.shape == scores.shape == (0, 4)


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

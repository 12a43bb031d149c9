"""Initial item vectors from a click log."""

from __future__ import annotations

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks.evidence import spectral as _spectral
from groupnoise.clicks.evidence.spectral import SpectralVectors, spectral_vectors
from groupnoise.exceptions import ParameterError

N_ITEMS = 12


@pytest.fixture
def windows() -> Groups:
    """Two worlds of five items each, an item clicked with one other only, and one never."""
    draw = np.random.default_rng(0)
    rows = [draw.permutation(5) + 5 * (i % 2) for i in range(60)]
    groups = Groups.from_lists([row[:3] for row in rows], targets=[row[3] for row in rows])
    return Groups.concat([groups, Groups.from_lists([[10]], targets=[0])])


def start_of(windows: Groups, dim: int = 4) -> SpectralVectors:
    return spectral_vectors(windows, N_ITEMS, dim, rate=0.5, generator=np.random.default_rng(0))


def vectors_of(windows: Groups, dim: int = 4) -> np.ndarray:
    return start_of(windows, dim).vectors.astype(np.float64)


def test_pairs_are_counted_both_ways_and_less_with_each_click_between(windows: Groups) -> None:
    expected = np.zeros((N_ITEMS, N_ITEMS))
    for group, target in zip(windows, np.asarray(windows.targets), strict=True):
        for place, item in enumerate(group):
            weight = np.exp(-0.5 * (len(group) - 1 - place))
            expected[item, target] += weight
            expected[target, item] += weight
    counted = _spectral.cooccurrence_matrix(windows, N_ITEMS, rate=0.5).toarray()
    np.testing.assert_allclose(counted, expected)


def test_counting_in_blocks_changes_nothing(
    windows: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _spectral.cooccurrence_matrix(windows, N_ITEMS, rate=0.5).toarray()
    monkeypatch.setattr(_spectral, "BLOCK_PAIRS", 7)
    in_blocks = _spectral.cooccurrence_matrix(windows, N_ITEMS, rate=0.5).toarray()
    np.testing.assert_allclose(in_blocks, whole)


def test_items_of_one_world_are_alike_and_items_of_two_are_not(windows: Groups) -> None:
    likeness = (vectors_of(windows) @ vectors_of(windows).T)[:10, :10]
    same = np.add.outer(np.arange(10) // 5, np.arange(10) // 5) != 1
    off_diagonal = ~np.eye(10, dtype=bool)
    assert likeness[:10, :10][same & off_diagonal].mean() > 3 * abs(
        likeness[:10, :10][~same].mean()
    )


def test_an_item_seen_once_stands_with_the_world_of_its_neighbour(windows: Groups) -> None:
    vectors = vectors_of(windows)
    assert (vectors[1:5] @ vectors[10]).mean() > (vectors[5:10] @ vectors[10]).mean()


def test_an_item_without_neighbours_starts_at_the_origin(windows: Groups) -> None:
    np.testing.assert_array_equal(vectors_of(windows)[11], 0.0)


def test_no_vector_is_longer_than_the_limit(windows: Groups) -> None:
    norms = np.linalg.norm(vectors_of(windows), axis=1)
    assert norms.max() <= _spectral.START_NORM + 1e-5


def test_a_catalogue_smaller_than_the_width_leaves_columns_empty(windows: Groups) -> None:
    vectors = vectors_of(windows, dim=20)
    assert vectors.shape == (N_ITEMS, 20)
    np.testing.assert_array_equal(vectors[:, N_ITEMS:], 0.0)


def test_a_common_item_begins_with_a_larger_bias(windows: Groups) -> None:
    bias = start_of(windows).bias
    assert bias[:10].min() > bias[10] > bias[11] == 0.0


def test_one_seed_gives_the_same_vectors(windows: Groups) -> None:
    np.testing.assert_array_equal(vectors_of(windows), vectors_of(windows))


def test_an_unknown_start_is_refused(windows: Groups) -> None:
    with pytest.raises(ParameterError, match="init must be one of"):
        MaxMatchingRecommender(init="warm").fit(windows)


def test_a_good_start_needs_fewer_epochs(windows: Groups) -> None:
    losses = {}
    for init in ("random", "spectral"):
        model = MaxMatchingRecommender(
            normalization="click", init=init, dim=4, candidates="full", max_epochs=2, random_state=0
        )
        losses[init] = model.fit(windows).history_.column("loss")[0]
    assert losses["spectral"] < losses["random"]

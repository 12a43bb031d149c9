"""Eigenvectors of Gram matrices: every form of the product against a dense decomposition."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from groupnoise.clicks.evidence import spectral
from groupnoise.clicks.evidence.spectral import gram_eigenvectors


def rows_of(n_rows: int, n_items: int, n_clicks: int, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    # Items of several kinds, so that some directions lead clearly.
    kind = rng.integers(6, size=n_rows)
    items = (kind[:, None] + 6 * rng.integers(n_items // 6, size=(n_rows, n_clicks))).ravel()
    values = np.ones(len(items), dtype=np.float32)
    index = np.repeat(np.arange(n_rows), n_clicks)
    return sparse.csr_array((values, (index, items)), shape=(n_rows, n_items))


def dense_gram(rows: sparse.csr_array) -> np.ndarray:
    table = rows.toarray().astype(np.float64)
    return table.T @ table


@pytest.mark.parametrize(
    ("share", "rows"),
    [(0.0, rows_of(80, 60, 3)), (1.0, rows_of(80, 60, 3)), (1.0, rows_of(40, 60, 9))],
    ids=["dense", "gram", "factors"],
)
def test_every_form_of_the_product_finds_the_leading_eigenvectors(share, rows, monkeypatch):
    monkeypatch.setattr(spectral, "DENSE_SHARE", share)
    monkeypatch.setattr(spectral, "COLUMNS_AT_ONCE", 7)
    gram = dense_gram(rows)
    vectors, values = gram_eigenvectors(rows, 12, seed=3)
    expected = np.linalg.eigvalsh(gram)[::-1][:12]
    np.testing.assert_allclose(values, expected, rtol=2e-2)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-5)
    np.testing.assert_allclose(values[:5], expected[:5], rtol=1e-5)
    np.testing.assert_allclose(gram @ vectors[:, :5], vectors[:, :5] * values[:5], atol=1e-2)


def test_it_finds_what_a_randomized_decomposition_of_the_gram_matrix_finds():
    rows = rows_of(300, 120, 4)
    gram = (rows.T @ rows).tocsr()
    expected, levels, _ = randomized_svd(gram, 20, n_iter=4, random_state=5)
    vectors, values = gram_eigenvectors(rows, 20, seed=5)
    np.testing.assert_allclose(values, levels, rtol=1e-4)
    # Of levels that lie close together any basis will do: what they span is compared.
    weighed, expected = vectors * values, expected * levels
    np.testing.assert_allclose(weighed @ vectors.T, expected @ (expected / levels).T, atol=2e-3)


def test_the_whole_of_a_gram_matrix_of_low_rank_is_found():
    rows = rows_of(4, 30, 5)  # four rows: all other eigenvalues are zero
    vectors, values = gram_eigenvectors(rows, 30, seed=0)
    np.testing.assert_allclose((vectors * values) @ vectors.T, dense_gram(rows), atol=1e-3)
    assert np.isfinite(vectors).all()

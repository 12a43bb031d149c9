"""Similarities against plain loops over pairs."""

import pytest
import torch

import reference
from builders import ragged_tensor
from groupnoise.core.weighting import Dot, NegativeKL

SCALE = 0.7


def features(kind, seed):
    values, _ = ragged_tensor([3, 3], 4, seed=seed)
    return values if kind == "dot" else values.log_softmax(-1)


def as_numbers(kind, vector):
    return vector.tolist() if kind == "dot" else vector.exp().tolist()


SIMILARITIES = {
    "dot": (Dot(SCALE), reference.dot_similarity),
    "neg_kl": (NegativeKL(SCALE), reference.negative_kl),
}


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_every_pair_equals_the_loop(kind):
    similarity, loop = SIMILARITIES[kind]
    left, right = features(kind, 0), features(kind, 1)[:, :2]
    expected = [
        [[loop(as_numbers(kind, a), as_numbers(kind, b), SCALE) for b in rights] for a in lefts]
        for lefts, rights in zip(left, right, strict=True)
    ]
    torch.testing.assert_close(
        similarity.between(left, right), torch.tensor(expected, dtype=torch.float64)
    )


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_matched_is_the_diagonal_of_every_pair(kind):
    similarity, _ = SIMILARITIES[kind]
    left, right = features(kind, 0), features(kind, 1)
    expected = similarity.between(left, right).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(similarity.matched(left, right), expected)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_context_mixes_features_by_weight(kind):
    similarity, _ = SIMILARITIES[kind]
    values = features(kind, 0)
    weights = torch.tensor([[[0.2, 0.5, 0.3]], [[1.0, 0.0, 0.0]]], dtype=torch.float64)
    mixed = similarity.context(weights, values)
    for row in range(2):
        expected = reference.mixture(
            weights[row, 0].tolist(), [as_numbers(kind, vector) for vector in values[row]]
        )
        assert as_numbers(kind, mixed[row, 0]) == pytest.approx(expected)


def test_a_distribution_is_most_like_itself():
    values = features("neg_kl", 0)
    similarity = NegativeKL().between(values, values)
    torch.testing.assert_close(
        similarity.diagonal(dim1=-2, dim2=-1), torch.zeros(2, 3, dtype=torch.float64)
    )
    assert (similarity <= 1e-12).all()


def test_negative_kl_stays_finite_where_probabilities_vanish():
    certain = torch.tensor([[[0.0, -2000.0], [-2000.0, 0.0]]]).double().requires_grad_()
    similarity = NegativeKL()
    between = similarity.between(certain, certain)
    context = similarity.context(between.softmax(-1), certain)
    score = similarity.matched(context, certain)
    score.sum().backward()
    assert score.isfinite().all()
    assert certain.grad.isfinite().all()

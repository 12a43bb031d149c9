"""Masked softmax and log-sum-exp: values, gradients and rows without any real entry."""

import pytest
import torch

from groupnoise.core.weighting import masked_logsumexp, masked_softmax

SCORES = torch.tensor([[1.0, 2.0, 3.0], [0.5, 99.0, 99.0], [99.0, 99.0, 99.0]]).double()
MASK = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])


def test_softmax_runs_over_the_real_entries():
    actual = masked_softmax(SCORES, MASK)
    expected = torch.zeros_like(SCORES)
    expected[0, :2] = SCORES[0, :2].softmax(-1)
    expected[1, 0] = 1.0
    torch.testing.assert_close(actual, expected)


def test_logsumexp_runs_over_the_real_entries():
    actual = masked_logsumexp(SCORES, MASK)
    expected = torch.stack([SCORES[0, :2].logsumexp(-1), SCORES[1, 0], torch.tensor(-torch.inf)])
    torch.testing.assert_close(actual, expected.double())


@pytest.mark.parametrize("operation", [masked_softmax, masked_logsumexp])
def test_gradient_is_finite_and_zero_where_nothing_is_real(operation):
    scores = SCORES.clone().requires_grad_()
    result = operation(scores, MASK)
    upstream = torch.linspace(1, 2, result.numel(), dtype=torch.float64).view_as(result)
    result.backward(upstream)
    assert scores.grad.isfinite().all()
    assert (scores.grad[~MASK] == 0).all()


@pytest.mark.parametrize("operation", [masked_softmax, masked_logsumexp])
@pytest.mark.parametrize("loud", [torch.nan, torch.inf, -torch.inf])
def test_masked_places_may_hold_anything(operation, loud):
    noisy = torch.where(MASK, SCORES, torch.tensor(loud).double()).requires_grad_()
    torch.testing.assert_close(operation(noisy, MASK), operation(SCORES, MASK))
    operation(noisy, MASK)[:2].sum().backward()
    assert noisy.grad.isfinite().all()


@pytest.mark.parametrize("operation", [masked_softmax, masked_logsumexp])
def test_gradient_equals_finite_differences(operation):
    scores = SCORES[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda values: operation(values, MASK[:2]), scores)


def test_large_scores_do_not_overflow():
    scores = torch.tensor([[1e4, 1e4]]).double()
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert masked_logsumexp(scores, mask).item() == pytest.approx(
        1e4 + torch.log(torch.tensor(2.0))
    )
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.5]]

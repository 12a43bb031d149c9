"""Each loss and its gradient against a plain loop."""

import math

import pytest
import torch

from groupnoise.clicks.baselines.networks import (
    binary_loss,
    draw_negatives_for,
    hinge_loss,
    sampled_softmax_loss,
)


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(0)
    positive = torch.randn(6, dtype=torch.float64, generator=generator, requires_grad=True)
    negatives = torch.randn(6, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    is_negative = torch.rand(6, 4, generator=generator) > 0.3
    return positive, negatives, is_negative


def sigmoid(value):
    return 1 / (1 + torch.exp(-value))


def binary_loop(positive, negatives, is_negative):
    total = -torch.log(sigmoid(positive))
    for logit, counts in zip(negatives, is_negative, strict=True):
        if counts:
            total = total - torch.log(1 - sigmoid(logit))
    return total


def hinge_loop(positive, negatives, is_negative):
    total = 0 * positive
    for logit, counts in zip(negatives, is_negative, strict=True):
        if counts and 0.5 - positive + logit > 0:
            total = total + 0.5 - positive + logit
    return total


@pytest.mark.parametrize(
    ("loss", "loop"),
    [
        (binary_loss, binary_loop),
        (lambda *parts: hinge_loss(*parts, margin=0.5), hinge_loop),
    ],
)
def test_pairwise_losses_and_gradients_agree_with_plain_loops(logits, loss, loop):
    positive, negatives, is_negative = logits
    expected = torch.stack([loop(*row) for row in zip(positive, negatives, is_negative)])  # noqa: B905
    got = loss(positive, negatives, is_negative)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(
        torch.autograd.grad(got.sum(), [positive, negatives]),
        torch.autograd.grad(expected.sum(), [positive, negatives]),
    )


def softmax_loop(queries, table, targets, negatives):
    losses = []
    for query, target in zip(queries, targets, strict=True):
        positive = torch.exp(query @ table[target])
        normalizer = positive
        for item in negatives:
            if item != target:
                normalizer = normalizer + len(table) / len(negatives) * torch.exp(
                    query @ table[item]
                )
        losses.append(-torch.log(positive / normalizer))
    return torch.stack(losses)


def test_the_sampled_softmax_and_its_gradient_agree_with_a_plain_loop():
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    table = torch.randn(9, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    parts = (queries, table, torch.tensor([0, 8, 3, 3, 1]), torch.tensor([3, 5, 5, 0]))
    got, expected = sampled_softmax_loss(*parts), softmax_loop(*parts)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(
        torch.autograd.grad(got.sum(), [queries, table]),
        torch.autograd.grad(expected.sum(), [queries, table]),
    )


def test_the_sampled_normaliser_is_right_on_average():
    generator = torch.Generator().manual_seed(2)
    queries, table = torch.randn(1, 4, generator=generator), torch.randn(50, 4, generator=generator)
    target = torch.tensor([7])
    exact = torch.exp(queries @ table.T).sum().item()
    positive = torch.exp(queries @ table[7]).item()
    estimates = []
    for _ in range(4000):
        drawn = torch.randint(50, (10,), generator=generator)
        estimates.append(positive * math.exp(sampled_softmax_loss(queries, table, target, drawn)))
    assert sum(estimates) / len(estimates) == pytest.approx(exact, rel=0.02)


def test_a_draw_that_hits_the_target_is_marked():
    targets = torch.zeros(200, dtype=torch.int64)
    drawn, is_negative = draw_negatives_for(targets, 3, 2, torch.Generator().manual_seed(0))
    assert (is_negative == (drawn != 0)).all()
    assert not is_negative.all()

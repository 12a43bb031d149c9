"""Every partial-label objective against plain loops, values and gradients in double precision."""

import math

import numpy as np
import pytest
import torch

from groupnoise.candidates.baselines.linear import clpl_loss, plsvm_loss
from groupnoise.candidates.baselines.networks import (
    LWSClassifier,
    candidate_log_softmax,
    cc_loss,
    leveraged_loss,
    weighted_cross_entropy,
)

N_ROWS, N_CLASSES = 7, 5


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=(N_ROWS, N_CLASSES))


@pytest.fixture
def candidates():
    indicator = np.random.default_rng(1).random((N_ROWS, N_CLASSES)) < 0.4
    indicator[np.arange(N_ROWS), np.arange(N_ROWS) % N_CLASSES] = True
    indicator[0] = True  # a row of which every label is a candidate
    return indicator


def numeric_slope(loss, scores, step=1e-6):
    """Central differences of the summed loss."""
    slope = np.zeros_like(scores)
    for place in np.ndindex(scores.shape):
        moved = scores.copy()
        moved[place] += step
        above = loss(moved).sum()
        moved[place] -= 2 * step
        slope[place] = (above - loss(moved).sum()) / (2 * step)
    return slope


def softmax_row(row):
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def cc_by_loops(scores, candidates):
    return np.array(
        [
            -math.log(sum(p for p, inside in zip(softmax_row(row), allowed, strict=True) if inside))
            for row, allowed in zip(scores, candidates, strict=True)
        ]
    )


def clpl_by_loops(scores, candidates, surrogate):
    psi = {
        "squared_hinge": lambda margin: max(0.0, 1 - margin) ** 2,
        "logistic": lambda margin: math.log(1 + math.exp(-margin)),
    }[surrogate]
    losses = []
    for row, allowed in zip(scores, candidates, strict=True):
        inside = [value for value, is_in in zip(row, allowed, strict=True) if is_in]
        outside = [value for value, is_in in zip(row, allowed, strict=True) if not is_in]
        losses.append(psi(sum(inside) / len(inside)) + sum(psi(-value) for value in outside))
    return np.array(losses)


def plsvm_by_loops(scores, candidates):
    losses = []
    for row, allowed in zip(scores, candidates, strict=True):
        inside = [value for value, is_in in zip(row, allowed, strict=True) if is_in]
        outside = [value for value, is_in in zip(row, allowed, strict=True) if not is_in]
        losses.append(max(0.0, 1 - (max(inside) - max(outside))) if outside else 0.0)
    return np.array(losses)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "logistic"])
def test_clpl_equals_its_formula_and_slope(scores, candidates, surrogate):
    loss, slope = clpl_loss(scores, candidates, surrogate)
    np.testing.assert_allclose(loss, clpl_by_loops(scores, candidates, surrogate))
    expected = numeric_slope(lambda moved: clpl_by_loops(moved, candidates, surrogate), scores)
    np.testing.assert_allclose(slope, expected, atol=1e-7)


def test_plsvm_equals_its_formula_and_slope(scores, candidates):
    loss, slope = plsvm_loss(scores, candidates)
    np.testing.assert_allclose(loss, plsvm_by_loops(scores, candidates))
    expected = numeric_slope(lambda moved: plsvm_by_loops(moved, candidates), scores)
    np.testing.assert_allclose(slope, expected, atol=1e-7)


def torch_value_and_slope(loss, scores):
    logits = torch.tensor(scores, requires_grad=True)
    values = loss(logits)
    values.sum().backward()
    return values.detach().numpy(), logits.grad.numpy()


def test_cc_equals_its_formula_and_gradient(scores, candidates):
    allowed = torch.from_numpy(candidates)
    values, slope = torch_value_and_slope(lambda logits: cc_loss(logits, allowed), scores)
    np.testing.assert_allclose(values, cc_by_loops(scores, candidates), atol=1e-12)
    expected = numeric_slope(lambda moved: cc_by_loops(moved, candidates), scores)
    np.testing.assert_allclose(slope, expected, atol=1e-7)


def test_cc_of_a_single_candidate_is_cross_entropy(scores):
    labels = torch.arange(N_ROWS) % N_CLASSES
    logits = torch.from_numpy(scores)
    single = torch.nn.functional.one_hot(labels, N_CLASSES).bool()
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    np.testing.assert_allclose(cc_loss(logits, single), expected)


def test_proden_weights_are_probabilities_renormalised_over_the_candidates(scores, candidates):
    weights = candidate_log_softmax(torch.from_numpy(scores), torch.from_numpy(candidates)).exp()
    for row, allowed, found in zip(scores, candidates, weights.numpy(), strict=True):
        p = softmax_row(row)
        total = sum(value for value, is_in in zip(p, allowed, strict=True) if is_in)
        expected = [
            value / total if is_in else 0.0 for value, is_in in zip(p, allowed, strict=True)
        ]
        np.testing.assert_allclose(found, expected)


def test_proden_equals_its_formula_and_gradient(scores, candidates):
    weights = candidates / candidates.sum(axis=1, keepdims=True)

    def by_loops(moved):
        return np.array(
            [
                -sum(w * math.log(p) for w, p in zip(row_weights, softmax_row(row), strict=True))
                for row, row_weights in zip(moved, weights, strict=True)
            ]
        )

    values, slope = torch_value_and_slope(
        lambda logits: weighted_cross_entropy(logits, torch.from_numpy(weights)), scores
    )
    np.testing.assert_allclose(values, by_loops(scores))
    np.testing.assert_allclose(slope, numeric_slope(by_loops, scores), atol=1e-7)


def test_proden_gradient_with_own_weights_is_that_of_cc(scores, candidates):
    allowed = torch.from_numpy(candidates)
    weights = candidate_log_softmax(torch.from_numpy(scores), allowed).exp()
    _, ours = torch_value_and_slope(lambda logits: weighted_cross_entropy(logits, weights), scores)
    _, expected = torch_value_and_slope(lambda logits: cc_loss(logits, allowed), scores)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("leverage", [0.0, 1.0, 2.0])
def test_lws_equals_its_formula_and_gradient(scores, candidates, leverage):
    allowed = torch.from_numpy(candidates)
    weights = LWSClassifier()._label_weights(torch.from_numpy(scores), allowed).numpy()

    def psi(margin):
        return 1 / (1 + math.exp(margin))

    def by_loops(moved):
        losses = []
        for row, is_in, row_weights in zip(moved, candidates, weights, strict=True):
            losses.append(
                sum(
                    w * psi(g) if inside else leverage * w * psi(-g)
                    for g, inside, w in zip(row, is_in, row_weights, strict=True)
                )
            )
        return np.array(losses)

    values, slope = torch_value_and_slope(
        lambda logits: leveraged_loss(logits, allowed, torch.from_numpy(weights), leverage), scores
    )
    np.testing.assert_allclose(values, by_loops(scores))
    np.testing.assert_allclose(slope, numeric_slope(by_loops, scores), atol=1e-7)


def test_lws_weights_sum_to_one_inside_and_outside_the_candidates(scores, candidates):
    allowed = torch.from_numpy(candidates)
    weights = LWSClassifier()._label_weights(torch.from_numpy(scores), allowed)
    inside = (weights * allowed).sum(dim=1)
    outside = (weights * ~allowed).sum(dim=1)
    np.testing.assert_allclose(inside, np.ones(N_ROWS))
    np.testing.assert_allclose(outside, (~candidates).any(axis=1).astype(float))

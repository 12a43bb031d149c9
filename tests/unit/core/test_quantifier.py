import math

import pytest
import torch
from tests import reference

from groupnoise import GroupLoss
from groupnoise.core.quantifier import (
    QUANTIFIERS,
    Segments,
    log1mexp,
    log_complement,
    log_label_likelihood,
    log_set_likelihood,
    mixture_log_odds,
    presence,
)
from groupnoise.exceptions import DataError, ParameterError

SIZES = [3, 1, 5, 2]


def logits(width, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(SIZES), width, generator=generator, dtype=dtype, requires_grad=True)


def split(values):
    return torch.split(values, SIZES)


@pytest.mark.parametrize("quantifier", QUANTIFIERS)
def test_presence_is_what_plain_loops_give_with_its_gradient(quantifier):
    values = logits(4)
    log_p = values.log_softmax(-1)
    found = presence(quantifier, log_p, log_complement(log_p), Segments(torch.tensor(SIZES)))
    weight = torch.linspace(-1.0, 2.0, found.log_odds.numel(), dtype=torch.float64)
    (gradient,) = torch.autograd.grad(
        (weight * (found.log_present - 0.3 * found.log_absent).flatten()).sum(), values
    )
    again = logits(4)
    by_hand = []
    for group in split(again.softmax(-1)):
        for target in range(4):
            p = getattr(reference, f"present_{quantifier}")(list(group[:, target]))
            by_hand.append((p.log(), (1.0 - p).log()))
    present = torch.stack([each[0] for each in by_hand])
    absent = torch.stack([each[1] for each in by_hand])
    torch.testing.assert_close(found.log_present.flatten(), present)
    torch.testing.assert_close(found.log_absent.flatten(), absent)
    (expected,) = torch.autograd.grad((weight * (present - 0.3 * absent)).sum(), again)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("n_free", [0, 1])
def test_the_likelihood_of_a_set_is_the_sum_over_all_assignments(n_free, at_once, monkeypatch):
    monkeypatch.setattr("groupnoise.core.quantifier.MAX_SUBSET_VALUES", at_once)
    labels = torch.tensor([[1, 1, 0], [0, 1, 0], [1, 1, 1], [1, 0, 1]], dtype=torch.bool)
    values = logits(3 + n_free)
    found = log_set_likelihood(
        values.log_softmax(-1), labels, Segments(torch.tensor(SIZES)), n_free
    )
    again = logits(3 + n_free)
    expected = torch.stack(
        [
            reference.set_likelihood(list(group), row.nonzero().flatten().tolist(), n_free).log()
            for group, row in zip(split(again.softmax(-1)), labels, strict=True)
        ]
    )
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), values)
    (by_hand,) = torch.autograd.grad(expected.sum(), again)
    torch.testing.assert_close(gradient, by_hand)


def test_a_group_without_labels_is_free_throughout():
    labels = torch.zeros(4, 2, dtype=torch.bool)
    log_p = logits(3).log_softmax(-1)
    found = log_set_likelihood(log_p, labels, Segments(torch.tensor(SIZES)), n_free=1)
    expected = torch.stack([group[:, 2].sum() for group in split(log_p)])
    torch.testing.assert_close(found, expected)


def test_further_axes_are_further_models():
    values = logits(6).view(-1, 2, 3)
    segments = Segments(torch.tensor(SIZES))
    log_p = values.log_softmax(-1)
    both = presence("noisy_or", log_p, log_complement(log_p), segments)
    alone = presence("noisy_or", log_p[:, 1], log_complement(log_p[:, 1]), segments)
    torch.testing.assert_close(both.log_present[:, 1], alone.log_present)
    labels = torch.tensor([[1, 1], [1, 0], [0, 1], [1, 1]], dtype=torch.bool)
    sets = log_set_likelihood(log_p, labels, segments, n_free=1)
    torch.testing.assert_close(
        sets[:, 1], log_set_likelihood(log_p[:, 1], labels, segments, n_free=1)
    )


@pytest.mark.parametrize("size", [1e-3, 30.0, 300.0])
@pytest.mark.parametrize("quantifier", QUANTIFIERS)
def test_extreme_logits_give_finite_losses_and_gradients(quantifier, size):
    values = (size * torch.tensor([[-1.0], [-2.0], [1.0], [2.0], [-1.0], [1.0]])).requires_grad_()
    segments = Segments(torch.tensor([2, 2, 2]))
    log_p, log_q = torch.nn.functional.logsigmoid(values), torch.nn.functional.logsigmoid(-values)
    found = presence(quantifier, log_p, log_q, segments)
    for labels in ([[True]] * 3, [[False]] * 3):
        loss = -log_label_likelihood(found, torch.tensor(labels)).sum()
        (gradient,) = torch.autograd.grad(loss, values, retain_graph=True)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_a_positive_group_of_hopeless_objects_still_learns():
    values = torch.tensor([[-200.0], [-201.0]], requires_grad=True)
    sigmoid = torch.nn.functional.logsigmoid
    found = presence("noisy_or", sigmoid(values), sigmoid(-values), Segments(torch.tensor([2])))
    assert found.log_present.item() == pytest.approx(-200.0 + math.log1p(math.exp(-1.0)), rel=1e-5)
    found.log_present.sum().backward()
    assert float(values.grad.sum()) == pytest.approx(1.0, rel=1e-4)


def test_log1mexp_is_exact_at_both_ends_with_its_gradient():
    values = torch.tensor([1e-12, 1e-3, 0.5, 2.0, 60.0], dtype=torch.float64, requires_grad=True)
    expected = [math.log(-math.expm1(-each)) for each in values.tolist()]
    found = log1mexp(values)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    found.sum().backward()
    slopes = [1.0 / math.expm1(each) for each in values.tolist()]
    torch.testing.assert_close(values.grad, torch.tensor(slopes, dtype=torch.float64))
    nothing = torch.tensor([0.0, 1000.0], requires_grad=True)
    log1mexp(nothing).sum().backward()
    assert nothing.grad.tolist() == [0.0, 0.0]


def test_an_empty_group_and_an_unknown_quantifier_are_refused():
    with pytest.raises(DataError, match="at least one object"):
        Segments(torch.tensor([2, 0]))
    with pytest.raises(ParameterError, match="quantifier"):
        presence("some", torch.zeros(1), torch.zeros(1), Segments(torch.tensor([1])))


def test_group_loss_takes_a_quantifier_and_a_negative_target():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    p = logits.softmax(-1)
    loss = GroupLoss(quantifier="noisy_or", negative_target=0, reduction="none")
    found = loss(logits, torch.tensor([1, 0]), mask)
    some = 1 - math.prod(1 - p[0, i, 1].item() for i in range(3))
    none_of_two = math.prod(1 - p[0, i, 2].item() for i in range(3))
    negative = math.prod((1 - p[1, i, k].item()) for i in range(2) for k in (1, 2))
    expected = [-math.log(some * none_of_two), -math.log(negative)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    allowed = torch.tensor([[True, True, True], [True, False, False]])
    exact = GroupLoss(quantifier="label_set", negative_target=0, reduction="none")
    found = exact(logits, torch.tensor([1, 0]), mask, allowed=allowed)
    rows = p[0][:, [1, 2, 0]].tolist()
    assert found[0].item() == pytest.approx(-math.log(reference.set_likelihood(rows, [0, 1], 1)))
    assert found[1].item() == pytest.approx(-math.log(p[1, 0, 0].item() * p[1, 1, 0].item()))


def test_group_loss_refuses_a_negative_target_that_says_nothing():
    with pytest.raises(ParameterError, match="goes with a quantifier"):
        GroupLoss(negative_target=0)
    with pytest.raises(DataError, match="none of 3 targets"):
        GroupLoss(quantifier="max", negative_target=7)(torch.zeros(1, 2, 3), torch.tensor([0]))


def test_a_mixture_is_what_plain_loops_give_with_its_gradient():
    values = logits(2)
    rate, constant = torch.tensor([-1.0, 0.5], dtype=torch.float64), torch.tensor([0.2, -0.1])
    found = mixture_log_odds(values, Segments(torch.tensor(SIZES)), rate, constant)
    (gradient,) = torch.autograd.grad(found.square().sum(), values)
    again = logits(2)
    by_hand = torch.stack(
        [
            reference.mixture_log_odds(list(group[:, k]), rate[k].sigmoid(), constant[k])
            for group in split(again)
            for k in range(2)
        ]
    )
    torch.testing.assert_close(found.flatten(), by_hand)
    (expected,) = torch.autograd.grad(by_hand.square().sum(), again)
    torch.testing.assert_close(gradient, expected)

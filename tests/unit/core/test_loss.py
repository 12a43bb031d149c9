"""GroupLoss as a plain loss module: reductions, padding, gradients and bad input."""

import pytest
import torch

from builders import ragged_tensor
from groupnoise import GroupLoss
from groupnoise.exceptions import DataError, EmptyGroupError, ParameterError

SIZES, N_TARGETS = [3, 1, 2], 4
TARGETS = torch.tensor([2, 0, 3])
SELECTIONS = ["max", "marginal", "tempered", "top_k", "all"]
WEIGHTINGS = [None, "sigmoid", "contrastive"]


def logits_and_mask(**padding):
    values, mask = ragged_tensor(SIZES, N_TARGETS, **padding)
    return values.requires_grad_(), mask


def test_reductions_agree():
    logits, mask = logits_and_mask()
    each = GroupLoss(reduction="none")(logits, TARGETS, mask)
    assert each.shape == (3,)
    torch.testing.assert_close(GroupLoss(reduction="sum")(logits, TARGETS, mask), each.sum())
    torch.testing.assert_close(GroupLoss(reduction="mean")(logits, TARGETS, mask), each.mean())


@pytest.mark.parametrize("similarity", ["dot", "neg_kl"])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("fill", [99.0, torch.nan, torch.inf], ids=str)
def test_padding_may_hold_anything(fill, selection, weighting, similarity):
    loss = GroupLoss(
        selection=selection, weighting=weighting, similarity=similarity, absent_strength=0.5
    )
    allowed = torch.nn.functional.one_hot(TARGETS, N_TARGETS).bool()
    tight, tight_mask = logits_and_mask(fill=0.0)
    padded, mask = logits_and_mask(fill=fill, pad_to=5)
    expected = loss(tight, TARGETS, tight_mask, allowed=allowed)
    actual = loss(padded, TARGETS, mask, allowed=allowed)
    torch.testing.assert_close(actual, expected)
    actual.backward()
    expected.backward()
    torch.testing.assert_close(padded.grad[mask], tight.grad[tight_mask])
    assert (padded.grad[~mask] == 0).all()


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_target_ruled_out_by_its_logit_counts_as_if_it_were_not_there(selection, weighting):
    logits, mask = logits_and_mask()
    loss = GroupLoss(selection=selection, weighting=weighting)
    expected = loss(logits, TARGETS, mask)
    ruled_out = torch.full((*logits.shape[:2], 1), -torch.inf, dtype=logits.dtype)
    wide = torch.cat([logits, ruled_out], dim=-1).detach().requires_grad_()
    actual = loss(wide, TARGETS, mask)
    torch.testing.assert_close(actual, expected)
    actual.backward()
    expected.backward()
    torch.testing.assert_close(wide.grad[..., :-1], logits.grad)
    assert (wide.grad[..., -1] == 0).all()


@pytest.mark.parametrize("weighting", [None, "sigmoid"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_gradient_equals_finite_differences(selection, weighting):
    logits, mask = logits_and_mask()
    loss = GroupLoss(selection=selection, weighting=weighting, absent_strength=0.3)
    allowed = torch.nn.functional.one_hot(TARGETS, N_TARGETS).bool()
    assert torch.autograd.gradcheck(
        lambda values: loss(values, TARGETS, mask, allowed=allowed), logits
    )


def test_no_mask_means_that_every_object_is_real():
    logits, _ = logits_and_mask()
    everything = torch.ones(3, 3, dtype=torch.bool)
    assert torch.equal(GroupLoss()(logits, TARGETS), GroupLoss()(logits, TARGETS, everything))


def test_details_name_the_chosen_object():
    logits = torch.zeros(1, 3, 2)
    logits[0, 1, 0] = 5.0
    details = GroupLoss(weighting=None).details(logits, torch.tensor([0]))
    assert details.chosen.tolist() == [1]
    torch.testing.assert_close(details.per_group, -details.scores[:, 1])


def test_schedules_follow_progress():
    logits, mask = logits_and_mask()
    loss = GroupLoss(selection="tempered", temperature=(1.0, 1e-4), weighting=None)
    marginal = GroupLoss(selection="marginal", weighting=None)
    torch.testing.assert_close(
        loss(logits, TARGETS, mask, progress=0.0), marginal(logits, TARGETS, mask)
    )
    hard = GroupLoss(selection="max", weighting=None)
    torch.testing.assert_close(
        loss(logits, TARGETS, mask, progress=1.0), hard(logits, TARGETS, mask), atol=1e-3, rtol=0
    )


def test_top_k_says_how_many_objects_share():
    logits, mask = logits_and_mask()
    one, many = (GroupLoss(selection="top_k", top_k=k)(logits, TARGETS, mask) for k in (1, 3))
    torch.testing.assert_close(one, GroupLoss(selection="max")(logits, TARGETS, mask))
    assert not torch.equal(one, many)


def _empty(mask):
    mask = mask.clone()
    mask[1] = False
    return mask


@pytest.mark.parametrize(
    ("alter", "error", "message"),
    [
        (lambda z, t, m: (z[0], t, m), DataError, r"shape \(groups, size, n_targets\)"),
        (lambda z, t, m: (z, t, m.float()), DataError, "mask must be boolean"),
        (lambda z, t, m: (z, t, m[:, :1]), DataError, "mask must be boolean of shape"),
        (lambda z, t, m: (z, t, _empty(m)), EmptyGroupError, "first at row 1"),
        (lambda z, t, m: (z, t.float(), m), DataError, "whole numbers; got torch.float32"),
        (lambda z, t, m: (z, t[:2], m), DataError, "targets must be 3 whole numbers"),
        (lambda z, t, m: (z, t + 1, m), DataError, r"targets must lie in 0 \.\. 3"),
        (lambda z, t, m: (z, t - 1, m), DataError, r"targets must lie in 0 \.\. 3"),
    ],
    ids=["flat", "float_mask", "narrow_mask", "empty", "float", "few", "high", "negative"],
)
def test_arguments_that_do_not_fit_are_refused_in_one_sentence(alter, error, message):
    logits, mask = logits_and_mask()
    with pytest.raises(error, match=message):
        GroupLoss()(*alter(logits, TARGETS, mask))


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (None, "absent_strength is 0.5, which needs `allowed`"),
        (torch.ones(3, N_TARGETS), "allowed must be boolean of shape"),
        (torch.ones(3, N_TARGETS + 1, dtype=torch.bool), r"got torch.bool of shape \(3, 5\)"),
        (torch.tensor([[True, False, True, False]] * 3), "rules out target 3 of group 2 itself"),
        (torch.zeros(3, N_TARGETS, dtype=torch.bool), "rules out target 2 of group 0 itself"),
    ],
    ids=["none", "float", "wide", "one", "all"],
)
def test_what_is_allowed_must_fit_targets_and_logits(allowed, message):
    logits, mask = logits_and_mask()
    with pytest.raises(DataError, match=message):
        GroupLoss(absent_strength=0.5)(logits, TARGETS, mask, allowed=allowed)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"reduction": "average"}, "reduction must be one of 'mean', 'sum', 'none'"),
        ({"weighting_strength": -1.0}, "weighting_strength must be a number zero or more"),
        ({"absent_strength": float("nan")}, "absent_strength must be a number zero or more"),
        ({"selection": "best"}, "selection must be one of"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_parameters_are_refused_when_the_loss_is_made(parameters, message):
    with pytest.raises(ParameterError, match=message):
        GroupLoss(**parameters)


def test_three_lines_train_a_network_of_ones_own():
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Linear(6, 3)
    with torch.no_grad():
        network.weight.normal_(generator=generator)
    objects = torch.randn(8, 4, 6, generator=generator)
    targets = torch.arange(8) % 3
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    loss_of = GroupLoss(selection="marginal")
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = loss_of(network(objects), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]

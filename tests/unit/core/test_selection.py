"""Selections against loops; the share is the derivative of the group's score."""

import pytest
import torch

import reference
from builders import ragged_tensor
from groupnoise.core import All, Marginal, Max, Tempered, TopK
from groupnoise.exceptions import ParameterError

SIZES = [3, 1, 5, 2]
SELECTIONS = {
    "max": (Max(), reference.select_max),
    "marginal": (Marginal(), reference.select_marginal),
    "tempered": (Tempered(0.5, 0.5), lambda scores: reference.select_tempered(scores, 0.5)),
    "top_1": (TopK(1), reference.select_max),
    "top_2": (TopK(2), lambda scores: reference.select_top_k(scores, 2)),
    "top_9": (TopK(9), lambda scores: reference.select_top_k(scores, 9)),
    "all": (All(), reference.select_all),
}


@pytest.fixture(params=[99.0, -99.0, torch.nan, torch.inf], ids=str)
def scores_and_mask(request):
    values, mask = ragged_tensor(SIZES, 1, pad_to=7, fill=request.param)
    return values.squeeze(-1), mask


@pytest.mark.parametrize("name", SELECTIONS)
def test_score_of_a_group_equals_the_loop(name, scores_and_mask):
    select, loop = SELECTIONS[name]
    scores, mask = scores_and_mask
    expected = [loop(row[real].tolist()) for row, real in zip(scores, mask, strict=True)]
    assert select(scores, mask).log_score.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", SELECTIONS)
def test_share_is_the_derivative_of_the_score(name, scores_and_mask):
    select, _ = SELECTIONS[name]
    scores, mask = scores_and_mask
    scores.requires_grad_()
    log_score, share = select(scores, mask)
    gradient = torch.autograd.grad(log_score.sum(), scores)[0]
    torch.testing.assert_close(share.detach(), gradient)
    assert (share[~mask] == 0).all()
    assert not share.requires_grad


def test_first_object_wins_a_tie():
    tied = torch.tensor([[0.5, 2.0, 2.0]])
    assert Max()(tied, torch.ones(1, 3, dtype=torch.bool)).responsibility.tolist() == [
        [0.0, 1.0, 0.0]
    ]


def test_temperature_follows_a_geometric_path():
    path = Tempered(1.0, 0.01)
    assert [path.temperature(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.1, 0.01])


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_must_be_positive(bad):
    with pytest.raises(ParameterError, match="temperature end must be a number greater than zero"):
        Tempered(1.0, bad)


def test_top_k_needs_at_least_one():
    with pytest.raises(ParameterError, match="k must be a whole number of at least 1"):
        TopK(0)

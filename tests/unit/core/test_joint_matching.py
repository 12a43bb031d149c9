import math

import pytest
import torch

import reference
from groupnoise.core import Marginal
from groupnoise.core.batching import GroupBatch
from groupnoise.core.encoders import EmbeddingEncoder, IdentityEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import JointMatching, PerObjectWeighting, log_joint_probability
from groupnoise.core.weighting import NegativeKL, SigmoidWeighting

MASK = torch.tensor([[True, True, True], [True, False, False]])


def logits(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, dtype=torch.float64, generator=generator)


def plain_joint(rows, pooling):
    """log P(object, target | group) of one group by loops: rows of logits, no padding."""
    n_targets = len(rows[0])
    pooled = [
        pooling * reference.log_sum_exp([row[target] / pooling for row in rows])
        for target in range(n_targets)
    ]
    level = reference.log_sum_exp(pooled)
    return [
        [
            pooled[target]
            - level
            + row[target] / pooling
            - reference.log_sum_exp([other[target] / pooling for other in rows])
            for target in range(n_targets)
        ]
        for row in rows
    ]


@pytest.mark.parametrize("pooling", [0.5, 1.0, 2.0])
def test_values_and_gradients_are_those_of_the_loops(pooling):
    fast, slow = logits().requires_grad_(), logits().requires_grad_()
    result = log_joint_probability(fast, MASK, pooling)
    expected = [plain_joint(slow[0], pooling), plain_joint(slow[1][:1], pooling)]
    weights = torch.linspace(-1, 1, 16, dtype=torch.float64)
    ours = torch.cat([result[0].flatten(), result[1, 0]])
    theirs = torch.stack([value for group in expected for row in group for value in row])
    torch.testing.assert_close(ours, theirs)
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    torch.testing.assert_close(fast.grad, slow.grad)


@pytest.mark.parametrize("pooling", [0.5, 1.0, 3.0])
def test_the_pairs_of_a_group_sum_to_one(pooling):
    joint = log_joint_probability(logits(), MASK, pooling).exp() * MASK.unsqueeze(-1)
    torch.testing.assert_close(joint.sum((1, 2)), torch.ones(2, dtype=torch.float64))


def test_pooling_one_is_a_single_softmax_over_all_pairs():
    joint = log_joint_probability(logits(), torch.ones(2, 3, dtype=torch.bool))
    torch.testing.assert_close(joint.flatten(1), logits().flatten(1).log_softmax(-1))


def test_padding_is_neither_read_nor_differentiated():
    loud = logits()
    loud[~MASK] = 99.0
    loud.requires_grad_()
    result = log_joint_probability(loud, MASK)
    torch.testing.assert_close(result[MASK], log_joint_probability(logits(), MASK)[MASK])
    result.sum().backward()
    assert (loud.grad[~MASK] == 0).all()
    assert loud.grad.isfinite().all()


def batch_of(objects):
    return GroupBatch(objects, MASK, torch.arange(2), torch.tensor([1, 0]))


def model_of(n_targets=4, dim=3):
    generator = torch.Generator().manual_seed(1)
    table = EmbeddingEncoder(n_targets, dim, std=1.0, generator=generator)
    return MatchingModel(IdentityEncoder(), table, n_targets=n_targets, has_bias=True)


def test_only_pairs_with_a_candidate_of_the_own_group_are_selected_among():
    candidates = torch.tensor([[True, False, False, True], [False, True, True, False]])
    matching = JointMatching(candidates)(model_of(), batch_of(torch.randn(2, 3, 3)), None)
    mask = matching.mask.view(2, 3, 4)
    assert torch.equal(mask[0], candidates[1].expand(3, 4))  # the first group is row 1
    assert torch.equal(mask[1], torch.stack([candidates[0], *torch.zeros(2, 4).bool()]))
    assert (matching.log_pair[~matching.mask] == 0).all()


def test_with_every_label_a_candidate_nothing_is_left_to_learn():
    matching = JointMatching(torch.ones(2, 4, dtype=torch.bool))(
        model_of(), batch_of(torch.randn(2, 3, 3)), None
    )
    loss = GroupObjective(Marginal())(matching).per_group
    torch.testing.assert_close(loss, torch.zeros(2), atol=1e-6, rtol=0)


def test_every_pair_of_an_object_carries_the_weight_of_the_object():
    features = logits().float().log_softmax(-1)
    pairs = MASK.unsqueeze(-1).expand(2, 3, 2).flatten(1)
    weighting = SigmoidWeighting(NegativeKL())
    spread = PerObjectWeighting(weighting)(features, pairs).view(2, 3, 2)
    expected = weighting(features, MASK)
    torch.testing.assert_close(spread[..., 0], expected)
    torch.testing.assert_close(spread[..., 1], expected)
    assert math.isclose(float(spread[1].abs().sum()), 0.0)

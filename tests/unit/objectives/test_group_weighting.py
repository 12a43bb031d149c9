"""Group weighting: both forms against loops, blockwise against dense, and very large groups."""

import pytest
import torch

import reference
from builders import gradients, ragged_tensor, real_rows
from groupnoise.matching import Dot, NegativeKL
from groupnoise.objectives import ContrastiveWeighting, SigmoidWeighting
from groupnoise.objectives import _group_weighting as module

SIZES = [3, 1, 5, 2]
SIMILARITIES = {
    "dot": (Dot(0.5), lambda a, b: reference.dot_similarity(a, b, 0.5)),
    "neg_kl": (NegativeKL(2.0), lambda a, b: reference.negative_kl(a, b, 2.0)),
}


def features_of(kind, seed=0, **padding):
    values, mask = ragged_tensor(SIZES, 4, seed=seed, **padding)
    values = values.log_softmax(-1) if kind == "neg_kl" else values
    return values.requires_grad_(), mask


def loop_features(kind, features, mask):
    numbers = features.exp() if kind == "neg_kl" else features
    return real_rows(numbers, mask)


def assert_equal_with_gradients(actual, expected, features):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    upstream = torch.linspace(0.5, 1.5, len(expected), dtype=torch.float64)
    torch.testing.assert_close(
        gradients((actual * upstream).sum(), [features]),
        gradients((expected * upstream).sum(), [features]),
        rtol=1e-8,
        atol=1e-10,
    )


def flat(rows):
    return torch.stack(
        [torch.as_tensor(value, dtype=torch.float64) for row in rows for value in row]
    )


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_sigmoid_weights_equal_the_loops_over_equation_five(kind):
    similarity, loop = SIMILARITIES[kind]
    features, mask = features_of(kind)
    expected = flat(
        reference.log_group_weights(group, loop) for group in loop_features(kind, features, mask)
    )
    assert_equal_with_gradients(
        SigmoidWeighting(similarity)(features, mask)[mask], expected, features
    )


@pytest.mark.parametrize("n_strangers", [1, 3, 20])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_contrastive_weights_equal_the_loops(kind, n_strangers):
    similarity, loop = SIMILARITIES[kind]
    features, mask = features_of(kind)
    groups = loop_features(kind, features, mask)
    expected = flat(
        reference.log_contrastive_weights(
            group, reference.strangers_of(groups, row, n_strangers), loop
        )
        for row, group in enumerate(groups)
    )
    actual = ContrastiveWeighting(similarity, n_strangers)(features, mask)[mask]
    assert_equal_with_gradients(actual, expected, features)


@pytest.mark.parametrize("n_strangers", [1, 2, 7, 100])
def test_strangers_never_come_from_the_group_itself(n_strangers):
    mask = torch.arange(max(SIZES)) < torch.tensor(SIZES).unsqueeze(-1)
    rows = torch.arange(len(SIZES)).double()[:, None, None].expand(-1, max(SIZES), 1)
    strangers = ContrastiveWeighting(Dot(), n_strangers)._strangers(rows, mask)
    assert strangers.shape == (len(SIZES), n_strangers, 1)
    assert (strangers.squeeze(-1) != torch.arange(len(SIZES)).unsqueeze(-1)).all()


def test_a_single_group_meets_no_strangers_and_weighs_all_objects_alike():
    features, mask = ragged_tensor([4], 3)
    assert (ContrastiveWeighting()(features, mask) == 0).all()


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_a_group_of_one_has_weight_one(kind):
    similarity, _ = SIMILARITIES[kind]
    features, mask = features_of(kind)
    assert SigmoidWeighting(similarity)(features, mask)[1, 0].item() == 0.0


@pytest.mark.parametrize("block_elements", [1, 25, 41, 60])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_blockwise_weights_equal_the_dense_ones(kind, block_elements, monkeypatch):
    similarity, _ = SIMILARITIES[kind]
    features, mask = features_of(kind)
    dense = SigmoidWeighting(similarity)(features, mask)[mask]
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", block_elements)
    blockwise = SigmoidWeighting(similarity)(features, mask)[mask]
    assert_equal_with_gradients(blockwise, dense, features)


@pytest.fixture
def largest_block(monkeypatch):
    """A list whose maximum is the most similarities held at a time."""
    elements = []
    compute = module._block_scores

    def counting(features, mask, start, stop, similarity):
        elements.append((stop - start) * features.shape[1])
        return compute(features, mask, start, stop, similarity)

    monkeypatch.setattr(module, "_block_scores", counting)
    return elements


def large_group(size=10_000):
    features = torch.randn(1, size, 4, generator=torch.Generator().manual_seed(0))
    return features, torch.ones(1, size, dtype=torch.bool)


def test_a_group_of_ten_thousand_objects_needs_no_square_array(largest_block):
    features, mask = large_group()
    log_weight = SigmoidWeighting(Dot(0.1))(features, mask)
    assert max(largest_block) <= module.BLOCK_ELEMENTS < mask.shape[1] ** 2
    place = 1234
    others = torch.cat([features[0, :place], features[0, place + 1 :]])
    context = (0.1 * others @ features[0, place]).softmax(0) @ others
    expected = torch.nn.functional.logsigmoid(0.1 * context @ features[0, place])
    torch.testing.assert_close(log_weight[0, place], expected)


@pytest.mark.slow
def test_the_gradient_of_ten_thousand_objects_needs_no_square_array(largest_block):
    features, mask = large_group()
    features.requires_grad_()
    SigmoidWeighting(Dot(0.1))(features, mask).sum().backward()
    assert max(largest_block) <= module.BLOCK_ELEMENTS
    assert features.grad.isfinite().all()

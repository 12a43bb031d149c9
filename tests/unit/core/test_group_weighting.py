"""Group weighting: both forms against loops, blockwise against dense, and very large groups."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import reference
from builders import gradients, ragged_tensor, real_rows
from groupnoise.core import batching as module
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting

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


@pytest.mark.parametrize("n_negatives", [1, 3, 20])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_contrastive_weights_equal_the_loops(kind, n_negatives):
    similarity, loop = SIMILARITIES[kind]
    features, mask = features_of(kind)
    groups = loop_features(kind, features, mask)
    expected = flat(
        reference.log_contrastive_weights(
            group, reference.negatives_of(groups, row, n_negatives), loop
        )
        for row, group in enumerate(groups)
    )
    actual = ContrastiveWeighting(similarity, n_negatives)(features, mask)[mask]
    assert_equal_with_gradients(actual, expected, features)


@pytest.mark.parametrize("n_negatives", [1, 2, 7, 100])
def test_negatives_never_come_from_the_group_itself(n_negatives):
    mask = torch.arange(max(SIZES)) < torch.tensor(SIZES).unsqueeze(-1)
    rows = torch.arange(len(SIZES)).double()[:, None, None].expand(-1, max(SIZES), 1)
    negatives = ContrastiveWeighting(Dot(), n_negatives)._negatives(rows, mask)
    assert negatives.shape == (len(SIZES), n_negatives, 1)
    assert (negatives.squeeze(-1) != torch.arange(len(SIZES)).unsqueeze(-1)).all()


def test_a_single_group_meets_no_negatives_and_weighs_all_objects_alike():
    features, mask = ragged_tensor([4], 3)
    assert (ContrastiveWeighting()(features, mask) == 0).all()


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_a_group_of_one_has_weight_one(kind):
    similarity, _ = SIMILARITIES[kind]
    features, mask = features_of(kind)
    assert SigmoidWeighting(similarity)(features, mask)[1, 0].item() == 0.0


@pytest.mark.parametrize("block_elements", [1, 25, 41, 60])
@pytest.mark.parametrize("form", [SigmoidWeighting, ContrastiveWeighting])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_blockwise_weights_equal_the_dense_ones(kind, form, block_elements, monkeypatch):
    similarity, _ = SIMILARITIES[kind]
    features, mask = features_of(kind)
    dense = form(similarity)(features, mask)[mask]
    monkeypatch.setattr(module, "PRODUCT_ELEMENTS", block_elements)
    blockwise = form(similarity)(features, mask)[mask]
    assert_equal_with_gradients(blockwise, dense, features)


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements that any tensor made inside it holds."""

    n_elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, torch.Tensor):
                self.n_elements = max(self.n_elements, value.numel())
        return result


def large_groups(sizes=(10_000, 3)):
    features, mask = ragged_tensor(sizes, 4)
    return features.float(), mask


@pytest.mark.slow
def test_a_group_of_ten_thousand_objects_equals_the_formula():
    features, mask = large_groups()
    log_weight = SigmoidWeighting(Dot(0.1))(features, mask)
    place = 1234
    others = torch.cat([features[0, :place], features[0, place + 1 :]])
    context = (0.1 * others @ features[0, place]).softmax(0) @ others
    expected = torch.nn.functional.logsigmoid(0.1 * context @ features[0, place])
    torch.testing.assert_close(log_weight[0, place], expected)


@pytest.mark.parametrize(
    "weighting",
    [
        SigmoidWeighting(Dot(0.1)),
        pytest.param(SigmoidWeighting(NegativeKL()), marks=pytest.mark.nightly),
        pytest.param(ContrastiveWeighting(Dot(0.1)), marks=pytest.mark.nightly),
    ],
    ids=["sigmoid_dot", "sigmoid_neg_kl", "contrastive"],
)
def test_neither_pass_over_a_large_group_makes_a_square_array(weighting):
    features, mask = large_groups((3_000, 3))
    if weighting.similarity.uses_probabilities:
        features = features.log_softmax(-1)
    features.requires_grad_()
    with LargestTensor() as largest:
        weighting(features, mask).sum().backward()
    assert largest.n_elements <= module.PRODUCT_ELEMENTS < mask.shape[1] ** 2
    assert features.grad[mask].isfinite().all()

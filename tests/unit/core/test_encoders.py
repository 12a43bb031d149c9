"""Encoders: what they compute, what decides their weights, what dropout does."""

import pytest
import torch

from groupnoise.core.encoders import EmbeddingEncoder, IdentityEncoder, LinearEncoder, MLPEncoder


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


INPUTS = torch.randn(4, 3, generator=generator(9))


def test_identity_returns_its_input():
    assert IdentityEncoder()(INPUTS) is INPUTS


def test_linear_encoder_is_an_affine_map():
    encoder = LinearEncoder(3, 2, generator=generator())
    torch.nn.init.constant_(encoder.bias, 0.5)
    torch.testing.assert_close(encoder(INPUTS), INPUTS @ encoder.weight.t() + 0.5)


def test_embedding_looks_up_rows():
    encoder = EmbeddingEncoder(5, 2, generator=generator())
    ids = torch.tensor([4, 0, 4])
    assert torch.equal(encoder(ids), encoder.weight[ids])


def test_sparse_embedding_has_gradients_at_the_rows_looked_up_alone():
    encoder = EmbeddingEncoder(5, 2, sparse=True, generator=generator())
    encoder(torch.tensor([4, 0, 4])).sum().backward()
    gradient = encoder.weight.grad.coalesce()
    assert gradient.indices().flatten().tolist() == [0, 4]
    assert gradient.values().tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_embedding_starts_with_the_deviation_asked_for():
    encoder = EmbeddingEncoder(2000, 10, std=0.3, generator=generator())
    assert encoder.weight.std().item() == pytest.approx(0.3, rel=0.02)


def test_mlp_without_hidden_layers_is_linear():
    mlp = MLPEncoder(3, [], 2, generator=generator(1))
    linear = LinearEncoder(3, 2, generator=generator(1))
    torch.testing.assert_close(mlp(INPUTS), linear(INPUTS))


def test_mlp_applies_relu_between_its_layers():
    mlp = MLPEncoder(3, [4], 2, generator=generator())
    hidden, last = mlp.layers
    torch.testing.assert_close(mlp(INPUTS), last(hidden(INPUTS).clamp_min(0.0)))


def test_dropout_acts_in_training_alone_and_keeps_the_mean():
    mlp = MLPEncoder(3, [2000], 1, dropout=0.25, generator=generator())
    values = torch.ones(1, 2000)
    dropped = mlp._drop(values)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)
    mlp.eval()
    assert torch.equal(mlp._drop(values), values)


@pytest.mark.parametrize(
    "make",
    [
        lambda g: LinearEncoder(3, 2, generator=g),
        lambda g: EmbeddingEncoder(3, 2, generator=g),
        lambda g: MLPEncoder(3, [5], 2, dropout=0.5, generator=g),
    ],
    ids=["linear", "embedding", "mlp"],
)
def test_the_generator_decides_weights_and_the_global_seed_nothing(make):
    inputs = torch.tensor([0, 2]) if isinstance(make(generator()), EmbeddingEncoder) else INPUTS
    torch.manual_seed(1)
    first = make(generator(7))(inputs)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert torch.equal(first, make(generator(7))(inputs))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, make(generator(8))(inputs))

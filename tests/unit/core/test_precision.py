import torch
from torch import nn

from groupnoise.core import FrozenEncoder
from groupnoise.core.encoders import EmbeddingEncoder, reduced_precision
from groupnoise.core.model import MatchingModel


def model_with(encoder, precision):
    table = EmbeddingEncoder(3, 4, generator=torch.Generator().manual_seed(0))
    return MatchingModel(encoder, table, n_targets=3, precision=precision)


def test_encoders_run_in_reduced_precision_and_hand_on_float32():
    seen = []
    encoder = nn.Linear(2, 4)
    encoder.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    rows = torch.tensor([[0.3, -1.7], [2.1, 0.4]])
    vectors = model_with(encoder, torch.bfloat16).encode_objects(rows)
    assert seen == [torch.bfloat16]
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors, encoder(rows), atol=0.05, rtol=0.02)
    vectors.sum().backward()
    assert encoder.weight.grad.dtype == torch.float32


def test_the_processor_is_asked_and_never_made_to_emulate():
    assert reduced_precision("cpu") in (None, torch.bfloat16)
    assert reduced_precision("meta") is None


def test_a_frozen_encoder_neither_learns_nor_drops_nor_counts():
    inner = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    frozen = FrozenEncoder(inner)
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    frozen.train()
    rows = torch.randn(5, 2)
    assert torch.equal(frozen(rows), frozen(rows))
    assert not frozen(rows).requires_grad
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
    assert all(weight.requires_grad for weight in inner.parameters())

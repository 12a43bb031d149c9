"""MatchingModel: what ids stand for, bias, scale, and what is saved."""

import torch

from builders import table_model
from groupnoise.matching import EmbeddingEncoder, LinearEncoder, MatchingModel


def test_target_inputs_are_read_by_id():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(6, 4, generator=generator)
    model = MatchingModel(
        EmbeddingEncoder(3, 2, generator=generator),
        LinearEncoder(4, 2, generator=generator),
        n_targets=6,
        target_inputs=rows,
    )
    ids = torch.tensor([5, 2])
    assert torch.equal(model.encode_targets(ids), model.encode_target_inputs(rows[ids]))


def test_training_features_are_not_part_of_the_saved_state():
    generator = torch.Generator().manual_seed(0)
    model = MatchingModel(
        EmbeddingEncoder(3, 2, generator=generator),
        LinearEncoder(4, 2, generator=generator),
        n_targets=6,
        target_inputs=torch.zeros(6, 4),
    )
    assert "target_inputs" not in model.state_dict()


def test_scale_multiplies_the_target_vectors():
    plain = table_model(n_objects=3, n_targets=4)
    scaled = table_model(n_objects=3, n_targets=4, scale=2.5)
    ids = torch.arange(4)
    torch.testing.assert_close(scaled.encode_targets(ids), 2.5 * plain.encode_targets(ids))


def test_bias_is_one_number_per_target_or_none():
    assert table_model(n_objects=3, n_targets=4).target_bias(torch.arange(4)) is None
    model = table_model(n_objects=3, n_targets=4, has_bias=True)
    assert torch.equal(model.target_bias(torch.tensor([3, 1])), model.bias[[3, 1], 0])


def test_a_shared_table_is_one_parameter():
    model = table_model(n_objects=4, n_targets=4, shared=True)
    assert len(list(model.parameters())) == 1

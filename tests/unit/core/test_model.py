"""MatchingModel: what ids stand for, bias, scale, and what is saved."""

import pytest
import torch

from builders import gradients, table_model
from groupnoise.core.encoders import EmbeddingEncoder, LinearEncoder
from groupnoise.core.model import MatchingModel


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


def test_bias_is_one_number_per_target_or_none():
    assert table_model(n_objects=3, n_targets=4).target_bias(torch.arange(4)) is None
    model = table_model(n_objects=3, n_targets=4, has_bias=True)
    assert torch.equal(model.target_bias(torch.tensor([3, 1])), model.bias[[3, 1], 0])


def test_a_shared_table_is_one_parameter():
    model = table_model(n_objects=4, n_targets=4, shared=True)
    assert len(list(model.parameters())) == 1


@pytest.mark.parametrize("shared", [True, False])
def test_objects_and_targets_encoded_together_equal_those_encoded_apart(shared):
    model = table_model(n_objects=6, n_targets=6, shared=shared)
    objects, targets = torch.tensor([0, 5, 2]), torch.tensor([5, 1])
    apart = torch.cat([model.encode_objects(objects), model.encode_targets(targets)])
    assert torch.equal(model.encode(objects, targets), apart)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_all_targets_need_no_lookup_and_have_the_same_gradient(shared, sparse):
    model = table_model(n_objects=8, n_targets=5, shared=shared, sparse=sparse)
    objects, target_ids = torch.tensor([0, 7, 2]), torch.tensor([4, 1])
    together = model.encode_with_all_targets(objects, target_ids)
    everything = model.encode_targets(torch.arange(5))
    apart = (model.encode_objects(objects), model.encode_targets(target_ids), everything)
    leaves = list(model.parameters())
    for actual, expected in zip(together, apart, strict=True):
        assert torch.equal(actual, expected)
    found = gradients(sum((part**2).sum() for part in together), leaves)
    wanted_gradients = gradients(sum((part**2).sum() for part in apart), leaves)
    for actual, expected in zip(found, wanted_gradients, strict=True):
        torch.testing.assert_close(actual.to_dense(), expected.to_dense())

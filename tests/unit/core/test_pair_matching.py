"""Pair matching: distinct objects encoded once, collisions, and feature rows as objects."""

import numpy as np
import pytest
import torch

import reference
from builders import id_batch, offsets_of, table_model
from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.candidates import FullCandidates, InBatchCandidates, SampledCandidates
from groupnoise.core.encoders import EmbeddingEncoder, IdentityEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.pair_matching import PairMatching
from groupnoise.exceptions import ParameterError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_uniform_sample_equals_the_loop():
    model = table_model(n_objects=6, n_targets=5, has_bias=True)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    source = SampledCandidates(5, 3)
    sample = source.draw(batch.targets, generator(4)).ids.tolist()
    log_pair = PairMatching(source)(model, batch, generator(4)).log_pair
    for row, place in batch.mask.nonzero().tolist():
        expected = reference.log_pair_sampled(
            model.object_encoder.weight[batch.objects[row, place]].tolist(),
            batch.targets[row].item(),
            model.target_encoder.weight.tolist(),
            model.bias[:, 0].tolist(),
            sample,
            [3 / 5] * 3,
        )
        assert log_pair[row, place].item() == pytest.approx(expected, abs=1e-6)


def test_a_sample_of_nothing_but_the_target_gives_certainty_and_no_gradient():
    model = table_model(n_objects=4, n_targets=3)
    batch = id_batch([2], n_ids=4, n_targets=1)
    only_the_target = SampledCandidates(3, 2, torch.tensor([1.0, 0.0, 0.0]))
    log_pair = PairMatching(only_the_target)(model, batch, generator()).log_pair
    assert log_pair.tolist() == [[0.0, 0.0]]
    log_pair.sum().backward()
    assert all((parameter.grad == 0).all() for parameter in model.parameters())


def test_every_negative_drawn_once_without_correction_is_the_full_softmax():
    class EveryId:
        def draw(self, target_ids, generator):
            drawn = SampledCandidates(5, 5, corrected=False).draw(target_ids, generator)
            return type(drawn)(torch.arange(5), None, holds_targets=False)

    model = table_model(n_objects=6, n_targets=5, has_bias=True)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    sampled = PairMatching(EveryId())(model, batch, generator()).log_pair
    full = PairMatching(FullCandidates(5))(model, batch, generator()).log_pair
    torch.testing.assert_close(sampled, full)


def test_each_distinct_id_is_encoded_once():
    encoded = []

    class Recording(EmbeddingEncoder):
        def forward(self, ids):
            encoded.append(ids.tolist())
            return super().forward(ids)

    model = MatchingModel(
        Recording(9, 2, generator=generator()),
        EmbeddingEncoder(4, 2, generator=generator()),
        n_targets=4,
    )
    groups = Groups.from_lists([[7, 3, 7], [3]], targets=[0, 1])
    PairMatching(FullCandidates(4))(model, collate(groups, np.arange(2)), generator())
    assert encoded == [[3, 7]]


def test_padding_is_never_encoded():
    encoded = []

    class Recording(IdentityEncoder):
        def forward(self, inputs):
            encoded.append(len(inputs))
            return super().forward(inputs)

    model = MatchingModel(
        Recording(), EmbeddingEncoder(4, 3, generator=generator()).double(), n_targets=4
    )
    sizes = [3, 1]
    rows = np.random.default_rng(0).normal(size=(4, 3))
    batch = collate(Groups(rows, offsets_of(sizes), np.array([0, 1])), np.arange(2))
    log_pair = PairMatching(FullCandidates(4))(model, batch, generator()).log_pair
    assert encoded == [4]
    assert (log_pair[~batch.mask] == 0).all()


def test_probabilities_sum_to_one_and_hold_the_pair():
    model = table_model(n_objects=6, n_targets=5, has_bias=True)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    matching = PairMatching(FullCandidates(5), with_probabilities=True)(model, batch, generator())
    mass = matching.log_probabilities[batch.mask].exp().sum(-1)
    torch.testing.assert_close(mass, torch.ones_like(mass))
    target_ids = batch.targets.view(-1, 1, 1).expand(-1, batch.mask.shape[1], 1)
    of_target = matching.log_probabilities.gather(-1, target_ids).squeeze(-1)
    torch.testing.assert_close(of_target[batch.mask], matching.log_pair[batch.mask])
    plain = PairMatching(FullCandidates(5))(model, batch, generator())
    torch.testing.assert_close(plain.log_pair, matching.log_pair)


def test_normalising_over_objects_of_the_batch_is_a_softmax_over_them():
    model = table_model(n_objects=6, n_targets=5)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    present = batch.objects[batch.mask].unique()
    pair = PairMatching(InBatchCandidates(), normalize="objects")
    log_pair = pair(model, batch, generator()).log_pair
    targets = model.encode_targets(batch.targets)
    level = (targets @ model.encode_objects(present).t()).logsumexp(-1, keepdim=True)
    logit = (model.encode_objects(batch.objects) * targets.unsqueeze(1)).sum(-1)
    torch.testing.assert_close(log_pair[batch.mask], (logit - level)[batch.mask])


@pytest.mark.parametrize(
    "source",
    [SampledCandidates(6, 3), InBatchCandidates(torch.full((6,), 0.2))],
    ids=["sampled", "corrected"],
)
def test_a_sample_of_objects_is_refused(source):
    model = table_model(n_objects=6, n_targets=5)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    with pytest.raises(ParameterError, match='belong to normalize="targets"'):
        PairMatching(source, normalize="objects")(model, batch, generator())


def test_probabilities_over_less_than_all_targets_are_refused():
    model = table_model(n_objects=6, n_targets=5)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    with pytest.raises(ParameterError, match="Use FullCandidates"):
        PairMatching(InBatchCandidates(), with_probabilities=True)(model, batch, generator())


def test_both_is_the_mean_of_the_two_normalisations():
    model = table_model(n_objects=6, n_targets=5)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    objects, targets = FullCandidates(6), FullCandidates(5)
    both = PairMatching(targets, "both", object_source=objects)(model, batch, generator())
    over_targets = PairMatching(targets)(model, batch, generator())
    over_objects = PairMatching(objects, "objects")(model, batch, generator())
    mean = (over_targets.log_pair + over_objects.log_pair) / 2
    torch.testing.assert_close(both.log_pair, mean)


def test_both_without_objects_to_normalise_over_is_refused():
    model = table_model(n_objects=6, n_targets=5)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    with pytest.raises(ParameterError, match="needs an object_source"):
        PairMatching(InBatchCandidates(), "both")(model, batch, generator())


def test_both_with_probabilities_takes_the_objects_of_the_batch():
    model = table_model(n_objects=6, n_targets=5, has_bias=True)
    batch = id_batch([3, 1, 2], n_ids=6, n_targets=5)
    pair = PairMatching(FullCandidates(5), "both", with_probabilities=True)
    matching = pair(model, batch, generator())
    present = batch.objects[batch.mask].unique()
    logits = model.logits(model.encode_objects(present), torch.arange(5))
    mean = (logits.log_softmax(-1) + logits.log_softmax(0)) / 2
    row, place = batch.mask.nonzero(as_tuple=True)
    column = torch.searchsorted(present, batch.objects[row, place])
    torch.testing.assert_close(matching.log_pair[row, place], mean[column, batch.targets[row]])
    mass = matching.log_probabilities[batch.mask].exp().sum(-1)
    torch.testing.assert_close(mass, torch.ones_like(mass))

"""The objective of labels and feature rows against its parts: losses, gradients, what it takes."""

import copy

import numpy as np
import pytest
import torch

from builders import gradients, id_groups
from groupnoise.core.batching import collate
from groupnoise.core.candidates import FullCandidates, InBatchCandidates, SampledCandidates
from groupnoise.core.encoders import EmbeddingEncoder, LinearEncoder, MLPEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, Marginal, Max, Tempered, TopK
from groupnoise.core.pair_matching import PairMatching, PriorMatching
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting
from groupnoise.training.explicit_steps import LabelObjective

N_LABELS, N_FEATURES = 7, 5
SIZES = [1, 3, 2, 5, 1, 4, 2, 3, 7]
LABELS = FullCandidates(N_LABELS)
PAIRS = {
    "over labels": PairMatching(LABELS, "objects"),
    "both ways": PairMatching(InBatchCandidates(), "both", object_source=LABELS),
}
ENCODERS = {
    "linear": lambda draw: LinearEncoder(N_FEATURES, 6, generator=draw),
    "perceptron": lambda draw: MLPEncoder(N_FEATURES, (8,), 6, dropout=0.5, generator=draw),
    "deep": lambda draw: MLPEncoder(N_FEATURES, (8, 9), 6, generator=draw),
}


def label_model(encoder="perceptron", **options):
    draw = torch.Generator().manual_seed(3)
    labels = EmbeddingEncoder(N_LABELS, 6, std=0.5, generator=draw)
    rows = torch.randn(len(SIZES) + 4, N_FEATURES, generator=draw)
    options = {"n_targets": len(rows), "target_inputs": rows} | options
    return MatchingModel(labels, ENCODERS[encoder](draw), **options).double()


def label_batch():
    groups = id_groups(SIZES, n_ids=N_LABELS, n_targets=len(SIZES))
    groups.targets[:] = np.random.default_rng(1).permutation(len(SIZES) + 4)[: len(SIZES)]
    return collate(groups, np.arange(len(SIZES)))


def log_prior():
    return torch.randn(len(SIZES), N_LABELS, generator=torch.Generator().manual_seed(5)).double()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("selection", [Max(), Marginal(), Tempered(2.0, 0.2)], ids=repr)
@pytest.mark.parametrize("weighting", [None, SigmoidWeighting(Dot(0.7))], ids=["none", "sigmoid"])
@pytest.mark.parametrize("trusted", [False, True], ids=["alike", "trusted"])
def test_losses_and_gradients_are_those_of_the_parts(trusted, weighting, selection, pair, encoder):
    pair = PriorMatching(PAIRS[pair], log_prior()) if trusted else PAIRS[pair]
    objective = GroupObjective(selection, weighting, 0.6)
    model, batch = label_model(encoder), label_batch()
    twin = copy.deepcopy(model)  # drops what the model drops
    ours = LabelObjective.of(model, pair, objective)
    assert ours.takes(batch)
    actual = ours.losses(batch, torch.Generator(), progress=0.4)
    expected = objective(pair(twin, batch, torch.Generator()), progress=0.4).per_group
    torch.testing.assert_close(actual, expected.detach(), rtol=1e-9, atol=1e-9)
    # Unequal weights of the groups: a gradient that went to the wrong group would show.
    upstream = torch.linspace(0.5, 1.5, len(actual), dtype=torch.float64)
    ours.find_gradients(upstream)
    torch.testing.assert_close(
        [each.grad for each in model.parameters()],
        list(gradients((expected * upstream).sum(), list(twin.parameters()))),
        rtol=1e-8,
        atol=1e-9,
    )


def test_nothing_is_dropped_in_answers():
    model, batch, objective = label_model().eval(), label_batch(), GroupObjective(Marginal())
    ours = LabelObjective.of(model, PAIRS["both ways"], objective)
    first, second = (ours.losses(batch, torch.Generator()) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_a_batch_that_names_a_row_twice_is_left_to_autograd():
    batch = label_batch()
    ours = LabelObjective.of(label_model(), PAIRS["both ways"], GroupObjective(Max()))
    assert ours.takes(batch)
    batch.targets[0] = batch.targets[1]
    assert not ours.takes(batch)


def test_other_parts_are_left_to_autograd():
    pair, plain = PAIRS["both ways"], GroupObjective(Max())
    for model in (
        label_model(has_bias=True),
        label_model(precision=torch.bfloat16),
        label_model(target_inputs=None),
    ):
        assert LabelObjective.of(model, pair, plain) is None
    for other in (
        PairMatching(LABELS),
        PairMatching(FullCandidates(13), "both", object_source=LABELS),
        PairMatching(SampledCandidates(13, 4), "both", object_source=LABELS),
        PairMatching(InBatchCandidates(), "objects"),
    ):
        assert LabelObjective.of(label_model(), other, plain) is None
    for objective in (
        GroupObjective(TopK()),
        GroupObjective(Max(), ContrastiveWeighting()),
        GroupObjective(Max(), SigmoidWeighting(NegativeKL())),
        GroupObjective(Max(), recency=0.1),
        GroupObjective(Max(), absent_strength=1.0),
    ):
        assert LabelObjective.of(label_model(), pair, objective) is None

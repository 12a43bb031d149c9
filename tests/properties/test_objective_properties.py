"""What must hold for every shape of group: the objective's invariances and bounds."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn import functional as F

from builders import (
    LOUD,
    gradients,
    id_groups,
    ragged_sizes,
    ragged_tensor,
    seeds,
    steady,
    table_model,
)
from groupnoise import GroupLoss
from groupnoise.core import Marginal, Max, Tempered, collate
from groupnoise.core.batching import GroupBatch
from groupnoise.core.candidates import FullCandidates, SampledCandidates
from groupnoise.core.objective import GroupObjective, make_selection
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting

N_TARGETS = 4
selections = st.sampled_from(["max", "marginal", "tempered", "top_k", "all"])
weightings = st.sampled_from(
    [
        None,
        SigmoidWeighting(Dot(0.5)),
        SigmoidWeighting(NegativeKL()),
        ContrastiveWeighting(Dot(0.5), 3),
        ContrastiveWeighting(NegativeKL(), 3),
    ]
)
without_negatives = st.sampled_from(
    [None, SigmoidWeighting(Dot(0.5)), SigmoidWeighting(NegativeKL())]
)
fills = st.sampled_from([LOUD, -LOUD, math.nan, math.inf])


def targets_of(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(N_TARGETS, (len(sizes),), generator=generator)


def dense_loss(selection, weighting, **kwargs):
    return GroupLoss(selection=selection, weighting=weighting, reduction="none", **kwargs)


def loss_and_gradient(loss, logits, *arguments):
    logits = logits.clone().requires_grad_()
    value = loss(logits, *arguments)
    weights = torch.linspace(1, 2, len(value), dtype=torch.float64)
    return value.detach(), torch.autograd.grad((value * weights).sum(), logits)[0]


@steady
@given(ragged_sizes, seeds, selections, weightings, st.integers(0, 4), fills)
def test_padding_changes_neither_loss_nor_gradient(sizes, seed, selection, weighting, extra, fill):
    loss, targets = dense_loss(selection, weighting), targets_of(sizes, seed)
    tight, tight_mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    wide, mask = ragged_tensor(sizes, N_TARGETS, seed=seed, pad_to=max(sizes) + extra, fill=fill)
    expected, expected_gradient = loss_and_gradient(loss, tight, targets, tight_mask)
    actual, gradient = loss_and_gradient(loss, wide, targets, mask)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradient[mask], expected_gradient[tight_mask])
    assert (gradient[~mask] == 0).all()


@steady
@given(ragged_sizes, seeds, selections, without_negatives)
def test_padding_of_a_batch_changes_neither_loss_nor_gradient(sizes, seed, selection, weighting):
    groups = id_groups(sizes, n_ids=6, n_targets=N_TARGETS, seed=seed)
    batch = collate(groups, np.arange(len(sizes)))
    # A valid id, but one that no group holds: nothing of it may reach the loss.
    negative = batch.objects.masked_fill(~batch.mask, 6)
    padded = GroupBatch(
        F.pad(negative, (0, 2), value=6), F.pad(batch.mask, (0, 2)), batch.targets, batch.rows
    )
    on_probabilities = weighting is not None and weighting.similarity.uses_probabilities
    pair = PairMatching(FullCandidates(N_TARGETS), with_probabilities=on_probabilities)
    objective = GroupObjective(make_selection(selection), weighting)
    results = []
    for each in (batch, padded):
        model = table_model(n_objects=7, n_targets=N_TARGETS)
        loss = objective(pair(model, each, torch.Generator())).per_group
        loss.sum().backward()
        results.append((loss.detach(), [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(results[0], results[1])
    assert (results[1][1][0][6] == 0).all()


@steady
@given(ragged_sizes, seeds, selections, without_negatives)
def test_object_order_changes_neither_loss_nor_gradient(sizes, seed, selection, weighting):
    loss, targets = dense_loss(selection, weighting), targets_of(sizes, seed)
    logits, mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    order = torch.argsort(
        torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)), dim=-1
    )
    wide = order.unsqueeze(-1).expand_as(logits)
    # Padding moves along, so that it also stands before real objects.
    expected, gradient = loss_and_gradient(loss, logits, targets, mask)
    actual, moved = loss_and_gradient(loss, logits.gather(1, wide), targets, mask.gather(1, order))
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(moved, gradient.gather(1, wide))


@steady
@given(st.integers(1, 6), seeds, selections, without_negatives)
def test_a_group_of_one_is_ordinary_cross_entropy(n_groups, seed, selection, weighting):
    logits, mask = ragged_tensor([1] * n_groups, N_TARGETS, seed=seed, pad_to=3)
    targets = targets_of([1] * n_groups, seed)
    loss = dense_loss(selection, weighting)
    actual, gradient = loss_and_gradient(loss, logits, targets, mask)

    def cross_entropy(values, targets):
        return F.cross_entropy(values[:, 0], targets, reduction="none")

    expected, expected_gradient = loss_and_gradient(cross_entropy, logits, targets)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@steady
@given(st.integers(2, 6), seeds, weightings.filter(lambda weighting: weighting is not None))
def test_identical_objects_get_identical_weights(size, seed, weighting):
    rows, mask = ragged_tensor([size, 2], N_TARGETS, seed=seed)
    rows[0, 1] = rows[0, 0]
    if weighting.similarity.uses_probabilities:
        rows = rows.log_softmax(-1)
    log_weight = weighting(rows.masked_fill(~mask.unsqueeze(-1), 0.0), mask)
    torch.testing.assert_close(log_weight[0, 0], log_weight[0, 1], rtol=1e-12, atol=1e-12)


@steady
@given(ragged_sizes, seeds, without_negatives)
def test_max_loss_is_between_marginal_loss_and_log_size_above_it(sizes, seed, weighting):
    logits, mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    targets = targets_of(sizes, seed)
    hard = dense_loss("max", weighting)(logits, targets, mask)
    soft = dense_loss("marginal", weighting)(logits, targets, mask)
    assert (hard >= soft - 1e-12).all()
    assert (hard - soft <= torch.tensor(sizes).log() + 1e-12).all()


def test_the_gap_of_log_size_is_reached_by_equal_objects():
    logits = torch.zeros(1, 8, N_TARGETS, dtype=torch.float64)
    targets = torch.tensor([1])
    gap = dense_loss("max", None)(logits, targets) - dense_loss("marginal", None)(logits, targets)
    assert gap.item() == pytest.approx(math.log(8))


@steady
@given(ragged_sizes, seeds, selections, weightings, st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
def test_gradients_are_finite_at_every_scale(sizes, seed, selection, weighting, scale):
    logits, mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    allowed = F.one_hot(targets_of(sizes, seed), N_TARGETS).bool()
    loss = dense_loss(selection, weighting, absent_strength=0.5)
    logits = (scale * logits).float().requires_grad_()
    value = loss(logits, targets_of(sizes, seed), mask, allowed=allowed)
    value.sum().backward()
    assert value.isfinite().all()
    assert logits.grad.isfinite().all()


@steady
@given(ragged_sizes, seeds)
def test_tempered_is_marginal_at_one_and_max_towards_zero(sizes, seed):
    scores, mask = ragged_tensor(sizes, 1, seed=seed)
    scores = scores.squeeze(-1)
    for temperature, limit, tolerance in ((1.0, Marginal(), 1e-12), (1e-4, Max(), 1e-3)):
        tempered = Tempered(temperature, temperature)(scores, mask)
        torch.testing.assert_close(
            tempered.log_score, limit(scores, mask).log_score, rtol=0.0, atol=tolerance
        )


@steady
@given(ragged_sizes, seeds)
def test_tempered_score_falls_from_marginal_to_max(sizes, seed):
    scores, mask = ragged_tensor(sizes, 1, seed=seed)
    scores = scores.squeeze(-1)
    path = [Tempered(t, t)(scores, mask).log_score for t in (1.0, 0.5, 0.2, 0.01)]
    path.append(Max()(scores, mask).log_score)
    assert all((warm >= cool - 1e-9).all() for warm, cool in pairwise(path))


@steady
@given(ragged_sizes, seeds, selections, weightings)
def test_reductions_put_the_same_losses_together(sizes, seed, selection, weighting):
    logits, mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    targets = targets_of(sizes, seed)

    def reduced(how):
        return GroupLoss(selection=selection, weighting=weighting, reduction=how)(
            logits, targets, mask
        )

    torch.testing.assert_close(reduced("sum"), reduced("none").sum())
    torch.testing.assert_close(reduced("mean") * len(sizes), reduced("none").sum())


@steady
@given(ragged_sizes, seeds, selections, without_negatives)
def test_a_group_does_not_depend_on_the_others_of_its_batch(sizes, seed, selection, weighting):
    logits, mask = ragged_tensor(sizes, N_TARGETS, seed=seed)
    targets, loss = targets_of(sizes, seed), dense_loss(selection, weighting)
    together = loss(logits, targets, mask)
    alone = torch.cat(
        [loss(logits[i : i + 1], targets[i : i + 1], mask[i : i + 1]) for i in range(len(sizes))]
    )
    torch.testing.assert_close(together, alone)


@steady
@given(ragged_sizes, seeds, selections, st.booleans())
def test_a_sample_that_holds_every_id_equally_often_is_close_to_the_full_set(
    sizes, seed, selection, shared
):
    # Each of the four targets drawn once is its own expectation: the sample is exact.
    class EvenSample:
        def draw(self, target_ids, generator):
            drawn = SampledCandidates(N_TARGETS, N_TARGETS).draw(target_ids, generator)
            return type(drawn)(torch.arange(N_TARGETS), drawn.log_expected_count, False)

    batch = collate(
        id_groups(sizes, n_ids=6, n_targets=N_TARGETS, seed=seed), np.arange(len(sizes))
    )
    model = table_model(n_objects=6, n_targets=N_TARGETS, shared=shared, has_bias=True)
    objective = GroupObjective(make_selection(selection), SigmoidWeighting())
    full, even = (
        objective(PairMatching(source)(model, batch, torch.Generator())).per_group
        for source in (FullCandidates(N_TARGETS), EvenSample())
    )
    torch.testing.assert_close(even, full, rtol=1e-6, atol=1e-6)


@steady
@given(ragged_sizes, seeds, selections, weightings, st.booleans())
def test_the_fast_path_equals_the_dense_loss(sizes, seed, selection, weighting, shared):
    groups = id_groups(sizes, n_ids=6, n_targets=N_TARGETS, seed=seed)
    batch = collate(groups, np.arange(len(sizes)))
    model = table_model(n_objects=6, n_targets=N_TARGETS, shared=shared, has_bias=True, seed=seed)
    on_probabilities = weighting is not None and weighting.similarity.uses_probabilities
    pair = PairMatching(FullCandidates(N_TARGETS), with_probabilities=on_probabilities)
    objective = GroupObjective(make_selection(selection), weighting)
    fast = objective(pair(model, batch, torch.Generator())).per_group
    vectors, every = model.encode_objects(batch.objects), torch.arange(N_TARGETS)
    logits = vectors @ model.encode_targets(every).t() + model.target_bias(every)
    dense = dense_loss(selection, weighting)(logits, batch.targets, batch.mask, vectors)
    torch.testing.assert_close(fast, dense, rtol=1e-9, atol=1e-9)
    leaves = list(model.parameters())
    torch.testing.assert_close(
        gradients(fast.sum(), leaves), gradients(dense.sum(), leaves), rtol=1e-8, atol=1e-9
    )

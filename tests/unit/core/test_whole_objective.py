"""Fast path (PairMatching and GroupObjective) against plain loops: losses and gradients."""

import pytest
import torch

import reference
from builders import gradients, id_batch, table_model
from groupnoise import GroupLoss
from groupnoise.core import All, Marginal, Max, Tempered, TopK
from groupnoise.core.candidates import FullCandidates, InBatchCandidates, SampledCandidates
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting

N_IDS, N_TARGETS, N_NEGATIVES = 6, 5, 3
SIZES = ([3, 1, 2], [1, 4, 2, 2], [2], [1, 1])
STRENGTH = 0.7

SELECTIONS = {
    "max": (Max(), reference.select_max),
    "marginal": (Marginal(), reference.select_marginal),
    "tempered": (Tempered(1.0, 0.4), lambda scores: reference.select_tempered(scores, 0.4)),
    "top_k": (TopK(2), lambda scores: reference.select_top_k(scores, 2)),
    "all": (All(), reference.select_all),
}


def dot(left, right):
    return reference.dot_similarity(left, right, scale=0.5)


def negative_kl(left, right):
    return reference.negative_kl(left, right, scale=1.5)


def sigmoid(similarity):
    return lambda features, row: reference.log_group_weights(features[row], similarity)


def contrastive(similarity):
    def log_weights(features, row):
        if len(features) == 1:
            return [0.0] * len(features[0])
        negatives = reference.negatives_of(features, row, N_NEGATIVES)
        return reference.log_contrastive_weights(features[row], negatives, similarity)

    return log_weights


WEIGHTINGS = {
    "none": (None, None),
    "sigmoid_dot": (SigmoidWeighting(Dot(0.5)), sigmoid(dot)),
    "contrastive_dot": (ContrastiveWeighting(Dot(0.5), N_NEGATIVES), contrastive(dot)),
    "sigmoid_neg_kl": (SigmoidWeighting(NegativeKL(1.5)), sigmoid(negative_kl)),
    "contrastive_neg_kl": (
        ContrastiveWeighting(NegativeKL(1.5), N_NEGATIVES),
        contrastive(negative_kl),
    ),
}
ON_VECTORS = ["none", "sigmoid_dot", "contrastive_dot"]
ON_PROBABILITIES = ["sigmoid_neg_kl", "contrastive_neg_kl"]

POPULARITY = torch.tensor([0.4, 0.1, 0.2, 0.05, 0.25], dtype=torch.float64)
SOURCES = {
    "full": FullCandidates(N_TARGETS),
    "sampled": SampledCandidates(N_TARGETS, 4, POPULARITY),
    "sampled_raw": SampledCandidates(N_TARGETS, 4, POPULARITY, corrected=False),
    "in_batch": InBatchCandidates(),
    "in_batch_corrected": InBatchCandidates(POPULARITY),
}


def generator():
    return torch.Generator().manual_seed(11)


class LoopObjective:
    """The whole objective in loops over scalar tensors that share the model's parameters."""

    def __init__(self, model, batch):
        self.model = model
        self.table = model.target_encoder.weight[: model.n_targets]
        self.bias = None if model.bias is None else model.bias[:, 0]
        self.targets = batch.targets.tolist()
        self.ids = [
            objects[mask].tolist() for objects, mask in zip(batch.objects, batch.mask, strict=True)
        ]
        self.vectors = [[model.object_encoder.weight[i] for i in group] for group in self.ids]

    def log_pair(self, name, vector, target):
        if name == "full":
            return reference.log_pair_full(vector, target, self.table, self.bias)
        if name.startswith("in_batch"):
            frequencies = POPULARITY.tolist() if name.endswith("corrected") else None
            return reference.log_pair_in_batch(
                vector, target, self.table, self.bias, self.targets, frequencies
            )
        sample = SOURCES[name].draw(torch.tensor(self.targets), generator()).ids.tolist()
        counts = [len(sample) * POPULARITY[i].item() for i in sample]
        if name == "sampled_raw":
            counts = [1.0] * len(sample)
        return reference.log_pair_sampled(vector, target, self.table, self.bias, sample, counts)

    def probabilities(self):
        return [
            [
                [value.exp() for value in reference.log_probabilities(x, self.table, self.bias)]
                for x in group
            ]
            for group in self.vectors
        ]

    def losses(self, source, weigh, select, *, on_probabilities=False):
        features = self.probabilities() if on_probabilities else self.vectors
        result = []
        for row, (group, target) in enumerate(zip(self.vectors, self.targets, strict=True)):
            log_pairs = [self.log_pair(source, vector, target) for vector in group]
            log_weights = [0.0] * len(group) if weigh is None else weigh(features, row)
            result.append(reference.group_loss(log_pairs, log_weights, select, STRENGTH))
        return torch.stack(result)


def assert_same_losses_and_gradients(model, actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    # Unequal weights of the groups: a gradient that went to the wrong group would show.
    upstream = torch.linspace(0.5, 1.5, len(expected), dtype=torch.float64)
    leaves = list(model.parameters())
    torch.testing.assert_close(
        gradients((actual * upstream).sum(), leaves),
        gradients((expected * upstream).sum(), leaves),
        rtol=1e-8,
        atol=1e-9,
    )


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("weighting", ON_VECTORS)
@pytest.mark.parametrize("source", SOURCES)
def test_fast_path_equals_the_loops(source, weighting, selection, shared):
    # The shapes take turns, so that every part meets every shape without a product of all.
    turn = list(SOURCES).index(source) + list(SELECTIONS).index(selection)
    batch = id_batch(SIZES[turn % len(SIZES)], n_ids=N_IDS, n_targets=N_TARGETS, seed=turn)
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS, shared=shared, has_bias=turn % 2 == 0)
    weigh, loop_weigh = WEIGHTINGS[weighting]
    select, loop_select = SELECTIONS[selection]
    pair = PairMatching(SOURCES[source])
    objective = GroupObjective(select, weigh, STRENGTH)
    actual = objective(pair(model, batch, generator())).per_group
    expected = LoopObjective(model, batch).losses(source, loop_weigh, loop_select)
    assert_same_losses_and_gradients(model, actual, expected)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("weighting", ON_PROBABILITIES)
def test_fast_path_on_probabilities_equals_the_loops(weighting, selection):
    turn = list(SELECTIONS).index(selection)
    batch = id_batch(SIZES[turn % len(SIZES)], n_ids=N_IDS, n_targets=N_TARGETS, seed=turn)
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS, has_bias=True)
    weigh, loop_weigh = WEIGHTINGS[weighting]
    select, loop_select = SELECTIONS[selection]
    pair = PairMatching(SOURCES["full"], with_probabilities=True)
    actual = GroupObjective(select, weigh, STRENGTH)(pair(model, batch, generator())).per_group
    expected = LoopObjective(model, batch).losses(
        "full", loop_weigh, loop_select, on_probabilities=True
    )
    assert_same_losses_and_gradients(model, actual, expected)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_fast_path_equals_the_dense_loss_module(weighting, selection, sizes):
    batch = id_batch(sizes, n_ids=N_IDS, n_targets=N_TARGETS, seed=3)
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS, has_bias=True)
    weigh, select = WEIGHTINGS[weighting][0], SELECTIONS[selection][0]
    pair = PairMatching(SOURCES["full"], with_probabilities=weighting in ON_PROBABILITIES)
    actual = GroupObjective(select, weigh, STRENGTH)(pair(model, batch, generator())).per_group

    vectors = model.encode_objects(batch.objects)  # (groups, size, dim)
    targets = model.encode_targets(torch.arange(N_TARGETS))
    logits = vectors @ targets.t() + model.target_bias(torch.arange(N_TARGETS))
    dense = GroupLoss(
        selection=select, weighting=weigh, weighting_strength=STRENGTH, reduction="none"
    )
    expected = dense(logits, batch.targets, batch.mask, features=vectors)
    assert_same_losses_and_gradients(model, actual, expected)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_normalising_over_objects_equals_the_loops(selection):
    batch = id_batch([3, 1, 2], n_ids=N_IDS, n_targets=N_TARGETS, seed=5)
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS, has_bias=True)
    select, loop_select = SELECTIONS[selection]
    pair = PairMatching(FullCandidates(N_IDS), normalize="objects")
    weigh, loop_weigh = WEIGHTINGS["sigmoid_dot"]
    actual = GroupObjective(select, weigh, STRENGTH)(pair(model, batch, generator())).per_group
    loop = LoopObjective(model, batch)
    expected = torch.stack(
        [
            reference.group_loss(
                [
                    reference.log_pair_over_objects(
                        loop.table[target], obj, model.object_encoder.weight
                    )
                    for obj in loop.ids[row]
                ],
                loop_weigh(loop.vectors, row),
                loop_select,
                STRENGTH,
            )
            for row, target in enumerate(loop.targets)
        ]
    )
    assert_same_losses_and_gradients(model, actual, expected)


def test_absent_class_term_with_a_background_target_equals_the_loops():
    # The last target is the background: any object may choose it, no group wants it.
    n_targets = N_TARGETS + 1
    batch = id_batch([3, 1, 2], n_ids=N_IDS, n_targets=N_TARGETS, seed=6)
    model = table_model(n_objects=N_IDS, n_targets=n_targets)
    allowed = torch.zeros(3, n_targets, dtype=torch.bool)
    allowed[torch.arange(3), batch.targets] = True
    allowed[:, -1] = True
    pair = PairMatching(FullCandidates(n_targets), with_probabilities=True)
    objective = GroupObjective(Marginal(), None, absent_strength=0.5)
    actual = objective(pair(model, batch, generator()), allowed=allowed).per_group
    loop = LoopObjective(model, batch)
    expected = []
    for group, target, may in zip(loop.vectors, loop.targets, allowed.tolist(), strict=True):
        log_all = [reference.log_probabilities(vector, loop.table) for vector in group]
        expected.append(
            reference.group_loss(
                [row[target] for row in log_all],
                [0.0] * len(group),
                reference.select_marginal,
                log_mass=reference.log_allowed_mass(log_all, may),
                absent_strength=0.5,
            )
        )
    assert_same_losses_and_gradients(model, actual, torch.stack(expected))


def test_strength_zero_removes_group_weighting():
    batch = id_batch([3, 2], n_ids=N_IDS, n_targets=N_TARGETS)
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS)
    matching = PairMatching(SOURCES["full"])(model, batch, generator())
    with_zero = GroupObjective(Max(), SigmoidWeighting(), 0.0)(matching)
    without = GroupObjective(Max(), None)(matching)
    assert torch.equal(with_zero.per_group, without.per_group)


def test_the_chosen_object_has_the_best_score_and_the_first_wins_ties():
    model = table_model(n_objects=4, n_targets=3)
    batch = id_batch([3], n_ids=1, n_targets=3)  # the same id three times
    output = GroupObjective()(PairMatching(FullCandidates(3))(model, batch, generator()))
    assert output.chosen.tolist() == [0]
    batch = id_batch([4, 2], n_ids=4, n_targets=3, seed=2)
    output = GroupObjective()(PairMatching(FullCandidates(3))(model, batch, generator()))
    best = output.scores.masked_fill(~batch.mask, -torch.inf).argmax(-1)
    assert torch.equal(output.chosen, best)

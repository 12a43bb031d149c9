"""Recency: the prior by hand, and its place in the objective."""

import math

import pytest
import torch

import reference
from builders import id_batch, table_model
from groupnoise.core import Marginal, Max
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.objective import GroupObjective, log_recency
from groupnoise.core.pair_matching import PairMatching

MASK = torch.tensor([[True, True, True], [True, False, False], [True, True, False]])


def matching_of(sizes):
    batch = id_batch(sizes, n_ids=6, n_targets=5)
    model = table_model(n_objects=6, n_targets=5)
    return PairMatching(FullCandidates(5))(model, batch, torch.Generator())


def test_trust_halves_with_each_step_back_from_the_last_object():
    trust = log_recency(MASK, math.log(2.0)).exp()
    assert trust[0].tolist() == pytest.approx([0.25, 0.5, 1.0])
    assert trust[2, :2].tolist() == pytest.approx([0.5, 1.0])


def test_padding_and_a_group_of_one_get_nothing():
    prior = log_recency(MASK, 3.0)
    assert prior[1].tolist() == [0.0, 0.0, 0.0]
    assert prior[2, 2] == 0.0


@pytest.mark.parametrize(
    ("selection", "select"),
    [(Max(), reference.select_max), (Marginal(), reference.select_marginal)],
)
def test_the_objective_adds_the_prior_before_it_selects(selection, select):
    matching = matching_of([3, 1, 2])
    output = GroupObjective(selection, recency=0.4)(matching)
    for row, pairs in enumerate(matching.log_pair):
        real = pairs[matching.mask[row]].tolist()
        distances = range(len(real) - 1, -1, -1)
        scores = [pair - 0.4 * distance for pair, distance in zip(real, distances, strict=True)]
        assert output.per_group[row].item() == pytest.approx(-select(scores))


def test_a_strong_prior_leaves_the_last_object_alone():
    matching = matching_of([3, 1, 2])
    assert GroupObjective(Marginal(), recency=60.0)(matching).chosen.tolist() == [2, 0, 1]


def test_without_recency_the_objective_is_the_papers():
    matching = matching_of([3, 1, 2])
    plain, named = GroupObjective(Max())(matching), GroupObjective(Max(), recency=0.0)(matching)
    assert torch.equal(plain.scores, named.scores)

import numpy as np
import torch

from groupnoise import Groups
from groupnoise.core import Marginal, collate
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.encoders import EmbeddingEncoder, LinearEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import PairMatching, PriorMatching
from groupnoise.training.parameters import TrainingPlan
from groupnoise.training.trainer import train


def small_model(rows):
    generator = torch.Generator().manual_seed(0)
    return MatchingModel(
        EmbeddingEncoder(3, 4, generator=generator),
        LinearEncoder(2, 4, generator=generator),
        n_targets=len(rows),
        target_inputs=rows,
    )


def test_the_prior_of_a_row_is_added_to_the_scores_of_its_own_candidates():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    groups = Groups.from_lists([[0, 2], [1]], targets=np.arange(2))
    batch = collate(groups, np.array([1, 0]))
    model, pair = small_model(rows), PairMatching(FullCandidates(3), "objects")
    log_prior = torch.tensor([[0.1, 9.0, 0.3], [9.0, 0.5, 9.0]])
    plain = pair(model, batch, torch.Generator())
    trusted = PriorMatching(pair, log_prior)(model, batch, torch.Generator())
    difference = trusted.log_pair - plain.log_pair
    torch.testing.assert_close(difference, torch.tensor([[0.5, 0.0], [0.1, 0.3]]))


def test_a_weight_of_two_counts_like_the_group_twice():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    twice = Groups.from_lists([[0, 2], [1], [1]], targets=np.arange(3))
    once = Groups.from_lists([[0, 2], [1]], targets=np.arange(2))
    plan = TrainingPlan(max_epochs=3, batch_size=8, learning_rate=0.01)
    losses = []
    for groups, weights, scale in (
        (twice, None, 3.0),
        (once, torch.tensor([1.0, 2.0]), 2.0),
    ):
        history = train(
            small_model(rows),
            groups,
            pair=PairMatching(FullCandidates(3), "objects"),
            objective=GroupObjective(Marginal()),
            plan=plan,
            generator=np.random.default_rng(0),
            group_weights=weights,
        )
        losses.append([scale * loss for loss in history.column("loss")])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)

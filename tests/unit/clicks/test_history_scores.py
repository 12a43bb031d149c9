"""Scores of histories, once per distinct click, against the formula over every click."""

import numpy as np
import pytest
import torch

from builders import id_batch, table_model
from groupnoise import Groups
from groupnoise.clicks.history_scores import (
    encode_histories,
    item_slices,
    score_catalogue,
    score_items,
)
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core import Max
from groupnoise.core.objective import GroupObjective
from groupnoise.core.weighting import Dot, SigmoidWeighting

N_ITEMS = 7
OBJECTIVE = GroupObjective(Max(), SigmoidWeighting(Dot(0.5)), 0.8, recency=0.3)
RULE = ScoringRule(weighting_strength=0.8, similarity_scale=0.5, recency=0.3)


def formula(model, clicks, mask):
    """log sum over clicks of P(item | click) * trust in the click, history by history."""
    vectors = model.encode_objects(clicks)
    trust = OBJECTIVE.log_trust(OBJECTIVE.log_weight(vectors, mask), mask)
    everything = torch.arange(N_ITEMS)
    log_pair = vectors @ model.encode_targets(everything).t() + model.target_bias(everything)
    log_pair = log_pair.log_softmax(-1)  # (groups, size, n_items)
    return torch.stack(
        [
            (log_pair[row, real] + trust[row, real].unsqueeze(-1)).logsumexp(0)
            for row, real in enumerate(mask)
        ]
    )


def histories(sizes):
    batch = id_batch(sizes, n_ids=N_ITEMS, n_targets=N_ITEMS, seed=1)
    return batch.objects, batch.mask


def mixture(model, clicks, mask):
    rows = [row[real].tolist() for row, real in zip(clicks, mask, strict=True)]
    return encode_histories(model, RULE, Groups.from_lists(rows))


# Vectors 1000 times as long: most probabilities are below the smallest number exp can give.
@pytest.mark.parametrize("stretch", [1.0, 1000.0], ids=["usual", "beyond_exp"])
@pytest.mark.parametrize("sizes", [[3, 1, 5, 2, 5], [1, 1, 1]], ids=str)
def test_scores_equal_the_formula(sizes, stretch):
    model = table_model(n_objects=N_ITEMS, n_targets=N_ITEMS, has_bias=True)
    clicks, mask = histories(sizes)
    with torch.no_grad():
        model.target_encoder.weight.mul_(stretch)
        expected = formula(model, clicks, mask)
    assert expected.isfinite().all()
    torch.testing.assert_close(score_catalogue(model, mixture(model, clicks, mask)), expected)
    items = torch.randint(N_ITEMS, (len(sizes), 4), generator=torch.Generator().manual_seed(0))
    actual = score_items(model, mixture(model, clicks, mask), items)
    torch.testing.assert_close(actual, expected.gather(1, items))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("sizes", [[3, 1, 5, 2, 5], [1, 1, 1]], ids=str)
def test_slices_of_items_hold_the_same_scores(sizes, has_bias):
    model = table_model(n_objects=N_ITEMS, n_targets=N_ITEMS, has_bias=has_bias)
    clicks, mask = histories(sizes)
    expected = score_catalogue(model, mixture(model, clicks, mask)).exp()
    slices = item_slices(model, mixture(model, clicks, mask))
    parts = [slices.scores(slice(first, first + 3)) for first in range(0, N_ITEMS, 3)]
    torch.testing.assert_close(torch.from_numpy(np.concatenate(parts, axis=1)), expected)
    some = slices.scores(slice(2, 5), np.array([2, 0]))
    torch.testing.assert_close(torch.from_numpy(some), expected[[2, 0], 2:5])


def test_slices_are_refused_where_probabilities_may_vanish():
    model = table_model(n_objects=N_ITEMS, n_targets=N_ITEMS, has_bias=True)
    with torch.no_grad():
        model.target_encoder.weight.mul_(1000.0)
    assert item_slices(model, mixture(model, *histories([3, 1]))) is None

"""Lift and support against plain loops over the vectors of a model."""

import math

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import audit as _lift
from groupnoise.clicks.audit import ItemLift
from groupnoise.clicks.history_scores import ItemVectors


class SmallModel:
    """Five items with vectors of length three."""

    def __init__(self):
        generator = np.random.default_rng(0)
        self.vectors = ItemVectors(
            generator.normal(size=(5, 3)), generator.normal(size=(5, 3)), generator.normal(size=5)
        )
        self.popularity_ = np.array([4.0, 0.0, 9.0, 1.0, 3.0])

    def item_vectors(self):
        return self.vectors

    def lift(self, earlier, later):
        query, target, bias = self.vectors
        logits = [float(query[earlier] @ target[item] + bias[item]) for item in range(5)]
        likely = math.exp(logits[later]) / sum(map(math.exp, logits))
        return likely / ((self.popularity_[later] + 1) / (self.popularity_ + 1).sum())


@pytest.fixture
def model():
    return SmallModel()


@pytest.mark.parametrize("block", [1, 1 << 22])
def test_lift_is_likelihood_over_popularity(model, block, monkeypatch):
    monkeypatch.setattr(_lift, "BLOCK_ENTRIES", block)
    pairs = [(earlier, later) for earlier in range(5) for later in range(5)]
    expected = [model.lift(*pair) for pair in pairs]
    assert ItemLift(model, np.arange(5))(*np.array(pairs).T) == pytest.approx(expected)


def test_support_is_the_mean_lift_within_reach_on_both_sides(model):
    histories = [[0, 3, 1, 2], [4], [2, 2, 0]]
    expected = []
    for clicks in histories:
        for place, item in enumerate(clicks):
            around = [
                model.lift(other, item) if before < place else model.lift(item, other)
                for before, other in enumerate(clicks)
                if 0 < abs(before - place) <= 2
            ]
            expected.append(sum(around) / len(around) if around else 1.0)
    support = ItemLift(model, np.arange(5)).support(Groups.from_lists(histories), reach=2)
    assert support == pytest.approx(expected)
